"""Which revision owns which window and which pane, and which changes a book refuses."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from job.plan_book import ALWAYS, NEVER_US, BookFull, PlanBook, PlanBookError, Revision, covering
from job.settings import Settings
from job.sql import compile_sql
from tests.plans import SCHEMA, SECOND_US, plan

TEN = "window(time, '10 seconds')"
SLIDING = "window(time, '10 seconds', '4 seconds')"


def revision(
    number: int, start_s: int, feed: int = 0, window: str = TEN, lateness_s: int = 5, pane_s: int = 0
) -> Revision:
    made = PlanBook().revised(start_s * SECOND_US, plan(window))
    return Revision(
        number,
        start_s * SECOND_US,
        made.plan,
        feed or number,
        pane_s * SECOND_US or made.pane_us,
        Settings(lateness_us=lateness_s * SECOND_US),
    )


def book(*revisions: Revision) -> PlanBook:
    made = PlanBook()
    for one in revisions:
        made = made.add(one, ALWAYS)
    return made


def test_windows_belong_to_the_revision_in_which_they_start() -> None:
    made = book(revision(1, 0), revision(2, 40), revision(3, 40), revision(4, 60))
    owners = [made.owner(start * SECOND_US) for start in (-10, 0, 30, 40, 50, 60, 1000)]
    assert [owner.number if owner else None for owner in owners] == [None, 1, 1, 3, 3, 4, 4]
    assert made.end_us(2) == 40 * SECOND_US  # E of 2 is E of 3: 2 is left no window
    assert made.panes(2) == (0, 0)
    assert made.version == 4


def test_panes_near_a_change_are_kept_under_both_plans() -> None:
    made = book(revision(1, 0, window=SLIDING), revision(2, 40, window=SLIDING))
    assert made.panes(1) == (0, 46 * SECOND_US)  # 40 + size - slide
    assert made.panes(2) == (40 * SECOND_US, NEVER_US)
    assert made.keeps(1, 44 * SECOND_US)
    assert made.keeps(2, 44 * SECOND_US)
    assert not made.keeps(1, 46 * SECOND_US)


def test_a_change_of_partitions_has_streams_of_its_own() -> None:
    one = PlanBook().revised(0, plan(TEN), Settings(partitions=4))
    made = PlanBook().add(one, ALWAYS)
    same = made.revised(40 * SECOND_US, plan(TEN, having="count(*) > 1"), Settings(partitions=4, expect=3))
    other = made.revised(40 * SECOND_US, plan(TEN), Settings(partitions=2))
    assert (one.partitions, same.feed, other.feed, other.partitions) == (4, 1, 2, 2)
    assert made.add(same, ALWAYS).trees == 4
    made = made.add(other, ALWAYS)
    assert (made.partitions(1), made.partitions(2), made.partitions(3), made.trees) == (4, 2, 1, 4)
    assert made.close(40 * SECOND_US).trees == 2
    with pytest.raises(PlanBookError, match="has 2 partitions and feed 1 4: it needs a feed"):
        PlanBook().add(one, ALWAYS).add(msgspec.structs.replace(other, feed=1), ALWAYS)


def test_a_job_without_a_window_keeps_its_partitions() -> None:
    made = PlanBook().add(PlanBook().revised(ALWAYS, plan("")), ALWAYS)
    other = made.revised(ALWAYS, plan(""), Settings(partitions=2))
    with pytest.raises(PlanBookError, match="settings but partitions can change"):
        made.add(other, NEVER_US)
    assert made.add(made.revised(ALWAYS, plan(""), Settings(expect=2)), NEVER_US).trees == 1


def test_one_group_is_not_divided() -> None:
    alone = compile_sql("SELECT count(*), count(DISTINCT path) FROM access", {"access": SCHEMA})
    nested = compile_sql(
        "SELECT count(*) FROM (SELECT path, count(*) AS hits FROM access GROUP BY path)", {"access": SCHEMA}
    )
    assert [PlanBook().revised(0, one, Settings(partitions=4)).partitions for one in (alone, nested)] == [1, 4]


def test_a_change_of_the_result_phase_is_fed_by_the_streams_there_are() -> None:
    made = book(
        revision(1, 0, window=SLIDING), revision(2, 40, feed=1, window="window(time, '20 seconds')", pane_s=2)
    )
    assert made.feeds == [1]
    assert made.panes(1) == (0, NEVER_US)
    made = made.add(revision(3, 60), ALWAYS)
    assert made.panes(1) == (0, 60 * SECOND_US)
    with pytest.raises(PlanBookError, match="only the feed of the last revision"):
        made.add(revision(4, 80, feed=1), ALWAYS)
    with pytest.raises(PlanBookError, match="whole panes only"):
        book(revision(1, 0)).add(
            revision(2, 40, feed=1, window="window(time, '15 seconds')", pane_s=10), ALWAYS
        )
    with pytest.raises(PlanBookError, match="the panes of feed 1 are 10s long, not 5s"):
        book(revision(1, 0)).add(revision(2, 40, feed=1, pane_s=5), ALWAYS)


def test_a_new_text_says_by_itself_whether_it_needs_streams_of_its_own() -> None:
    made = book(revision(1, 0, window=SLIDING))
    wider = made.revised(40 * SECOND_US, plan("window(time, '20 seconds', '8 seconds')"))
    assert (wider.number, wider.feed, wider.pane_us) == (2, 1, 2 * SECOND_US)
    assert made.revised(0, plan(SLIDING, having="count(*) > 3")).feed == 1
    assert made.revised(0, plan(SLIDING, key="status")).feed == 2
    assert made.revised(0, plan("window(time, '9 seconds')")).feed == 2
    assert made.revised(0, plan(SLIDING), own_feed=True).feed == 2
    assert made.next_boundary(1, plan("window(time, '6 seconds')")) == 12 * SECOND_US


@pytest.mark.parametrize(
    ("change", "horizon_s", "problem"),
    [
        (revision(2, 40), 50, "before the horizon"),
        (revision(2, 45), 0, "1970-01-01T00:00:45Z, where no pane of 10s begins; the next one does at 1970-01-01T00:00:50Z"),
        (revision(1, 50), 0, "numbers ascend"),
        (revision(2, 50, window=""), 0, "cannot become one without"),
    ],
)
def test_changes_that_are_refused(change: Revision, horizon_s: int, problem: str) -> None:
    with pytest.raises(PlanBookError, match=problem):
        book(revision(1, 40)).add(change, horizon_s * SECOND_US)


def test_a_job_without_a_window_says_what_of_it_can_change() -> None:
    made = book(revision(1, 0, window=""))
    other = made.revised(0, plan("", key="status"))
    assert other.feed == 2
    with pytest.raises(PlanBookError, match="settings but partitions can change, for others make another job"):
        made.add(other, 5 * SECOND_US)
    assert made.add(made.revised(0, plan("", having="count(*) > 3")), 5 * SECOND_US).feeds == [1]


def test_a_later_revision_may_take_windows_back_from_several() -> None:
    made = book(revision(1, 0), revision(2, 40), revision(3, 60), revision(4, 40), revision(5, 60))
    owners = [made.owner(start * SECOND_US) for start in (30, 40, 50, 60)]
    assert [owner.number if owner else None for owner in owners] == [1, 4, 4, 5]
    assert [made.panes(feed) for feed in (2, 3)] == [(0, 0), (0, 0)]
    with pytest.raises(PlanBookError, match="before the panes of feed 5 do"):
        made.add(revision(6, 40, feed=5), ALWAYS)
    assert made.revised(40 * SECOND_US, plan(TEN)).feed == 6
    assert [one.number for one in made.close(40 * SECOND_US).revisions] == [4, 5]


def test_at_most_eight_are_open() -> None:
    full = book(*(revision(number, 10 * number) for number in range(1, 9)))
    with pytest.raises(BookFull, match="the change waits"):
        full.add(revision(9, 90), ALWAYS)
    closed = full.close(25 * SECOND_US)
    assert [one.number for one in closed.revisions] == [2, 3, 4, 5, 6, 7, 8]
    assert closed.add(revision(9, 90), ALWAYS).version == full.version + 2


def test_a_revision_closes_when_the_horizon_has_passed_its_windows() -> None:
    made = book(revision(1, 0), revision(2, 40))
    assert made.close(40 * SECOND_US - 1) is made
    assert [one.number for one in made.close(40 * SECOND_US).revisions] == [2]
    assert [one.number for one in made.close(NEVER_US).revisions] == [2]
    aborted = book(revision(1, 0), revision(2, 40), revision(3, 40))
    assert [one.number for one in aborted.close(40 * SECOND_US).revisions] == [3]
    one = revision(1, 0, lateness_s=5)
    assert [one.first_open(at * SECOND_US) for at in (14, 15, 25)] == [0, 10 * SECOND_US, 20 * SECOND_US]


def test_a_job_without_windows_has_one_owner() -> None:
    made = book(revision(1, 0, window=""))
    assert made.owner(0) == made.revisions[0]
    assert made.panes(1) == (0, NEVER_US)
    assert list(covering(0, made.revisions[0])) == [0]


def test_books_travel() -> None:
    made = book(revision(1, 0, window=SLIDING), revision(2, 40))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=PlanBook) == made


@given(st.integers(-100, 100), st.sampled_from([TEN, SLIDING, "window(time, '9 seconds', '6 seconds')"]))
def test_covering_windows_are_those_that_hold_the_pane(pane: int, window: str) -> None:
    one = revision(1, 0, window=window)
    start = pane * one.pane_us
    wanted = [
        begin * SECOND_US
        for begin in range(-1200, 1200)
        if begin * SECOND_US % one.slide_us == 0
        and begin * SECOND_US <= start < begin * SECOND_US + one.size_us
    ]
    assert list(covering(start, one)) == wanted


@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from([TEN, SLIDING])), min_size=1, max_size=6))
def test_every_pane_of_an_owned_window_is_kept(changes: list[tuple[int, str]]) -> None:
    start = 0
    made = PlanBook()
    for number, (step, window) in enumerate(changes, 1):
        start += step * 10
        made = made.add(revision(number, start, window=window), ALWAYS)
    for begin in range(0, start + 40, 2):
        owner = made.owner(begin * SECOND_US)
        if owner is not None and begin * SECOND_US % owner.slide_us == 0:
            for pane in range(begin * SECOND_US, begin * SECOND_US + owner.size_us, owner.pane_us):
                assert made.keeps(owner.feed, pane)

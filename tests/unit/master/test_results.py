"""Results of a job on one member: their order, what happens when something fails, how long they are kept, who reads what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sortedcontainers import SortedDict

from cbt.budget import Budget
from cbt.memory import Memory
from job.plan_book import NEVER_US, PlanBook
from job.settings import Settings
from master.committed_parts import WindowPublished
from master.finishing import LONG_GROUPS, finish, is_long
from master.group_messages import AskResults, ResultsPart
from master.job_events import Finish, ReadResults, ResultsStored
from master.requests import Coverage, Place, ResultRecord
from master.result_store import StoredResults, read_results
from master.results import Results, ResultsOptions
from srt.automaton import WAKE, Instant, Put, Ref, Send, Stored, StoreFailed, Write
from tests.plans import SECOND_US, plan

KEY = b"k" * 16
OTHER = Ref(b"o" * 16, "other", 1)
NOBODY = Coverage(0, (), 0, 0, 0, 0, 0, 0, 0)
REVISION = PlanBook().revised(0, plan("window(time, '10 seconds')"))
HOUR_US = 3600 * SECOND_US


class Store:
    def __init__(self) -> None:
        self.values: SortedDict[bytes, bytes] = SortedDict()
        self.lazy: list[bool] = []

    def scan(
        self, store: str, first: bytes, last: bytes, limit: int, reverse: bool = False
    ) -> Sequence[tuple[bytes, bytes]]:
        assert store == "results"
        keys = list(self.values.irange(first, last, inclusive=(True, False), reverse=reverse))
        return [(key, self.values[key]) for key in keys[:limit]]

    def write(self, write: Write) -> None:
        self.lazy.append(write.lazy)
        for change in write.changes:
            if isinstance(change, Put):
                self.values[change.key] = change.value
            else:
                for key in list(self.values.irange(change.first, change.last, inclusive=(True, False))):  # type: ignore[union-attr]
                    del self.values[key]


def window(
    index: int, start_s: int | None, edition: int = 1, status: str = "final", at_s: int = 0
) -> WindowPublished:
    start, end = (0, NEVER_US) if start_s is None else (start_s * SECOND_US, (start_s + 10) * SECOND_US)
    return WindowPublished(
        index, start, end, edition, status, 1, (), REVISION, {}, 0, NOBODY, at_s * SECOND_US
    )


class Member:
    """Carries out everything at once, unless a test says otherwise."""

    def __init__(self, **options: Any) -> None:
        self.core = Results(KEY, ResultsOptions(**options))
        self.store, self.now = Store(), 0.0
        self.out: list[Any] = []
        self.full = False
        self.settings = Settings(retain_us=HOUR_US)

    @property
    def reader(self) -> StoredResults:
        return StoredResults(self.store)

    @property
    def instant(self) -> Instant:
        return Instant(self.now, int(self.now * 1e6))

    def give(self, event: Any) -> None:
        self.take(self.core.handle(event, self.instant, [OTHER], self.settings, 10 * SECOND_US))

    def take(self, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Finish):
                self.give(finish(effect, Memory(Budget())))
            elif isinstance(effect, ReadResults):
                self.give(read_results(self.store, effect))
            elif isinstance(effect, Write) and self.full:
                self.give(StoreFailed(effect.token, "full"))
            elif isinstance(effect, Write):
                self.store.write(effect)
                self.give(Stored(effect.token))
            else:
                self.out.append(effect)

    def publish(self, *windows: WindowPublished) -> None:
        self.take(self.core.published(windows, self.instant))

    def indexes(self) -> list[int]:
        return [record.index for record in self.reader.since(KEY, 0, 1000)]

    def between(self, **more: Any) -> list[Place]:
        asked: dict[str, Any] = {"status": None, "editions": False, "after": None, "limit": 100, **more}
        span = asked.pop("span", (None, None))
        return [record.place for record in self.reader.between(KEY, *span, **asked)]


def s(start: int, edition: int = 1) -> Place:
    return Place(start * SECOND_US, (start + 10) * SECOND_US, edition)


def test_results_are_stored_in_the_order_of_publication() -> None:
    member = Member()
    member.publish(window(3, 10), window(5, 0), window(9, 10, 2))
    assert member.indexes() == [3, 5, 9]
    assert [one.log_index for one in member.out if isinstance(one, ResultsStored)] == [3, 5, 9]
    assert member.core.settled
    assert member.reader.last_index(KEY) == 9
    assert member.reader.lacks(KEY) is None


def test_what_the_disk_refuses_is_written_later_and_keeps_the_log_long() -> None:
    member = Member()
    member.full = True
    member.publish(window(3, 10), window(5, 20))
    assert member.indexes() == []
    assert not member.core.settled
    member.full, member.now = False, 2.0
    member.give(WAKE)
    assert member.indexes() == [3, 5]
    assert member.core.settled


def test_windows_of_many_groups_are_long_work() -> None:
    (task,) = Member().core.published((window(3, 10),), Instant(0.0, 0))
    assert not is_long(task)
    assert is_long(task._replace(tables={0: [None] * (LONG_GROUPS + 1)}))
    assert not is_long(task._replace(tables={0: [None] * LONG_GROUPS}))


def test_windows_that_could_not_be_finished_come_again() -> None:
    member = Member()
    (task,) = member.core.published((window(3, 10),), member.instant)
    done = finish(task, Memory(Budget()))
    assert (
        member.core.handle(done._replace(record=b"", problem="no memory"), member.instant, [], Settings(), 0)
        == []
    )
    assert not member.core.settled
    member.now = 2.0
    member.give(WAKE)
    assert member.indexes() == [3]


def test_windows_by_time_with_their_latest_edition_or_all() -> None:
    member = Member()
    member.publish(window(1, 10, 1), window(2, 0), window(3, 10, 2), window(4, 10, 3, "tentative"))
    assert member.between() == [s(0), s(10, 3)]
    assert member.between(status="final") == [s(0), s(10, 2)]
    assert member.between(editions=True) == [s(0), s(10, 1), s(10, 2), s(10, 3)]
    assert member.between(editions=True, limit=2) == [s(0), s(10, 1)]
    assert member.between(editions=True, after=s(10, 1)) == [s(10, 2), s(10, 3)]
    assert member.between(after=s(0)) == [s(10, 3)]
    assert member.between(span=(5 * SECOND_US, None)) == [s(10, 3)]
    assert member.between(span=(None, 10 * SECOND_US)) == [s(0)]


def test_the_endless_window_starts_in_every_range() -> None:
    member = Member()
    member.publish(window(1, None), window(2, None, 2))
    newest = Place(None, None, 2)
    assert member.between() == [newest]
    assert member.between(span=(5 * SECOND_US, 9 * SECOND_US)) == [newest]
    assert member.between(editions=True, after=Place(None, None, 1)) == [newest]
    assert member.between(after=newest) == []


def test_results_go_when_their_time_is_over_and_readers_can_tell() -> None:
    member = Member()
    for hour in range(4):
        member.now = hour * 1800.0
        member.publish(window(hour + 1, hour * 1800, at_s=hour * 1800))
    member.give(WAKE)
    assert member.indexes() == [2, 3, 4]
    assert member.between() == [s(1800), s(3600), s(5400)]
    assert member.reader.dropped_index(KEY) == 1


def test_old_windows_that_were_published_lately_are_kept() -> None:
    member = Member()
    member.now = 90_000.0
    member.publish(window(1, 0, at_s=89_000), window(2, 10, at_s=89_900))
    member.give(WAKE)
    assert member.indexes() == [1, 2]


def test_of_an_endless_window_the_last_edition_stays() -> None:
    member = Member()
    for number in range(3):
        member.publish(window(number + 1, None, number + 1, at_s=number * 1800))
    member.now = 86_400.0
    member.give(WAKE)
    assert member.between(editions=True) == [Place(None, None, 3)]
    assert member.indexes() == [3]


def test_a_new_member_asks_for_what_it_lacks_in_parts_of_bounded_size() -> None:
    old, new = Member(part_bytes=300), Member(part_bytes=300)
    for index in range(1, 30):
        old.publish(window(index, index * 10))
    long = ResultRecord(30, 0, 1, 1, "final", 1, 0, 0, NOBODY, (), 0, bytes(1000))
    old.store.write(
        Write(
            "results",
            (Put(KEY + b"i" + (30).to_bytes(8), b"x"), Put(KEY + b"tx", msgspec.msgpack.encode(long))),
            0,
        )
    )
    old.core.through = 30
    new.take(new.core.begun(30, False, new.instant))
    assert new.reader.lacks(KEY) == (0, 30)
    new.publish(window(31, 310))
    assert new.reader.lacks(KEY) == (0, 30)
    new.give(WAKE)
    sizes = []
    while asks := [
        one.message for one in new.out if isinstance(one, Send) and isinstance(one.message, AskResults)
    ]:
        new.out = []
        old.out = []
        old.take(old.core.asked(OTHER, asks[-1]))
        (sent,) = [one.message for one in old.out if isinstance(one, Send)]
        assert isinstance(sent, ResultsPart)
        sizes.append(sum(map(len, sent.records)))
        new.take(new.core.sent(sent, new.instant))
    assert new.indexes() == list(range(1, 32))
    assert new.reader.lacks(KEY) is None
    assert new.core.stores(31), "it came while others were lacking"
    assert max(sizes) <= 300
    assert len(sizes) > 10


def test_a_result_in_parts_has_an_end() -> None:
    """A member that is sent parts without end asks another one, and does not keep them."""
    member = Member(record_bytes_max=1000)
    member.take(member.core.begun(30, False, member.instant))
    member.give(WAKE)
    for part in range(3):
        member.take(member.core.sent(ResultsPart(KEY, 0, part, 1_000_000, (bytes(400),), True, 30), member.instant))
    asked = [one.message.part for one in member.out if isinstance(one, Send)]
    assert asked == [0, 1, 2], "the third part was too much"
    member.now = 2.0
    member.give(WAKE)
    assert [one.message.part for one in member.out if isinstance(one, Send)] == [0, 1, 2, 0]


def test_what_a_store_lacks_is_known_after_a_start() -> None:
    member = Member()
    member.publish(window(3, 10))
    again = Member()
    again.store = member.store
    again.take(again.core.begun(7, True, again.instant))
    again.give(WAKE)
    asks = [one.message for one in again.out if isinstance(one, Send)]
    assert asks == [AskResults(KEY, 3, 0)]


def test_one_write_is_on_its_way_and_the_next_windows_are_finished_meanwhile() -> None:
    core = Results(KEY, ResultsOptions())
    now = Instant(0.0, 0)
    (first,) = core.published((window(1, 0), window(2, 10)), now)
    wrote = core.handle(finish(first, Memory(Budget())), now, [], Settings(), 0)
    assert [type(effect) for effect in wrote] == [Write, Finish]
    assert core.handle(finish(wrote[1], Memory(Budget())), now, [], Settings(), 0) == []
    stored = core.handle(Stored(wrote[0].token), now, [], Settings(), 0)
    assert [type(effect) for effect in stored] == [ResultsStored, Write]


def test_only_what_the_log_of_this_member_has_waits_for_no_sync() -> None:
    """A power cut may take it, and the same is made again. Not so what another sent and lets go then, nor its absence."""
    old, new = Member(), Member()
    old.publish(window(1, 10), window(2, 20))
    assert old.store.lazy == [True, True]
    new.take(new.core.begun(2, False, new.instant))
    new.publish(window(3, 30))
    new.give(WAKE)
    (ask,) = [one.message for one in new.out if isinstance(one, Send)]
    old.take(old.core.asked(OTHER, ask))
    (sent,) = [one.message for one in old.out if isinstance(one, Send)]
    new.take(new.core.sent(sent, new.instant))
    assert new.indexes() == [1, 2, 3]
    assert not any(new.store.lazy)
    new.publish(window(4, 40))
    assert new.store.lazy[-1]
    new.take(new.core.wiped(new.instant))
    assert not new.store.lazy[-1]


def test_of_tentative_results_of_a_window_the_last_is_kept() -> None:
    member = Member()
    member.publish(window(3, 10, status="tentative"), window(4, 20), window(5, 10, 2, status="tentative"))
    assert member.indexes() == [4, 5]
    assert member.between(editions=True) == [s(10, 2), s(20)]
    member.publish(window(6, 10, 3), window(7, 10, 4))
    assert member.indexes() == [4, 6, 7]


def computed(index: int, start_s: int, edition: int = 1, at_s: int = 0) -> ResultRecord:
    """A window that was computed elsewhere."""
    start, at = start_s * SECOND_US, at_s * SECOND_US
    return ResultRecord(
        index, start, start + 10 * SECOND_US, edition, "final", 1, at, 0, NOBODY, (), 0, b"", "backfill", b"d"
    )


def test_windows_that_were_computed_elsewhere_keep_the_order_and_need_no_thread() -> None:
    core = Results(KEY, ResultsOptions())
    now = Instant(0.0, 0)
    (first,) = core.published((computed(1, 0),), now)
    assert isinstance(first, Write)
    (task,) = core.published((window(2, 10), computed(3, 20), window(4, 30)), now)
    assert isinstance(task, Finish)
    core.handle(Stored(first.token), now, [], Settings(), 0)
    wrote, then, *rest = core.handle(finish(task, Memory(Budget())), now, [], Settings(), 0)
    assert isinstance(then, Finish)
    assert (then.log_index, rest) == (4, [])
    stored, write = core.handle(Stored(wrote.token), now, [], Settings(), 0)
    assert (stored.log_index, core.through) == (2, 2)
    assert not core.stores(3)
    core.handle(Stored(write.token), now, [], Settings(), 0)
    assert core.stores(3)


def test_a_backfill_is_kept_from_its_publication_on_and_then_goes_with_all_of_its_time() -> None:
    """The live windows that were let go meanwhile leave the stream, and the pages with the backfill."""
    member = Member()
    for hour in range(3):
        member.publish(window(hour + 1, hour * 3600, at_s=hour * 3600))
    member.now = 2.5 * 3600
    member.publish(*(computed(10 + day, -day * 86_400, at_s=9000) for day in range(30)))  # type: ignore[arg-type]
    member.now = 3.2 * 3600
    member.publish(window(50, 11_500, at_s=11_520))
    member.give(WAKE)
    assert member.indexes() == [*range(10, 40), 50]
    assert member.between(limit=31)[29:] == [s(0), s(3600)]
    member.now = 3.6 * 3600
    member.give(WAKE)
    assert member.indexes() == [50]
    assert member.between() == [s(11_500)]


def test_a_member_that_starts_has_what_it_stores_behind_its_snapshot() -> None:
    """It took itself for complete up to the snapshot only, until the next window was published."""
    member = Member()
    member.publish(window(3, 10))
    again = Member()
    again.store = member.store
    effects = again.core.begun(3, True, again.instant)
    again.publish(computed(5, 0))  # type: ignore[arg-type]
    assert not again.core.stores(5), "what it has of before is not known yet"
    again.take(effects)
    assert again.core.stores(5)
    assert again.reader.lacks(KEY) is None, "a write before the answer would have noted that all is lacking"


def test_what_was_read_before_a_wipe_counts_no_more() -> None:
    """The answer tells how far the results of the former log went; a leader would give their numbers once more."""
    member = Member()
    member.publish(window(3, 10))
    again = Member()
    again.store = member.store
    (read,) = again.core.begun(3, True, again.instant)
    answer = read_results(again.store, read)
    again.take(again.core.wiped(again.instant))
    again.take(again.core.begun(3, False, again.instant))
    again.give(answer)
    assert not again.core.stores(3)
    assert again.reader.lacks(KEY) == (0, 3)


def test_the_newest_window_is_that_of_the_greatest_time() -> None:
    member = Member()
    member.publish(window(1, 10), window(2, 20, status="tentative"), window(3, 10, 2), computed(4, 0))  # type: ignore[arg-type]
    newest = member.reader.newest(KEY, "final")
    assert newest is not None
    assert newest.place == s(10, 2)
    tentative = member.reader.newest(KEY, "tentative")
    assert tentative is not None
    assert tentative.index == 2
    assert member.reader.newest(KEY, "withdrawn") is None

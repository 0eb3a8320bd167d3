"""The state that follows from a job's log."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cbt.budget import Budget
from cbt.options import Options
from job.plan_book import ALWAYS, PlanBook, Revision
from job.settings import Settings
from master.committed import Committed
from master.committed_parts import WindowPublished
from master.entries import (
    FINAL,
    TENTATIVE,
    WITHDRAWN,
    Drain,
    Era,
    Forget,
    FrameEntry,
    PlanEntry,
    Publish,
    Reg,
    encode_entries,
    encode_entry,
)
from master.errors import EntryError
from master.snapshots import restored, snapshot
from srt.frame_messages import HISTORY
from tests.frame_data import AGENTS, Groups, frame, groups_of, stream
from tests.plans import SECOND_US, plan

TEN = "window(time, '10 seconds')"
SETTINGS = Settings(delay_us=0, idle_us=5 * SECOND_US, lateness_us=20 * SECOND_US)


class Log:
    """Applies entries one after the other."""

    def __init__(self) -> None:
        self.state = Committed(Budget(), Options.tiny())
        self.seen: list[WindowPublished] = []

    def __call__(self, *entries: Any) -> list[WindowPublished]:
        done = []
        for entry in entries:
            done += self.state.apply(self.state.index + 1, encode_entry(entry))
        self.seen += done
        return done

    def plan(self, start_s: int, window: str = TEN, key: str = "path") -> Revision:
        revision = self.state.book.revised(start_s * SECOND_US, plan(window, key), SETTINGS)
        self(PlanEntry(revision))
        return revision

    def frame(
        self,
        agent: int,
        ends: tuple[int, int],
        panes: dict[int, Groups] | None = None,
        mark_s: int | None = None,
        **more: Any,
    ) -> None:
        revision = more.get("revision", 1)
        whole = frame(
            0,
            {stream(agent, revision, more.get("lane", 0)): ends},
            {start * SECOND_US: groups for start, groups in (panes or {}).items()},
            watermark_us=None if mark_s is None else mark_s * SECOND_US,
            revision=revision,
        )
        self(FrameEntry(whole.spans, whole.panes, whole.runs))

    def publish(
        self, start_s: int, count: int, status: str = FINAL, size_s: int = 10
    ) -> list[WindowPublished]:
        return self(Publish(start_s * SECOND_US, (start_s + size_s) * SECOND_US, count, status, 2))


@pytest.fixture
def log() -> Log:
    made = Log()
    made.plan(0)
    made(Reg(1, AGENTS[0], "web1", 5), Reg(1, AGENTS[1], "web2", 0))
    return made


def test_frames_are_taken_whole_where_every_piece_starts_at_next(log: Log) -> None:
    log.frame(0, (5, 7), {0: {"/a": 2}, 10: {"/b": 1}})
    log.frame(0, (5, 7), {0: {"/a": 2}})  # again
    log.frame(0, (8, 9), {0: {"/a": 2}})  # a gap
    both = frame(0, {stream(0): (7, 8), stream(1): (1, 2)}, {0: {"/a": 9}})
    log(FrameEntry(both.spans, both.panes, both.runs))
    assert log.state.counts.void == 3
    assert log.state.streams[stream(0)].next == 7
    assert groups_of(log.state.content, 1, 0) == {"/a": 2}
    assert log.state.streams[stream(0)].counters.lines == 3


def test_a_window_is_final_once_all_agents_have_passed_it(log: Log) -> None:
    log.frame(0, (5, 7), {0: {"/a": 2}}, mark_s=12)
    assert log.publish(0, 1) == []  # web2 has not
    assert log.state.missing(1, 10 * SECOND_US) == [AGENTS[1]]
    (shown,) = log.publish(0, 1, TENTATIVE)
    assert (shown.edition, shown.status, shown.lines) == (1, TENTATIVE, 2)
    log.frame(1, (0, 3), {0: {"/b": 1}}, mark_s=10)
    (shown,) = log.publish(0, 2)
    assert (shown.edition, shown.lines, len(shown.tables[0])) == (2, 3, 2)
    assert log.publish(0, 2) == []  # another leader decided the same
    assert log.publish(0, 4) == []


def test_an_agent_without_a_line_has_begun_and_holds_windows_until_it_takes_the_time_of_the_others(log: Log) -> None:
    log.frame(0, (5, 7), {0: {"/a": 2}}, mark_s=12)
    assert log.state.agent_mark(1, AGENTS[1]) is None
    begun = frame(0, {stream(1): (0, 0)}, {}, watermark_us=ALWAYS)
    log(FrameEntry(begun.spans, begun.panes, begun.runs))
    assert log.state.agent_mark(1, AGENTS[1]) == ALWAYS
    assert log.state.agent_reach(1, AGENTS[1]) is log.state.reach(1) is None
    assert log.state.missing(1, 10 * SECOND_US) == [AGENTS[1]]
    assert log.publish(0, 1) == []
    log.frame(1, (0, 0), mark_s=12)
    assert len(log.publish(0, 1)) == 1


def test_late_lines_change_a_final_window_until_it_is_beyond_lateness(log: Log) -> None:
    log.frame(0, (5, 7), {0: {"/a": 2}}, mark_s=12)
    log.frame(1, (0, 3), mark_s=15)
    log.publish(0, 1)
    assert not log.state.windows[0, 10 * SECOND_US].changed
    log.frame(0, (7, 8), {0: {"/a": 1}}, mark_s=29)
    assert log.state.windows[0, 10 * SECOND_US].changed
    log.frame(1, (3, 4), mark_s=40)
    log.frame(0, (8, 9), {0: {"/a": 1}}, mark_s=40)
    assert log.state.horizon_us == 0  # beyond its lateness, but readers have not seen the revision
    log.publish(0, 2)
    assert log.state.horizon_us == 20 * SECOND_US  # the window [20, 30) ends 20 s before 50
    assert log.state.content.lines == {}
    log.frame(0, (9, 10), {0: {"/a": 5}, 20: {"/a": 1}})
    assert log.state.counts.late == 5
    assert log.state.content.lines == {(1, 20 * SECOND_US): 1}


def test_after_a_forced_recovery_every_open_window_comes_once_more(log: Log) -> None:
    """Readers may have seen editions of it that are in no log any more."""
    log.frame(0, (5, 7), {0: {"/a": 2}, 10: {"/b": 1}}, mark_s=22)
    log.frame(1, (0, 3), mark_s=22)
    log.publish(0, 1)
    log.publish(10, 1)
    assert not any(window.changed for window in log.state.windows.values())
    log(Era(2))
    assert [window.changed for window in log.state.windows.values()] == [True, True]
    shown = [window for start in (0, 10) for window in log.publish(start, (1 << 20) + 1)]
    assert [(window.edition, window.lines) for window in shown] == [((1 << 20) + 1, 2), ((1 << 20) + 1, 1)]
    log(Era(2))  # of the next leader
    assert not any(window.changed for window in log.state.windows.values())


def test_both_lanes_are_registered_at_once(log: Log) -> None:
    log(Reg(1, AGENTS[2], "web3", 3, 10))
    past, live = log.state.streams[stream(2, lane=HISTORY)], log.state.streams[stream(2)]
    assert (past.start, past.next, past.end, live.start, live.next) == (3, 3, 10, 10, 10)
    log(Reg(1, AGENTS[2], "web3", 4, 12))  # a later proposal
    assert log.state.streams[stream(2)].start == 10
    log.frame(2, (10, 11), mark_s=50)
    assert log.state.agent_reach(1, AGENTS[2]) is None
    log.frame(2, (3, 9), mark_s=20, lane=HISTORY)
    assert log.state.agent_reach(1, AGENTS[2]) == 20 * SECOND_US
    log.frame(2, (9, 11), lane=HISTORY)  # beyond its end
    assert log.state.streams[stream(2, lane=HISTORY)].next == 9
    log.frame(2, (9, 10), lane=HISTORY)
    assert log.state.agent_reach(1, AGENTS[2]) == 50 * SECOND_US


def test_all_partitions_are_registered_at_once_and_an_agent_is_as_far_as_the_last() -> None:
    log = Log()
    chosen = msgspec.structs.replace(SETTINGS, partitions=3)
    log(PlanEntry(log.state.book.revised(0, plan(TEN), chosen)))
    log(Reg(1, AGENTS[0], "web1", 3, 10))
    lanes = sorted(log.state.streams)
    assert [(one.partition, one.is_live) for one in lanes] == [
        (partition, live) for partition in range(3) for live in (True, False)
    ]
    for partition in range(3):
        log.frame(0, (3, 10), mark_s=15, lane=2 * partition + HISTORY)
        assert log.state.agent_reach(1, AGENTS[0]) is None
    log.frame(0, (10, 12), {0: {"/a": 2}}, mark_s=30)
    log.frame(0, (10, 12), mark_s=31, lane=2)
    assert log.state.agent_reach(1, AGENTS[0]) is None
    log.frame(0, (10, 11), mark_s=20, lane=4)
    assert log.state.agent_reach(1, AGENTS[0]) == 20 * SECOND_US
    assert log.state.missing(1, 25 * SECOND_US) == [AGENTS[0]]
    log.frame(0, (11, 12), mark_s=25, lane=4)
    assert log.state.agent_reach(1, AGENTS[0]) == 31 * SECOND_US  # what one says at a cut holds for all that are there
    assert restored(list(snapshot(log.state)), Budget()).agent_reach(1, AGENTS[0]) == 31 * SECOND_US


def test_a_watermark_holds_for_partitions_that_are_as_far_and_for_no_others() -> None:
    log = Log()
    chosen = msgspec.structs.replace(SETTINGS, partitions=2)
    log(PlanEntry(log.state.book.revised(0, plan(TEN), chosen)))
    log(Reg(1, AGENTS[0], "web1", 0))
    log.frame(0, (0, 5), mark_s=10)
    log.frame(0, (0, 4), mark_s=8, lane=2)
    assert log.state.streams[stream(0, lane=2)].watermark_us == 8 * SECOND_US
    log.frame(0, (5, 5), mark_s=40)  # an idle agent tells it in one tree
    assert log.state.agent_reach(1, AGENTS[0]) == 8 * SECOND_US
    log.frame(0, (4, 5), lane=2)
    assert log.state.agent_reach(1, AGENTS[0]) == 40 * SECOND_US
    log.frame(0, (5, 6), mark_s=41, lane=2)
    assert log.state.agent_reach(1, AGENTS[0]) == 40 * SECOND_US  # nothing that was true becomes untrue


def test_a_forgotten_agent_is_not_waited_for_until_it_is_back(log: Log) -> None:
    log.frame(0, (5, 7), {0: {"/a": 2}}, mark_s=12)
    log(Forget(AGENTS[1]))
    assert log.state.reach(1) == 12 * SECOND_US
    log.frame(1, (0, 1))
    assert log.state.roster[AGENTS[1]]
    assert log.state.reach(1) is None


def test_windows_belong_to_one_revision_and_panes_of_others_are_dropped(log: Log) -> None:
    log.frame(0, (5, 7), {0: {"/a": 2}, 10: {"/a": 1}, 20: {"/a": 4}})
    log.publish(10, 1, TENTATIVE)
    log.plan(10, key="status")
    assert log.state.content.lines == {(1, 0): 2}
    assert log.state.counts.outside == 5
    assert {key[0]: state.changed for key, state in log.state.windows.items()} == {
        0: True,
        10 * SECOND_US: True,
    }
    log.frame(0, (7, 8), {10: {"/a": 1}, 0: {"/a": 1}})
    assert log.state.content.lines == {(1, 0): 3}
    (shown,) = log.publish(10, 2, TENTATIVE)
    assert (shown.revision, shown.lines) == (log.state.book.revision(2), 0)


def test_a_window_that_no_plan_has_any_more_is_withdrawn(log: Log) -> None:
    log.frame(0, (5, 7), {10: {"/a": 2}})
    log.publish(10, 1, TENTATIVE)
    log.plan(0, "window(time, '20 seconds')", "status")
    assert log.publish(10, 2, TENTATIVE) == []
    (shown,) = log.publish(10, 2, WITHDRAWN)
    assert (shown.revision, shown.tables) == (None, {})


def test_old_revisions_close_with_their_streams(log: Log) -> None:
    log.plan(10, key="status")
    log(Reg(2, AGENTS[0], "web1", 5), Reg(2, AGENTS[1], "web2", 0))
    for revision in (1, 2):
        log.frame(0, (5, 6), mark_s=29, revision=revision)
        log.frame(1, (0, 6), mark_s=30, revision=revision)
    assert log.state.book.feeds == [1, 2]
    log.frame(0, (6, 7), mark_s=30)
    assert log.state.book.feeds == [2]
    assert stream(0) not in log.state.streams
    mixed = frame(0, {stream(0): (1, 2), stream(0, 2): (6, 7)})
    log(FrameEntry(mixed.spans, mixed.panes, mixed.runs))
    assert log.state.streams[stream(0, 2)].next == 7


def figures(log: Log, feed: int | None = None) -> tuple[int, int, int, int]:
    """(lines, rows, late, outside) as shown; each line has one place."""
    of = log.state.coverage(2, (), feed)
    assert of.lines == of.rows + of.filtered + of.rejected + of.late + of.outside
    return of.lines, of.rows, of.late, of.outside


def test_each_line_is_shown_once_though_a_plan_reads_it_again(log: Log) -> None:
    log.frame(0, (5, 6), {0: {"/a": 2}, 10: {"/a": 3}}, mark_s=9)
    log.plan(10, key="status")
    log(Reg(2, AGENTS[0], "web1", 5), Reg(2, AGENTS[1], "web2", 0))
    log.frame(0, (5, 6), {0: {"/a": 2}, 10: {"/a": 3}}, mark_s=9, revision=2)
    assert figures(log, 1) == (5, 2, 0, 3)  # what changed hands is outside of the old plan
    assert figures(log, 2) == figures(log) == (5, 3, 0, 2)
    again = restored(snapshot(log.state), Budget(), Options.tiny())
    assert again.coverage(2, (), 1) == log.state.coverage(2, (), 1)
    (shown,) = log.publish(0, 1, TENTATIVE)
    assert shown.coverage == log.state.coverage(2, (), 1)


def test_lines_of_a_closed_plan_are_late_wherever_they_come(log: Log) -> None:
    log.plan(10, key="status")
    log(Reg(2, AGENTS[0], "web1", 5), Reg(2, AGENTS[1], "web2", 0))
    log.frame(0, (5, 6), {-10: {"/a": 4}, 0: {"/a": 1}}, revision=2)
    assert figures(log, 2) == (5, 0, 0, 5)  # streams of the first plan count them, and the job begins at 0
    for revision in (1, 2):
        log.frame(0, (5, 7) if revision == 1 else (6, 7), mark_s=30, revision=revision)
        log.frame(1, (0, 6), mark_s=30, revision=revision)
    assert log.state.book.feeds == [2]
    log.frame(0, (7, 8), {-10: {"/a": 4}, 0: {"/a": 2}, 10: {"/a": 1}}, revision=2)
    assert figures(log) == (12, 1, 2, 9)
    log.frame(0, (7, 9), {0: {"/a": 7}})  # was under way when the first plan was closed
    of = log.state.coverage(2, (), None)
    assert (of.lines, of.rows, of.late, of.outside) == (12, 1, 9, 9)
    assert log.state.counts.late == 9


def test_a_job_without_windows_is_one_endless_window() -> None:
    log = Log()
    revision = PlanBook().revised(-(1 << 62), plan(""), SETTINGS)
    log(PlanEntry(revision), Reg(1, AGENTS[0], "web1", 5))
    log.frame(0, (5, 7), {0: {"/a": 2}}, mark_s=1_000_000)
    end = 1 << 62
    assert log(Publish(0, end, 1, FINAL, 1)) == []
    assert len(log(Publish(0, end, 1, TENTATIVE, 1), Drain())) == 1
    whole = frame(0, {stream(0): (7, 7)}, watermark_us=end)
    log(FrameEntry(whole.spans, whole.panes, whole.runs))
    (shown,) = log(Publish(0, end, 2, FINAL, 1))
    assert (shown.status, shown.lines) == (FINAL, 2)
    assert log.state.draining


def test_a_large_entry_counts_with_its_last_part_and_never_without_one_of_them(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = frame(0, {stream(0): (5, 6)}, {0: {f"/p{n}": 1 for n in range(30)}})
    entry = FrameEntry(whole.spans, whole.panes, whole.runs)
    monkeypatch.setattr("master.entries.PART_BYTES", 50)
    parts = encode_entries(entry)
    assert len(parts) > 3
    for order in (parts[:-1], parts[1:], [parts[0], *parts[2:]], [*parts[:-1], encode_entry(Drain()), parts[-1]]):
        for data in order:
            log.state.apply(log.state.index + 1, data)
    assert not log.state.content.lines
    for data in parts:
        assert not log.state.content.lines
        log.state.apply(log.state.index + 1, data)
        assert log.state.between == (data is not parts[-1])
    assert log.state.content.lines == {(1, 0): 30}
    assert log.state.counts.void == 0


def test_a_snapshot_is_the_state(log: Log) -> None:
    log.plan(40)
    for number in range(20):
        log.frame(
            0, (5 + number, 6 + number), {number * 10: {f"/p{n}": 1 for n in range(number)}}, mark_s=number
        )
    log(Forget(AGENTS[1]))
    log.publish(10, 1, TENTATIVE)
    parts = list(snapshot(log.state))
    again = restored(parts, Budget(), Options.tiny())
    assert list(snapshot(again)) == parts
    entry = encode_entry(Publish(20 * SECOND_US, 30 * SECOND_US, 1, TENTATIVE, 2))
    one, other = log.state.apply(99, entry), again.apply(99, entry)
    assert [window._replace(tables={}) for window in one] == [window._replace(tables={}) for window in other]
    assert list(snapshot(again)) == list(snapshot(log.state))


def test_what_is_no_entry_and_no_snapshot_is_refused(log: Log) -> None:
    with pytest.raises(EntryError):
        log.state.apply(7, b"\x93nonsense")
    with pytest.raises(EntryError):
        restored([b""], Budget())
    with pytest.raises(EntryError):
        restored([next(iter(snapshot(log.state))), b"x"], Budget())

"""What a leader answers, and when: never before the commit."""

from __future__ import annotations

from typing import Any

import msgspec

from cbt.budget import Budget
from cbt.options import Options
from job.plan import Plan
from job.plan_book import REVISIONS_MAX
from job.settings import Settings
from master.committed_parts import WindowPublished
from master.entries import FINAL, TENTATIVE, Publish, decode_entry
from master.finality import FinalityOptions
from master.group_events import Committed as LogCommitted
from master.group_events import Following, Leading, Propose
from master.group_messages import Lineage
from master.root import (
    ChangePlan,
    DrainJob,
    ForgetAgent,
    PlanAnswer,
    PlanFailed,
    Root,
    RootOptions,
    Spread,
)
from srt.automaton import WAKE, Instant, Received, Ref, Send
from srt.frame_messages import HISTORY, Ack, Nack, Refused, Sync, SyncAnswer, Synced, SyncRequest
from srt.frames import WholeFrame, messages_of
from tests.frame_data import AGENTS, frame, stream
from tests.plans import SECOND_US
from tests.plans import counting as plan

ME, CHILD = Ref(b"r" * 16, "root", 1), Ref(b"c" * 16, "child", 1)
LINE = Lineage(1, bytes(8))
TEN = "window(time, '10 seconds')"
SETTINGS = Settings(
    emit_us=SECOND_US,
    deadline_us=5 * SECOND_US,
    delay_us=0,
    idle_us=5 * SECOND_US,
    lateness_us=20 * SECOND_US,
    expect=2,
)


class Leader:
    """A root and a log of one member, committed when the test says so."""

    def __init__(self, lead: bool = True) -> None:
        options = RootOptions(finality=FinalityOptions(grace_s=3.0))
        self.core = Root(ME, Budget(), options, Options.tiny())
        self.now = 0.0
        self.index = 0
        self.waiting: list[bytes] = []
        if lead:
            self.give(Leading(LINE, 1))
            self.change(plan(TEN), 0)
            self.commit()

    def give(self, event: Any) -> list[Any]:
        effects = []
        for effect in self.core.handle(event, Instant(self.now, int(self.now * 1e6))):
            if isinstance(effect, Propose):
                assert self.waiting == [], "one group at a time"
                self.waiting = list(effect.data)
            else:
                effects.append(effect)
        return effects

    def commit(self) -> list[Any]:
        """Until nothing is on its way."""
        effects: list[Any] = []
        while self.waiting:
            entries, self.waiting = self.waiting, []
            for entry in entries:
                self.index += 1
                effects += self.give(LogCommitted(self.index, entry))
        return effects

    def hear(self, message: Any) -> list[Any]:
        return self.give(Received(CHILD, message))

    def frame(self, whole: WholeFrame) -> list[Any]:
        return [effect for part in messages_of(whole._replace(history=LINE.number)) for effect in self.hear(part)]

    def open(self, agent: int, start: int = 0, revision: int = 1, split: int = -1) -> SyncAnswer:
        request = SyncRequest(stream(agent, revision), start, split, 1, 1, 7, f"web{agent}")
        effects = [*self.hear(Sync((request,))), *self.commit()]
        (answer,) = [one for one in effects if isinstance(one, Send) and isinstance(one.message, Synced)]
        return answer.message.answers[0]

    def change(
        self, wanted: Plan, start_s: int | None, token: int = 1, settings: Settings = SETTINGS
    ) -> list[Any]:
        start = None if start_s is None else start_s * SECOND_US
        return self.give(ChangePlan(token, wanted, start, settings))


def shown(effects: list[Any]) -> list[tuple[int, int, str]]:
    return [
        (one.start_us // SECOND_US, one.edition, one.status)
        for one in effects
        if isinstance(one, WindowPublished)
    ]


def sends(effects: list[Any]) -> list[Send]:
    return [one for one in effects if isinstance(one, Send)]


def test_answers_leave_after_the_commit() -> None:
    leader = Leader()
    assert leader.hear(Sync((SyncRequest(stream(0), 3, -1, 77, 1, 7, "web0"),))) == []
    assert leader.commit() == [Send(CHILD, Synced((SyncAnswer(stream(0), 77, 3, 3, -1, False),)))]
    assert leader.frame(frame(1, {stream(0): (3, 5)}, {0: {"/a": 1}})) == []
    assert leader.frame(frame(2, {stream(0): (5, 6)}, {0: {"/a": 1}})) == []  # the next group, meanwhile
    assert leader.frame(frame(3, {stream(0): (6, 7)}, {0: {"/a": 1}})) == []
    assert (
        leader.frame(frame(4, {stream(0): (3, 5)}, {0: {"/a": 1}})) == []
    )  # a duplicate of what is not committed
    assert len(leader.waiting) == 1
    effects = leader.commit()
    assert sends(effects) == [Send(CHILD, Ack((1,))), Send(CHILD, Ack((2, 3, 4)))]
    assert shown(effects) == [(0, 1, TENTATIVE)]  # beside the first frame, in one group
    assert leader.index == 5  # plan, registration, that, and two frames: the later ones were merged
    assert leader.frame(frame(5, {stream(0): (3, 6)})) == [Send(CHILD, Ack((5,)))]
    assert leader.core.counters.duplicates == 2


def test_anything_else_is_refused_whole() -> None:
    leader = Leader()
    leader.open(0)
    leader.open(1)
    leader.frame(frame(1, {stream(0): (0, 5)}))
    leader.commit()
    refused = [
        {stream(0): (0, 5), stream(1): (0, 1)},  # mixed
        {stream(0): (6, 7)},  # a gap
        {stream(0): (4, 7)},  # an overlap
        {stream(2): (0, 1)},  # unknown
        {stream(0, 9): (0, 1)},
    ]
    for number, spans in enumerate(refused):
        assert leader.frame(frame(number, spans)) == [Send(CHILD, Nack((number,)))]
    newer = frame(9, {stream(0): (0, 5)}, watermark_us=10)
    assert leader.frame(newer) == [Send(CHILD, Nack((9,)))]
    alien = frame(10, {stream(0): (5, 6)}, {0: {"/a": 1}})
    alien = alien._replace(runs=tuple(type(run)(1, 0, 7, run.run) for run in alien.runs))
    assert leader.frame(alien) == [Send(CHILD, Nack((10,)))]
    assert leader.core.counters.unsound == 1
    assert leader.hear(messages_of(frame(11, {stream(0): (5, 6)}))[0]) == [
        Send(CHILD, Nack((11,)))
    ]  # another history


def test_the_first_proposal_counts_and_fixes_both_lanes() -> None:
    leader = Leader()
    assert leader.open(0, 3, split=10) == SyncAnswer(stream(0), 1, 10, 10, -1, True)
    assert leader.open(0, 5, split=20) == SyncAnswer(stream(0), 1, 10, 10, -1, True)
    request = SyncRequest(stream(0, lane=HISTORY), 0, -1, 8, 1, 7, "web0")
    assert leader.hear(Sync((request,))) == [
        Send(CHILD, Synced((SyncAnswer(stream(0, lane=HISTORY), 8, 3, 3, 10, True),)))
    ]
    assert "closed" in leader.open(1, revision=5).problem


def test_streams_of_a_partition_that_there_is_not_are_refused() -> None:
    leader = Leader()
    request = SyncRequest(stream(0, lane=2), 0, -1, 8, 1, 7, "web0")
    (sent,) = leader.hear(Sync((request,)))
    assert sent.message.answers[0].problem == "revision 1 has 1 partitions, none of number 1"
    assert leader.frame(frame(1, {stream(0, lane=2): (0, 1)})) == [Send(CHILD, Nack((1,)))]


def test_the_vertices_of_several_trees_are_answered_apart() -> None:
    """Their frames may have the same numbers, and the first SYNC of any partition opens all."""
    leader = Leader()
    leader.change(plan(TEN), 100, settings=msgspec.structs.replace(SETTINGS, partitions=2))
    leader.commit()
    for lane, start in ((2, 3), (0, 9)):
        request = SyncRequest(stream(0, 2, lane), start, -1, 8, 1, 7, "web0")
        effects = [*leader.hear(Sync((request,))), *leader.commit()]
        (answer,) = [one.message.answers[0] for one in effects if isinstance(one, Send)]
        assert (answer.stream.lane, answer.next, answer.problem) == (lane, 3, "")
    sent = []
    for lane, vertex in ((0, CHILD), (2, Ref(b"t" * 16, "child", 1))):
        whole = frame(5, {stream(0, 2, lane): (3, 4)}, {100 * SECOND_US: {"/a": 1}}, revision=2)
        for part in messages_of(whole._replace(history=LINE.number)):
            sent += leader.give(Received(vertex, part))
    sent += leader.commit()
    acknowledged = {(one.to.id[:1], one.message.numbers) for one in sent if isinstance(one, Send)}
    assert acknowledged == {(b"c", (5,)), (b"t", (5,))}
    assert leader.core.committed.content.lines == {(2, 100 * SECOND_US): 2}


def test_two_users_of_one_journal_are_told_apart() -> None:
    leader = Leader()
    leader.open(0)
    other = SyncRequest(stream(0), 0, -1, 9, 1, 8, "copy")
    (sent,) = leader.hear(Sync((other,)))
    assert sent.message.answers[0].problem == (
        "web0 and copy use one journal: was a data directory copied? Remove the journal of one"
    )
    (sent,) = leader.hear(Sync((SyncRequest(stream(0), 0, -1, 9, 2, 8, "web0"),)))  # it started again
    assert not sent.message.answers[0].problem
    (sent,) = leader.hear(Sync((SyncRequest(stream(0), 0, -1, 9, 1, 7, "web0"),)))  # the old one wakes
    assert sent.message.answers[0].problem


def test_windows_are_final_or_at_the_deadline_tentative() -> None:
    leader = Leader()
    leader.open(0)
    leader.open(1)
    leader.frame(frame(1, {stream(0): (0, 1)}, {0: {"/a": 1}}, watermark_us=12 * SECOND_US))
    assert shown(leader.commit()) == [(0, 1, TENTATIVE)]  # the newest is shown at once
    leader.now = 4.9
    assert (leader.give(WAKE), leader.waiting) == ([], [])
    leader.now = leader.core.wake_at
    leader.give(WAKE)
    (window,) = leader.commit()
    assert (window.edition, window.status, window.missing, window.agents) == (2, TENTATIVE, ("web1",), 2)
    leader.frame(frame(2, {stream(1): (0, 1)}, {0: {"/a": 1}}, watermark_us=12 * SECOND_US))
    assert shown(leader.commit()) == [(0, 3, FINAL)]
    leader.frame(frame(3, {stream(1): (1, 2)}, {0: {"/b": 1}}))
    assert shown(leader.commit()) == []  # late lines are gathered for a while
    leader.now = leader.core.wake_at
    leader.give(WAKE)
    assert shown(leader.commit()) == [(0, 4, FINAL)]


def test_the_newest_window_is_shown_while_it_is_open() -> None:
    leader = Leader()
    leader.open(0)
    leader.now = 4.0
    leader.frame(frame(1, {stream(0): (0, 1)}, {0: {"/a": 1}}, watermark_us=1 * SECOND_US))
    window = leader.commit()[-1]
    assert (window.status, window.missing, window.agents) == (TENTATIVE, (), 1)  # nobody is late for it
    leader.frame(frame(2, {stream(0): (1, 2)}, {0: {"/a": 1}}, watermark_us=2 * SECOND_US))
    assert shown(leader.commit()) == []
    leader.now = leader.core.wake_at
    leader.give(WAKE)
    assert shown(leader.commit()) == [(0, 2, TENTATIVE)]


def test_the_first_final_waits_for_the_agents_that_are_expected() -> None:
    leader = Leader()
    leader.open(0)
    leader.frame(frame(1, {stream(0): (0, 1)}, {0: {"/a": 1}}, watermark_us=12 * SECOND_US))
    assert shown(leader.commit()) == [(0, 1, TENTATIVE)]  # readers do not wait
    leader.now = leader.core.wake_at
    assert leader.now == 3.0
    leader.give(WAKE)
    assert shown(leader.commit()) == [(0, 2, FINAL)]


def test_a_new_leader_of_a_job_without_finals_waits_for_agents_too() -> None:
    leader = Leader()
    leader.open(0)
    leader.frame(frame(1, {stream(0): (0, 1)}, {0: {"/a": 1}}, watermark_us=12 * SECOND_US))
    assert shown(leader.commit()) == [(0, 1, TENTATIVE)]
    leader.now = 1.0
    leader.give(Following(None))
    leader.give(Leading(LINE, 2))
    leader.give(WAKE)
    assert shown(leader.commit()) == []
    leader.now = leader.core.wake_at
    assert leader.now == 4.0
    leader.give(WAKE)
    assert shown(leader.commit()) == [(0, 2, FINAL)]


def test_a_new_leader_goes_on_where_the_log_ends() -> None:
    leader = Leader()
    leader.open(0)
    leader.frame(frame(1, {stream(0): (0, 1)}, {0: {"/a": 1}}))
    lost, leader.waiting = leader.waiting, []
    leader.give(Following(None))
    assert lost
    assert leader.frame(frame(1, {stream(0): (0, 1)})) == []  # not the leader
    leader.give(Leading(LINE, 2))
    assert leader.open(0).next == 0
    leader.frame(frame(2, {stream(0): (0, 1)}, {0: {"/a": 1}}))
    assert sends(leader.commit()) == [Send(CHILD, Ack((2,)))]


def test_plans_change_by_the_log_and_are_spread_after_it() -> None:
    leader = Leader()
    assert leader.change(plan(TEN, "status"), 40, 2) == []
    answer, spread = leader.commit()
    assert answer == PlanAnswer(2, 2)
    assert isinstance(spread, Spread)
    assert spread.news.book is not None
    assert [one.number for one in spread.news.book.revisions] == [1, 2]
    assert leader.core.news(Instant(0, 0), spread.news.version, LINE.number).book is None
    (answer,) = leader.change(plan(TEN), 45, 3)
    assert "where no pane of" in answer.problem


def test_a_change_without_a_time_begins_behind_all_that_was_read() -> None:
    leader = Leader()
    leader.open(0)
    leader.frame(frame(1, {stream(0): (0, 1)}, watermark_us=33 * SECOND_US))
    leader.commit()
    leader.change(plan(TEN, "status"), None)
    leader.commit()
    assert leader.core.committed.book.revisions[-1].start_us == 40 * SECOND_US


def test_changes_wait_for_room_and_only_the_last_is_wanted() -> None:
    leader = Leader()
    for number in range(1, REVISIONS_MAX):
        leader.change(plan(TEN, "status"), 10 * number)
        leader.commit()
    assert leader.change(plan(TEN), 200, 50) == []
    (answer,) = leader.change(plan(TEN), 300, 51)
    assert (answer.token, answer.revision) == (50, 0)
    feeds = leader.core.committed.book.feeds
    for feed in feeds:
        leader.open(0, revision=feed)
    answers = []
    for feed in feeds:
        leader.frame(frame(feed, {stream(0, feed): (0, 1)}, watermark_us=100 * SECOND_US, revision=feed))
        answers += [one for one in leader.commit() if isinstance(one, PlanAnswer)]
    assert answers == [PlanAnswer(51, REVISIONS_MAX + 1)]


def test_a_plan_that_an_agent_cannot_run_is_rolled_back() -> None:
    leader = Leader()
    leader.change(plan(TEN, "status"), 40)
    leader.change(plan(TEN, "bytes"), 60)
    leader.commit()
    effects = leader.hear(Refused(2, AGENTS[0], "no such field"))
    assert [type(one) for one in effects] == [PlanFailed]
    leader.commit()
    book = leader.core.committed.book
    assert [(one.number, one.start_us // SECOND_US, one.feed) for one in book.revisions] == [
        (1, 0, 1),
        (2, 40, 2),
        (3, 60, 3),
        (4, 40, 4),
        (5, 60, 5),
    ]
    assert book.revisions[3].plan == book.revisions[0].plan
    assert book.revisions[4].plan == book.revisions[2].plan
    assert leader.hear(Refused(2, AGENTS[1], "me too")) == []  # it owns no window any more
    assert leader.waiting == []


def test_agents_are_forgotten_and_jobs_drained_by_the_log() -> None:
    leader = Leader()
    leader.open(0)
    leader.give(ForgetAgent(AGENTS[0]))
    leader.commit()
    assert leader.core.committed.roster == {AGENTS[0]: False}
    leader.give(DrainJob())
    (spread,) = leader.commit()
    assert spread.news.draining


def test_who_never_had_a_line_is_told_how_far_the_others_are() -> None:
    leader = Leader()
    for agent in (0, 1):
        leader.open(agent)
    leader.frame(frame(1, {stream(0): (0, 1)}, {0: {"/a": 1}}, watermark_us=7 * SECOND_US))
    leader.frame(frame(2, {stream(1): (0, 0)}, watermark_us=2 * SECOND_US))  # that was told to it before
    leader.commit()
    assert leader.core.news(Instant(1.0, 0)).watermark_us == 7 * SECOND_US


def two_agents(revision: int = 1) -> Leader:
    """Both are within the first window, which is shown and final when they are beyond it."""
    leader = Leader()
    for agent in (0, 1):
        leader.open(agent, revision=revision)
        leader.frame(frame(agent, {stream(agent, revision): (0, 1)}, {0: {"/a": 1}}, watermark_us=SECOND_US))
        leader.commit()
    return leader


def kinds(leader: Leader) -> list[str]:
    """Of the entries on their way, and what is published."""
    entries = [decode_entry(one) for one in leader.waiting]
    return [f"{one.status} {one.count}" if isinstance(one, Publish) else type(one).__name__ for one in entries]


def test_a_window_is_final_in_the_commit_of_the_frame_that_closes_it() -> None:
    leader = two_agents()
    leader.frame(frame(2, {stream(0): (1, 2)}, watermark_us=10 * SECOND_US))
    assert kinds(leader) == ["FrameEntry"]  # the other agent is not there
    leader.commit()
    leader.frame(frame(3, {stream(1): (1, 2)}, {0: {"/b": 3}}, watermark_us=11 * SECOND_US))
    assert kinds(leader) == ["FrameEntry", "final 2"]
    assert shown(leader.commit()) == [(0, 2, FINAL)]
    assert (leader.core.committed.counts.void, leader.waiting) == (0, [])


def test_the_final_takes_the_place_of_what_was_to_be_shown_before_the_frame() -> None:
    leader = two_agents()
    leader.frame(frame(2, {stream(0): (1, 2)}, {0: {"/b": 3}}, watermark_us=10 * SECOND_US))
    leader.now += 2.0
    leader.frame(frame(3, {stream(1): (1, 2)}, watermark_us=10 * SECOND_US))  # the next group, meanwhile
    entries, leader.waiting = leader.waiting, []
    leader.index += len(entries)
    leader.give(LogCommitted(leader.index, entries[0]))
    assert kinds(leader) == ["FrameEntry", "final 2"]
    assert shown(leader.commit()) == [(0, 2, FINAL)]
    assert leader.core.committed.counts.void == 0


def test_nothing_is_foreseen_beside_entries_that_may_change_it() -> None:
    leader = two_agents()
    leader.frame(frame(2, {stream(0): (1, 2)}, watermark_us=10 * SECOND_US))
    leader.frame(frame(3, {stream(1): (1, 2)}, watermark_us=11 * SECOND_US))
    leader.hear(Sync((SyncRequest(stream(2), 0, -1, 1, 1, 7, "web2"),)))
    entries, leader.waiting = leader.waiting, []
    leader.index += len(entries)
    leader.give(LogCommitted(leader.index, entries[0]))
    assert kinds(leader)[0] == "Reg"
    assert not any("final" in kind for kind in kinds(leader))
    assert shown(leader.commit()) == []  # the third agent has not begun


def test_an_agent_that_comes_back_with_the_frame_counts_among_those_that_are_waited_for() -> None:
    leader = two_agents()
    leader.give(ForgetAgent(AGENTS[1]))
    leader.commit()
    spans = {stream(0): (1, 2)}
    leader.frame(frame(2, spans, watermark_us=9 * SECOND_US))
    leader.frame(frame(3, {stream(0): (2, 3)}, watermark_us=11 * SECOND_US))
    leader.frame(frame(4, {stream(1): (1, 2)}, watermark_us=5 * SECOND_US))
    entries, leader.waiting = leader.waiting, []
    leader.index += len(entries)
    leader.give(LogCommitted(leader.index, entries[0]))
    assert kinds(leader) == ["FrameEntry"]
    leader.commit()
    assert leader.core.committed.counts.void == 0


def test_a_window_of_several_partitions_is_foreseen_by_the_marks_that_they_share() -> None:
    leader = Leader()
    leader.change(plan(TEN), 100, settings=msgspec.structs.replace(SETTINGS, partitions=2, expect=1))
    leader.commit()
    leader.open(0, 0, revision=2)
    begin = leader.core.committed.streams[stream(0, 2)].next
    for lane, mark in ((2, None), (0, 110 * SECOND_US)):
        content = {100 * SECOND_US: {"/a": 1}} if lane else {}
        spans = {stream(0, 2, lane): (begin, begin + 1)}
        leader.frame(frame(lane, spans, content, watermark_us=mark, revision=2))
        last = kinds(leader)
        if lane:
            leader.commit()
    assert last == ["FrameEntry", "final 2"]
    assert shown(leader.commit()) == [(100, 2, FINAL)]

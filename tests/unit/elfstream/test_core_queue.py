"""Which event a core gets next, and when it counts as late."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from elfstream.core_queue import FURTHER_MAX, LATE_MAX_S, CoreQueue
from master.group_messages import Beats, Lineage, Seek, Vote
from master.job_events import Overload
from master.requests import Ask, DescribeNode, FindMaster
from srt.automaton import Received, Ref, Stored
from srt.directory_messages import Rumours
from srt.frame_messages import Ack, ForJob
from srt.tree_messages import Kind, TreeJoin, TreeLeave

REF = Ref(bytes(16), "here:1", 1)
KEY = bytes(16)
BEAT = Received(REF, Beats(1, []))
WORK = Received(REF, Seek(KEY))
RUMOUR = Received(REF, Rumours([], hot=True))
FRAME = Received(REF, ForJob(KEY, Ack((1,))))
ASK, ALIVE = Ask(1, KEY, FindMaster()), Ask(2, KEY, DescribeNode())


def taken(queue: CoreQueue, now_s: float = 0.0, frames: bool = True) -> list[Any]:
    found = []
    while some := queue.take(100, now_s, frames):
        found += [waiting.event for waiting in some]
    return found


def test_leases_first_then_work_then_what_makes_more_of_it_and_frames_in_turns() -> None:
    queue = CoreQueue()
    for event in (FRAME, ASK, RUMOUR, FRAME, WORK, ALIVE, BEAT, ASK):
        queue.put(event, None, 0.0)
    assert len(queue) == 8
    assert taken(queue) == [BEAT, WORK, ALIVE, ASK, RUMOUR, ASK, FRAME, FRAME]
    assert len(queue) == 0


def test_frames_wait_for_few_of_what_makes_more_work() -> None:
    queue = CoreQueue()
    for _ in range(40):
        queue.put(ASK, None, 0.0)
        queue.put(FRAME, None, 0.0)
    kinds = [event is FRAME for event in taken(queue)]
    assert kinds[: 2 * (FURTHER_MAX + 1)] == [*([False] * FURTHER_MAX), True] * 2
    assert sum(kinds) == 40


def test_frames_may_be_held_back_alone() -> None:
    queue = CoreQueue()
    for event in (FRAME, ASK, ASK):
        queue.put(event, None, 0.0)
    assert taken(queue, frames=False) == [ASK, ASK]
    assert queue.has_frames
    assert not queue.has_others


def late_after(seconds: float, waited_s: float) -> float:
    """How late a queue is whose events all wait so long, after so many seconds of that."""
    queue, now_s = CoreQueue(), 100.0
    queue.take(1, now_s)
    while now_s < 100.0 + seconds:
        now_s += 0.1
        queue.put(ASK, None, now_s - waited_s)
        queue.take(1, now_s)
    return queue.late_s(now_s)


def test_who_is_in_time_is_not_late() -> None:
    assert late_after(5.0, 0.0) == pytest.approx(0.0, abs=1e-9)
    assert late_after(60.0, 0.2) < LATE_MAX_S


def test_who_is_late_for_long_is_as_late_as_events_wait() -> None:
    assert late_after(10.0, 0.5) == pytest.approx(0.5, rel=0.01)
    assert late_after(2.0, 0.5) > LATE_MAX_S


def test_one_long_event_is_no_overload() -> None:
    assert late_after(0.2, 0.5) < LATE_MAX_S


def test_it_is_over_when_nothing_waits() -> None:
    queue = CoreQueue()
    queue.put(ASK, None, 0.0)
    assert queue.late_s(10.0) > 9.0  # nobody has taken it
    queue.take(1, 10.0)
    assert queue.late_s(10.0) > 9.0
    assert queue.late_s(15.0) < LATE_MAX_S


def test_frames_do_not_make_a_core_late() -> None:
    queue = CoreQueue()
    queue.put(FRAME, None, 0.0)
    assert queue.late_s(60.0) == 0.0


def join(key: bytes, declined: int = 0) -> Received:
    return Received(REF, TreeJoin(key, Kind.AGENT, 1, declined, False))


def test_elections_and_what_is_on_disk_go_before_other_work() -> None:
    queue = CoreQueue()
    vote = Received(REF, Vote(KEY, Lineage(1, bytes(8)), 1, False, True))
    for event in (WORK, vote, BEAT, Stored(1)):
        queue.put(event, None, 0.0)
    assert taken(queue) == [BEAT, vote, Stored(1), WORK]


def test_of_a_node_that_asks_again_the_newest_join_is_kept_and_none_after_its_leave() -> None:
    queue, dealt = CoreQueue(), list[int]()
    leave = Received(REF, TreeLeave([b"b" * 16]))
    for number, event in enumerate((join(b"a" * 16), join(b"b" * 16), join(b"a" * 16, 1), leave, WORK)):
        queue.put(event, partial(dealt.append, number), float(number))
    assert dealt == [0, 1]  # the room that they took is free again
    assert taken(queue) == [leave, WORK, join(b"a" * 16, 1)]


def test_a_join_that_is_asked_again_counts_as_late_from_the_first_on() -> None:
    queue = CoreQueue()
    for number in range(50):
        queue.put(join(KEY), None, 0.1 * number)
    assert queue.late_s(5.0) > LATE_MAX_S


def test_the_core_hears_once_that_it_is_late_or_busy_and_once_that_it_is_not() -> None:
    queue = CoreQueue()
    states = ((0.1, 0.5), (0.1, 0.8), (0.1, 0.9), (0.3, 0.9), (0.3, 0.1), (0.0, 0.1))
    told = [queue.overload(late_s, use) for late_s, use in states]
    assert told == [None, Overload(0.0, 0.8), None, Overload(0.3, 0.9), Overload(0.3), Overload(0.0)]

"""Which old ranges are read again at a time, and when the frontier waits for one."""

from __future__ import annotations

from typing import Any

from agent.folds import Folds, FoldUnderWay
from agent.journal import FIRST, STRIDE
from agent.stream_events import Advance, Advanced, Fold, JobHeard, JobParent, JobTold, Portion
from agent.stream_options import StreamsOptions
from srt.automaton import WAKE
from srt.frame_messages import HISTORY, LIVE, Ack, News, StreamId, Sync, SyncAnswer, Synced
from tests.plans import SECOND_US
from tests.unit.agent.test_streams import ID, JOB, UP, Agent, book, numbers


def of(lane: int, target: int = 2, joins: bool = False) -> FoldUnderWay:
    return FoldUnderWay((b"j" * 16, StreamId(1, ID, lane)), 1, target, joins)


def test_live_lanes_do_not_wait_for_history_lanes() -> None:
    folds = Folds(2)
    folds.begin(1, of(HISTORY))
    folds.begin(2, of(HISTORY))
    assert (folds.may_begin(live=False), folds.may_begin(live=True)) == (False, True)
    folds.begin(3, of(LIVE))
    folds.begin(4, of(LIVE))
    assert not folds.may_begin(live=True)
    assert folds.end(1) == of(HISTORY)
    assert folds.may_begin(live=False)
    assert folds.cuts == {1, 2}


def test_the_frontier_waits_for_who_is_about_to_be_there() -> None:
    folds = Folds(2)
    folds.begin(1, of(LIVE, target=5))
    assert not folds.join(5)
    folds.begin(2, of(LIVE, target=5, joins=True))
    assert (folds.join(5), folds.join(6)) == (True, False)


def attach(agent: Agent, job: bytes, live_next: int, history: bool) -> None:
    """A job whose live lane goes on at a cut, and whose history lane ends there, if it has one."""
    plans = book(0)
    news = News(1, 1, plans.version, plans, -1000 * SECOND_US, False, int(agent.now * 1e6), None)
    agent.give(JobTold(job, news))
    syncs = agent.give(JobParent(job, UP))
    while syncs:
        (sync,) = [one for one in syncs if isinstance(one, Sync)]
        answers = [
            SyncAnswer(one.stream, one.nonce, live_next, FIRST, -1, history)
            if one.stream.is_live
            else SyncAnswer(one.stream, one.nonce, FIRST, FIRST, live_next, False)
            for one in sync.requests
        ]
        syncs = agent.give(JobHeard(job, Synced(tuple(answers))))


def folded(agent: Agent) -> list[tuple[bytes, bool]]:
    """Job and whether it is the live lane, of the ranges asked for."""
    return [(one.spec.key[0], one.spec.key[1].is_live) for one in agent.asked if isinstance(one, Fold)]


def grown() -> Agent:
    """Three cuts behind the first."""
    agent = Agent()
    agent.open()
    for _ in range(3):
        ups = agent.grow(10)
        agent.give(JobHeard(JOB, Ack(tuple(numbers(ups)))))
    return agent


def test_the_live_lane_of_a_job_is_read_again_while_others_look_back() -> None:
    agent = grown()
    newest = FIRST + 3 * STRIDE
    for job in (b"a" * 16, b"b" * 16, b"c" * 16):
        attach(agent, job, newest, history=True)
    looking_back = [(b"a" * 16, False), (b"b" * 16, False)]
    assert folded(agent) == looking_back
    attach(agent, b"d" * 16, newest - STRIDE, history=False)
    assert folded(agent) == [*looking_back, (b"d" * 16, True)]


def advances(agent: Agent) -> list[Any]:
    return [one for one in agent.asked if isinstance(one, Advance)]


def test_the_frontier_does_not_wait_for_a_live_lane_with_much_to_read_again() -> None:
    for join_bytes_max, waits in ((10, True), (9, False)):
        agent = grown()
        agent.core.options = StreamsOptions(settle_s=0.0, fold_bytes_max=100, join_bytes_max=join_bytes_max)
        attach(agent, b"d" * 16, FIRST + 2 * STRIDE, history=False)
        assert folded(agent) == [(b"d" * 16, True)]
        for ask in advances(agent):  # asked before; nothing is new
            agent.asked.remove(ask)
            agent.give(Advanced(ask.token, ask.start, {}, {spec.key: Portion() for spec in ask.specs}))
        agent.now += 0.5
        agent.give(WAKE)
        assert bool(advances(agent)) != waits

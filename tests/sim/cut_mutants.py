"""The cut protocol with one rule switched off: each must make some seed fail, or the rule is not needed.

`EXACT` are those without which results stay right and only cost more; `cost` says what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from agent.journal import ORIGIN, Journal
from agent.stream import Stream, Way
from agent.stream_job import Job
from agent.streams import Streams
from job.plan_book import NEVER_US
from job.watermark import SourceWatermark
from master.committed import Committed
from master.committed_parts import StreamState
from master.entries import Reg
from master.group_commit import Tail, Verdict
from master.root import Root
from srt.automaton import Send
from srt.frame_messages import LIVE, Ack, Nack, Span, StreamId, Sync, Synced
from srt.frames import WholeFrame
from srt.reducer import Reducer
from tests.sim import cut_master_mutants as masters
from tests.sim.cut_job import JobSide
from tests.sim.cut_logs import Driver

Patch = pytest.MonkeyPatch


# R: the root judges


def _accepting(patch: Patch, fits: Callable[[int, int], bool]) -> None:
    """R1 with another idea of which pieces fit: by (from, next)."""

    def judge(tail: Tail, spans: Iterable[Span]) -> Verdict:
        states = [(span, tail.stream(span.stream)) for span in spans]
        if any(state is None for _, state in states):
            return Verdict.REFUSE
        if all(state is not None and fits(span.start, state.next) for span, state in states):
            return Verdict.ACCEPT
        return Verdict.REFUSE

    patch.setattr(Tail, "judge", judge)
    patch.setattr(Committed, "fits", lambda self, spans: all(span.stream in self.streams for span in spans))


def r1_overlap(patch: Patch) -> None:
    _accepting(patch, lambda start, following: start <= following)


def r1_gaps(patch: Patch) -> None:
    _accepting(patch, lambda start, following: start >= following)


def r1_repeats_refused(patch: Patch) -> None:
    judge = Tail.judge

    def judged(tail: Tail, spans: Iterable[Span]) -> Verdict:
        verdict = judge(tail, spans)
        return Verdict.REFUSE if verdict is Verdict.DUPLICATE else verdict

    patch.setattr(Tail, "judge", judged)


def r2_synced_before_commit(patch: Patch) -> None:
    def at_once(root: Root, sender: Any, message: Sync) -> list[Any]:
        return [Send(sender, Synced(tuple(root._open(request) for request in message.requests)))]

    patch.setattr(Root, "_sync", at_once)


def r3_lanes_apart(patch: Patch) -> None:
    """A live lane of which nothing is committed begins where it is proposed the last time, whatever history said."""
    register, ask = Committed._register, Root._open

    def registered(state: Committed, entry: Reg) -> Any:
        known = state.streams.get(StreamId(entry.revision, entry.agent, LIVE))
        if known is None or known.next != known.start:
            return register(state, entry)
        start = max(entry.split, entry.start)
        state.streams[StreamId(entry.revision, entry.agent, LIVE)] = StreamState(
            start, start, -1, known.watermark_us, known.counters
        )
        return []

    def opened(root: Root, request: Any) -> Any:
        known = root._tail.stream(request.stream)
        if request.stream.lane == LIVE and known is not None and known.next == known.start:
            start = max(request.split, request.start)
            if start != known.start:
                root._tail.open.entries.append(
                    Reg(
                        request.stream.revision,
                        request.stream.agent,
                        request.name,
                        request.start,
                        request.split,
                    )
                )
                root._tail.streams[request.stream] = StreamState(start, start, -1, None, known.counters)
        return ask(root, request)

    patch.setattr(Committed, "_register", registered)
    patch.setattr(Root, "_open", opened)


def r2_ack_before_commit(patch: Patch) -> None:
    accept = Root._frame

    def at_once(root: Root, sender: Any, frame: WholeFrame) -> list[Any]:
        effects = accept(root, sender, frame)
        return effects or [Send(sender, Ack((frame.number,)))]

    patch.setattr(Root, "_frame", at_once)


# V: vertices merge


def v1_unlike(patch: Patch) -> None:
    def merged(vertex: Reducer, frame: WholeFrame) -> dict[StreamId, Span]:
        known = vertex._outbox.spans
        return {
            span.stream: span
            if span.stream not in known
            else Span(
                span.stream,
                min(span.start, known[span.stream].start),
                max(span.end, known[span.stream].end),
                span.watermark_us,
                span.counters,
            )
            for span in frame.spans
        }

    patch.setattr(Reducer, "_merged", merged)
    take = Reducer._frame
    patch.setattr(
        Reducer,
        "_frame",
        lambda vertex, sender, frame, now_s: take(vertex, sender, frame._replace(solo=False), now_s),
    )


def _vertices(patch: Patch, **options: Any) -> None:
    real = JobSide.reducer_options.fget
    assert real is not None
    patch.setattr(JobSide, "reducer_options", property(lambda job: replace(real(job), **options)))


def v2_no_hold_time(patch: Patch) -> None:
    _vertices(patch, hold_s=1e6, forget_after_s=2e6)


def v2_at_once(patch: Patch) -> None:
    _vertices(patch, hold_s=0.0)


def v2_no_size(patch: Patch) -> None:
    take = Reducer._frame

    def unlimited(vertex: Reducer, sender: Any, frame: WholeFrame, now_s: float) -> list[Any]:
        options, frame_max = vertex.options, vertex._frame_max
        vertex.options, vertex._frame_max = replace(options, frame_bytes_max=1 << 40), 1 << 40
        try:
            return take(vertex, sender, frame, now_s)
        finally:
            vertex.options, vertex._frame_max = options, frame_max

    patch.setattr(Reducer, "_frame", unlimited)


def v3_no_repeats(patch: Patch) -> None:
    def attach(vertex: Reducer, parent: Any, now_s: float) -> list[Any]:
        vertex.parent, vertex._solo = parent, True
        return []

    patch.setattr(Reducer, "_attach", attach)


def v4_nothing_forgotten(patch: Patch) -> None:
    patch.setattr(Reducer, "_forget", lambda vertex, more: [])


def v5_sync_overtakes(patch: Patch) -> None:
    sync = Reducer._sync

    def at_once(vertex: Reducer, sender: Any, message: Sync, now_s: float) -> None:
        sync(vertex, sender, message, now_s)
        vertex._syncs_due, vertex._syncs = [*vertex._syncs_due, *vertex._syncs], []

    patch.setattr(Reducer, "_sync", at_once)


# A: agents


def a1_not_durable(patch: Patch) -> None:
    add = Stream.add

    def added(stream: Stream, end: int, mark: int | None, portion: Any, number: int, durable: bool) -> None:
        add(stream, end, mark, portion, number, True)

    patch.setattr(Stream, "add", added)


def a2_no_silence(patch: Patch) -> None:
    patch.setattr(Stream, "silent_since", lambda stream, way: None)


def a3_no_repeats(patch: Patch) -> None:
    patch.setattr(Stream, "again", lambda stream, way: True)


def a4_mark_of_the_frontier(patch: Patch) -> None:
    patch.setattr(Streams, "_old_mark", lambda streams, job, cut: streams._mark(job))


def a5_late_lines_dropped(patch: Patch) -> None:
    spec = Job.spec

    def strict(job: Job, stream: Stream, frontier: int, deliver: bool = True, new: bool = False) -> Any:
        made = spec(job, stream, frontier, deliver, new)
        mark = stream.watermark_us
        if (
            mark is None
            or mark >= NEVER_US
            or not stream.live
            or job.book.fed_by(stream.id.revision)[0].pane_us == 0
        ):
            return made
        pane_us = job.book.fed_by(stream.id.revision)[0].pane_us
        return made._replace(closed_us=max(made.closed_us, mark - mark % pane_us))

    patch.setattr(Job, "spec", strict)


def a6_future(patch: Patch) -> None:
    patch.setattr("job.watermark.AHEAD_MAX_US", 1 << 60)
    patch.setattr("agent.stream_job.AHEAD_MAX_US", 1 << 60)


def a6_never_idle(patch: Patch) -> None:
    def reach(source: SourceWatermark, last: Any, now_us: int, clock_us: int) -> int:
        files = [file.largest_us for file in source._files.values()]
        return min(min(files, default=last.largest_us), clock_us + 5_000_000) - source._timing.delay_us

    patch.setattr(SourceWatermark, "_read_us", reach)


def a6_not_announced(patch: Patch) -> None:
    patch.setattr(SourceWatermark, "announced", lambda source, watermark_us: None)


def a6_waits_for_itself(patch: Patch) -> None:
    patch.setattr(Committed, "has_lines", lambda state, feed, agent: True)


def a8_shed(patch: Patch) -> None:
    advance = Driver.advance

    def shedding(driver: Driver, ask: Any) -> Any:
        done = advance(driver, ask)
        driver.trees.update({key: ([], 0) for key in done.overfull})
        return done._replace(overfull=frozenset())

    patch.setattr(Driver, "advance", shedding)


def a8_no_credit(patch: Patch) -> None:
    patch.setattr(Stream, "has_room", property(lambda stream: True))


def a7_no_horizon(patch: Patch) -> None:
    found = Journal.greatest_before

    def greatest(journal: Journal, event_us: int) -> Any:
        return found(journal, NEVER_US)

    let_go = Streams._let_go

    def without(streams: Streams) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Journal, "greatest_before", greatest)
            let_go(streams)

    patch.setattr(Streams, "_let_go", without)


def a7_needed_given_up(patch: Patch) -> None:
    thin = Journal.thin
    patch.setattr(Journal, "thin", lambda journal, needed, floor, guarded=ORIGIN: thin(journal, (), floor, guarded))


def a7_unguarded(patch: Patch) -> None:
    """Cuts of before, when nobody has said yet where a stream goes on."""
    thin, crowded = Journal.thin, Journal.crowded
    patch.setattr(Journal, "thin", lambda journal, needed, floor, guarded=ORIGIN: thin(journal, needed, floor))
    patch.setattr(Journal, "crowded", lambda journal, guarded: crowded(journal, ORIGIN))


def nack_ignored(patch: Patch) -> None:
    heard = Streams._heard

    def deaf(streams: Streams, job: Job, message: Any, partition: int) -> None:
        if not isinstance(message, Nack):
            heard(streams, job, message, partition)

    patch.setattr(Streams, "_heard", deaf)


def no_solo(patch: Patch) -> None:
    again = Stream.again

    def merged(stream: Stream, way: Way) -> bool:
        done = again(stream, way)
        way.solo = False
        return done

    patch.setattr(Stream, "again", merged)


class Mutant(NamedTuple):
    off: Callable[[Patch], None]
    found: int = 0
    """A seed that notices: the tests begin there."""
    changes: tuple[tuple[str, Any], ...] = ()
    """What is special about the runs that can notice."""


LATE = (("late", True),)
DYING = (("group", True), ("dying", True))
CALM = (("late", False), ("hopeless", False), ("recover", False), ("endless", False), ("plan_changes", 0))
ABSENT = (("absent", True), ("jobs", 2), ("faults", 0), *CALM)
REWRITTEN = (
    ("rewritten", True),
    *CALM,
    ("recover", True),
    ("group", False),
    ("faults", 0),
    ("split", False),
    ("jobs", 1),
    ("early", False),
)
RECOVERED = (("recover", True), ("group", False), ("plan_changes", 6))
MUTANTS: dict[str, Mutant] = {
    "R1: overlapping pieces accepted": Mutant(r1_overlap, 0),
    "R1: gaps accepted": Mutant(r1_gaps, 0),
    "R2: acknowledged before the commit": Mutant(r2_ack_before_commit, 0),
    "R2: SYNC answered before the commit": Mutant(r2_synced_before_commit, 1),
    "R3: the lanes are not registered together": Mutant(
        r3_lanes_apart,
        3,
        (("split", True), ("restless", True), ("jobs", 2), ("second_s", 5.0), ("group", False), ("faults", 0), *CALM),
    ),
    "V1: unlike ranges merged, and nothing goes solo": Mutant(v1_unlike, 0),
    "V2: no hold time": Mutant(v2_no_hold_time, 0),
    "V2: no size limit": Mutant(v2_no_size, 0, (("chunked", True),)),
    "V4: nothing is forgotten": Mutant(v4_nothing_forgotten, 0, (("forgetful", True),)),
    "A1: sent before the cut is durable": Mutant(
        a1_not_durable,
        208,
        (("jobs", 2), ("faults", 12), ("plan_changes", 4), ("endless", False), ("recover", False)),
    ),
    "A2: no SYNC after silence": Mutant(a2_no_silence, 5),
    "A4: old pieces carry the newest watermark": Mutant(
        a4_mark_of_the_frontier,
        6,
        (("jobs", 2), ("plan_changes", 8), ("split", False), ("recover", False), ("endless", False)),
    ),
    "A5: agents drop what is late": Mutant(a5_late_lines_dropped, 0, LATE),
    "A6: lines from the future move the watermark": Mutant(
        a6_future, 1, (("late", True), ("brief", False), ("agents", 1), ("future", 0.05))
    ),
    "A6: files are never idle": Mutant(a6_never_idle, 0, (("quiet", True),)),
    "A6: nothing is announced to who has no lines": Mutant(a6_not_announced, 0, (("quiet", True),)),
    "A6: who has no lines waits for itself": Mutant(a6_waits_for_itself, 0, (("quiet", True),)),
    "A7: the horizon is ignored": Mutant(a7_no_horizon, 7, (("plan_changes", 4), ("recover", False))),
    "A7: cuts that are needed are given up": Mutant(a7_needed_given_up, 0, ABSENT),
    "A7: cuts of before are given up unasked": Mutant(a7_unguarded, 0, (*ABSENT, ("faults", 8))),
    "A8: what finds no memory is shed": Mutant(a8_shed, 0, (("jobs", 2), ("plan_changes", 4))),
    "A8: no credit": Mutant(a8_no_credit, 0),
    "F1: one agent is enough": Mutant(masters.f1_one_agent_is_enough, 0),
    "F1: a history lane is not waited for": Mutant(
        masters.f1_history_ignored,
        11,
        (("split", True), ("early", True), ("group", False), *CALM, ("plan_changes", 6)),
    ),
    "F2: shown before it is committed": Mutant(
        masters.f2_shown_before_commit,
        0,
        (("dying", True), ("faults", 14), ("group", False), ("hopeless", False), ("recover", False),
         ("endless", False), ("plan_changes", 0)),
    ),
    "F3: late lines make no new edition": Mutant(masters.f3_late_lines_unseen, 0, LATE),
    "F3: lines beyond the lateness are taken": Mutant(
        masters.f3_too_late_taken, 0, (("late", True), ("hopeless", True))
    ),
    "F4: nobody is waited for at the start": Mutant(masters.f4_no_waiting, 0, (("early", True),)),
    "F4: who comes back stays forgotten": Mutant(masters.f4_stays_forgotten, 7, (("late", False),)),
    "F5: a drained agent's time does not end": Mutant(masters.f5_no_end_of_time, 0),
    "C1: panes change hands at E": Mutant(masters.c1_by_pane, 3),
    "C2: plans may reach behind the horizon": Mutant(
        masters.c2_no_horizon, 8, (("brief", True), ("plan_changes", 4))
    ),
    "C3: an old plan gets its old streams": Mutant(masters.c3_old_streams_again, 1, (("plan_changes", 4),)),
    "C4: spread before it is committed": Mutant(masters.c4_spread_before_commit, 1, (("plan_changes", 4),)),
    "C5: revisions close at once": Mutant(masters.c5_closed_at_once, 5),
    "C5: revisions close without lateness": Mutant(masters.c5_no_lateness, 0, LATE),
    "C6: refusals are ignored": Mutant(masters.c6_refusals_ignored, 6),
    "G1: committed without a majority": Mutant(masters.g1_no_majority, 2, DYING),
    "G1: whoever asks is elected": Mutant(masters.g1_vote_for_anybody, 0, DYING),
    "G1: promises are forgotten": Mutant(masters.g1_no_promise, 0, DYING),
    "G1: answered before it is durable": Mutant(masters.g1_answer_before_durable, 0, DYING),
    "G2: a leader without followers leads on": Mutant(
        masters.g2_leads_on, 0, (("group", True), ("apart", True), ("faults", 0))
    ),
    "G3: members change all at once": Mutant(masters.g3_all_at_once, 0, (("group", True),)),
    "G4: agents ignore the history": Mutant(masters.g4_history_ignored, 4, RECOVERED),
    "G4: frames of another history are taken": Mutant(
        masters.g4_frames_of_any_history, 5, REWRITTEN
    ),
}
RARE = frozenset(
    {
        "G1: whoever asks is elected",
        "G1: promises are forgotten",
        "G1: answered before it is durable",
        "G3: members change all at once",
    }
)
"""What few of these seeds notice; `make stress` counts. Those of G1 and G3 have theirs in `test_commit_group_rules.py`."""
EXACT: dict[str, Callable[[Patch], None]] = {
    "NACK ignored": nack_ignored,
    "nothing goes solo": no_solo,
    "R1: repeats are refused": r1_repeats_refused,
    "V2: frames go on at once": v2_at_once,
    "V3: vertices repeat nothing": v3_no_repeats,
    "A3: agents repeat nothing": a3_no_repeats,
    "V5: SYNC overtakes the outbox": v5_sync_overtakes,
}

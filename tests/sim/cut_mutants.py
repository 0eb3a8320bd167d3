"""The cut protocol with one rule switched off: each must make some seed fail, or the rule is not needed.

`RARE` are those that few seeds notice; tests of the cores hold them. `EXACT` are those without which results stay right and
only take longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from agent.journal import Journal
from agent.stream import Stream
from agent.streams import Streams
from job.plan_book import NEVER_US, PlanBook
from master.committed import Committed
from master.group_commit import Tail, Verdict
from master.root import Root
from srt.automaton import Send
from srt.frame_messages import Ack, Nack, Span, StreamId
from srt.frames import WholeFrame
from srt.reducer import Reducer

Patch = pytest.MonkeyPatch


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


def a1_not_durable(patch: Patch) -> None:
    add = Stream.add

    def added(stream: Stream, piece: Any) -> None:
        piece.durable = True
        add(stream, piece)

    patch.setattr(Stream, "add", added)


def a2_no_silence(patch: Patch) -> None:
    patch.setattr(Stream, "silent_since", lambda stream: None)


def a4_mark_of_the_frontier(patch: Patch) -> None:
    patch.setattr(Streams, "_old_mark", lambda streams, job, cut: streams._mark(job))


def a7_no_horizon(patch: Patch) -> None:
    found = Journal.greatest_before

    def greatest(journal: Journal, event_us: int) -> Any:
        return found(journal, NEVER_US)

    let_go = Streams._let_go

    def without(streams: Streams, thin: bool = False) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Journal, "greatest_before", greatest)
            let_go(streams, thin)

    patch.setattr(Streams, "_let_go", without)


def c1_by_pane(patch: Patch) -> None:
    def panes(book: PlanBook, feed: int) -> tuple[int, int]:
        ranges = [(one.start_us, book.end_us(one.number)) for one in book.fed_by(feed)]
        some = [(first, end) for first, end in ranges if end > first]
        return (min(first for first, _ in some), max(end for _, end in some)) if some else (0, 0)

    patch.setattr(PlanBook, "panes", panes)


def r2_ack_before_commit(patch: Patch) -> None:
    accept = Root._frame

    def at_once(root: Root, sender: Any, frame: WholeFrame) -> list[Any]:
        effects = accept(root, sender, frame)
        return effects or [Send(sender, Ack((frame.number,)))]

    patch.setattr(Root, "_frame", at_once)


def g4_history_ignored(patch: Patch) -> None:
    told = Streams._told

    def deaf(streams: Streams, job: Any, news: Any) -> None:
        if job.history < 0:
            told(streams, job, news)
        else:
            job.history = max(job.history, news.history)
            told(streams, job, news)

    patch.setattr(Streams, "_told", deaf)


def nack_ignored(patch: Patch) -> None:
    heard = Streams._heard
    patch.setattr(
        Streams,
        "_heard",
        lambda streams, job, message: None if isinstance(message, Nack) else heard(streams, job, message),
    )


def no_solo(patch: Patch) -> None:
    again = Stream.again

    def merged(stream: Stream) -> bool:
        done = again(stream)
        stream.solo = False
        return done

    patch.setattr(Stream, "again", merged)


MUTANTS: dict[str, Callable[[Patch], None]] = {
    "R1: overlapping pieces accepted": r1_overlap,
    "R1: gaps accepted": r1_gaps,
    "V1: unlike ranges merged, and nothing goes solo": v1_unlike,
    "A1: sent before the cut is durable": a1_not_durable,
    "A2: no SYNC after silence": a2_no_silence,
    "A4: old pieces carry the newest watermark": a4_mark_of_the_frontier,
    "A7: the horizon is ignored": a7_no_horizon,
    "C1: panes change hands at E": c1_by_pane,
}
RARE: dict[str, Callable[[Patch], None]] = {
    "R2: acknowledged before the commit": r2_ack_before_commit,
    "G4: the history number is ignored": g4_history_ignored,
}
EXACT: dict[str, Callable[[Patch], None]] = {"NACK ignored": nack_ignored, "nothing goes solo": no_solo}

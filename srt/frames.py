"""Whole frames: cut into chunks, put together again, and joined by the rule that keeps them exact (V1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from srt.content import chunked
from srt.frame_messages import Frame, PaneLines, PaneRun, Span, StreamId, frame_problem


class WholeFrame(NamedTuple):
    """All chunks of a frame."""

    number: int
    solo: bool
    spans: tuple[Span, ...]
    panes: tuple[PaneLines, ...]
    runs: tuple[PaneRun, ...]
    history: int = 0

    @property
    def run_bytes(self) -> int:
        return sum(len(run.run) for run in self.runs)


def chunks_of(frame: WholeFrame) -> list[Frame]:
    """The messages of a frame."""
    parts = list(chunked(frame.runs))
    return [
        Frame(
            frame.number,
            index,
            index == len(parts) - 1,
            frame.solo,
            frame.spans if not index else (),
            frame.panes if not index else (),
            part,
            frame.history,
        )
        for index, part in enumerate(parts)
    ]


class Assembly:
    """The chunks of one sender's frame, until the last is there. It holds one frame: a new one replaces what was begun."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._chunks: list[Frame] = []
        self.run_bytes = 0
        self.dropped = 0
        """Frames that stayed incomplete or were not sound."""

    def take(self, chunk: Frame) -> WholeFrame | None:
        """The frame that this chunk completes."""
        if chunk.chunk == 0:
            self._clear(bool(self._chunks))
        elif not self._chunks or (chunk.number, chunk.chunk) != (self._chunks[0].number, len(self._chunks)):
            self._clear(bool(self._chunks))
            return None
        self.run_bytes += sum(len(run.run) for run in chunk.runs)
        if frame_problem(chunk) is not None or self.run_bytes > self._bytes_max:
            self._clear(True)
            return None
        self._chunks.append(chunk)
        if not chunk.last:
            return None
        first = self._chunks[0]
        runs = tuple(run for part in self._chunks for run in part.runs)
        self._clear(False)
        return WholeFrame(first.number, first.solo, first.spans, first.panes, runs, first.history)

    def _clear(self, dropped: bool) -> None:
        self.dropped += dropped
        self._chunks = []
        self.run_bytes = 0


def joined(one: Mapping[StreamId, Span], others: Iterable[Span]) -> dict[StreamId, Span] | None:
    """The spans of two frames as one, or None when a stream in both does not continue (V1). O(spans of `others`)."""
    made: dict[StreamId, Span] = {}
    for span in others:
        known = one.get(span.stream)
        found = span if known is None else join(known, span)
        if found is None:
            return None
        made[span.stream] = found
    return made


def join(one: Span, other: Span) -> Span | None:
    """Two ranges of a stream as one: where one ends the other must start."""
    if one.end == other.start:
        start, end = one.start, other.end
    elif other.end == one.start:
        start, end = other.start, one.end
    else:
        return None
    marks = [mark for mark in (one.watermark_us, other.watermark_us) if mark is not None]
    return Span(one.stream, start, end, max(marks, default=None), one.counters + other.counters)

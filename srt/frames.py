"""Whole frames: cut into parts, put together again, and joined by the rule that keeps them exact (V1)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from srt.automaton import Ref
from srt.frame_messages import (
    PART_BYTES,
    PARTS_MAX,
    Frame,
    FrameBody,
    PaneLines,
    PaneRun,
    Span,
    StreamId,
    body_problem,
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(FrameBody)


class WholeFrame(NamedTuple):
    """All parts of a frame."""

    number: int
    solo: bool
    spans: tuple[Span, ...]
    panes: tuple[PaneLines, ...]
    runs: tuple[PaneRun, ...]
    history: int = 0

    @property
    def run_bytes(self) -> int:
        return sum(len(run.run) for run in self.runs)

    def parts(self) -> list[bytes]:
        """The bytes of a `FrameBody`, cut. O(bytes)."""
        data = _encoder.encode(FrameBody(self.spans, self.panes, self.runs, self.history))
        if len(data) <= PART_BYTES:
            return [data]
        return [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]


def messages_of(frame: WholeFrame) -> list[Frame]:
    """A frame as it travels."""
    parts = frame.parts()
    last = len(parts) - 1
    return [Frame(frame.number, index, index == last, frame.solo, data) for index, data in enumerate(parts)]


class Assemblies:
    """The frames that senders have begun: one each, as a new one replaces what was begun. Bounded in bytes and senders."""

    def __init__(self, frame_bytes_max: int, bytes_max: int, senders_max: int) -> None:
        """`frame_bytes_max`: of one frame, `bytes_max`: of all together."""
        self._frame_bytes_max = min(frame_bytes_max, PARTS_MAX * PART_BYTES)
        self._bytes_max, self._senders_max = bytes_max, senders_max
        self._begun: OrderedDict[Ref, list[Frame]] = OrderedDict()
        self.held_bytes = 0
        self.dropped = 0
        """Frames that stayed incomplete, were too large or not sound."""

    def take(self, sender: Ref, part: Frame) -> WholeFrame | None:
        """The frame that this part completes. When its last part has come and there is none, it never will be."""
        begun = self._begun.pop(sender, [])
        size = sum(len(one.data) for one in begun)
        self.held_bytes -= size
        follows = begun and (part.number, part.part) == (begun[0].number, len(begun))
        if begun and not follows:
            self.dropped += 1
            begun, size = [], 0
        if part.part and not follows:
            return None
        if size + len(part.data) > self._frame_bytes_max:
            self.dropped += 1
            return None
        begun.append(part)
        if part.last:
            return self._whole(begun)
        self._begun[sender] = begun
        self.held_bytes += size + len(part.data)
        while self.held_bytes > self._bytes_max or len(self._begun) > self._senders_max:
            _, oldest = self._begun.popitem(last=False)
            self.held_bytes -= sum(len(one.data) for one in oldest)
            self.dropped += 1
        return None

    def _whole(self, parts: list[Frame]) -> WholeFrame | None:
        try:
            body = _decoder.decode(
                parts[0].data if len(parts) == 1 else b"".join(part.data for part in parts)
            )
        except (msgspec.DecodeError, RecursionError):
            body = None
        if body is None or body_problem(body) is not None:
            self.dropped += 1
            return None
        first = parts[0]
        return WholeFrame(first.number, first.solo, body.spans, body.panes, body.runs, body.history)

    def clear(self) -> None:
        self._begun.clear()
        self.held_bytes = 0


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

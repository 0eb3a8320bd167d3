"""What tasks of a backfill hand on: packed groups, rows, and what they counted. Bytes, for the shuffle and the work folder.

A record is one byte that says what it is, and msgpack. Failures are records as well, so that they reach the driver as what
they are, not as the text of a traceback.
"""

from __future__ import annotations

from typing import Any

import msgspec

from master.spark.split_scan import SplitScan
from srt.frame_messages import PaneRun


class PlainRows(msgspec.Struct, frozen=True, array_like=True):
    """Lines that an executor without kernels has scanned: the values of the plan's fields, a list each."""

    columns: tuple[list[Any], ...]
    rows: int


class WindowRows(msgspec.Struct, frozen=True, array_like=True):
    """Rows of one part that may be in the result of a window."""

    start_us: int | None
    run: bytes


class PartCounts(msgspec.Struct, array_like=True):
    """What a part of a stage found beside its rows."""

    groups: int = 0
    eval_errors: int = 0
    overflow: int = 0
    peak_tree_memory: int = 0
    spilled_bytes: int = 0


class SplitReject(msgspec.Struct, frozen=True, array_like=True):
    """A line of a split that was no record; `line` is counted from 1 in the split."""

    line: int
    offset: int
    reason: str
    position: int
    text: bytes
    size_bytes: int


class SplitCounts(msgspec.Struct, frozen=True, array_like=True):
    """What was read of one split: lines == parsed + directives + rejected."""

    number: int
    path: str
    lines: int
    parsed: int
    directives: int
    rejected: dict[str, int]
    bytes: int
    has_garbage: bool
    samples: tuple[SplitReject, ...]


class PaneCounts(msgspec.Struct, frozen=True, array_like=True):
    """What came of one task before a shuffle: packed bytes and rows by pane."""

    bytes: dict[int, int]
    rows: dict[int, int]
    eval_errors: int
    peak_tree_memory: int
    spilled_bytes: int
    is_plain: bool = False
    """The lines were scanned without kernels; what is in them comes as PlainRows."""


class Failed(msgspec.Struct, frozen=True, array_like=True):
    """A task could not do its work; `kind` is the name of the error."""

    kind: str
    message: str
    path: str = ""


Record = PaneRun | PlainRows | WindowRows | PartCounts | SplitCounts | PaneCounts | Failed
_KINDS: tuple[type[Any], ...] = (PaneRun, PlainRows, WindowRows, PartCounts, SplitCounts, PaneCounts, Failed)
_NUMBERS = {kind: bytes([number]) for number, kind in enumerate(_KINDS)}
_DECODERS = [msgspec.msgpack.Decoder(kind) for kind in _KINDS]
_encoder = msgspec.msgpack.Encoder()


def encode(record: Record) -> bytes:
    """The bytes of a record."""
    return _NUMBERS[type(record)] + _encoder.encode(record)


def decode(data: bytes) -> Record:
    """The record that `encode` made the bytes of. Raises ValueError for others."""
    if not data or data[0] >= len(_KINDS):
        raise ValueError("no record of a backfill")
    record: Record = _DECODERS[data[0]].decode(memoryview(data)[1:])
    return record


def split_counts(number: int, scan: SplitScan) -> SplitCounts:
    """What was read of split `number`."""
    counts = scan.counts
    samples = tuple(
        SplitReject(line, sample.offset, sample.reason, sample.position, sample.text, size)
        for sample, (line, size) in zip(scan.samples, scan.places, strict=True)
    )
    return SplitCounts(
        number, scan.split.path, counts.lines, counts.parsed, counts.directives, dict(counts.rejected),
        scan.bytes, scan.garbage, samples,
    )  # fmt: skip

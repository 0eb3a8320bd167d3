"""What became of lines: how many were records, and which were none, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cython_ext.scan import Batch

SAMPLES_MAX = 8
SAMPLE_BYTES_MAX = 512


class RejectSample(NamedTuple):
    """A line that was no record: why, at which byte of it (from 0), and its beginning."""

    path: str
    offset: int
    """Of the line, in the log."""
    reason: str
    position: int
    text: bytes


@dataclass
class LineCounts:
    """What became of lines: lines == parsed + sum(rejected.values()) + directives."""

    lines: int = 0
    parsed: int = 0
    directives: int = 0
    rejected: Counter[str] = field(default_factory=Counter)

    def add(self, batch: Batch) -> None:
        self.lines += batch.lines
        self.parsed += batch.rows
        self.directives += batch.directives
        self.rejected.update(batch.rejected)

    def merge(self, other: LineCounts) -> None:
        self.lines += other.lines
        self.parsed += other.parsed
        self.directives += other.directives
        self.rejected.update(other.rejected)

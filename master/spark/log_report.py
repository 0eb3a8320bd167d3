"""What a scan by Spark read: lines and rejects of each split, sent to the driver by an accumulator.

A task that is run twice counts once, since what it says is kept by split. Knows PySpark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.accumulators import AccumulatorParam

from agent.line_counts import LineCounts, RejectSample

SCANS_MAX = 64
"""Scans that are remembered: the latest."""
SAMPLES_MAX = 8


class SplitReport(NamedTuple):
    """What one split, read to its end, had. `planned`: of how many splits its scan is made."""

    planned: int
    lines: int
    parsed: int
    directives: int
    rejected: dict[str, int]
    samples: tuple[RejectSample, ...]
    is_plain: bool
    """Read by plain Python, for want of compiled kernels."""
    garbage: str = ""
    """The path, where bytes behind the compressed data were ignored."""


Reports = dict[str, dict[int, SplitReport]]
"""By scan (names sort by when they were planned) and number of split."""


class ReportParam(AccumulatorParam[Reports]):
    """Merges what tasks say."""

    def zero(self, value: Reports) -> Reports:
        return {}

    def addInPlace(self, value1: Reports, value2: Reports) -> Reports:  # noqa: N802 - Spark's name
        for scan, splits in value2.items():
            value1.setdefault(scan, {}).update(splits)
        for scan in sorted(value1)[:-SCANS_MAX]:
            del value1[scan]
        return value1


@dataclass(frozen=True)
class ScanReport:
    """What one scan read. lines == parsed + sum(rejected.values()) + directives."""

    counts: LineCounts
    samples: tuple[RejectSample, ...]
    """Some rejects, of the first splits that had any."""
    splits: int
    planned: int
    plain_splits: int
    """Splits that were read without compiled kernels, which is slow."""
    garbage: tuple[str, ...]
    """Compressed files with bytes behind the end of their data, which were ignored."""

    @property
    def complete(self) -> bool:
        """Whether every split was read to its end; a query with LIMIT stops before."""
        return self.splits == self.planned


def report_of(splits: Mapping[int, SplitReport]) -> ScanReport:
    """What the splits of one scan, at least one, say together."""
    counts = LineCounts()
    samples: list[RejectSample] = []
    for _, one in sorted(splits.items()):
        counts.merge(LineCounts(one.lines, one.parsed, one.directives, Counter(one.rejected)))
        samples += one.samples
    return ScanReport(
        counts,
        tuple(samples[:SAMPLES_MAX]),
        len(splits),
        next(iter(splits.values())).planned,
        sum(one.is_plain for one in splits.values()),
        tuple(sorted(one.garbage for one in splits.values() if one.garbage)),
    )


class LogReads:
    """What the scans of a session read, since the log source was registered with it."""

    def __init__(self, session: Any) -> None:
        self.accumulator = session.sparkContext.accumulator({}, ReportParam())

    @property
    def scans(self) -> list[ScanReport]:
        """The scans of which a split was read to its end, in the order they were planned; the latest SCANS_MAX."""
        found: Reports = self.accumulator.value
        return [report_of(found[scan]) for scan in sorted(found)]

    @property
    def last(self) -> ScanReport | None:
        """The latest of them."""
        return self.scans[-1] if self.scans else None

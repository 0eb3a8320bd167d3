"""What the tasks of a backfill counted: what was read, where the rejects stand, how many rows each window has. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from job.plan import Window
from master.spark.records import PaneCounts, PartCounts, SplitCounts, SplitReject

SAMPLES_MAX = 8


class Reject(NamedTuple):
    """A line that was no record, and where it stands in its file, from 1."""

    path: str
    line: int
    found: SplitReject


@dataclass
class Report:
    """What was read, as one query over the same files tells it."""

    lines: int = 0
    parsed: int = 0
    directives: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    eval_errors: int = 0
    overflow: int = 0
    groups: int = 0
    peak_tree_memory: int = 0
    spilled_bytes: int = 0
    plain_tasks: int = 0
    """Tasks on executors without kernels: their lines were scanned by plain Python, and all that follows was done here."""
    trailing_garbage: list[str] = field(default_factory=list)
    samples: list[Reject] = field(default_factory=list)


class BackfillCounts:
    """Takes in what came back; `report` is whole when all of it has."""

    def __init__(self, window: Window | None) -> None:
        """`window` is that of the plan over the log."""
        self.report = Report()
        self._window = window
        self._rows: Counter[int] = Counter()
        self._panes: list[int] = []
        self._rows_before = [0]

    def stage(self, found: Iterable[Any], stage: int) -> dict[int, int]:
        """What the tasks of a stage told; the packed bytes of its panes. A stage tells what the merge before it made."""
        sizes: Counter[int] = Counter()
        splits: list[SplitCounts] = []
        for one in found:
            if isinstance(one, PaneCounts):
                sizes.update(one.bytes)
                self.report.eval_errors += one.eval_errors
                self._memory(one)
                if stage == 0:
                    self._rows.update(one.rows)
                self.report.plain_tasks += one.is_plain
            elif isinstance(one, SplitCounts):
                splits.append(one)
            elif isinstance(one, PartCounts):
                self.part(one, stage - 1)
        if stage == 0:
            self._panes = sorted(self._rows)
            self._rows_before = [0, *accumulate(self._rows[pane] for pane in self._panes)]
            self._read(sorted(splits, key=lambda split: split.number))
        return dict(sizes)

    def part(self, counts: PartCounts, stage: int) -> None:
        """What a merge of that stage told."""
        self.report.eval_errors += counts.eval_errors
        self.report.overflow += counts.overflow
        self.report.groups += counts.groups if stage == 0 else 0
        self._memory(counts)

    def rows(self, start_us: int | None) -> int:
        """Of the log, in the window that starts there; of a plan without windows all."""
        if start_us is None or self._window is None:
            return self._rows_before[-1]
        edges = (start_us, start_us + self._window.size_us)
        first, end = (bisect_left(self._panes, edge) for edge in edges)
        return self._rows_before[end] - self._rows_before[first]

    def _read(self, splits: Sequence[SplitCounts]) -> None:
        """What was read of the log, and where the rejects stand: lines of a split are counted behind those before it."""
        report = self.report
        before: Counter[str] = Counter()
        for split in splits:
            report.lines += split.lines
            report.parsed += split.parsed
            report.directives += split.directives
            report.rejected.update(split.rejected)
            report.bytes += split.bytes
            if split.has_garbage:
                report.trailing_garbage.append(split.path)
            for sample in split.samples[: SAMPLES_MAX - len(report.samples)]:
                report.samples.append(Reject(split.path, before[split.path] + sample.line, sample))
            before[split.path] += split.lines

    def _memory(self, counts: PartCounts | PaneCounts) -> None:
        self.report.peak_tree_memory = max(self.report.peak_tree_memory, counts.peak_tree_memory)
        self.report.spilled_bytes += counts.spilled_bytes

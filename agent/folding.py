"""Lines of a source into the trees of streams: one scan for all of them, and what is handed out of each.

Pure: blocks in, portions out. Not thread-safe.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from agent.line_counts import SAMPLE_BYTES_MAX, SAMPLES_MAX, RejectSample
from agent.pipeline import FUTURE, TIME, in_time
from agent.sources import Source
from agent.stream_events import FoldSpec, Portion, StreamKey
from cbt.distinct import by_partition
from cbt.errors import MemoryCapError, SpillError
from cbt.memory import Memory
from cbt.node import HASH_END
from cython_ext.column import Column
from cython_ext.scan import Batch
from job.formats import SourceScanner
from job.panes import PaneState
from job.row_phase import RowPhase
from job.times import later
from srt.frame_messages import Counters, PaneLines, PaneRun

NO_ROOM = (MemoryCapError, SpillError)
TOO_LONG = "too_long"


class Stretch(NamedTuple):
    """`data[start:stop]`: whole lines of a log, from its byte `offset` on; the last line of a log may lack its LF. `long`:
    the beginning of a line beyond the limit, and nothing else: one line that is rejected."""

    path: str
    offset: int
    data: bytes
    start: int
    stop: int
    long: bool = False


class Scanned(NamedTuple):
    """What one scan found, for as many folds as want it."""

    columns: dict[str, Column]
    rows: int
    rejected: int


class StreamFold:
    """The trees of one stream, and what became of the lines since they were fresh."""

    def __init__(self, spec: FoldSpec, memory: Memory) -> None:
        self.plan = spec.plan
        self._memory = memory
        self._phase: RowPhase | None = None
        """Made with the first line: at most emits there is none."""
        self._kept_us, self._over_us = (spec.first_pane_us, spec.end_pane_us), spec.over_us
        self._closed_us = spec.closed_us
        self._lines = self._rejected = self._lost_bytes = 0

    def bound(self, spec: FoldSpec) -> None:
        """What is kept from now on; panes that are not any more are dropped, their lines counted. O(panes)."""
        self._kept_us, self._closed_us = (spec.first_pane_us, spec.end_pane_us), spec.closed_us
        self._over_us = spec.over_us
        phase = self._phase
        if phase is None:
            return
        phase.kept_us, phase.over_us = self._kept_us, self._over_us
        for start in list(phase.pane_rows):
            if not spec.first_pane_us <= start < spec.end_pane_us:
                phase.leave_out(start, phase.pane_rows.pop(start))
            elif start < spec.closed_us:
                phase.late += phase.pane_rows.pop(start)
            else:
                continue
            phase.store.panes.pop(start, None)
        phase.store.close_before(spec.closed_us)

    def add(self, scanned: Scanned) -> None:
        """Raises one of NO_ROOM; then this fold is of no use any more."""
        self._lines += scanned.rows + scanned.rejected
        self._rejected += scanned.rejected
        if scanned.rows:
            if self._phase is None:
                self._phase = RowPhase(self.plan, self._memory)
                self._phase.kept_us, self._phase.over_us = self._kept_us, self._over_us
                self._phase.store.close_before(self._closed_us)
            self._phase.process(scanned.columns, scanned.rows)

    def lose(self, size: int) -> None:
        """Bytes of its lines were gone before they were read."""
        self._lost_bytes += size

    def portion(self, spec: FoldSpec) -> Portion:
        """Everything since the trees were fresh, within what `spec` keeps. Raises one of NO_ROOM. O(groups)."""
        self.bound(spec)
        phase, feed = self._phase, spec.key[1].revision
        if phase is None:
            return Portion((), (), Counters(self._lines, 0, 0, 0, self._rejected, 0, self._lost_bytes))
        parts = divided(feed, phase.store.panes, spec.partitions)
        panes = tuple(PaneLines(feed, start, rows) for start, rows in sorted(phase.pane_rows.items()))
        counters = Counters(
            self._lines,
            sum(phase.pane_rows.values()),
            phase.filtered,
            phase.outside,
            self._rejected,
            phase.late,
            self._lost_bytes,
        )
        return Portion(panes, parts, counters)


def divided(feed: int, panes: Mapping[int, PaneState], partitions: int) -> tuple[tuple[PaneRun, ...], ...]:
    """The groups of each partition with their pairs, as runs. Raises one of NO_ROOM. O(groups)."""
    parts: list[list[PaneRun]] = [[] for _ in range(partitions)]
    for start, state in panes.items():
        for part, runs in zip(parts, state.groups.runs_by(hash_ends(partitions)), strict=True):
            part += [PaneRun(feed, start, 0, run) for run in runs]
        for number, pairs in enumerate(state.pairs, 1):
            key_count = len(state.groups.key_kinds)
            trees = [pairs] if partitions == 1 else by_partition(pairs, key_count, partitions)
            for part, tree in zip(parts, trees, strict=True):
                part += [PaneRun(feed, start, number, run) for run in tree.runs()]
    return tuple(map(tuple, parts))


def hash_ends(partitions: int) -> list[int]:
    """Where the hashes of each partition end: those of partition p are from p / P of all on, below (p + 1) / P."""
    return [-(-HASH_END * (partition + 1) // partitions) for partition in range(partitions)]


class SourceScan:
    """The scan of one source for some streams. Scanners are kept per log where logs say which columns they have."""

    def __init__(self, source: Source, plans: Iterable[FoldSpec]) -> None:
        """Raises FormatError for a field that the format does not have."""
        self.source = source
        names = [field.name for spec in plans for field in spec.plan.fields]
        self.wanted = tuple(dict.fromkeys([*names, *([TIME] if source.timed else [])]))
        self.rejected: Counter[str] = Counter()
        self.lines = 0
        self.samples: deque[RejectSample] = deque(maxlen=SAMPLES_MAX)

    def keep_counts_of(self, other: SourceScan) -> None:
        """Goes on counting where `other` stopped."""
        self.rejected, self.lines, self.samples = other.rejected, other.lines, other.samples

    def scanner(self, directive: bytes = b"") -> SourceScanner:
        """One for a log, or a part of it, in front of which that directive holds."""
        scanner = SourceScanner(self.source.format, self.wanted, SAMPLES_MAX)
        if directive:
            scanner.feed(directive)
        return scanner

    def scan(
        self, scanner: SourceScanner, stretch: Stretch, future_us: int | None
    ) -> tuple[list[Scanned], int | None, list[tuple[int, bytes]]]:
        """What is in it, the latest time in it, and the directives it ends up with: (offset behind it, line)."""
        if stretch.long:
            self._reject(stretch, TOO_LONG)
            return [Scanned({}, 0, 1)], None, []
        found, latest_us, directives = [], None, []
        for batch in scanner.feed(stretch.data, stretch.start, stretch.stop):
            columns, rows = dict(zip(self.wanted, batch.columns, strict=True)), batch.rows
            if self.source.timed:
                columns, rows, newest = in_time(columns, rows, future_us)
                latest_us = later(latest_us, newest)
            rejected = self._count(stretch, batch, batch.rows - rows)
            found.append(Scanned(columns, rows, rejected))
            if batch.directive is not None:
                directives.append((stretch.offset + batch.consumed - stretch.start, batch.directive + b"\n"))
        return found, latest_us, directives

    def _count(self, stretch: Stretch, batch: Batch, future: int) -> int:
        rejected = sum(batch.rejected.values()) + future
        self.lines += batch.lines - batch.directives
        if rejected:
            self.rejected.update(batch.rejected)
            if future:
                self.rejected[FUTURE] += future
            for one in batch.samples:
                text = stretch.data[one.offset : one.offset + min(one.size, SAMPLE_BYTES_MAX)]
                offset = stretch.offset + one.offset - stretch.start
                self.samples.append(RejectSample(stretch.path, offset, one.reason, one.position, text))
        return rejected

    def _reject(self, stretch: Stretch, reason: str) -> None:
        self.lines += 1
        self.rejected[reason] += 1
        text = stretch.data[stretch.start : stretch.start + SAMPLE_BYTES_MAX]
        self.samples.append(RejectSample(stretch.path, stretch.offset, reason, 0, text))


def fold(scanned: Sequence[Scanned], folds: Mapping[StreamKey, StreamFold]) -> set[StreamKey]:
    """Adds what was scanned to all; which of them found no room for it and are of no use any more."""
    full: set[StreamKey] = set()
    for one in scanned:
        for key, trees in folds.items():
            if key not in full:
                try:
                    trees.add(one)
                except NO_ROOM:
                    full.add(key)
    return full

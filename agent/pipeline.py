"""One source through the scan into the plans that want it: one scan feeds all jobs.

Pure: blocks in, state in the row phases. Not thread-safe; each thread has a pipeline of its own, merged at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.line_counts import LineCounts
from cython_ext.column import Column
from cython_ext.exprs_time import latest, not_after
from cython_ext.scan import Batch
from job.formats import Format, SourceScanner
from job.row_phase import RowPhase

TIME = "time"
"""The field that live jobs tell time by."""
FUTURE = "future"
"""The reject of a line whose time lies too far ahead of the clock."""


class SourcePipeline:
    """Feeds the lines of one source to several row phases.

    With `timed`, it also notes the latest time it saw, and lines may be refused for lying in the future.
    """

    def __init__(
        self, format: Format, phases: Sequence[RowPhase], samples_max: int = 8, timed: bool = False
    ) -> None:
        self.counts = LineCounts()
        self.latest_us: int | None = None
        """The greatest time of a line fed so far; only with `timed`."""
        self._format, self._phases, self._samples_max = format, phases, samples_max
        names = [column.name for phase in phases for column in phase.plan.fields]
        self._timed = timed
        self._wanted = list(dict.fromkeys([*names, TIME] if timed else names))
        self.next_file()

    def next_file(self) -> None:
        """Forgets what the last file's own directives said about its columns."""
        self._scanner = SourceScanner(self._format, self._wanted, self._samples_max)

    def feed(self, data: bytes, start: int, stop: int, future_us: int | None = None) -> list[Batch]:
        """Scans the whole lines `data[start:stop]` and adds them to every row phase. Returns what was scanned, for
        those who look at counts and rejects. Lines later than `future_us` are rejected as `future`."""
        batches = self._scanner.feed(data, start, stop)
        for batch in batches:
            self.counts.add(batch)
            columns, rows = dict(zip(self._wanted, batch.columns, strict=True)), batch.rows
            if self._timed:
                columns, kept, newest = in_time(columns, rows, future_us)
                if kept < rows:
                    self.counts.rejected[FUTURE] += rows - kept
                    self.counts.parsed -= rows - kept
                rows = kept
                if newest is not None and (self.latest_us is None or newest > self.latest_us):
                    self.latest_us = newest
            for phase in self._phases:
                phase.process(columns, rows)
        return batches


def in_time(
    columns: dict[str, Column], rows: int, future_us: int | None
) -> tuple[dict[str, Column], int, int | None]:
    """The rows that are not later than `future_us`, how many these are, and the latest time among them. Rows without a time
    stay. `columns` has TIME."""
    newest = latest(columns[TIME]) if rows else None
    if newest is not None and future_us is not None and newest > future_us:
        chosen = not_after(columns[TIME], future_us).selection()
        columns, rows = {name: column.take(chosen) for name, column in columns.items()}, len(chosen)
        newest = latest(columns[TIME]) if rows else None
    return columns, rows, newest

"""The logs behind a live query: a pipeline for each, all into the same row phases, and how far they have come. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from agent.line_counts import LineCounts
from agent.pipeline import SourcePipeline
from cython_ext.scan import Batch
from job.formats import Format
from job.row_phase import RowPhase
from job.watermark import FUTURE_US, SourceWatermark, Timing

QUIET_US = 3600 * 1_000_000
"""A log without lines for so long is let go of (it holds no window open since `idle`): rotated logs never end by name, and
there would be more of them every day. Should it go on, it starts anew."""


class LiveLogs:
    """Not thread-safe. `clock_us` is microseconds since 1970-01-01 UTC and must not go back."""

    def __init__(self, format: Format, phases: Sequence[RowPhase], timing: Timing, timed: bool) -> None:
        self.format = format
        self._phases, self._timed = phases, timed
        self._mark = SourceWatermark(timing)
        self._logs: dict[Hashable, tuple[SourcePipeline, int]] = {}
        """Pipelines with the time of their last lines; the longest quiet first."""
        self._ended = LineCounts()

    def __len__(self) -> int:
        return len(self._logs)

    def feed(self, log: Hashable, data: bytes, start: int, stop: int, clock_us: int) -> list[Batch]:
        """Adds the whole lines `data[start:stop]` of a log to every row phase."""
        known = self._logs.pop(log, None)
        pipeline = SourcePipeline(self.format, self._phases, timed=self._timed) if known is None else known[0]
        self._logs[log] = pipeline, clock_us
        batches = pipeline.feed(data, start, stop, clock_us + FUTURE_US)
        if pipeline.latest_us is not None:
            self._mark.lines(log, pipeline.latest_us, clock_us)
        return batches

    def ended(self, log: Hashable) -> None:
        """No more lines of `log` will come."""
        known = self._logs.pop(log, None)
        if known is not None:
            self._ended.merge(known[0].counts)
        self._mark.closed(log)

    def watermark_us(self, clock_us: int) -> int | None:
        """How far event time has come by now; None: no line has come. O(logs); lets go of quiet ones."""
        if not self.format.directives:  # what their logs say about columns, they say once
            while self._logs:
                log, (_, heard_us) = next(iter(self._logs.items()))
                if clock_us - heard_us < QUIET_US:
                    break
                self.ended(log)
        return self._mark.value_us(clock_us, clock_us)

    @property
    def counts(self) -> LineCounts:
        """What became of all lines so far. O(logs)."""
        total = LineCounts()
        for counts in [self._ended, *(pipeline.counts for pipeline, _ in self._logs.values())]:
            total.merge(counts)
        return total

"""A query over logs that grow: lines in, windows out. Pure; time comes in, so tests own the clock.

`elfstream query --follow` drives it with the files of this machine and the real clock, `elfstream.testing` with lines and a
manual one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from agent.line_counts import LineCounts
from cbt.memory import Memory
from cython_ext.scan import Batch
from elfstream.live_logs import LiveLogs
from job.formats import Format
from job.plan import Plan
from job.row_phase import RowPhase
from job.watermark import Timing
from master.live import LiveWindows, Publication
from master.stages import innermost

SAMPLE_BYTES_MAX = 512


class FirstReject(NamedTuple):
    """The first line that was no record: why, at which byte of it (from 0), and its beginning."""

    reason: str
    position: int
    text: bytes


class LiveQuery:
    """One plan over one source. Not thread-safe. `clock_us` is microseconds since 1970-01-01 UTC and must not go back."""

    def __init__(
        self, plan: Plan, format: Format, timing: Timing | None = None, memory: Memory | None = None
    ) -> None:
        timing = timing or Timing()
        self.plan = plan
        self.format = format
        self.bytes = 0
        """Uncompressed bytes of the lines so far."""
        self.gap_bytes = 0
        """Bytes that were gone before they could be read."""
        self.first_reject: FirstReject | None = None
        self._phase = RowPhase(innermost(plan), memory)
        self._windows = LiveWindows(plan, timing.lateness_us, memory)
        timed = innermost(plan).window is not None
        self._logs = LiveLogs(format, [self._phase], timing, timed)

    def lines(self, file: Hashable, data: bytes, start: int, stop: int, clock_us: int) -> None:
        """Adds the whole lines `data[start:stop]` of the log `file`."""
        self.bytes += stop - start
        batches = self._logs.feed(file, data, start, stop, clock_us)
        if self.first_reject is None:
            self.first_reject = _first_reject(batches, data)

    def ended(self, file: Hashable) -> None:
        """No more lines of `file` will come."""
        self._logs.ended(file)

    def gap(self, bytes_lost: int) -> None:
        """Bytes of a log were gone before they could be read; below 0: they were found after all."""
        self.gap_bytes += bytes_lost

    def advance(self, clock_us: int) -> Iterator[Publication]:
        """The windows that became final by now, and further editions of final ones."""
        watermark = self._logs.watermark_us(clock_us)
        if watermark is not None:
            yield from self._windows.advance(self._phase.store, watermark)

    def open_windows(self) -> Iterator[Publication]:
        """The windows that are not final yet, as they stand, oldest first."""
        yield from self._windows.open_windows(self._phase.store)

    def current(self) -> Publication | None:
        """The window to look at now, as it stands: the fullest of those that hold the newest lines."""
        return self._windows.current(self._phase.store)

    def drain(self) -> Iterator[Publication]:
        """Everything that is not final yet, as final: the logs have ended."""
        yield from self._windows.drain(self._phase.store)

    @property
    def watermark_us(self) -> int | None:
        """Event time up to which windows are closed, as of the last `advance`."""
        return self._windows.watermark_us

    @property
    def counts(self) -> LineCounts:
        """What became of all lines so far."""
        return self._logs.counts

    @property
    def late(self) -> int:
        """Lines that came when their windows were closed, and were dropped."""
        return self._phase.late

    @property
    def overflow(self) -> int:
        """Aggregates that left their type and became NULL, each time a window was finished."""
        return self._windows.stages.overflow

    @property
    def eval_errors(self) -> int:
        return self._phase.eval_errors + self._windows.stages.eval_errors


def _first_reject(batches: Sequence[Batch], data: bytes) -> FirstReject | None:
    for batch in batches:
        for reject in batch.samples:
            text = data[reject.offset : reject.offset + min(reject.size, SAMPLE_BYTES_MAX)]
            return FirstReject(reject.reason, reject.position, text)
    return None

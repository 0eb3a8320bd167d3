"""How far a source has come in event time: watermarks of files and sources.

A watermark says: lines with an earlier time that come from now on are late. All times are microseconds; `now_us` is a
monotonic clock that measures how long nothing came, `clock_us` the root's wall clock. Pure: both come in as arguments.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from job.errors import JobError

SECOND_US = 1_000_000
AHEAD_MAX_US = 5 * SECOND_US
"""A line from the future moves the watermark at most so far beyond the root's clock."""
FUTURE_US = 3600 * SECOND_US
"""Lines so far beyond the root's clock are rejected as `future`."""


@dataclass(frozen=True)
class Timing:
    """The time settings of a job. `delay_us`: how much lines of one file may be out of order without being late; `idle_us`:
    a file without lines for so long holds nobody back; `lateness_us`: for so long after a window closed late lines make
    a revision of it. Raises JobError."""

    delay_us: int = 2 * SECOND_US
    idle_us: int = 5 * SECOND_US
    lateness_us: int = 60 * SECOND_US

    def __post_init__(self) -> None:
        wrong = [name for name in ("delay_us", "idle_us", "lateness_us") if getattr(self, name) < 0]
        if wrong:
            raise JobError(f"{', '.join(name.removesuffix('_us') for name in wrong)} must not be negative")


class _FileTime:
    __slots__ = ("heard_us", "largest_us")

    def __init__(self, largest_us: int, heard_us: int) -> None:
        self.largest_us, self.heard_us = largest_us, heard_us


class SourceWatermark:
    """The watermark of one source: the least of its files that are not idle. It never goes back.

    Once all files are idle it goes on from the greatest of them by the time that passes, so that the last window
    closes, and never jumps to the wall clock: replayed old logs behave as live ones.
    """

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._files: dict[Hashable, _FileTime] = {}
        self._last: _FileTime | None = None
        self._announced_us: int | None = None
        self._value_us: int | None = None

    def lines(self, file: Hashable, largest_us: int, now_us: int) -> None:
        """Lines of `file` were read, the latest of time `largest_us`. O(1)."""
        known = self._files.get(file)
        if known is None:
            self._files[file] = _FileTime(largest_us, now_us)
        else:
            known.largest_us, known.heard_us = max(known.largest_us, largest_us), now_us
        if self._last is None:
            self._last = _FileTime(largest_us, now_us)
        else:
            self._last.largest_us, self._last.heard_us = max(self._last.largest_us, largest_us), now_us

    def closed(self, file: Hashable) -> None:
        """`file` is finished and holds nobody back any more."""
        self._files.pop(file, None)

    def announced(self, watermark_us: int) -> None:
        """The root's watermark, taken by a source that never had a line, so that it blocks nobody."""
        self._announced_us = max(watermark_us, watermark_us if self._announced_us is None else self._announced_us)

    def value_us(self, now_us: int, clock_us: int) -> int | None:
        """The watermark; None: nothing is known yet. O(files)."""
        found = self._announced_us if self._last is None else self._read_us(self._last, now_us, clock_us)
        if found is not None and (self._value_us is None or found > self._value_us):
            self._value_us = found
        return self._value_us

    def _read_us(self, last: _FileTime, now_us: int, clock_us: int) -> int:
        idle_us = self._timing.idle_us
        busy = [file.largest_us for file in self._files.values() if now_us - file.heard_us < idle_us]
        elapsed_us = now_us - last.heard_us
        if busy:
            reached_us = min(busy)
        elif elapsed_us >= idle_us:
            reached_us = last.largest_us + elapsed_us
        else:
            reached_us = last.largest_us  # all files are finished, and more may come at any moment
        return min(reached_us, clock_us + AHEAD_MAX_US) - self._timing.delay_us

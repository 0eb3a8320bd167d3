"""Following logs with a query: the real files and the real clock around `LiveQuery`.

One thread: it reads what is new, closes windows, tells the watcher at every emit, and sleeps until a file changes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent.follower import Follower, Found
from agent.since import first_offset
from agent.tail_events import Deliver, Gap, Recovered, Trouble
from agent.tail_options import ReadFrom, TailOptions
from cbt.memory import Memory
from elfstream.live_query import LiveQuery
from job.formats import Format, SourceScanner
from job.plan import Plan
from job.watermark import Timing
from master.live import Publication

_DISORDER_S = 60.0
"""How far lines of a log may be out of order when a start is looked for."""
_LOOK_BYTES = 64 << 10
"""What is read at a place to find out its time: many lines, so that a few odd ones do not matter."""

MISFIT_LINES_MIN = 10


@dataclass(frozen=True)
class FollowOptions:
    """`since_s`: read from lines of that age on in files that are there already (None: from where `read_from` says)."""

    emit_s: float = 0.5
    read_from: ReadFrom = "end"
    since_s: float | None = None
    timing: Timing = field(default_factory=Timing)


class Watcher(Protocol):
    """What is shown of a followed query."""

    def published(self, publications: Sequence[Publication]) -> None:
        """Windows that became final, and further editions of final ones, oldest first."""

    def emitted(self, query: LiveQuery) -> None:
        """The time of an emit: look at `query` as it stands."""

    def trouble(self, text: str) -> None:
        """Something that people should know: a file cannot be read, bytes are lost."""


def follow(
    plan: Plan,
    format: Format,
    patterns: Iterable[str],
    watcher: Watcher,
    options: FollowOptions,
    stopped: Callable[[], bool],
    memory: Memory | None = None,
) -> LiveQuery:
    """Follows the files that `patterns` name until `stopped()` is true. Returns the query, whose open windows the caller may
    still want. Raises MemoryCapError or SpillError when its groups find no room any more in `memory`."""
    query = LiveQuery(plan, format, options.timing, memory)
    since = options.since_s
    tail = TailOptions(
        read_from=options.read_from if since is None else "since",
        since_s=0.0 if since is None else time.time() - since,
    )
    finder = None if since is None else _start_finder(format, tail.since_s)
    emit_at, is_fitting = time.monotonic() + options.emit_s, True
    with Follower(patterns, tail, find_start=finder) as follower:
        while not stopped():
            for found in follower.poll():
                take(found, query, _clock_us(), watcher.trouble)
            now = time.monotonic()
            if now >= emit_at:
                watcher.published(list(query.advance(_clock_us())))
                if is_fitting and (warning := misfit(query)):
                    is_fitting = False
                    watcher.trouble(warning)
                watcher.emitted(query)
                emit_at = next_time(emit_at, options.emit_s, now)
            follower.wait(max(emit_at - time.monotonic(), 0.0))
    return query


def misfit(query: LiveQuery) -> str | None:
    """What to say when most lines do not fit the format: once there are enough of them, as logs begin with odd ones."""
    counts = query.counts
    rejected = counts.rejected.total()
    if counts.lines < MISFIT_LINES_MIN or rejected <= counts.parsed:
        return None
    text = f"{rejected:,} of {counts.lines:,} lines do not fit the format {query.format.name}"
    if (first := query.first_reject) is not None:
        text += f"; the first stops at column {first.position + 1} ({first.reason})"
    return text + ". Give the right one with --format; 'elfstream explain-format LINE' shows what a format finds in a line"


def next_time(last: float, interval: float, now: float) -> float:
    """When something that is done every `interval` and was due at `last` is due again: what was missed is left out, as two
    in a row would measure rates over no time."""
    return last + interval if last + interval > now else now + interval


def take(found: Found, query: LiveQuery, clock_us: int, trouble: Callable[[str], None]) -> None:
    """Hands what a tail found to the query, and tells people what they should know."""
    if isinstance(found, Deliver):
        query.lines(found.key, found.data, found.start, found.stop, clock_us)
    elif isinstance(found, Gap):
        lost = found.stop - found.start
        query.gap(lost)
        trouble(f"{found.path}: {lost} bytes were gone before they could be read ({found.reason})")
    elif isinstance(found, Recovered):
        query.gap(found.start - found.stop)
    elif isinstance(found, Trouble):
        trouble(f"{found.path}: {found.message}")


def _start_finder(format: Format, since_s: float) -> Callable[[int, int], int]:
    """Finds in an open file the place where lines of `since_s` (seconds since 1970) and later begin."""
    slack = since_s - _DISORDER_S
    return lambda fd, size: first_offset(size, lambda offset: _time_at(fd, offset, format), slack)


def _time_at(fd: int, offset: int, format: Format) -> float | None:
    """The time of the first record behind `offset`, in seconds since 1970."""
    data = os.pread(fd, _LOOK_BYTES, offset)
    start = 0 if offset == 0 else data.find(b"\n") + 1
    stop = data.rfind(b"\n") + 1
    for batch in SourceScanner(format, ["time"], 0).feed(data, start, max(start, stop)):
        times = (micros for micros in batch.columns[0].to_list() if micros is not None)
        if (first := next(times, None)) is not None:
            return float(first) / 1e6
    return None


def _clock_us() -> int:
    return time.time_ns() // 1000

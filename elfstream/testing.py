"""For your own tests: a live query under a clock that you move.

live = LiveTest("SELECT window(time, '10 seconds') AS w, count(*) AS n FROM access GROUP BY w", format="combined")
live.write('203.0.113.9 - - [28/Nov/2025:20:00:01 +0000] "GET / HTTP/1.1" 200 1 "-" "-"')
live.sleep(20)
live.finals()    # what `elfstream query --follow` would have published by then

`FollowTest` is the same over real files that the test writes, renames and compresses. `Fleet` is a whole fleet, for jobs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from agent.follower import Follower
from agent.tail_options import TailOptions
from elfstream.embedded import compile_plan
from elfstream.follow import take
from elfstream.live_query import LiveQuery
from elfstream.result import Row
from elfstream.simulated.fleet import Fleet
from elfstream.watchers import rows_of
from job.formats import find
from job.times import time_of
from job.watermark import Timing
from master.live import Publication
from master.window_values import Window

__all__ = ["Fleet", "FollowTest", "LiveTest", "PublishedWindow"]


class PublishedWindow(NamedTuple):
    """A window as it was published: `window` is None for a query without windows, `revision` is its edition (1, 2, ...)."""

    window: Window | None
    revision: int
    status: str
    rows: list[Row]


class LiveTest:
    """One query over logs that exist only in the test. Time stands still until `sleep`. Raises SqlError, FormatError."""

    def __init__(
        self,
        sql: str,
        format: str,
        params: Mapping[str, object] | None = None,
        timing: Timing | None = None,
        clock_us: int = 1_700_000_000_000_000,
    ) -> None:
        chosen = find(format)
        self.query = LiveQuery(compile_plan(sql, chosen, "access", params), chosen, timing)
        self.clock_us = clock_us
        self._published: list[Publication] = []

    def write(self, *lines: str | bytes, file: str = "access.log") -> None:
        """Appends whole lines to a log."""
        data = b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)
        self.query.lines(file, data, 0, len(data), self.clock_us)

    def sleep(self, seconds: float) -> None:
        """Lets time pass, with an emit at its end."""
        self.clock_us += int(seconds * 1e6)
        self._published += self.query.advance(self.clock_us)

    def drain(self) -> None:
        """Ends the logs: every window becomes final."""
        self._published += self.query.drain()

    def finals(self) -> list[PublishedWindow]:
        """What was published since the last call, oldest first."""
        taken, self._published = self._published, []
        return [_published(self.query, publication) for publication in taken]

    def current(self) -> PublishedWindow | None:
        """What a live table would show now."""
        publication = self.query.current()
        return None if publication is None else _published(self.query, publication)


class FollowTest(LiveTest):
    """One query over the files that `patterns` name, read from their beginning when `sleep` lets time pass: at least 0.25 s,
    as a tail without hints looks at files no more often. Use as a context manager or call close. What people would be told
    (lost bytes, unreadable files) is in `troubles`."""

    def __init__(
        self,
        sql: str,
        format: str,
        patterns: Iterable[str | os.PathLike[str]],
        params: Mapping[str, object] | None = None,
        timing: Timing | None = None,
        clock_us: int = 1_700_000_000_000_000,
    ) -> None:
        super().__init__(sql, format, params, timing, clock_us)
        self.troubles: list[str] = []
        options = TailOptions(read_from="beginning")
        self.follower = Follower(patterns, options, hints=False, clock=lambda: self.clock_us / 1e6)

    def sleep(self, seconds: float) -> None:
        """Lets time pass, with a look at the files and an emit at its end."""
        self.clock_us += int(seconds * 1e6)
        found = self.follower.poll()
        while found or self.follower.tail.busy:
            for one in found:
                take(one, self.query, self.clock_us, self.troubles.append)
            found = self.follower.poll()
        super().sleep(0.0)

    def close(self) -> None:
        """Closes the files."""
        self.follower.close()

    def __enter__(self) -> FollowTest:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _published(query: LiveQuery, publication: Publication) -> PublishedWindow:
    edges: Any = (time_of(publication.window.start_us), time_of(publication.window.end_us))
    window = None if publication.window.start_us is None else Window(*edges)
    rows = rows_of(query.plan, publication)
    return PublishedWindow(window, publication.edition, publication.status, rows)

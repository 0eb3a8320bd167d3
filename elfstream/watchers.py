"""How a followed query is shown: final windows one after the other in a pipe, a live table on a terminal."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Iterator, Sequence
from typing import IO

from elfstream.live_query import LiveQuery
from elfstream.output import csv_lines, json_lines, markdown_lines, write_lines
from elfstream.result import Result, ResultColumn, Row, Stats, with_publication
from elfstream.table import table_lines
from elfstream.terminal import quantity
from job.plan import Plan
from job.times import time_of
from job.value_texts import time_text
from master.live import Publication


def columns_of(plan: Plan) -> tuple[ResultColumn, ...]:
    """The columns of a plan's result."""
    return tuple(ResultColumn(output.name, output.expr.type) for output in plan.outputs)


def rows_of(plan: Plan, publication: Publication) -> list[Row]:
    """The rows of a published window."""
    return list(Result(columns_of(plan), [publication.window], Stats(), "", ""))


class PipeWatcher:
    """Writes each final window once, and its later editions: `json` an object a window, the others rows with status."""

    def __init__(self, plan: Plan, style: str, out: IO[str]) -> None:
        self._plan, self._style, self._out = plan, style, out
        self._columns = columns_of(plan)
        self._header = True

    def published(self, publications: Sequence[Publication]) -> None:
        for publication in publications:
            rows = rows_of(self._plan, publication)
            if self._style == "json":
                write_lines([self._object(publication, rows)], self._out)
            else:
                write_lines(self._rows(publication, rows), self._out)
        if publications:
            self._out.flush()

    def emitted(self, query: LiveQuery) -> None:
        """Looks whether anybody still reads: quiet logs would not show it for hours. Raises BrokenPipeError."""
        if _is_abandoned(self._out):
            raise BrokenPipeError

    def trouble(self, text: str) -> None:
        """Says it at once, on standard error."""
        print(f"elfstream: {text}", file=sys.stderr)

    def _object(self, publication: Publication, rows: list[Row]) -> bytes:
        window = publication.window
        edges = "null"
        if window.start_us is not None and window.end_us is not None:
            start, end = time_of(window.start_us), time_of(window.end_us)
            assert start is not None
            assert end is not None
            edges = f'{{"start":"{time_text(start)}","end":"{time_text(end)}"}}'
        body = b",".join(line.rstrip(b"\n") for line in json_lines(self._columns, rows))
        head = f'{{"window":{edges},"revision":{publication.edition},"status":"{publication.status}","rows":['
        return head.encode() + body + b"]}\n"

    def _rows(self, publication: Publication, rows: list[Row]) -> Iterator[bytes]:
        edition = "revision" if self._style == "csv" else "edition"  # programs know it by the name it has in JSON
        columns = with_publication(self._columns, edition)
        tagged = [(*row, publication.status, publication.edition) for row in rows]
        if self._style == "csv":
            lines = csv_lines(columns, tagged)
            if not self._header:
                next(lines)
            self._header = False
            return lines
        if self._style == "markdown":
            return markdown_lines(columns, tagged)
        return table_lines(columns, tagged, self._out)


class TableWatcher:
    """A table of the newest window on a terminal, redrawn at every emit, with rates, lag and rejects above it."""

    def __init__(self, plan: Plan, out: IO[str]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._plan, self._out = plan, out
        self._columns = columns_of(plan)
        self._console = Console(file=out)
        self._live = Live(console=self._console, auto_refresh=False)
        self._seen: tuple[float, int] = (time.monotonic(), 0)
        self._last: Publication | None = None
        self._notes: list[str] = []

    def __enter__(self) -> TableWatcher:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def published(self, publications: Sequence[Publication]) -> None:
        if publications:
            self._last = publications[-1]

    def emitted(self, query: LiveQuery) -> None:
        """Draws the current window, or the last final one when none is open."""
        self.show(query.current() or self._last, query)

    def trouble(self, text: str) -> None:
        self._notes = [*self._notes, text][-3:]

    def show(self, publication: Publication | None, query: LiveQuery) -> None:
        from rich.text import Text

        lines = [self._status(query), ""]
        if publication is not None:
            lines += self._table(publication)
        lines += [f"! {note}" for note in self._notes]
        self._live.update(Text.from_ansi("\n".join(lines)), refresh=True)

    def _table(self, publication: Publication) -> list[str]:
        room = max(self._console.size.height - 8, 3)
        rows = rows_of(self._plan, publication)
        drawn = table_lines(self._columns, rows[:room], self._out)
        lines = [line.decode().rstrip("\n") for line in drawn]
        if len(rows) > room:
            lines.append(f"… and {len(rows) - room} rows more")
        return lines

    def _status(self, query: LiveQuery) -> str:
        counts, now = query.counts, time.monotonic()
        then, before = self._seen
        rate = (counts.lines - before) / max(now - then, 1e-9)
        self._seen = (now, counts.lines)
        parts = [f"{counts.lines:,} lines", f"{quantity(rate)} lines/s", f"{counts.rejected.total():,} rejected"]
        if query.late:
            parts.append(f"{query.late:,} late")
        if query.gap_bytes:
            parts.append(f"{quantity(query.gap_bytes, 'B')} lost")
        if query.watermark_us is not None:
            lag = time.time() - query.watermark_us / 1e6
            parts.append(f"windows closed up to {lag:.1f} s ago" if lag < 3600 else "reading old lines")
        return " · ".join(parts)


def _is_abandoned(out: IO[str]) -> bool:
    """Whether `out` is a pipe that nobody reads from any more."""
    try:
        descriptor = out.fileno()
    except (OSError, ValueError):  # no file, or closed
        return False
    poller = select.poll()
    poller.register(descriptor, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poller.poll(0))

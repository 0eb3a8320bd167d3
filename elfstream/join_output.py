"""Where the answer of a join goes: to a terminal or pipe, to a folder of Parquet files, or to a derived job of the fleet.

Each takes changes (`master/spark/joins.py`) any number of times: windows replace what was there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import chain
from typing import IO, Any

from elfstream.backfilled import NOTHING_PUT, put_in_all
from elfstream.client_errors import ApiError
from elfstream.client_sync import Client, Job
from elfstream.output import csv_lines, write, write_lines
from elfstream.result import ResultColumn
from job.durations import duration_text
from job.json_values import JSON_VALUES
from job.types import Type
from job.value_texts import time_text
from master.column_names import free_names
from master.spark.errors import JoinError
from master.spark.joins import Change
from master.spark.parquet_sink import ParquetSink
from master.window_values import Window

EDITION = 1
"""Of windows in a folder: one that comes again replaces the file."""
REACH = timedelta(days=32)
"""Windows that begin so long before a change may overlap it; longer ones of which nothing is left stay."""


class WrittenJoin:
    """Rows as they come: a table, or lines for programs."""

    def __init__(self, style: str, out: IO[str]) -> None:
        self._style, self._out, self._begun = style, out, False

    def take(self, change: Change) -> None:
        columns = [ResultColumn(*column) for column in change.joined.columns]
        rows = list(change.joined.rows)
        if self._style == "csv":
            lines = csv_lines(columns, rows)
            if self._begun:
                next(lines)
            write_lines(lines, self._out)
        elif rows or not self._begun:
            write(self._style, columns, rows, self._out)
        self._begun = True
        self._out.flush()


class ParquetJoin:
    """A folder as `elfstream sink` writes it."""

    def __init__(self, sink: ParquetSink) -> None:
        self._sink = sink

    def take(self, change: Change) -> None:
        joined = change.joined
        for window, rows in joined.windows.items():
            self._sink.put(window, EDITION, joined.columns, rows)
        first, last = (None, None) if change.spans is None else (change.spans[0][0], change.spans[-1][1])
        there = list(self._sink.windows(None if first is None else first - REACH, last))
        for window in there:
            if window not in joined.windows and change.is_over(window):
                self._sink.withdraw(window, EDITION)
        self._sink.flush()


class DerivedJobJoin:
    """A job of the fleet without sources, made when the first rows come: only they tell the length of its windows."""

    def __init__(self, fleet: Client, name: str, text: str) -> None:
        self._fleet, self._name, self._text = fleet, name, text
        self._job: Job | None = None
        self._revision = 0
        self.told = dict(NOTHING_PUT)

    def take(self, change: Change) -> None:
        columns = change.joined.columns
        names = free_names([name for name, _ in columns], ())
        shown = [(name, str(type)) for name, (_, type) in zip(names, columns, strict=True)]
        job = self._job or self._found(change, shown)
        if job is None:
            return
        windows = chain(change.joined.windows.items(), ((window, []) for window in self._gone(job, change)))
        documents = self._documents(windows, [type for _, type in columns], shown)
        self.told = put_in_all(self.told, job.put_windows(documents))

    def _found(self, change: Change, columns: Sequence[tuple[str, str]]) -> Job | None:
        """None: there is no such job, and nothing to make it of."""
        if change.joined.windows:
            size = _size(change.joined.windows)
            job = self._fleet.submit_derived(self._name, columns, size=size, text=self._text)
        else:
            job = self._fleet.job(self._name)
        try:
            shown = job.show()
        except ApiError as error:
            if error.kind == "unknown":
                return None
            raise
        if shown["sql"] is not None:
            raise JoinError(f"{self._name} is a job with a query of its own: name another one with --job")
        self._job, self._revision = job, shown["revision"]
        return job

    def _gone(self, job: Job, change: Change) -> list[Window | None]:
        """Windows that had rows, and have none now."""
        first, last = (None, None) if change.spans is None else (change.spans[0][0], change.spans[-1][1])
        there = job.results(None if first is None else first - REACH, last, rows=0)
        return [
            result.window
            for result in there
            if result.row_count and result.window not in change.joined.windows and change.is_over(result.window)
        ]

    def _documents(
        self,
        windows: Iterable[tuple[Window | None, Sequence[Any]]],
        types: Sequence[Type],
        columns: Sequence[tuple[str, str]],
    ) -> Iterator[dict[str, Any]]:
        for window, rows in windows:
            times = None
            if window is not None:
                times = {"start": time_text(window.start), "end": time_text(window.end)}
            yield {
                "window": times,
                "revision": self._revision,
                "lines": 0,
                "columns": [{"name": name, "type": type} for name, type in columns],
                "rows": [_json_row(row, types) for row in rows],
            }


def _json_row(row: Sequence[Any], types: Sequence[Type]) -> list[Any]:
    return [
        value if value is None or type.kind not in JSON_VALUES else JSON_VALUES[type.kind](value)
        for value, type in zip(row, types, strict=True)
    ]


def _size(windows: Mapping[Window | None, Any]) -> str | None:
    """The one length of all windows. Raises JoinError."""
    sizes = {None if window is None else window.end - window.start for window in windows}
    if len(sizes) != 1:
        raise JoinError("windows of the answer have several lengths, and those of a job have one: SELECT those of one job")
    (size,) = sizes
    return None if size is None else duration_text(size // timedelta(microseconds=1))

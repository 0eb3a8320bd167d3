"""Where the windows of a backfill go beside the caller: to the job they belong to, and into Parquet files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from elfstream.result import ResultColumn, Row, row_class
from job.times import time_of
from master.finishing import rows_json
from master.job_documents import time_text
from master.spark.backfill import DoneWindow
from master.spark.parquet_sink import ParquetSink
from master.window_values import Window, slices, values
from master.windows import FinishedWindow

WINDOWS_AT_ONCE = 200
BYTES_AT_ONCE = 4 << 20
EDITION = 1
"""In Parquet, of a window that no live job has."""


class Target(Protocol):
    """Takes the windows of a backfill, oldest first."""

    def put(self, done: DoneWindow) -> None: ...
    def finish(self) -> None: ...


class JobTarget:
    """The results of a live job. `send` puts windows as JSON documents (docs/SPARK.md) and says how many of them were new;
    sending one again changes nothing, so a backfill that is run again begins anew."""

    def __init__(
        self,
        send: Callable[[Sequence[bytes]], Mapping[str, int]],
        revision: int,
        columns: Sequence[ResultColumn],
    ) -> None:
        self.told: Counter[str] = Counter(stored=0, same=0, replaced=0)
        self._send, self._revision = send, revision
        self._columns = [{"name": column.name, "type": str(column.type)} for column in columns]
        self._waiting: list[bytes] = []
        self._bytes = 0

    def put(self, done: DoneWindow) -> None:
        """Sends the window, soon. Raises what `send` raises."""
        document = {
            "window": {"start": time_text(done.window.start_us), "end": time_text(done.window.end_us)},
            "revision": self._revision,
            "columns": self._columns,
            "rows": msgspec.Raw(b"".join(rows_json(done.window))),
            "lines": done.lines,
        }
        self._waiting.append(msgspec.json.encode(document))
        self._bytes += len(self._waiting[-1])
        if len(self._waiting) >= WINDOWS_AT_ONCE or self._bytes >= BYTES_AT_ONCE:
            self.finish()

    def finish(self) -> None:
        """Sends what waits."""
        if self._waiting:
            self.told.update(self._send(self._waiting))
            self._waiting, self._bytes = [], 0


class ParquetTarget:
    """A folder of Parquet files, a window once however often it is written (master/spark/parquet_sink.py)."""

    def __init__(self, folder: Path, columns: Sequence[ResultColumn]) -> None:
        """Raises SinkError, OSError."""
        self.windows = 0
        self._sink = ParquetSink(folder)
        self._columns, self._row = columns, row_class(columns)

    def put(self, done: DoneWindow) -> None:
        """Writes the window. Raises SinkError, OSError."""
        start, end = time_of(done.window.start_us), time_of(done.window.end_us)
        window = None if start is None or end is None else Window(start, end)
        self._sink.put(window, EDITION, self._columns, rows_of(done.window, self._row))
        self.windows += 1

    def finish(self) -> None:
        """All of it is durable afterwards."""
        self._sink.flush()

    def close(self) -> None:
        """Others may write to the folder."""
        self._sink.close()


def rows_of(window: FinishedWindow, make: type[Row]) -> list[Row]:
    """The rows as values of Python."""
    rows: list[Row] = []
    for columns, count in slices(window):
        rows += map(make, zip(*[values(column, count) for column in columns], strict=True))
    return rows

"""Published windows to standard output, one after the other as they come: tables, CSV, Markdown, JSON, Arrow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import IO, Any

from msgspec.json import encode

from elfstream.output import csv_lines, markdown_lines, write_lines
from elfstream.remote_results import WindowResult
from elfstream.result import ResultColumn, with_publication
from elfstream.table import table_lines
from elfstream.views.windows import result_document
from elfstream.views.words import moment
from job.types import BIGINT, STRING, TIMESTAMP, WINDOW, Kind

STYLES = ("table", "json", "csv", "ndjson", "markdown", "arrow")
WINDOW_COLUMNS = (
    ResultColumn("_start", TIMESTAMP),
    ResultColumn("_end", TIMESTAMP),
    ResultColumn("_revision", BIGINT),
    ResultColumn("_status", STRING),
)
"""CSV and Arrow begin each row so, as those of the API do."""


class ColumnsChangedError(Exception):
    """A table has one header: the windows from here on need another. `str(error)` is fit to be shown."""


def writer(style: str, out: IO[str]) -> Writer:
    """Writes windows in one of STYLES to `out`."""
    if style == "table":
        return _Tables(out, lambda columns, rows: table_lines(columns, rows, out))
    if style == "markdown":
        return _Tables(out, markdown_lines)
    others: dict[str, type[Writer]] = {"json": _Json, "ndjson": _JsonLines, "csv": _Csv, "arrow": _Arrow}
    return others[style](out)


class Writer:
    """`add` each window, then `end` once, also when there was none."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def add(self, result: WindowResult) -> None:
        """Raises ColumnsChangedError, BrokenPipeError."""
        raise NotImplementedError

    def end(self) -> None:
        """Writes what is left."""
        self._out.flush()


class _Tables(Writer):
    """One table for all windows with the same columns, each row with status and edition; with the window where the job's
    own columns do not have it. Holds the rows of a table."""

    def __init__(self, out: IO[str], lines: Callable[[Sequence[Any], list[Any]], Any]) -> None:
        super().__init__(out)
        self._lines = lines
        self._columns: tuple[ResultColumn, ...] | None = None
        self._rows: list[tuple[Any, ...]] = []
        self._tables = 0

    def add(self, result: WindowResult) -> None:
        has_window = result.window is None or any(
            column.type.kind is Kind.WINDOW for column in result.columns
        )
        before: tuple[ResultColumn, ...] = () if has_window else (ResultColumn("window", WINDOW),)
        columns = with_publication((*before, *result.columns), "edition")
        if columns != self._columns:
            self._flush()
            self._columns = columns
        window = () if has_window else (result.window,)
        self._rows += [(*window, *row, result.status, result.revision) for row in result.rows]

    def end(self) -> None:
        self._flush()
        super().end()

    def _flush(self) -> None:
        if self._columns is None:
            return
        if self._tables:
            write_lines([b"\n"], self._out)
        write_lines(self._lines(self._columns, self._rows), self._out)
        self._rows, self._tables = [], self._tables + 1


class _JsonLines(Writer):
    def add(self, result: WindowResult) -> None:
        write_lines([encode(result_document(result)), b"\n"], self._out)


class _Json(Writer):
    """An array of all."""

    _is_first = True

    def add(self, result: WindowResult) -> None:
        write_lines([b"[\n" if self._is_first else b",\n", encode(result_document(result))], self._out)
        self._is_first = False

    def end(self) -> None:
        write_lines([b"[]\n" if self._is_first else b"\n]\n"], self._out)
        super().end()


class _Rows(Writer):
    """Rows behind WINDOW_COLUMNS, under one header."""

    _columns: tuple[ResultColumn, ...] | None = None

    def add(self, result: WindowResult) -> None:
        is_first = self._columns is None
        if not is_first and result.columns != self._columns:
            start = (
                "" if result.window is None else f" that starts at {moment(result.window.start.isoformat())}"
            )
            raise ColumnsChangedError(
                f"the columns of the job change with the window{start}; ask for what is before with --to, for the rest with "
                "--from, or take -o ndjson"
            )
        self._columns = result.columns
        window = (None, None) if result.window is None else tuple(result.window)
        rows = [(*window, result.revision, result.status, *row) for row in result.rows]
        self._write((*WINDOW_COLUMNS, *result.columns), rows, is_first)

    def _write(self, columns: tuple[ResultColumn, ...], rows: list[Any], is_first: bool) -> None:
        raise NotImplementedError


class _Csv(_Rows):
    def _write(self, columns: tuple[ResultColumn, ...], rows: list[Any], is_first: bool) -> None:
        lines = csv_lines(columns, rows)
        if not is_first:
            next(lines)
        write_lines(lines, self._out)


class _Arrow(_Rows):
    """The stream format."""

    _stream: Any = None

    def _write(self, columns: tuple[ResultColumn, ...], rows: list[Any], is_first: bool) -> None:
        import pyarrow

        from master.arrow_rows import arrow_table

        table = arrow_table(columns, rows)
        if self._stream is None:
            self._stream = pyarrow.ipc.new_stream(sys.stdout.buffer, table.schema)
        self._stream.write_table(table)

    def end(self) -> None:
        if self._stream is None:
            self._write(WINDOW_COLUMNS, [], True)
        self._stream.close()
        super().end()

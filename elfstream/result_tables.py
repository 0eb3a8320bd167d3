"""Results of a job as tables: CSV and Arrow, for `/results`. Each row begins with the window it is of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import msgspec

from elfstream.output import csv_lines
from elfstream.remote_results import typed_rows
from elfstream.result import ResultColumn, Row
from job.times import time_of
from job.types import BIGINT, STRING, TIMESTAMP, type_of
from master.api_results import TableEncoder
from master.requests import ResultRecord
from master.result_documents import packed_rows

ARROW_TYPE = "application/vnd.apache.arrow.stream"
WINDOW_COLUMNS = (
    ResultColumn("_start", TIMESTAMP),
    ResultColumn("_end", TIMESTAMP),
    ResultColumn("_revision", BIGINT),
    ResultColumn("_status", STRING),
)
"""A query that has a column of such a name has it behind these."""


def tables() -> dict[str, TableEncoder]:
    """What this process can write: Arrow only where pyarrow is installed."""
    found = {"csv": TableEncoder("text/csv", _csv)}
    if find_spec("pyarrow") is not None:
        found["arrow"] = TableEncoder(ARROW_TYPE, _arrow)
    return found


def _columns(record: ResultRecord) -> tuple[ResultColumn, ...]:
    return tuple(ResultColumn(column.name, type_of(column.type)) for column in record.columns)


def _rows(record: ResultRecord, columns: Sequence[ResultColumn], rows_max: int | None) -> Iterator[tuple[Any, ...]]:
    window = time_of(record.start_us), time_of(record.end_us), record.edition, record.status
    rows: list[Row] = []
    if record.rows and rows_max != 0:
        rows = typed_rows(columns, msgspec.json.decode(packed_rows(record))[:rows_max])
    for row in rows:
        yield (*window, *row)


def _csv(records: Sequence[ResultRecord], rows_max: int | None) -> Iterable[bytes]:
    columns = _columns(records[0]) if records else ()
    every = (*WINDOW_COLUMNS, *columns)
    yield from csv_lines(every, ())
    for record in records:
        lines = csv_lines(every, _rows(record, columns, rows_max))
        next(lines)
        yield b"".join(lines)


def _arrow(records: Sequence[ResultRecord], rows_max: int | None) -> Iterable[bytes]:
    import pyarrow

    from master.arrow_rows import arrow_table
    from master.arrow_types import arrow_schema

    columns = _columns(records[0]) if records else ()
    every = (*WINDOW_COLUMNS, *columns)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, arrow_schema(every)) as writer:
        for record in records:
            writer.write_table(arrow_table(every, list(_rows(record, columns, rows_max))))
    yield sink.getvalue().to_pybytes()

"""The rows of a finished window as Python values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from cython_ext.column import Selection
from job.types import Kind
from master.windows import FinishedColumn, FinishedWindow

SLICE_ROWS = 16_384
"""Rows of a window that are turned into Python objects at once."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Window(NamedTuple):
    """An event-time window: [start, end), in UTC."""

    start: datetime
    end: datetime


def slices(window: FinishedWindow) -> Iterator[tuple[Sequence[FinishedColumn], int]]:
    """A window's rows in pieces, since Python objects take far more memory than columns do."""
    if window.rows <= SLICE_ROWS:
        yield window.columns, window.rows
        return
    for start in range(0, window.rows, SLICE_ROWS):
        picked = Selection.from_list(range(start, min(start + SLICE_ROWS, window.rows)))
        columns = [
            column._replace(columns=tuple(part.take(picked) for part in column.columns))
            for column in window.columns
        ]
        yield columns, len(picked)


def values(column: FinishedColumn, rows: int) -> Iterable[Any]:
    """One value a row: a Window, datetime, Decimal, list, or what JSON has."""
    kind, parts = column.type.kind, column.columns
    if kind is Kind.WINDOW:
        starts, ends = (map(time_of, part.to_list()) for part in parts)
        return (Window(start, end) for start, end in zip(starts, ends, strict=True))  # type: ignore[arg-type]
    if kind is Kind.ARRAY:
        elements = zip(*(part.to_list() for part in parts), strict=True)
        return (None if all(value is None for value in element) else list(element) for element in elements)
    if kind is Kind.TIMESTAMP:
        return map(time_of, parts[0].to_list())
    if kind is Kind.NULL:
        return [None] * rows
    return parts[0].to_list(column.type.scale if kind is Kind.DECIMAL else -1)


def time_of(micros: int | None) -> datetime | None:
    """Microseconds since 1970 as a datetime in UTC; what lies outside the years 1 to 9999 as the nearest there is."""
    if micros is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if micros > 0 else datetime.min.replace(tzinfo=UTC)

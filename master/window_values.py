"""The rows of a finished window as Python values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from cython_ext.column import Selection
from job.times import time_of
from job.types import Kind, Type
from master.windows import FinishedColumn, FinishedWindow

SLICE_ROWS = 16_384
"""Rows of a window that are turned into Python objects at once."""


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
        return (Window(start, end) for start, end in zip(starts, ends, strict=True))
    if kind is Kind.ARRAY:
        elements = zip(*(part.to_list() for part in parts), strict=True)
        return (None if all(value is None for value in element) else list(element) for element in elements)
    if kind is Kind.TIMESTAMP:
        return map(time_of, parts[0].to_list())
    if kind is Kind.NULL:
        return [None] * rows
    return parts[0].to_list(column.type.scale if kind is Kind.DECIMAL else -1)


# values as docs/CLI.md writes them in JSON


def window_of(value: Mapping[str, str]) -> Window:
    """Raises KeyError, ValueError, TypeError for what is none."""
    return Window(datetime.fromisoformat(value["start"]), datetime.fromisoformat(value["end"]))


def _array(value: Sequence[Any]) -> list[float | None]:
    return [None if item is None else float(item) for item in value]


_FROM_JSON: dict[Kind, Callable[[Any], Any]] = {
    Kind.DECIMAL: Decimal,
    Kind.DOUBLE: float,
    Kind.TIMESTAMP: datetime.fromisoformat,
    Kind.WINDOW: window_of,
    Kind.ARRAY: _array,
}


def from_json(type: Type) -> Callable[[Any], Any] | None:
    """What makes a value of that type of what JSON has, unless that is null; None: it is the value. Raises ValueError,
    TypeError, KeyError for what is none."""
    return _FROM_JSON.get(type.kind)

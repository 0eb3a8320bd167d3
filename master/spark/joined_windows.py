"""The answer of a join by windows: columns of Arrow, of which one window at a time becomes Python rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow

from job.types import Kind, Type
from master.window_values import SLICE_ROWS, Window

Rows = list[tuple[Any, ...]]
_START, _END, _AT = "start", "end", "at"


class ArrowWindows(Mapping[Window | None, Rows]):
    """Windows in order of time, the rows without one last; rows of a window in the order of the answer. The whole answer is
    held as Arrow. Finding the windows is O(rows log rows)."""

    def __init__(self, table: pyarrow.Table, types: Sequence[Type], times: pyarrow.Table) -> None:
        """`times` has the start and end of the window of each row of `table`: columns `start` and `end`."""
        self._columns, self._types, self._times = table, types, times
        keyed = times.append_column(_AT, pyarrow.array(range(len(times)), pyarrow.int64()))
        ordered = keyed.sort_by([(_START, "ascending"), (_END, "ascending"), (_AT, "ascending")])
        self._order = ordered[_AT]
        """Rows of the table, window by window."""
        counted = ordered.group_by([_START, _END], use_threads=False).aggregate([(_AT, "count")])
        self._slices: dict[Window | None, tuple[int, int]] = {}
        first = 0
        for one in counted.to_pylist():
            window = None if one[_START] is None or one[_END] is None else Window(utc(one[_START]), utc(one[_END]))
            begun, count = self._slices.get(window, (first, 0))
            self._slices[window] = begun, count + one[f"{_AT}_count"]
            first += one[f"{_AT}_count"]

    def __getitem__(self, window: Window | None) -> Rows:
        first, count = self._slices[window]
        return list(self._rows(self._columns.take(self._order.slice(first, count)), count))

    def __iter__(self) -> Iterator[Window | None]:
        return iter(self._slices)

    def __len__(self) -> int:
        return len(self._slices)

    def only(self, wanted: Callable[[Window | None], bool]) -> ArrowWindows:
        """Those windows, without a Python row of any."""
        kept = [self._order.slice(*place) for window, place in self._slices.items() if wanted(window)]
        chunks = [chunk for one in kept for chunk in one.chunks]
        at = pyarrow.chunked_array(chunks, pyarrow.int64()).combine_chunks().sort()
        return ArrowWindows(self._columns.take(at), self._types, self._times.take(at))

    def in_order(self) -> Iterator[tuple[Any, ...]]:
        """All rows as the answer had them."""
        return self._rows(self._columns, len(self._times))

    def _rows(self, table: pyarrow.Table, count: int) -> Iterator[tuple[Any, ...]]:
        """Without columns a table does not know how many rows it has."""
        if not self._types:
            yield from [()] * count
            return
        for start in range(0, count, SLICE_ROWS):
            part = table.slice(start, SLICE_ROWS)
            yield from zip(*map(_values, part.columns, self._types), strict=True)


def _values(column: Any, type: Type) -> list[Any]:
    values = column.to_pylist()
    if type.kind is Kind.TIMESTAMP:
        return [None if value is None else utc(value) for value in values]
    if type.kind is Kind.WINDOW:
        return [None if value is None else Window(utc(value["start"]), utc(value["end"])) for value in values]
    return values  # type: ignore[no-any-return]  # pyarrow has no types


def utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)

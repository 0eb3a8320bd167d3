"""The rows of one window while its groups come by in batches: all of them, or the best as many as LIMIT says.

Rows are copied out of their batch, texts too, so that no row keeps a table of groups alive, and they are charged to the
memory budget as long as they are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cbt.memory import Holding
from cython_ext.column import Column, Selection
from cython_ext.order import sort_rows

SURPLUS_ROWS = 16_384
"""Rows beyond LIMIT that are kept before the best are chosen anew: so that choosing costs little per row."""

Columns = dict[str, Column]


class RowOrder:
    """How rows are ordered: by columns of these names, each ascending or descending, NULLs first or last."""

    def __init__(self, names: Sequence[str], descending: Sequence[bool], nulls_first: Sequence[bool]) -> None:
        self.names, self._descending, self._nulls_first = names, descending, nulls_first

    def chosen(self, columns: Mapping[str, Column], rows: int, limit: int | None) -> tuple[Columns, int]:
        """The rows in order; of more than `limit` the first ones. O(rows log rows)."""
        if not self.names:  # without keys and ORDER BY there is one row
            rows = rows if limit is None else min(rows, limit)
            return {name: column.take(_first(rows)) for name, column in columns.items()}, rows
        terms = [columns[name] for name in self.names]
        picked = sort_rows(terms, self._descending, self._nulls_first, -1 if limit is None else limit)
        return {name: column.take(picked) for name, column in columns.items()}, len(picked)


class KeptRows:
    """Takes the rows of a window in any order and gives them back in theirs. With LIMIT k at most k + SURPLUS_ROWS rows, and
    those of a batch, are in memory; without it all are."""

    def __init__(self, order: RowOrder, limit: int | None, holding: Holding) -> None:
        self._order, self._limit, self._holding = order, limit, holding
        self._parts: list[Columns] = []
        self._part_bytes: list[int] = []
        self._rows = 0
        self._is_ordered = True

    def add(self, columns: Mapping[str, Column], rows: int) -> None:
        """Adds rows. Raises MemoryCapError when they do not fit under the cap."""
        if self._limit is None:
            self._keep(columns, rows)
            return
        self._keep(*self._order.chosen(columns, rows, self._limit))
        if self._rows > self._limit + SURPLUS_ROWS:
            self._choose()

    def _keep(self, columns: Mapping[str, Column], rows: int) -> None:
        self._is_ordered = self._limit is not None and not self._parts
        self._parts.append({name: column.detached() for name, column in columns.items()})
        self._part_bytes.append(sum(column.memory_bytes for column in self._parts[-1].values()))
        self._rows += rows
        self._holding.resize(sum(self._part_bytes))

    def _choose(self) -> None:
        columns, rows = self._order.chosen(self._joined(), self._rows, self._limit)
        self._parts, self._part_bytes, self._rows = [], [], 0
        self._keep(columns, rows)

    def _joined(self) -> Columns:
        if len(self._parts) == 1:
            return self._parts[0]
        # All but the texts, which stay where they are, is there twice for a moment.
        texts = sum(column.text_bytes for part in self._parts for column in part.values())
        self._holding.resize(2 * self._holding.held_bytes - texts)
        return {name: Column.joined([part[name] for part in self._parts]) for name in self._parts[0]}

    def finish(self) -> tuple[Columns, int]:
        """The rows kept, in order. To be called once, after rows of at least one batch."""
        if not self._is_ordered and self._limit is not None:
            self._choose()
        columns = self._joined()
        self._parts = []
        return (columns, self._rows) if self._is_ordered else self._order.chosen(columns, self._rows, None)


def _first(rows: int) -> Selection:
    return Selection.from_list(range(rows))

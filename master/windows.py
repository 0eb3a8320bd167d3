"""Panes to windows to finished rows: HAVING, ORDER BY, LIMIT and the outputs of a plan. Pure.

Windows come in order of time. Within one, rows are ordered by ORDER BY and then by the keys ascending, so the order is
total and the same whatever produced the groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cython_ext.column import Column, Selection
from cython_ext.order import sort_rows
from job.evaluate import Evaluator
from job.panes import ENDLESS_PANE, PaneState, PaneStore, finished_columns
from job.plan import WINDOW_END, WINDOW_START, Call, ColumnRef, Expr, Plan, key_name
from job.types import Kind, Type
from job.window import window_starts


class FinishedColumn(NamedTuple):
    """An output: one Column, two (start, end) for a WINDOW, one per element for an ARRAY."""

    name: str
    type: Type
    columns: tuple[Column, ...]


class FinishedWindow(NamedTuple):
    """The rows of one window; `start_us` and `end_us` are None for a plan without windows."""

    start_us: int | None
    end_us: int | None
    columns: tuple[FinishedColumn, ...]
    rows: int


class WindowFinisher:
    """Finishes the windows of one plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.overflow = 0
        """Aggregates that left their type and became NULL."""
        self._having = None if plan.having is None else Evaluator([plan.having])
        self._order = Evaluator([term.expr for term in plan.order])
        self._parts = [_parts(output.expr) for output in plan.outputs]
        self._outputs = Evaluator([part for parts in self._parts for part in parts])
        directions = [(term.descending, term.nulls_first) for term in plan.order]
        directions += [(False, True)] * len(plan.keys)
        self._descending = [descending for descending, _ in directions]
        self._nulls_first = [nulls_first for _, nulls_first in directions]

    @property
    def eval_errors(self) -> int:
        """Result expressions that failed and became NULL."""
        having = 0 if self._having is None else self._having.eval_errors
        return having + self._order.eval_errors + self._outputs.eval_errors

    def finish(self, store: PaneStore) -> Iterator[FinishedWindow]:
        """The finished windows of `store`, oldest first; windows without rows are left out."""
        window = self.plan.window
        if window is None:
            yield self.finish_window(store, None)
            return
        for start in window_starts(store.panes, window.size_us, window.slide_us):
            yield self.finish_window(store, start)

    def finish_window(self, store: PaneStore, start_us: int | None, growing: bool = False) -> FinishedWindow:
        """The window that starts at `start_us` (None: the endless one of a plan without windows).

        `growing`: the panes will be updated again; the rows then share no memory with them.
        """
        if start_us is None or self.plan.window is None:
            state = store.pane(ENDLESS_PANE)
            if not self.plan.keys:
                state.groups.ensure_group()
            return self._finish(store, store.combined([ENDLESS_PANE], growing), None, None)
        end = start_us + self.plan.window.size_us
        members = list(store.panes.irange(start_us, end - 1))
        return self._finish(store, store.combined(members, growing), start_us, end)

    def _finish(
        self, store: PaneStore, state: PaneState, start: int | None, end: int | None
    ) -> FinishedWindow:
        plan, rows = self.plan, len(state.groups)
        finished, overflow = finished_columns(plan, store.shape, state)
        self.overflow += overflow
        columns = dict(finished)
        if start is not None:
            columns[WINDOW_START] = Column.from_list(Kind.TIMESTAMP, [start], True, rows)
            columns[WINDOW_END] = Column.from_list(Kind.TIMESTAMP, [end], True, rows)
        if self._having is not None:
            columns, rows = _take(columns, self._having.run(columns, rows)[0].selection())
        terms = self._order.run(columns, rows) + [columns[key_name(i)] for i in range(len(plan.keys))]
        limit = -1 if plan.limit is None else plan.limit
        if terms:
            chosen = sort_rows(terms, self._descending, self._nulls_first, limit)
            columns, rows = _take(columns, chosen)
        elif 0 <= limit < rows:
            columns, rows = _take(columns, Selection.from_list(range(limit)))
        return FinishedWindow(start, end, self._output_columns(columns, rows), rows)

    def _output_columns(self, columns: dict[str, Column], rows: int) -> tuple[FinishedColumn, ...]:
        values = iter(self._outputs.run(columns, rows))
        return tuple(
            FinishedColumn(output.name, output.expr.type, tuple(next(values) for _ in parts))
            for output, parts in zip(self.plan.outputs, self._parts, strict=True)
        )


def _take(columns: dict[str, Column], chosen: Selection) -> tuple[dict[str, Column], int]:
    return {name: column.take(chosen) for name, column in columns.items()}, len(chosen)


def _parts(expression: Expr) -> tuple[Expr, ...]:
    """The scalar expressions that make up an output."""
    if expression.type.kind is Kind.WINDOW:
        stamp = Type(Kind.TIMESTAMP)
        return ColumnRef(WINDOW_START, stamp), ColumnRef(WINDOW_END, stamp)
    if isinstance(expression, Call) and expression.function == "array":
        return expression.arguments
    return (expression,)

"""Panes to windows to finished rows: HAVING, ORDER BY, LIMIT and the outputs of a plan. Pure.

Windows come in order of time. Within one, rows are ordered by ORDER BY and then by the keys ascending, so the order is
total and the same whatever produced the groups. Groups come by in batches, of which only the rows that may be in the result
are kept: `ORDER BY ... LIMIT k` over any number of groups takes the memory of a batch and k rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cbt.memory import Holding
from cython_ext.column import Column
from job.evaluate import Evaluator
from job.pane_blocks import PaneBlocks
from job.panes import ENDLESS_PANE, FinishedGroups, PaneState, PaneStore, finished_groups
from job.plan import (
    WINDOW_END,
    WINDOW_START,
    Call,
    ColumnRef,
    Expr,
    Plan,
    aggregate_name,
    columns_of,
    key_name,
)
from job.types import Kind, Type
from job.window import window_starts
from master.kept_rows import Columns, KeptRows, RowOrder

_ORDER = "order{}"
"""The name of an ORDER BY term that has to be computed."""


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
    holding: Holding
    """What the rows take of the memory budget; shares no memory with the groups."""


class WindowFinisher:
    """Finishes the windows of one plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.overflow = 0
        """Aggregates that left their type and became NULL."""
        self.groups = 0
        """Groups finished, summed over windows."""
        self._having = None if plan.having is None else Evaluator([plan.having])
        self._terms = [_order_name(i, term.expr) for i, term in enumerate(plan.order)]
        self._evaluated = [i for i, name in enumerate(self._terms) if name == _ORDER.format(i)]
        self._order = Evaluator([plan.order[i].expr for i in self._evaluated])
        self._parts = [_parts(output.expr) for output in plan.outputs]
        self._outputs = Evaluator([part for parts in self._parts for part in parts])
        keys = [key_name(i) for i in range(len(plan.keys))]
        self._row_order = RowOrder(
            [*self._terms, *keys],
            [term.descending for term in plan.order] + [False] * len(keys),
            [term.nulls_first for term in plan.order] + [True] * len(keys),
        )
        read = {column.name for parts in self._parts for part in parts for column in columns_of(part)}
        self._kept = {*self._row_order.names, *read} - {WINDOW_START, WINDOW_END}
        self._blocks: PaneBlocks | None = None

    @property
    def eval_errors(self) -> int:
        """Result expressions that failed and became NULL."""
        having = 0 if self._having is None else self._having.eval_errors
        return having + self._order.eval_errors + self.output_errors

    @property
    def output_errors(self) -> int:
        """Of these the outputs."""
        return self._outputs.eval_errors

    def finish(self, store: PaneStore) -> Iterator[FinishedWindow]:
        """The finished windows of `store`, oldest first; windows without rows are left out. Uses up the panes."""
        for start in self._starts(store):
            yield self.finish_window(store, start, is_last=True)

    def finish_window(
        self, store: PaneStore, start_us: int | None, is_last: bool = False
    ) -> FinishedWindow:
        """The window that starts at `start_us` (None: the endless one of a plan without windows), as it stands.

        Panes may go on growing, unless `is_last`: then those that belong to this window alone may be left empty. Raises
        MemoryCapError when its rows do not fit under the cap beside the groups.
        """
        groups = self._group_rows(store, start_us, is_last)
        return self.finish_rows(groups, start_us, store.memory.hold())

    def finish_rows(
        self, batches: Iterable[tuple[Columns, int]], start_us: int | None, holding: Holding
    ) -> FinishedWindow:
        """The window that starts at `start_us` from groups that pass HAVING, in any order: batches, at least one, of the
        columns that `best_rows` gives and how many rows they have. Raises MemoryCapError as `finish_window`."""
        columns, rows = self._best(batches, start_us, self._kept, holding)
        return self._finished(columns, rows, start_us, holding)

    def best_rows(
        self, store: PaneStore, start_us: int | None, is_last: bool = False
    ) -> Iterator[tuple[Columns, int]]:
        """The groups of a window that may be in its result, for `finish_rows` of another finisher that gets those of other
        hash ranges, too: what passes HAVING and, with LIMIT, is among the best here. At least one batch; the columns are all
        keys and aggregates by their result-phase names."""
        groups = self._group_rows(store, start_us, is_last)
        names = {name for name, _ in result_columns(self.plan)}
        if self.plan.limit is None:
            for columns, rows in groups:
                yield {name: columns[name] for name in names}, rows
            return
        holding = store.memory.hold()
        columns, rows = self._best(groups, start_us, names | {*self._row_order.names}, holding)
        yield {name: columns[name] for name in names}, rows

    def _best(
        self, batches: Iterable[tuple[Columns, int]], start_us: int | None, names: set[str], holding: Holding
    ) -> tuple[Columns, int]:
        """The rows that LIMIT leaves, in order, with the columns `names`."""
        kept = KeptRows(self._row_order, self.plan.limit, holding)
        for columns, rows in batches:
            if self._evaluated:
                columns |= self._edges(start_us, rows)
                for i, term in zip(self._evaluated, self._order.run(columns, rows), strict=True):
                    columns[_ORDER.format(i)] = term
            kept.add({name: columns[name] for name in names}, rows)
        return kept.finish()

    def unordered(
        self, store: PaneStore, start_us: int | None, is_last: bool = False
    ) -> Iterator[FinishedWindow]:
        """As `finish_window`, in parts and in any order, for those who aggregate the rows again: without LIMIT they are
        never in memory all at once."""
        if self.plan.limit is not None:
            yield self.finish_window(store, start_us, is_last)
            return
        for columns, rows in self._group_rows(store, start_us, is_last):
            yield self._finished(columns, rows, start_us, store.memory.hold())

    def all_unordered(self, store: PaneStore) -> Iterator[FinishedWindow]:
        """As `finish`, each window `unordered`."""
        for start in self._starts(store):
            yield from self.unordered(store, start, is_last=True)

    def release_before(self, start_us: int) -> None:
        """Windows that start earlier will not be asked for any more."""
        if self._blocks is not None:
            self._blocks.release_before(start_us)

    def _starts(self, store: PaneStore) -> Iterator[int | None]:
        """The starts of all windows with rows; what served only earlier ones is freed on the way."""
        window = self.plan.window
        if window is None:
            yield None
            return
        for start in window_starts(store.panes, window.size_us, window.slide_us):
            self.release_before(start)
            yield start

    def _state(self, store: PaneStore, start: int | None) -> tuple[PaneState, bool]:
        """The merged panes of a window, and whether no other window needs that state."""
        window = self.plan.window
        if start is None or window is None:
            state = store.pane(ENDLESS_PANE)
            if not self.plan.keys:
                state.groups.ensure_group()
            return state, False
        if self._blocks is None or self._blocks.store is not store:
            self._blocks = PaneBlocks(store, window.size_us, window.slide_us)
        return self._blocks.window(start)

    def _group_rows(
        self, store: PaneStore, start: int | None, is_last: bool
    ) -> Iterator[tuple[dict[str, Column], int]]:
        """The groups that pass HAVING, batch by batch and at least one: columns by result-phase name, rows."""
        window = self.plan.window
        is_alone = window is None or window.size_us == window.slide_us  # each pane serves one window
        state, is_own = self._state(store, start)
        batches = finished_groups(self.plan, store.shape, state, is_own or (is_last and is_alone))
        for groups in _never_empty(batches, self.plan):
            self.overflow += groups.overflow
            self.groups += groups.rows
            columns, rows = groups.columns, groups.rows
            if self._having is not None:
                columns |= self._edges(start, rows)
                chosen = self._having.run(columns, rows)[0].selection()
                columns, rows = {name: column.take(chosen) for name, column in columns.items()}, len(chosen)
            yield columns, rows

    def _edges(self, start: int | None, rows: int) -> dict[str, Column]:
        if start is None or self.plan.window is None:
            return {}
        edges = {WINDOW_START: start, WINDOW_END: start + self.plan.window.size_us}
        return {
            name: Column.from_list(Kind.TIMESTAMP, [edge], True, rows) for name, edge in edges.items()
        }

    def _finished(
        self, columns: dict[str, Column], rows: int, start: int | None, holding: Holding
    ) -> FinishedWindow:
        values = iter(self._outputs.run({**columns, **self._edges(start, rows)}, rows))
        outputs = tuple(
            FinishedColumn(output.name, output.expr.type, tuple(next(values) for _ in parts))
            for output, parts in zip(self.plan.outputs, self._parts, strict=True)
        )
        holding.resize(sum(part.memory_bytes for output in outputs for part in output.columns))
        window = self.plan.window
        end = None if start is None or window is None else start + window.size_us
        return FinishedWindow(start, end, outputs, rows, holding)


def result_columns(plan: Plan) -> list[tuple[str, int]]:
    """Name and kind of the finished columns of a group: its keys and aggregates."""
    keys = [(key_name(i), int(key.type.kind)) for i, key in enumerate(plan.keys)]
    return keys + [(aggregate_name(i), int(one.type.kind)) for i, one in enumerate(plan.aggregates)]


def _never_empty(batches: Iterable[FinishedGroups], plan: Plan) -> Iterator[FinishedGroups]:
    """`batches`, or one without groups, for a result without rows has columns, too."""
    is_empty = True
    for groups in batches:
        is_empty = False
        yield groups
    if is_empty:
        yield FinishedGroups({name: Column.from_list(kind, []) for name, kind in result_columns(plan)}, 0, 0)


def _order_name(index: int, expression: Expr) -> str:
    """Under which name rows have an ORDER BY term: its own where it is a key or an aggregate as it is."""
    if isinstance(expression, ColumnRef) and expression.name not in (WINDOW_START, WINDOW_END):
        return expression.name
    return _ORDER.format(index)


def _parts(expression: Expr) -> tuple[Expr, ...]:
    """The scalar expressions that make up an output."""
    if expression.type.kind is Kind.WINDOW:
        stamp = Type(Kind.TIMESTAMP)
        return ColumnRef(WINDOW_START, stamp), ColumnRef(WINDOW_END, stamp)
    if isinstance(expression, Call) and expression.function == "array":
        return expression.arguments
    return (expression,)

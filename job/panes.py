"""The live state of a plan: one set of buffer trees per pane.

`StateShape` says which trees and states a plan needs, and which expressions feed them; agents, reducers and masters
derive it from the same plan, so their states fit together. `PaneStore` holds the trees. Aggregates that keep the same
state over the same rows share it: sum(x), avg(x) and count(x) are one state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sortedcontainers import SortedDict

from cbt.aggregate import Finish, resolve
from cbt.distinct import DistinctCounts
from cbt.memory import Memory
from cbt.tree import Batch, Tree
from cython_ext.column import Column, Selection
from cython_ext.groups import GroupTable
from job.plan import Aggregate, Call, ColumnRef, Expr, Literal, Plan, aggregate_name, key_name
from job.types import BOOLEAN, Kind

PACKED_GROUPS_MIN = 8192
"""From about so many groups on sharing a run is cheaper than merging a table, though reading it is dearer."""
ENDLESS_PANE = 0
"""The only pane of a plan without windows."""


class Finisher(NamedTuple):
    """How an aggregate gets its value: from `state` by `how`, or by counting the groups of distinct tree `pairs`."""

    state: int
    how: Finish | None
    pairs: int


class Input(NamedTuple):
    """What feeds a state: numbers of row expressions, None for "every row"."""

    value: int | None
    mask: int | None


class Pairs(NamedTuple):
    """What feeds a distinct tree beside the keys: numbers of row expressions."""

    values: tuple[int, ...]
    mask: int


class StateShape:
    """The trees, states and row expressions of a plan. Immutable after construction."""

    def __init__(self, plan: Plan) -> None:
        self.expressions: list[Expr] = list(plan.keys)
        self.key_kinds = [int(key.type.kind) for key in plan.keys]
        self.state_kinds: list[int] = []
        self.inputs: list[Input] = []
        self.pairs: list[Pairs] = []
        self.pair_kinds: list[list[int]] = []
        self.finishers = [self._add(aggregate) for aggregate in plan.aggregates]
        self.time = None if plan.window is None else self._number(plan.window.time)

    def _number(self, expression: Expr) -> int:
        if expression not in self.expressions:
            self.expressions.append(expression)
        return self.expressions.index(expression)

    def _add(self, aggregate: Aggregate) -> Finisher:
        if aggregate.function == "count_distinct":
            return self._add_pairs(aggregate)
        if aggregate.function == "count":
            kind, precision, scale = Kind.NULL, 0, 0
        else:
            argument = aggregate.arguments[0].type
            kind, precision, scale = argument.kind, argument.precision, argument.scale
        state, how = resolve(aggregate.function, int(kind), precision, scale)
        source = self._input(aggregate)
        for index, (known, fed) in enumerate(zip(self.state_kinds, self.inputs, strict=True)):
            if known == int(state) and fed == source:
                return Finisher(index, how, -1)
        self.state_kinds.append(int(state))
        self.inputs.append(source)
        return Finisher(len(self.inputs) - 1, how, -1)

    def _input(self, aggregate: Aggregate) -> Input:
        if aggregate.function == "count":
            terms: list[Expr] = [Call("is_not_null", (argument,), BOOLEAN) for argument in aggregate.arguments]
            if aggregate.filter is not None:
                terms.insert(
                    0, aggregate.filter
                )  # first, so that arguments are looked at only where it holds
            return Input(None, self._number(_all(terms)) if terms else None)
        argument = aggregate.arguments[0]
        if aggregate.filter is None:
            return Input(self._number(argument), None)
        if isinstance(argument, ColumnRef | Literal):
            return Input(self._number(argument), self._number(aggregate.filter))
        # A case looks at the argument only where the filter holds, so its errors elsewhere are not counted.
        return Input(self._number(Call("case", (aggregate.filter, argument), argument.type)), None)

    def _add_pairs(self, aggregate: Aggregate) -> Finisher:
        values = aggregate.arguments
        terms: list[Expr] = [Call("is_not_null", (value,), BOOLEAN) for value in values]
        if aggregate.filter is not None:
            terms.insert(0, aggregate.filter)
            values = tuple(Call("case", (aggregate.filter, value), value.type) for value in values)
        source = Pairs(tuple(self._number(value) for value in values), self._number(_all(terms)))
        if source not in self.pairs:
            self.pairs.append(source)
            self.pair_kinds.append(self.key_kinds + [int(value.type.kind) for value in values])
        return Finisher(-1, None, self.pairs.index(source))


def _all(terms: Sequence[Expr]) -> Expr:
    return terms[0] if len(terms) == 1 else Call("and", tuple(terms), BOOLEAN)


class PaneState:
    """The trees of one pane: `groups` by key, and one of (key, distinct arguments) per count(DISTINCT)."""

    __slots__ = ("groups", "pairs", "version")

    def __init__(self, shape: StateShape, memory: Memory) -> None:
        self.version = 0
        """Rises with every change, so that what was published can be told from what is new."""
        self.groups: Tree = memory.tree(shape.key_kinds, shape.state_kinds)
        self.pairs: list[Tree] = [memory.tree(kinds, []) for kinds in shape.pair_kinds]

    def update(
        self, shape: StateShape, values: Sequence[Column], rows: int, selection: Selection | None = None
    ) -> None:
        """Adds rows. `values` are the columns of `shape.expressions`; `selection` picks rows (None: all).

        Raises MemoryCapError or SpillError when there is no room; some aggregates have counted the rows then.
        """
        self.version += 1
        keys = list(values[: len(shape.key_kinds)])
        self.groups.update(
            keys,
            [None if source.value is None else values[source.value] for source in shape.inputs],
            [None if source.mask is None else values[source.mask] for source in shape.inputs],
            rows,
            selection,
        )
        for tree, pairs in zip(self.pairs, shape.pairs, strict=True):
            arguments = [values[number] for number in pairs.values]
            tree.update([*keys, *arguments], [], [], rows, _chosen(values[pairs.mask], selection))

    def merge(self, other: PaneState) -> None:
        """Adds the groups of `other`, which stays as it is."""
        self.version += 1
        self.groups.merge(other.groups)
        for mine, theirs in zip(self.pairs, other.pairs, strict=True):
            mine.merge(theirs)

    def pack(self) -> None:
        """Prepares a state that does not change any more for being merged into many others."""
        for tree in (self.groups, *self.pairs):
            tree.pack(PACKED_GROUPS_MIN)

    def take_tables(self) -> list[GroupTable] | None:
        """The tables of `groups` and `pairs`, and the state left empty; None when a tree has outgrown its table."""
        if any(tree.root is not None for tree in (self.groups, *self.pairs)):
            return None
        tables = [tree.take_table() for tree in (self.groups, *self.pairs)]
        return [table for table in tables if table is not None]

    @property
    def bytes_used(self) -> int:
        return self.groups.bytes_used + sum(tree.bytes_used for tree in self.pairs)


def _chosen(mask: Column, selection: Selection | None) -> Selection:
    """The selected rows at which `mask` is true."""
    if selection is None:
        return mask.selection()
    return selection.take(mask.take(selection).selection())


class PaneStore:
    """The panes of one plan, by start time. Not thread-safe: one per thread, merged at the end. The trees of all stores
    share the budget of `memory`."""

    def __init__(self, shape: StateShape, memory: Memory) -> None:
        self.shape = shape
        self.memory = memory
        self.panes: SortedDict[int, PaneState] = SortedDict()
        self.changes = 0
        """Rises whenever a pane may have changed."""
        self.closed_before_us: int | None = None
        """Panes that start earlier are closed: their windows are final and beyond the allowed lateness."""

    def pane(self, start_us: int) -> PaneState:
        """The state of the pane that starts at `start_us`, made when it is new, to be changed."""
        self.changes += 1
        state: PaneState | None = self.panes.get(start_us)
        if state is None:
            state = self.panes[start_us] = PaneState(self.shape, self.memory)
        return state

    def merge(self, other: PaneStore) -> None:
        """Moves the panes of `other` here, so that it has none."""
        self.changes += 1
        while other.panes:
            start, state = other.panes.popitem()
            known = self.panes.get(start)
            if known is None:
                self.panes[start] = state
            else:
                known.merge(state)

    def close_before(self, start_us: int) -> None:
        """Frees the panes that start before `start_us`, for good: rows that fall there are late from now on."""
        if self.closed_before_us is None or start_us > self.closed_before_us:
            self.closed_before_us = start_us
            self.changes += 1
        for start in list(self.panes.irange(maximum=self.closed_before_us, inclusive=(True, False))):
            del self.panes[start]


class FinishedGroups(NamedTuple):
    """Some groups of a state: keys and aggregates under their result-phase names, and how many values overflowed."""

    columns: dict[str, Column]
    rows: int
    overflow: int


def finished_groups(
    plan: Plan, shape: StateShape, state: PaneState, is_last: bool = False
) -> Iterator[FinishedGroups]:
    """All groups of `state` as of now, batch by batch; texts lie in the batch. O(groups); memory: one batch, and a count for
    each group when there is a count(DISTINCT). `is_last`: the state is not needed any more, and may be left empty."""
    tables = state.take_tables() if is_last else None
    if tables is not None:
        groups, *pairs = tables
        counts = [groups.count_distinct(table, len(shape.key_kinds)) for table in pairs]
        yield _finished(plan, shape, Batch(groups), counts)
        return
    counters = [DistinctCounts(pairs, len(shape.key_kinds)) for pairs in state.pairs]
    for batch in state.groups.batches():
        yield _finished(plan, shape, batch, [counter.column(batch) for counter in counters])


def _finished(plan: Plan, shape: StateShape, batch: Batch, distinct: Sequence[Column]) -> FinishedGroups:
    columns = {key_name(i): column for i, column in enumerate(batch.keys())}
    overflow = 0
    for i, (aggregate, finisher) in enumerate(zip(plan.aggregates, shape.finishers, strict=True)):
        if finisher.how is None:
            columns[aggregate_name(i)] = distinct[finisher.pairs]
            continue
        # Averages and percentiles need the scale of their argument; sums the precision of their result.
        argument = aggregate.arguments[0].type if aggregate.arguments else aggregate.type
        columns[aggregate_name(i)], lost = batch.finish(
            finisher.state,
            int(finisher.how),
            aggregate.parameter,
            aggregate.type.precision,
            argument.scale,
        )
        overflow += lost
    return FinishedGroups(columns, len(batch), overflow)

"""The live state of a plan: one set of group tables per pane.

`StateShape` says which tables and states a plan needs, and which expressions feed them; agents, reducers and masters
derive it from the same plan, so their states fit together. `PaneStore` holds the tables. Aggregates that keep the same
state over the same rows share it: sum(x), avg(x) and count(x) are one state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sortedcontainers import SortedDict

from cbt.aggregate import Finish, resolve
from cython_ext.column import Column, Selection
from cython_ext.groups import GroupTable
from job.plan import Aggregate, Call, ColumnRef, Expr, Literal, Plan, aggregate_name, key_name
from job.types import BOOLEAN, Kind

ENDLESS_PANE = 0
"""The only pane of a plan without windows."""


class Finisher(NamedTuple):
    """How an aggregate gets its value: from `state` by `how`, or by counting the groups of distinct table `pairs`."""

    state: int
    how: Finish | None
    pairs: int


class Input(NamedTuple):
    """What feeds a state: numbers of row expressions, None for "every row"."""

    value: int | None
    mask: int | None


class Pairs(NamedTuple):
    """What feeds a distinct table beside the keys: numbers of row expressions."""

    values: tuple[int, ...]
    mask: int


class StateShape:
    """The tables, states and row expressions of a plan. Immutable after construction."""

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
    """The tables of one pane: `groups` by key, and one table of (key, distinct arguments) per count(DISTINCT)."""

    __slots__ = ("groups", "pairs", "version")

    def __init__(self, shape: StateShape) -> None:
        self.version = 0
        """Rises with every change, so that what was published can be told from what is new."""
        self.groups = GroupTable(shape.key_kinds, shape.state_kinds)
        self.pairs = [GroupTable(kinds, []) for kinds in shape.pair_kinds]

    def update(
        self, shape: StateShape, values: Sequence[Column], rows: int, selection: Selection | None = None
    ) -> None:
        """Adds rows. `values` are the columns of `shape.expressions`; `selection` picks rows (None: all)."""
        self.version += 1
        keys = list(values[: len(shape.key_kinds)])
        self.groups.update(
            keys,
            [None if source.value is None else values[source.value] for source in shape.inputs],
            [None if source.mask is None else values[source.mask] for source in shape.inputs],
            rows,
            selection,
        )
        for table, pairs in zip(self.pairs, shape.pairs, strict=True):
            arguments = [values[number] for number in pairs.values]
            table.update([*keys, *arguments], [], [], rows, _chosen(values[pairs.mask], selection))

    def merge(self, other: PaneState) -> None:
        """Adds the groups of `other`, which stays as it is."""
        self.version += 1
        self.groups.merge(other.groups)
        for mine, theirs in zip(self.pairs, other.pairs, strict=True):
            mine.merge(theirs)

    @property
    def bytes_used(self) -> int:
        return self.groups.bytes_used + sum(table.bytes_used for table in self.pairs)


def _chosen(mask: Column, selection: Selection | None) -> Selection:
    """The selected rows at which `mask` is true."""
    if selection is None:
        return mask.selection()
    return selection.take(mask.take(selection).selection())


class PaneStore:
    """The panes of one plan, by start time. Not thread-safe: one per thread, merged at the end."""

    def __init__(self, shape: StateShape) -> None:
        self.shape = shape
        self.panes: SortedDict[int, PaneState] = SortedDict()
        self.closed_before_us: int | None = None
        """Panes that start earlier are closed: their windows are final and beyond the allowed lateness."""

    def pane(self, start_us: int) -> PaneState:
        """The state of the pane that starts at `start_us`, made when it is new."""
        state: PaneState | None = self.panes.get(start_us)
        if state is None:
            state = self.panes[start_us] = PaneState(self.shape)
        return state

    def merge(self, other: PaneStore) -> None:
        """Takes in the panes of `other`, which must not be used afterwards (panes new here are moved)."""
        for start, state in other.panes.items():
            known = self.panes.get(start)
            if known is None:
                self.panes[start] = state
            else:
                known.merge(state)

    def close_before(self, start_us: int) -> None:
        """Frees the panes that start before `start_us`, for good: rows that fall there are late from now on."""
        if self.closed_before_us is None or start_us > self.closed_before_us:
            self.closed_before_us = start_us
        for start in list(self.panes.irange(maximum=self.closed_before_us, inclusive=(True, False))):
            del self.panes[start]

    def combined(self, starts: Sequence[int], growing: bool = False) -> PaneState:
        """One state for several panes; the panes stay as they are. `growing`: they will be updated again, so the state
        must share no memory with them."""
        if len(starts) == 1 and not growing:
            only: PaneState = self.panes[starts[0]]
            return only
        state = PaneState(self.shape)
        for start in starts:
            state.merge(self.panes[start])
        return state

    @property
    def group_count(self) -> int:
        return sum(len(state.groups) for state in self.panes.values())


def finished_columns(plan: Plan, shape: StateShape, state: PaneState) -> tuple[dict[str, Column], int]:
    """The keys and aggregates of all groups under their result-phase names, and how many values overflowed."""
    columns = {key_name(i): column for i, column in enumerate(state.groups.keys())}
    overflow = 0
    for i, (aggregate, finisher) in enumerate(zip(plan.aggregates, shape.finishers, strict=True)):
        if finisher.how is None:
            column = state.groups.count_distinct(state.pairs[finisher.pairs], len(shape.key_kinds))
        else:
            # Averages and percentiles need the scale of their argument; sums the precision of their result.
            argument = aggregate.arguments[0].type if aggregate.arguments else aggregate.type
            column, lost = state.groups.finish(
                finisher.state,
                int(finisher.how),
                aggregate.parameter,
                aggregate.type.precision,
                argument.scale,
            )
            overflow += lost
        columns[aggregate_name(i)] = column
    return columns, overflow

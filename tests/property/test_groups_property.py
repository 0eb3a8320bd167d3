"""The group table against a dict of lists: NULLs, masks, selections, constants, collisions, merges."""

from __future__ import annotations

import math
import random
import struct
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from cbt.aggregate import Finish, StateKind
from cython_ext.column import Column, Selection
from cython_ext.groups import GroupTable, _test_hash_bits
from cython_ext.sketch_hll import HllSketch
from cython_ext.sketch_quantiles import QuantileSketch
from job.types import Kind

Value = bool | int | float | str | None
Key = tuple[object, ...]

PRECISION = {StateKind.SUM_DECIMAL: (9, 2), StateKind.SUM_DECIMAL_WIDE: (38, 36)}
INT64 = st.one_of(
    st.integers(-5, 5), st.sampled_from([-(2**63), 2**63 - 1]), st.integers(-(2**63), 2**63 - 1)
)
DOUBLES = st.one_of(
    st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324]), st.floats()
)
VALUES: dict[Kind, st.SearchStrategy[Value]] = {
    Kind.BOOLEAN: st.booleans(),
    Kind.BIGINT: INT64,
    Kind.TIMESTAMP: INT64,
    Kind.DECIMAL: st.one_of(st.integers(-999_999_999, 999_999_999), st.integers(-10, 10)),
    Kind.DOUBLE: DOUBLES,
    Kind.STRING: st.one_of(
        st.sampled_from(["", "a", "b", "ab", "x" * 126, "x" * 127, "é"]), st.text(max_size=20)
    ),
}
WIDE = st.one_of(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(-3, 3))
EXACT = Context(prec=200, rounding=ROUND_HALF_UP)


def canonical(value: Value) -> object:
    """Equal exactly when the table must take two values for one."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return (type(value).__name__, value) if isinstance(value, bool) else value


def argument_kind(state: StateKind) -> Kind | None:
    named = {
        StateKind.COUNT: None,
        StateKind.SUM: Kind.BIGINT,
        StateKind.SUM_DECIMAL: Kind.DECIMAL,
        StateKind.SUM_DECIMAL_WIDE: Kind.DECIMAL,
        StateKind.SUM_DOUBLE: Kind.DOUBLE,
    }
    return named[state] if state in named else Kind(state % 10)


# ---- the model: what a finish makes of the values of a group


def bounded(value: int, low: int, high: int) -> int | None:
    return value if low <= value <= high else None


def sum_decimal(values: list[int], precision: int) -> int | None:
    limit = 10 ** min(38, precision + 10) - 1
    return bounded(sum(values), -limit, limit)


def average_decimal(values: list[int], precision: int, scale: int) -> int | None:
    total = sum_decimal(values, precision)
    if total is None:
        return None
    places = min(38, scale + 4)
    quotient = EXACT.divide(Decimal(total).scaleb(-scale, EXACT), Decimal(len(values)))
    quotient = quotient.quantize(Decimal(1).scaleb(-places), context=EXACT)
    limit = 10 ** min(38, precision + 4) - 1
    return bounded(int(quotient.scaleb(places, EXACT)), -limit, limit)


def sum_double(values: list[float], divisor: int) -> float:
    special = [value for value in values if not math.isfinite(value)]
    if special:
        return sum(special)
    try:
        return float(sum(map(Fraction, values), Fraction(0)) / divisor) + 0.0
    except OverflowError:
        return math.inf if sum(map(Fraction, values)) > 0 else -math.inf


def rank(value: Value) -> object:
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def model_hll(values: list[Value], kind: Kind) -> int:
    sketch = HllSketch()
    for value in values:
        if isinstance(value, str):
            data = value.encode()
        elif isinstance(value, float):
            data = struct.pack("<d", math.nan if math.isnan(value) else value + 0.0)
        else:
            data = int(value or 0).to_bytes(16 if kind is Kind.DECIMAL else 8, "little", signed=True)
        sketch.update(data)
    return math.floor(sketch.estimate() + 0.5)


def model_quantile(values: list[Value], kind: Kind) -> float | None:
    sketch = QuantileSketch()
    sketch.update([float(value or 0) for value in values])
    found = sketch.quantile(0.4)
    return found / 100 if kind is Kind.DECIMAL and found is not None else found


def model(state: StateKind, finish: Finish, values: list[Value]) -> object:
    if finish is Finish.COUNT:
        return len(values)
    kind = argument_kind(state)
    if finish is Finish.ESTIMATE and kind is not None:
        return model_hll(values, kind)
    if not values:
        return None
    if finish is Finish.QUANTILE and kind is not None:
        return model_quantile(values, kind)
    if finish is Finish.VALUE:
        value = (min if state < StateKind.MAX_BOOLEAN else max)(values, key=rank)  # type: ignore[type-var]
        return value + 0.0 if isinstance(value, float) else value
    if state is StateKind.SUM:
        total = sum(values)  # type: ignore[arg-type]
        return (
            bounded(total, -(2**63), 2**63 - 1)
            if finish is Finish.SUM
            else float(Fraction(total, len(values)))
        )
    if state is StateKind.SUM_DOUBLE:
        return sum_double(values, 1 if finish is Finish.SUM else len(values))  # type: ignore[arg-type]
    precision, scale = PRECISION[state]
    if finish is Finish.SUM:
        return sum_decimal(values, precision)  # type: ignore[arg-type]
    return average_decimal(values, precision, scale)  # type: ignore[arg-type]


def finishes(state: StateKind) -> list[Finish]:
    if state is StateKind.COUNT:
        return [Finish.COUNT]
    if state <= StateKind.SUM_DOUBLE:
        return [Finish.COUNT, Finish.SUM, Finish.AVG]
    last = Finish.QUANTILE if state >= StateKind.QUANTILES_BIGINT else Finish.ESTIMATE
    return [Finish.VALUE if state < StateKind.HLL_BOOLEAN else last]


# ---- cases


class Block(NamedTuple):
    """Rows as Python values: a list per key; per state an argument and a mask, or None; the rows selected."""

    keys: list[list[Value]]
    inputs: list[list[Value] | None]
    masks: list[list[Value] | None]
    rows: int
    selection: list[int] | None


class Case(NamedTuple):
    key_kinds: list[Kind]
    states: list[StateKind]
    blocks: list[Block]
    bits: int


def column(draw: st.DrawFn, values: st.SearchStrategy[Value], rows: int) -> list[Value]:
    """Values of a column; a list of one value for more rows stands for a constant."""
    some = st.one_of(st.none(), values)
    if rows > 1 and draw(st.integers(0, 4)) == 0:
        return [draw(some)]
    pool = draw(st.lists(some, min_size=1, max_size=6))
    return draw(st.lists(st.sampled_from(pool), min_size=rows, max_size=rows))


@st.composite
def blocks(draw: st.DrawFn, key_kinds: list[Kind], states: list[StateKind]) -> Block:
    rows = draw(st.integers(0, 20))
    keys = [column(draw, VALUES[kind], rows) for kind in key_kinds]
    inputs: list[list[Value] | None] = []
    for state in states:
        kind = argument_kind(state)
        if kind is None and draw(st.booleans()):
            inputs.append(None)
        else:
            wide = state is StateKind.SUM_DECIMAL_WIDE
            inputs.append(column(draw, WIDE if wide else VALUES[kind or Kind.BIGINT], rows))
    masks = [draw(st.none() | st.just(1)) and column(draw, st.booleans(), rows) for _ in states]
    selection = draw(st.none() | st.lists(st.integers(0, rows - 1))) if rows else None
    return Block(keys, inputs, masks, rows, selection)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    key_kinds = draw(st.lists(st.sampled_from(list(VALUES)), max_size=3))
    states = draw(st.lists(st.sampled_from(list(StateKind)), max_size=4))
    parts = draw(st.lists(blocks(key_kinds, states), min_size=1, max_size=4))
    return Case(key_kinds, states, parts, draw(st.sampled_from([64, 64, 8, 2, 0])))


def at(values: list[Value], row: int) -> Value:
    return values[0] if len(values) == 1 else values[row]


def to_column(kind: Kind, values: list[Value], rows: int) -> Column:
    constant = len(values) == 1 and rows > 1
    return Column.from_list(kind, values, constant, rows if constant else -1)


def feed(table: GroupTable, case: Case, block: Block) -> None:
    keys = [to_column(k, v, block.rows) for k, v in zip(case.key_kinds, block.keys, strict=True)]
    inputs = [
        None if values is None else to_column(argument_kind(state) or Kind.BIGINT, values, block.rows)
        for state, values in zip(case.states, block.inputs, strict=True)
    ]
    masks = [
        None if values is None else to_column(Kind.BOOLEAN, values, block.rows) for values in block.masks
    ]
    selection = None if block.selection is None else Selection.from_list(block.selection)
    table.update(keys, inputs, masks, block.rows, selection)
    table.check()


def expected(case: Case) -> dict[Key, list[object]]:
    groups: dict[Key, list[list[Value]]] = {}
    for block in case.blocks:
        for row in range(block.rows) if block.selection is None else block.selection:
            key = tuple(canonical(at(values, row)) for values in block.keys)
            group = groups.setdefault(key, [[] for _ in case.states])
            for values, inputs, mask in zip(group, block.inputs, block.masks, strict=True):
                value = 1 if inputs is None else at(inputs, row)
                if value is not None and (mask is None or at(mask, row)):
                    values.append(value)
    return {
        key: [
            canonical(model(state, finish, values))  # type: ignore[arg-type]
            for state, values in zip(case.states, group, strict=True)
            for finish in finishes(state)
        ]
        for key, group in groups.items()
    }


def finished(table: GroupTable, case: Case) -> dict[Key, list[object]]:
    columns = []
    for index, state in enumerate(case.states):
        precision, scale = PRECISION.get(state, (9, 2))
        for finish in finishes(state):
            digits = min(38, precision + (10 if finish is Finish.SUM else 4))
            values, overflows = table.finish(index, finish, 0.4, digits, scale)
            counted = finish in (Finish.SUM, Finish.AVG) and state <= StateKind.SUM_DECIMAL_WIDE
            counts = table.finish(index, Finish.COUNT)[0].to_list() if counted else []
            nulls = [n > 0 and value is None for n, value in zip(counts, values.to_list(), strict=False)]
            assert overflows == sum(nulls)
            columns.append([canonical(value) for value in values.to_list()])
    key_columns = [[canonical(value) for value in part.to_list()] for part in table.keys()]  # noqa: SIM118
    table.check()
    return {
        tuple(part[row] for part in key_columns): [part[row] for part in columns] for row in range(len(table))
    }


def new_table(case: Case) -> GroupTable:
    _test_hash_bits(case.bits)
    try:
        return GroupTable(case.key_kinds, case.states)
    finally:
        _test_hash_bits()


@settings(max_examples=400, deadline=None)
@given(cases())
def test_a_table_is_a_dict_of_lists(case: Case) -> None:
    table = new_table(case)
    for block in case.blocks:
        feed(table, case, block)
    assert finished(table, case) == expected(case)


@settings(max_examples=300, deadline=None)
@given(cases(), st.randoms())
def test_tables_merge_in_any_order(case: Case, rng: random.Random) -> None:
    tables = []
    for block in case.blocks:
        table = new_table(case)
        feed(table, case, block)
        tables.append(table)
    while len(tables) > 1:
        other = tables.pop(rng.randrange(len(tables)))
        table = rng.choice(tables)
        table.merge(other)
        other.check()
        table.check()
    assert finished(tables[0], case) == expected(case)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3), st.data())
def test_distinct_pairs_are_counted(kinds: list[Kind], data: st.DataObject) -> None:
    key_count = data.draw(st.integers(0, len(kinds) - 1))
    case = Case(kinds, [], [data.draw(blocks(kinds, []))], data.draw(st.sampled_from([64, 2])))
    block = case.blocks[0]
    groups, pairs = new_table(case._replace(key_kinds=kinds[:key_count])), new_table(case)
    if key_count == 0:
        groups.ensure_group()
    feed(groups, case._replace(key_kinds=kinds[:key_count]), block._replace(keys=block.keys[:key_count]))
    feed(pairs, case, block)
    distinct: dict[Key, set[Key]] = {(): set()} if key_count == 0 else {}
    for row in range(block.rows) if block.selection is None else block.selection:
        whole = tuple(canonical(at(values, row)) for values in block.keys)
        found = distinct.setdefault(whole[:key_count], set())
        if None not in whole[key_count:]:
            found.add(whole[key_count:])
    assert groups.count_distinct(pairs, key_count).to_list() == [len(found) for found in distinct.values()]

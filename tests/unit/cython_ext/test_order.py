"""Sorting, first rows of an order, and splitting by value, against Python's own sort."""

from __future__ import annotations

import functools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cython_ext.column import Column
from cython_ext.order import sort_rows, split_rows
from job.types import Kind

INT64 = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
VALUES = {
    Kind.BOOLEAN: st.booleans(),
    Kind.BIGINT: INT64,
    Kind.TIMESTAMP: INT64,
    Kind.DECIMAL: st.one_of(st.integers(-3, 3), st.integers(-(10**38), 10**38)),
    Kind.DOUBLE: st.one_of(st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf]), st.floats()),
    Kind.STRING: st.one_of(
        st.sampled_from(["", "a", "a\0", "é", "prefix-0", "prefix-00"]), st.text(max_size=12)
    ),
}


def rank(value: object) -> object:
    """A key by which Python sorts the value as Spark does."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def compare(a: object, b: object, descending: bool, nulls_first: bool) -> int:
    if a is None or b is None:
        order = (b is None) - (a is None)
        return order if nulls_first else -order
    x, y = rank(a), rank(b)
    order = (x > y) - (x < y)  # type: ignore[operator]
    return -order if descending else order


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[tuple[Kind, list[object]]], list[bool], list[bool], int]:
    rows = draw(st.integers(0, 40))
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    columns = [
        (kind, draw(st.lists(st.one_of(st.none(), VALUES[kind]), min_size=rows, max_size=rows)))
        for kind in kinds
    ]
    flags = st.lists(st.booleans(), min_size=len(kinds), max_size=len(kinds))
    return columns, draw(flags), draw(flags), draw(st.integers(-1, rows + 1))


@settings(max_examples=400, deadline=None)
@given(tables())
def test_rows_come_in_the_order_of_a_stable_sort(
    case: tuple[list[tuple[Kind, list[object]]], list[bool], list[bool], int],
) -> None:
    columns, descending, nulls_first, limit = case

    def order(a: int, b: int) -> int:
        for (_, values), down, first in zip(columns, descending, nulls_first, strict=True):
            result = compare(values[a], values[b], down, first)
            if result:
                return result
        return 0

    expected = sorted(range(len(columns[0][1])), key=functools.cmp_to_key(order))
    got = sort_rows([Column.from_list(k, v) for k, v in columns], descending, nulls_first, limit)
    assert got.to_list() == (expected if limit < 0 else expected[:limit])


@pytest.mark.parametrize("limit", [-1, 0, 1, 10, 500, 5000, 9999])
@pytest.mark.parametrize("descending", [False, True])
def test_many_rows_with_ties(limit: int, descending: bool) -> None:
    rng = random.Random(7)
    values = [rng.randrange(300) for _ in range(5000)]
    names = [f"/shop/item-{rng.randrange(50)}" for _ in values]
    expected = sorted(range(5000), key=lambda i: names[i].encode())
    expected.sort(key=lambda i: values[i], reverse=descending)
    columns = [Column.from_list(Kind.BIGINT, values), Column.from_list(Kind.STRING, names)]
    got = sort_rows(columns, [descending, False], [True, True], limit).to_list()
    assert got == (expected if limit < 0 else expected[:limit])


def test_constant_columns_do_not_order() -> None:
    columns = [Column.from_list(Kind.BIGINT, [4], True, 3), Column.from_list(Kind.BIGINT, [3, 1, 2])]
    assert sort_rows(columns, [False, False], [True, True]).to_list() == [1, 2, 0]


def test_columns_of_different_lengths_are_refused() -> None:
    columns = [Column.from_list(Kind.BIGINT, [1, 2]), Column.from_list(Kind.BIGINT, [1])]
    with pytest.raises(ValueError, match="rows beside"):
        sort_rows(columns, [False, False], [True, True])
    with pytest.raises(ValueError, match="direction"):
        sort_rows(columns[:1], [], [True])
    with pytest.raises(ValueError, match="nothing"):
        sort_rows([], [], [])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(-2, 2), INT64), max_size=60))
def test_rows_are_split_by_value(values: list[int | None]) -> None:
    got = [(value, rows.to_list()) for value, rows in split_rows(Column.from_list(Kind.TIMESTAMP, values))]
    expected = sorted({v for v in values if v is not None})
    assert got == [(v, [i for i, x in enumerate(values) if x == v]) for v in expected]


def test_thousands_of_parts() -> None:
    values = [(i * 7919) % 5003 - 2500 for i in range(20000)]
    parts = split_rows(Column.from_list(Kind.BIGINT, values))
    assert [value for value, _ in parts] == sorted(set(values))
    assert all(all(values[row] == value for row in rows.to_list()) for value, rows in parts)
    assert sum(len(rows) for _, rows in parts) == len(values)


def test_a_constant_is_one_part_and_a_constant_null_none() -> None:
    ((value, rows),) = split_rows(Column.from_list(Kind.BIGINT, [5], True, 4))
    assert (value, rows.to_list()) == (5, [0, 1, 2, 3])
    assert split_rows(Column.from_list(Kind.BIGINT, [None], True, 4)) == []


def test_only_integers_and_times_split() -> None:
    with pytest.raises(TypeError):
        split_rows(Column.from_list(Kind.STRING, ["a"]))

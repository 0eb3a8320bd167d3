"""Comparisons, membership, greatest and least. The expectations are Spark's."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from cython_ext.column import Column
from cython_ext.exprs_compare import EQ, SMALL_LIST_MAX, Membership, compare, equal_null_safe, extreme
from job.plan import Literal
from job.types import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, Kind, Type, decimal
from tests.expression_cases import number, result, same

ORDERED: list[tuple[Type, list[Any]]] = [
    (BOOLEAN, [False, True]),
    (BIGINT, [-(2**63), -1, 0, 2**63 - 1]),
    (TIMESTAMP, [-(2**63), 0, 2**63 - 1]),
    (DOUBLE, [-math.inf, -1.5, 0.0, 5e-324, math.inf, math.nan]),
    (decimal(38, 2), [Decimal(-(10**36) + 1), Decimal("-0.01"), Decimal("0.00"), Decimal(2**70)]),
    (STRING, ["", "a", "a\x00", "aa", "abcdefgh", "abcdefghi", "abcdefghj" * 3, "b", "é", "\uffff", "😀"]),
]
OPERATORS = {
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y, "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
}  # fmt: skip


@pytest.mark.parametrize(("type_", "values"), ORDERED, ids=lambda value: str(value)[:12])
def test_the_order_of_each_kind(type_: Type, values: list[Any]) -> None:
    """`values` ascend; NaN is the greatest, text goes by bytes."""
    for i, a in enumerate(values):
        for k, b in enumerate(values):
            for name, holds in OPERATORS.items():
                assert result(name, BOOLEAN, (a, type_), (b, type_)) is holds(i, k), (name, a, b)
    assert result("eq", BOOLEAN, (values[0], type_), (None, type_)) is None


def test_zero_has_one_value_and_nan_equals_itself() -> None:
    assert result("eq", BOOLEAN, (0.0, DOUBLE), (-0.0, DOUBLE)) is True
    assert result("lt", BOOLEAN, (-0.0, DOUBLE), (0.0, DOUBLE)) is False
    assert result("nullif", DOUBLE, (math.nan, DOUBLE), (math.nan, DOUBLE)) is None


@pytest.mark.parametrize(
    ("a", "b", "expected"), [(1, 1, True), (1, 2, False), (None, 1, False), (1, None, False), (None, None, True)]
)
def test_null_safe_equality(a: Any, b: Any, expected: bool) -> None:
    assert result("eq_null_safe", BOOLEAN, (a, BIGINT), (b, BIGINT)) is expected


def test_null_safe_equality_never_gives_null() -> None:
    column = Column.from_list(Kind.STRING, ["a", None])
    assert not equal_null_safe(column, column).has_nulls


def test_a_constant_on_either_side() -> None:
    column = Column.from_list(Kind.BIGINT, [1, 2, 3])
    two = Column.from_list(Kind.BIGINT, [2], constant=True, length=3)
    for operator, name in enumerate(OPERATORS):
        expected = [OPERATORS[name](value, 2) for value in (1, 2, 3)]
        assert compare(operator, column, two).to_list() == expected
        assert compare(operator, two, column).to_list() == [OPERATORS[name](2, value) for value in (1, 2, 3)]
        assert compare(operator, two, two).constant


def test_kinds_must_agree() -> None:
    with pytest.raises(TypeError, match="kind 2 was expected, not 5"):
        compare(EQ, Column.from_list(Kind.BIGINT, [1]), Column.from_list(Kind.STRING, ["1"]))
    with pytest.raises(TypeError, match="cannot be compared"):
        compare(EQ, Column.from_list(Kind.NULL, [None]), Column.from_list(Kind.NULL, [None]))
    with pytest.raises(ValueError, match="no comparison 6"):
        compare(6, Column.from_list(Kind.BIGINT, [1]), Column.from_list(Kind.BIGINT, [1]))


@pytest.mark.parametrize(
    ("value", "candidates", "expected"),
    [(1, [2, None], None), (1, [1, None], True), (None, [1], None), (1, [2], False), (1, [None], None),
     (5, list(range(100)), True), (-1, list(range(100)), False), (2**63 - 1, [2**63 - 1] * 20, True)],
)  # fmt: skip
def test_in(value: Any, candidates: list[Any], expected: Any) -> None:
    assert result("in", BOOLEAN, (value, BIGINT), *map(number, candidates)) is expected


def test_in_mixes_literals_and_columns() -> None:
    assert result("in", BOOLEAN, (3, BIGINT), number(1), (3, BIGINT)) is True
    assert result("in", BOOLEAN, (3, BIGINT), number(1), (None, BIGINT)) is None
    assert result("in", BOOLEAN, (3, BIGINT), (None, BIGINT), (3, BIGINT)) is True


@pytest.mark.parametrize(
    ("type_", "values"),
    [(STRING, [f"/path/{i}" for i in range(50)]), (DOUBLE, [0.0, math.nan, 1.5]), (BOOLEAN, [True]), (STRING, [""]),
     (decimal(5, 2), [Decimal("1.50"), Decimal("-2.00")]), (TIMESTAMP, [5, 6])],
)  # fmt: skip
def test_in_finds_every_candidate(type_: Type, values: list[Any]) -> None:
    literals = [Literal(str(v) if type_.kind is Kind.DECIMAL else v, type_) for v in values]
    for value in values:
        assert result("in", BOOLEAN, (value, type_), *literals) is True
    if type_ is DOUBLE:
        assert result("in", BOOLEAN, (-0.0, DOUBLE), *literals) is True
        assert result("in", BOOLEAN, (2.5, DOUBLE), *literals) is False


def test_small_and_large_lists_agree() -> None:
    column = Column.from_list(Kind.BIGINT, list(range(-5, 30)))
    small = Membership(Column.from_list(Kind.BIGINT, list(range(SMALL_LIST_MAX))))
    large = Membership(Column.from_list(Kind.BIGINT, list(range(SMALL_LIST_MAX)) + [7] * SMALL_LIST_MAX))
    assert small.test(column).to_list() == large.test(column).to_list()
    assert sum(small.test(column).to_list()) == SMALL_LIST_MAX
    with pytest.raises(ValueError, match="plain column"):
        Membership(Column.from_list(Kind.BIGINT, [1], constant=True))


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [("greatest", [1.0, math.nan, 2.0], math.nan), ("least", [1.0, math.nan], 1.0), ("greatest", [-0.0, 0.0], -0.0),
     ("least", [0.0, -0.0], 0.0), ("greatest", [None, 1.0], 1.0), ("least", [None, None], None)],
)  # fmt: skip
def test_extremes(function: str, values: list[Any], expected: Any) -> None:
    assert same(result(function, DOUBLE, *((value, DOUBLE) for value in values)), expected)


def test_extremes_of_texts_keep_their_bytes_alive() -> None:
    a = Column.from_list(Kind.STRING, ["b" * 20, None])
    b = Column.from_list(Kind.STRING, ["c" * 20, "d" * 20])
    out = extreme(a, b, True)
    del a, b
    assert out.to_list() == ["c" * 20, "d" * 20]

"""Arithmetic. The expectations are what Spark 4.3 answers in ANSI mode, unless a test says otherwise."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from cython_ext import exprs_arithmetic
from cython_ext.column import Column
from cython_ext.exprs_result import Failures
from job.types import BIGINT, BOOLEAN, DOUBLE, Kind, Type, decimal
from tests.expression_cases import FAILS, number, result, same

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("function", "a", "b", "expected"),
    [
        ("add", LONG_MAX, 1, FAILS), ("add", LONG_MIN, -1, FAILS), ("add", LONG_MAX, LONG_MIN, -1), ("add", 2, 3, 5),
        ("sub", LONG_MIN, 1, FAILS), ("sub", 0, LONG_MIN, FAILS), ("sub", -1, LONG_MIN, LONG_MAX), ("sub", 2, 3, -1),
        ("mul", LONG_MIN, -1, FAILS), ("mul", 2**32, 2**31, FAILS), ("mul", -(2**32), 2**31, LONG_MIN),
        ("int_div", 7, 2, 3), ("int_div", -7, 2, -3), ("int_div", 7, 0, FAILS), ("int_div", LONG_MIN, -1, FAILS),
        ("int_div", LONG_MIN, 1, LONG_MIN), ("mod", 5, -3, 2), ("mod", -5, 3, -2), ("mod", LONG_MIN, -1, 0),
        ("mod", 5, 0, FAILS), ("add", None, LONG_MAX, None), ("int_div", None, 0, None),
    ],
)  # fmt: skip
def test_bigint(function: str, a: Any, b: Any, expected: Any) -> None:
    assert same(result(function, BIGINT, (a, BIGINT), (b, BIGINT)), expected)
    assert same(result(function, BIGINT, (a, BIGINT), number(b)), expected)
    assert same(result(function, BIGINT, number(a), (b, BIGINT)), expected)


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        ("neg", LONG_MIN, FAILS), ("neg", LONG_MAX, -LONG_MAX), ("neg", 0, 0), ("abs", LONG_MIN, FAILS), ("abs", -5, 5),
        ("abs", LONG_MAX, LONG_MAX), ("floor", -5, -5), ("ceil", LONG_MIN, LONG_MIN),
    ],
)  # fmt: skip
def test_bigint_signs(function: str, value: int, expected: Any) -> None:
    assert same(result(function, BIGINT, (value, BIGINT)), expected)


@pytest.mark.parametrize(
    ("value", "places", "expected"),
    [
        (155, -1, 160), (-155, -1, -160), (150, -2, 200), (5, -1, 10), (4, 2, 4), (LONG_MAX, -1, FAILS),
        (LONG_MIN, -1, FAILS),
        (LONG_MAX, -19, FAILS), (5 * 10**18, -19, FAILS), (5 * 10**18 - 1, -19, 0), (LONG_MAX, -18, 9 * 10**18),
        (15, -40, 0),
        (LONG_MAX - 3, -1, 9223372036854775800), (LONG_MIN, 0, LONG_MIN),
    ],
)  # fmt: skip
def test_round_bigint(value: int, places: int, expected: Any) -> None:
    assert same(result("round", BIGINT, (value, BIGINT), number(places)), expected)


@pytest.mark.parametrize(
    ("function", "a", "b", "expected"),
    [
        ("div", 1.0, 0.0, FAILS), ("div", 1.0, -0.0, FAILS), ("div", math.nan, 0.0, FAILS), ("div", 1.0, 4.0, 0.25),
        ("mod", -5.5, 2.0, -1.5), ("mod", 5.5, 0.0, FAILS), ("mod", 5.0, math.inf, 5.0), ("mod", math.inf, 2.0, math.nan),
        ("mod", -0.0, 1.0, -0.0), ("add", math.inf, -math.inf, math.nan), ("mul", 1e308, 10.0, math.inf),
        ("sub", 0.5, 0.25, 0.25),
        ("div", None, 0.0, None),
    ],
)  # fmt: skip
def test_double(function: str, a: Any, b: Any, expected: Any) -> None:
    assert same(result(function, DOUBLE, (a, DOUBLE), (b, DOUBLE)), expected)


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        ("floor", -1.5, -2), ("ceil", -0.5, 0), ("floor", math.nan, 0), ("ceil", math.inf, FAILS), ("floor", 1e19, FAILS),
        ("floor", 2.0**63, FAILS), ("ceil", -(2.0**63), LONG_MIN),
    ],
)  # fmt: skip
def test_whole_double(function: str, value: float, expected: Any) -> None:
    assert same(result(function, BIGINT, (value, DOUBLE)), expected)


@pytest.mark.parametrize(
    ("value", "places", "expected"),
    [
        (2.5, 0, 3.0), (-2.5, 0, -3.0), (1.005, 2, 1.01), (0.5, 0, 1.0), (math.nan, 1, math.nan), (1e308, -308, 1e308),
        (1e308, -309, 0.0), (123.456, -2, 100.0), (1.5, 400, 1.5), (-math.inf, 2, -math.inf), (-0.4, 0, 0.0),
    ],
)  # fmt: skip
def test_round_double(value: float, places: int, expected: float) -> None:
    assert same(result("round", DOUBLE, (value, DOUBLE), number(places)), expected)


def test_double_signs() -> None:
    assert same(result("neg", DOUBLE, (0.0, DOUBLE)), -0.0)
    assert same(result("abs", DOUBLE, (-0.0, DOUBLE)), 0.0)


WIDE, TINY = decimal(38, 0), decimal(38, 38)


@pytest.mark.parametrize(
    ("function", "a", "a_type", "b", "b_type", "type_", "expected"),
    [
        ("div", "1.0", decimal(2, 1), "3.0", decimal(2, 1), decimal(8, 6), "0.333333"),
        ("div", "2.0", decimal(2, 1), "3.0", decimal(2, 1), decimal(8, 6), "0.666667"),
        ("div", "-2", decimal(1, 0), "3", decimal(1, 0), decimal(7, 6), "-0.666667"),
        ("div", "7.5", decimal(2, 1), "0", decimal(1, 0), decimal(7, 6), FAILS),
        ("div", "0.5", TINY, "3", WIDE, TINY, "0.16666666666666666666666666666666666667"),
        ("div", "99999999999999999999999999999999999999", WIDE, "0.1", TINY, decimal(38, 6), FAILS),
        # Rounded once: by way of 39 decimals the last digit would be 2.
        ("div", "0.00000000000000000000000000000001499999", TINY, "1000000", WIDE, TINY, "1E-38"),
        ("mul", "12345678901234567.123456789", decimal(38, 18), "9.87654321", decimal(38, 18), decimal(38, 6),
         "121932631124828524.540466"),
        ("mul", "5.5090582616075628660762297790864831884", decimal(38, 37), "446070880.5", decimal(10, 1), decimal(38, 27),
         "2457430469.481084913129727397677428041"),
        ("mul", "99999999999999999999999999999999999999", WIDE, "2", WIDE, WIDE, FAILS),
        ("mul", "1E-38", TINY, "1E-38", TINY, TINY, "0E-38"),
        ("add", "99999999999999999999999999999999999999", WIDE, "1", WIDE, WIDE, FAILS),
        ("add", "0.95", decimal(3, 2), "0.1", decimal(2, 1), decimal(3, 1), "1.1"),
        ("sub", "0.5", TINY, "99999999999999999999999999999999", WIDE, decimal(38, 6),
         "-99999999999999999999999999999998.500000"),
        ("mod", "-5.5", decimal(2, 1), "0.3", decimal(2, 1), decimal(2, 1), "-0.1"),
        ("mod", "12345678901234567890123456789012345678", WIDE, "1E-10", decimal(10, 10), decimal(10, 10), "0E-10"),
        # Spark raises "Division impossible" here, because the quotient has 41 digits.
        ("mod", "1000", WIDE, "3E-38", TINY, TINY, "1E-38"),
        ("mod", "1", WIDE, "0", TINY, TINY, FAILS),
        ("mod", "1E-38", TINY, "99999999999999999999999999999999999999", WIDE, TINY, "1E-38"),
    ],
)  # fmt: skip
def test_decimal(function: str, a: str, a_type: Type, b: str, b_type: Type, type_: Type, expected: str) -> None:
    got = result(function, type_, (Decimal(a), a_type), (Decimal(b), b_type))
    assert same(got, FAILS if expected == FAILS else Decimal(expected))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [("7.5", "2", 3), ("-7.5", "0.2", -37), ("1", "0", FAILS), ("0.1", "99999999999999999999", 0),
     ("9999999999999999999999999999999999999", "1", FAILS)],
)  # fmt: skip
def test_decimal_int_div(a: str, b: str, expected: Any) -> None:
    """Spark wraps a quotient beyond BIGINT; here it fails."""
    got = result("int_div", BIGINT, (Decimal(a), decimal(38, 1)), (Decimal(b), decimal(38, 1)))
    assert same(got, expected)


@pytest.mark.parametrize(
    ("function", "value", "source", "type_", "expected"),
    [
        ("floor", "-1.5", decimal(2, 1), decimal(2, 0), "-2"), ("ceil", "9.99", decimal(3, 2), decimal(2, 0), "10"),
        ("ceil", "-0.5", decimal(2, 1), decimal(2, 0), "0"), ("floor", "7", decimal(2, 0), decimal(3, 0), "7"),
        ("floor", "-9999999999999999999999999999999999999.9", decimal(38, 1), decimal(38, 0),
         "-10000000000000000000000000000000000000"),
        ("neg", "1.50", decimal(3, 2), decimal(3, 2), "-1.50"), ("abs", "-1.50", decimal(3, 2), decimal(3, 2), "1.50"),
    ],
)  # fmt: skip
def test_decimal_alone(function: str, value: str, source: Type, type_: Type, expected: str) -> None:
    assert same(result(function, type_, (Decimal(value), source)), Decimal(expected))


@pytest.mark.parametrize(
    ("value", "source", "places", "type_", "expected"),
    [
        ("1.2345", decimal(5, 4), 2, decimal(4, 2), "1.23"), ("-1.235", decimal(4, 3), 2, decimal(4, 2), "-1.24"),
        ("1234.5", decimal(5, 1), -2, decimal(5, 0), "1200"), ("9.99", decimal(3, 2), 1, decimal(3, 1), "10.0"),
        ("99", decimal(2, 0), -1, decimal(3, 0), "100"), ("9.99", decimal(3, 2), 10, decimal(4, 2), "9.99"),
        ("99999999999999999999999999999999999999", WIDE, -1, WIDE, FAILS),
        ("49999999999999999999999999999999999999", WIDE, -38, WIDE, "0"),
        ("5", decimal(1, 0), -40, WIDE, "0"),
    ],
)  # fmt: skip
def test_round_decimal(value: str, source: Type, places: int, type_: Type, expected: str) -> None:
    got = result("round", type_, (Decimal(value), source), number(places))
    assert same(got, FAILS if expected == FAILS else Decimal(expected))


def test_a_failure_counts_per_row_and_null_rows_do_not() -> None:
    a = Column.from_list(Kind.BIGINT, [LONG_MAX, LONG_MAX, None, 1])
    b = Column.from_list(Kind.BIGINT, [1, None, 1, 1])
    failures = Failures()
    assert exprs_arithmetic.bigint(exprs_arithmetic.ADD, a, b, failures).to_list() == [None, None, None, 2]
    assert failures.count == 1


def test_a_constant_failure_counts_for_all_its_rows() -> None:
    zero = Column.from_list(Kind.BIGINT, [0], constant=True, length=5)
    failures = Failures()
    column = exprs_arithmetic.bigint(exprs_arithmetic.DIVIDE, zero, zero, failures)
    assert (column.constant, column.to_list(), failures.count) == (True, [None] * 5, 5)


def test_only_rows_of_the_mask_count() -> None:
    zeros = Column.from_list(Kind.BIGINT, [0, 0, 0])
    failures = Failures()
    failures.mask = Column.from_list(Kind.BOOLEAN, [True, False, True])
    exprs_arithmetic.bigint(exprs_arithmetic.REMAINDER, zeros, zeros, failures)
    assert failures.count == 2


def test_wrong_arguments_are_refused() -> None:
    one, other, flag = (Column.from_list(k, v) for k, v in ((2, [1]), (2, [1, 2]), (BOOLEAN.kind, [True])))
    failures = Failures()
    with pytest.raises(ValueError, match="1 and 2 rows"):
        exprs_arithmetic.bigint(exprs_arithmetic.ADD, one, other, failures)
    with pytest.raises(TypeError, match="kind 2 was expected, not 1"):
        exprs_arithmetic.bigint(exprs_arithmetic.ADD, one, flag, failures)
    with pytest.raises(ValueError, match="no arithmetic 9"):
        exprs_arithmetic.bigint(9, one, one, failures)
    with pytest.raises(TypeError, match="BOOLEAN column without NULLs"):
        failures.mask = Column.from_list(Kind.BOOLEAN, [None])
    amount = Column.from_list(Kind.DECIMAL, [1])
    with pytest.raises(ValueError, match="scales 39 and 0"):
        exprs_arithmetic.decimal(exprs_arithmetic.ADD, amount, 39, amount, 0, 38, 0, failures)

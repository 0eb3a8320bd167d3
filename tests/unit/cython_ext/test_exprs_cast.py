"""Casts. The expectations are what Spark 4.3 answers in ANSI mode."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from cython_ext import exprs_cast
from cython_ext.column import Column
from cython_ext.exprs_result import Failures
from job.types import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, Kind, Type, decimal
from tests.expression_cases import FAILS, result, same, text

INF = math.inf


def cast(value: Any, source: Type, target: Type) -> Any:
    return result("cast", target, (value, source))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (" 12 ", 12), ("\x0112\x1f", 12), ("\x7f12", 12), ("+5", 5), ("-5", -5), ("0000000000000000000000000000001", 1),
        ("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63)), ("9223372036854775808", FAILS),
        ("-9223372036854775809", FAILS), ("1.5", FAILS), ("1.", FAILS), ("+", FAILS), ("", FAILS), ("1e2", FAILS),
        ("5L", FAILS), ("\u0661", FAILS), ("\u00a012", FAILS), ("1_000", FAILS),
    ],
)  # fmt: skip
def test_text_to_bigint(written: str, expected: Any) -> None:
    assert same(cast(written, STRING, BIGINT), expected)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (" TRUE ", True), ("t", True), ("y", True), ("Yes", True), ("1", True), ("n", False), ("NO", False), ("0", False),
        ("f", False), ("false\x7f", False), ("on", FAILS), ("tru", FAILS), ("", FAILS), ("2", FAILS),
    ],
)  # fmt: skip
def test_text_to_boolean(written: str, expected: Any) -> None:
    assert same(cast(written, STRING, BOOLEAN), expected)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (" 1.5 ", 1.5), ("1.5d", 1.5), ("1.5F", 1.5), ("0x1p3", 8.0), ("0x1", FAILS), ("inf", INF), ("+Infinity", INF),
        ("-INF", -INF), (" nan ", math.nan), ("+nan", FAILS), ("+NaN", math.nan), ("1e400", INF), ("1e-400", 0.0),
        ("1e", FAILS), (".5", 0.5), ("5.", 5.0), (".", FAILS), ("-0", -0.0), ("\x011", 1.0), ("1\x7f", FAILS),
        ("\u00a01", FAILS), ("1 2", FAILS), ("1e5d", 1e5), ("infd", FAILS), ("NaNd", FAILS), ("\u0663", FAILS),
        ("0.1", 0.1), ("123456789012345678", 123456789012345678.0), ("9007199254740993", 9007199254740992.0),
        ("1e23", 1e23), ("4.9e-324", 5e-324), ("1e22", 1e22), ("1e+22", 1e22), ("1e+", FAILS), ("abc", FAILS),
    ],
)  # fmt: skip
def test_text_to_double(written: str, expected: Any) -> None:
    assert same(cast(written, STRING, DOUBLE), expected)


@pytest.mark.parametrize(
    ("written", "target", "expected"),
    [
        (" 1.55 ", decimal(5, 1), "1.6"), ("-1.55", decimal(5, 1), "-1.6"), ("1e3", decimal(5, 1), "1000.0"),
        ("1e4", decimal(5, 1), FAILS), ("1E-5", decimal(5, 1), "0.0"), (".5", decimal(5, 1), "0.5"),
        ("5.", decimal(5, 1), "5.0"), ("abc", decimal(5, 1), FAILS), ("", decimal(5, 1), FAILS),
        ("9999.94", decimal(5, 1), "9999.9"), ("9999.95", decimal(5, 1), FAILS), ("1d", decimal(5, 1), FAILS),
        ("\u0663", decimal(5, 1), "3.0"), ("1\x7f", decimal(5, 1), FAILS), ("\x011", decimal(5, 1), "1.0"),
        ("12345678901234567890123456789012345678.5", decimal(38, 0), "12345678901234567890123456789012345679"),
        ("12345678901234567890123456789012345678901", decimal(38, 0), FAILS), ("1e100", decimal(38, 10), FAILS),
        ("1e-100", decimal(38, 10), "0E-10"), ("0e999999999", decimal(38, 10), "0E-10"),
        ("0e9999999999", decimal(38, 10), FAILS), ("1.5.", decimal(5, 1), FAILS), ("1..5", decimal(5, 1), FAILS),
    ],
)  # fmt: skip
def test_text_to_decimal(written: str, target: Type, expected: Any) -> None:
    got = cast(written, STRING, target)
    assert same(got, expected if expected == FAILS else Decimal(expected))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2020-01-02 03:04:05", "2020-01-02 03:04:05"), ("2020", "2020-01-01 00:00:00"), ("2020-1", "2020-01-01 00:00:00"),
        ("2020-01-02T", FAILS), ("2020-01-02 ", "2020-01-02 00:00:00"), ("2020-01-02T3", "2020-01-02 03:00:00"),
        ("2020-01-02 3:4", "2020-01-02 03:04:00"), ("2020-01-02 03:04:05.", "2020-01-02 03:04:05"),
        ("2020-01-02 03:04:05.1", "2020-01-02 03:04:05.1"), ("2020-01-02 03:04:05.123456789", "2020-01-02 03:04:05.123456"),
        ("2020-01-02 03:04:05Z", "2020-01-02 03:04:05"), ("2020-01-02 03:04:05 Z", "2020-01-02 03:04:05"),
        ("2020-01-02 03:04:05+02", "2020-01-02 01:04:05"), ("2020-01-02 03:04:05+02:30", "2020-01-02 00:34:05"),
        ("2020-01-02 03:04:05+2:3", "2020-01-02 01:01:05"), ("2020-01-02 03:04:05+0230", "2020-01-02 00:34:05"),
        ("2020-01-02 03:04:05-02:30:15", "2020-01-02 05:34:20"), ("2020-01-02 03:04:05+1:2:3", FAILS),
        ("2020-01-02 03:04:05 UTC", "2020-01-02 03:04:05"), ("2020-01-02 03:04:05 GMT+1", "2020-01-02 02:04:05"),
        ("2020-01-02 03:04:05 Europe/Berlin", "2020-01-02 02:04:05"), ("2020-01-02 03:04:05 PST", "2020-01-02 11:04:05"),
        ("2020-03-29 02:30:00 Europe/Berlin", "2020-03-29 01:30:00"),
        ("2020-10-25 02:30:00 Europe/Berlin", "2020-10-25 00:30:00"), ("2020-01-02 03:04:05 EST", "2020-01-02 08:04:05"),
        ("2020-01-02 03:04Z", FAILS), ("2020-01-02Z", FAILS), ("2020-02-30 03:04:05", FAILS),
        ("2020-01-02 24:00:00", FAILS),
        ("2020-01-02 23:60:00", FAILS), ("2020-01-02 23:59:60", FAILS), ("-2020-01-02", "-2020-01-02 00:00:00"),
        ("+2020-01-02", "2020-01-02 00:00:00"), ("12020-01-02", "+12020-01-02 00:00:00"), ("020-01-02", FAILS),
        ("1234567-01-01", FAILS), ("2020-001-02", FAILS), ("2020-01-02  03:04:05", FAILS), ("2020-01-02t03:04:05", FAILS),
        ("2020-01-02 03:04:05z", FAILS), ("2020-01-02 03:04:05+18:00", "2020-01-01 09:04:05"),
        ("2020-01-02 03:04:05+18:01", FAILS), ("2020-01-02 03:04:05+1:60", FAILS), ("1577934245", FAILS),
        ("294247-01-10 04:00:54.775807", "+294247-01-10 04:00:54.775807"), ("294247-01-10 04:00:54.775808", FAILS),
        ("-290308-12-21 19:59:05.224192", "-290308-12-21 19:59:05.224192"), ("10/Oct/2000:13:55:36 -0700", FAILS),
        ("", FAILS), ("2020-01-02 03:04:05 No/Where", FAILS),
    ],
)  # fmt: skip
def test_text_to_timestamp_and_back(written: str, expected: str) -> None:
    micros = cast(written, STRING, TIMESTAMP)
    assert (micros if micros == FAILS else cast(micros, TIMESTAMP, STRING)) == expected


def test_a_bare_time_of_day_is_no_timestamp() -> None:
    """Spark would take today's date, and rows of a log must not depend on the day they are read."""
    assert cast("12:30:00", STRING, TIMESTAMP) == FAILS


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.5, "1.5"), (100.0, "100.0"), (1e7, "1.0E7"), (9999999.0, "9999999.0"), (0.001, "0.001"), (0.0001, "1.0E-4"),
        (math.nan, "NaN"), (-INF, "-Infinity"), (-0.0, "-0.0"), (5e-324, "4.9E-324"), (1.1e-5, "1.1E-5"),
        (123456789012345680.0, "1.2345678901234568E17"), (-1234.5, "-1234.5"), (1e-320, "1.0E-320"),
        (1e-323, "9.9E-324"), (1e23, "1.0E23"), (2e23, "2.0E23"),
    ],
)  # fmt: skip
def test_double_to_text(value: float, expected: str) -> None:
    assert cast(value, DOUBLE, STRING) == expected


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (1.9, DOUBLE, BIGINT, 1), (-1.9, DOUBLE, BIGINT, -1), (math.nan, DOUBLE, BIGINT, FAILS),
        (1e19, DOUBLE, BIGINT, FAILS),
        (2.0**63, DOUBLE, BIGINT, 2**63 - 1), (-(2.0**63), DOUBLE, BIGINT, -(2**63)), (-INF, DOUBLE, BIGINT, FAILS),
        (Decimal("-1.9"), decimal(2, 1), BIGINT, -1), (Decimal(10) ** 19, decimal(20, 0), BIGINT, FAILS),
        (Decimal("9223372036854775807.9"), decimal(20, 1), BIGINT, 2**63 - 1), (True, BOOLEAN, BIGINT, 1),
        (-500_000, TIMESTAMP, BIGINT, -1), (-876_544, TIMESTAMP, DOUBLE, -0.876544), (2, BIGINT, BOOLEAN, True),
        (math.nan, DOUBLE, BOOLEAN, True), (-0.0, DOUBLE, BOOLEAN, False), (Decimal("0.1"), decimal(2, 1), BOOLEAN, True),
        (2**53 + 1, BIGINT, DOUBLE, 2.0**53), (True, BOOLEAN, DOUBLE, 1.0), (True, BOOLEAN, STRING, "true"),
        (Decimal("1E-8"), decimal(8, 8), STRING, "0.00000001"), (Decimal("0E-10"), decimal(38, 10), STRING, "0.0000000000"),
        (-(2**63), BIGINT, STRING, "-9223372036854775808"), (0, BIGINT, STRING, "0"),
        (Decimal("-12345678901234567890123456789012345678"), decimal(38, 0), STRING,
         "-12345678901234567890123456789012345678"),
        (Decimal("12345678901234567890123456789012345678"), decimal(38, 0), DOUBLE, 1.2345678901234568e37),
        (Decimal("0.12345678901234567890123456789012345678"), decimal(38, 38), DOUBLE, 0.12345678901234568),
        (1, BIGINT, TIMESTAMP, 1_000_000), (9223372036855, BIGINT, TIMESTAMP, 2**63 - 1),
        (-9223372036855, BIGINT, TIMESTAMP, -(2**63)), (-1.0000015, DOUBLE, TIMESTAMP, -1_000_001),
        (1e15, DOUBLE, TIMESTAMP, FAILS), (math.nan, DOUBLE, TIMESTAMP, FAILS),
        (Decimal("-1.0000005"), decimal(8, 7), TIMESTAMP, -1_000_000),
        (Decimal(10) ** 17, decimal(18, 0), TIMESTAMP, FAILS),
    ],
)  # fmt: skip
def test_between_kinds(value: Any, source: Type, target: Type, expected: Any) -> None:
    assert same(cast(value, source, target), expected)


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (123.456, DOUBLE, decimal(10, 2), "123.46"), (0.005, DOUBLE, decimal(10, 2), "0.01"),
        (2.675, DOUBLE, decimal(10, 2), "2.68"),
        (1e30, DOUBLE, decimal(10, 2), FAILS), (math.nan, DOUBLE, decimal(10, 2), FAILS),
        (12345, BIGINT, decimal(4, 0), FAILS),
        (12345, BIGINT, decimal(7, 2), "12345.00"), (True, BOOLEAN, decimal(4, 2), "1.00"),
        (-500_000, TIMESTAMP, decimal(20, 6), "-0.500000"), (-500_000, TIMESTAMP, decimal(20, 0), "-1"),
        (Decimal("-1.25"), decimal(3, 2), decimal(3, 1), "-1.3"), (Decimal("99.95"), decimal(4, 2), decimal(3, 1), FAILS),
    ],
)  # fmt: skip
def test_to_decimal(value: Any, source: Type, target: Type, expected: str) -> None:
    assert same(cast(value, source, target), FAILS if expected == FAILS else Decimal(expected))


def test_try_cast_does_not_count() -> None:
    assert result("try_cast", BIGINT, ("x", STRING)) is None
    assert result("try_cast", decimal(3, 0), (math.nan, DOUBLE)) is None
    assert result("try_cast", TIMESTAMP, ("2020-13-01", STRING)) is None


def test_null_casts_to_anything() -> None:
    for kind in (Kind.BOOLEAN, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE, Kind.STRING, Kind.TIMESTAMP):
        column = exprs_cast.typed_null(kind, 2)
        assert (column.kind, column.to_list()) == (kind, [None, None])


def test_kernels_refuse_other_kinds() -> None:
    column, failures = Column.from_list(Kind.BIGINT, [1]), Failures()
    with pytest.raises(TypeError, match="kind 5 was expected"):
        exprs_cast.read_string(column, Kind.BIGINT, 0, 0, failures)
    with pytest.raises(ValueError, match=r"DECIMAL\(39,0\)"):
        exprs_cast.bigint_to_decimal(column, 39, 0, failures)
    with pytest.raises(TypeError, match="does not become"):
        exprs_cast.read_string(Column.from_list(Kind.STRING, ["x"]), Kind.NULL, 0, 0, failures)


def test_a_literal_that_is_hard_to_read_is_read_once() -> None:
    assert result("cast", TIMESTAMP, text("2020-01-02 03:04:05 Europe/Berlin")) == 1_577_930_645_000_000

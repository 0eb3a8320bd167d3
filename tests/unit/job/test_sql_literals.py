"""Constants: times, intervals, and decimals cast while compiling."""

from __future__ import annotations

import pytest

from job.plan import Call, Literal
from job.sql.coercion import adjusted, bounded, cast, decimal_text, wider_decimal
from job.sql.literals import interval_micros, number, timestamp_micros
from job.types import BIGINT, DOUBLE, STRING, decimal


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01", 0),
        ("1970-01", 0),
        ("1970", 0),
        ("1970-1-2 3:04:05", 97_445_000_000),
        ("1970-01-01T00:00:01.5Z", 1_500_000),
        ("1970-01-01 00:00:00.1234567", 123_456),
        ("1970-01-01 01:00", 3_600_000_000),
        ("1970-01-01 02:00:00+02:00", 0),
        ("1969-12-31 22:30:00 -0130", 0),
        ("0001-01-01", -62_135_596_800_000_000),
        ("9999-12-31 23:59:59.999999", 253_402_300_799_999_999),
    ],
)
def test_times(text: str, micros: int) -> None:
    assert timestamp_micros(text) == micros


@pytest.mark.parametrize(
    "text", ["", "today", "2024-13-01", "2024-02-30", "2024-01-01 24:00:00", "2024-01 10:00", "10:00", "1e3"]
)
def test_no_times(text: str) -> None:
    with pytest.raises(ValueError):
        timestamp_micros(text)


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("10 seconds", 10_000_000),
        ("INTERVAL 1 hour 30 minutes", 5_400_000_000),
        ("1 week", 604_800_000_000),
        ("500 milliseconds", 500_000),
        ("1 DAY", 86_400_000_000),
        ("  7   microseconds ", 7),
    ],
)
def test_intervals(text: str, micros: int) -> None:
    assert interval_micros(text) == micros


@pytest.mark.parametrize(
    "text", ["", "10", "seconds", "1 month", "1 year", "1.5 hours", "-1 day", "1 day,", "1 day 2"]
)
def test_no_intervals(text: str) -> None:
    with pytest.raises(ValueError):
        interval_micros(text)


def test_decimal_types_give_way_as_in_spark() -> None:
    assert adjusted(39, 10) == decimal(38, 9)
    assert adjusted(77, 40) == decimal(38, 6)
    assert adjusted(60, 2) == decimal(38, 2)
    assert bounded(48, 6) == decimal(38, 6)
    assert wider_decimal(decimal(38, 20), decimal(38, 0)) == decimal(38, 0)
    assert wider_decimal(decimal(10, 2), decimal(5, 4)) == decimal(12, 4)


def test_casts_of_literals_are_done_while_compiling_where_exact() -> None:
    assert cast(Literal(5, BIGINT), DOUBLE) == Literal(5.0, DOUBLE)
    assert cast(Literal(-5, BIGINT), decimal(5, 2)) == Literal("-5.00", decimal(5, 2))
    assert cast(Literal("1.5", decimal(2, 1)), decimal(4, 2)) == Literal("1.50", decimal(4, 2))
    assert cast(Literal(None, BIGINT, "p"), STRING) == Literal(None, STRING, "p")
    assert isinstance(cast(Literal("1.55", decimal(3, 2)), decimal(2, 1)), Call)
    assert isinstance(cast(Literal(1000, BIGINT), decimal(3, 1)), Call)
    assert isinstance(cast(Literal("5", STRING), BIGINT), Call)


def test_numbers_keep_the_digits_written() -> None:
    assert number("-1.50", "") == Literal("-1.50", decimal(3, 2))
    assert number("1e-3", "BD") == Literal("0.001", decimal(3, 3))
    assert number("12e2", "BD") == Literal("1200", decimal(4, 0))
    with pytest.raises(ValueError, match="beyond DOUBLE"):
        number("1e999", "")


@pytest.mark.parametrize(
    ("scaled", "scale", "text"), [(0, 2, "0.00"), (-5, 2, "-0.05"), (123, 0, "123"), (1234, 3, "1.234")]
)
def test_decimal_text(scaled: int, scale: int, text: str) -> None:
    assert decimal_text(scaled, scale) == text

"""TIMESTAMP functions. The expectations are what Spark 4.3 answers in UTC."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from cython_ext.column import Column
from cython_ext.exprs_time import PARTS, UNITS, pane_start, part, truncate
from cython_ext.reference_time import date_of, days_of, read
from job.types import BIGINT, DOUBLE, STRING, TIMESTAMP, Kind, Type, decimal
from tests.expression_cases import FAILS, result, text

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("unit", "time", "expected"),
    [
        ("WEEK", "2020-01-01 10:11:12.345678", "2019-12-30 00:00:00"), ("WEEK", "2019-12-30", "2019-12-30 00:00:00"),
        ("QUARTER", "2020-05-01 10:11:12.345678", "2020-04-01 00:00:00"), ("MONTH", "2020-02-29", "2020-02-01 00:00:00"),
        ("MILLISECOND", "1969-05-01 10:11:12.345678", "1969-05-01 10:11:12.345"),
        ("YEAR", "1969-12-31", "1969-01-01 00:00:00"),
        ("WEEK", "-0001-05-01 10:11:12.345678", "-0001-04-26 00:00:00"),
        ("DAY", "1969-12-31 23:59:59.9", "1969-12-31 00:00:00"),
        ("HOUR", "1969-12-31 23:59:59.9", "1969-12-31 23:00:00"),
        ("MINUTE", "2020-01-01 10:11:12.3", "2020-01-01 10:11:00"),
        ("SECOND", "1969-12-31 23:59:59.9", "1969-12-31 23:59:59"),
        ("MICROSECOND", "2020-01-01 00:00:00.000001", "2020-01-01 00:00:00.000001"),
    ],
)  # fmt: skip
def test_date_trunc(unit: str, time: str, expected: str) -> None:
    assert result("date_trunc", TIMESTAMP, text(unit), (read(time), TIMESTAMP)) == read(expected)


@pytest.mark.parametrize("unit", UNITS[1:])
def test_a_unit_that_starts_before_time_began_fails(unit: str) -> None:
    assert result("date_trunc", TIMESTAMP, text(unit), (LONG_MIN, TIMESTAMP)) == FAILS
    assert result("date_trunc", TIMESTAMP, text(unit), (LONG_MAX, TIMESTAMP)) != FAILS


@pytest.mark.parametrize(
    ("name", "time", "expected"),
    [
        ("week", "2021-01-01", 53), ("week", "2021-01-04", 1), ("week", "2018-12-31", 1), ("dayofweek", "2021-01-01", 6),
        ("dayofweek", "-0001-01-01", 6), ("dayofyear", "2020-12-31", 366), ("year", "-0001-01-01", -1),
        ("year", "0000-02-29", 0),
        ("hour", "1969-12-31 23:59:59.5", 23), ("minute", "1969-12-31 23:58:59.5", 58),
        ("second", "1969-12-31 23:59:59.5", 59),
        ("quarter", "2020-12-01", 4), ("month", "2020-12-01", 12), ("day", "2020-02-29", 29),
        ("unix_seconds", "1969-12-31 23:59:59.5", -1),
        ("unix_micros", "1969-12-31 23:59:59.5", -500_000),
    ],
)  # fmt: skip
def test_parts(name: str, time: str, expected: int) -> None:
    assert result(name, BIGINT, (read(time), TIMESTAMP)) == expected


def test_days_and_dates_of_four_centuries() -> None:
    """Every first and last day of a month over a whole cycle of the calendar, forth and back, kernel and
    reference."""
    months = [(year, month) for year in range(1599, 2002) for month in range(1, 13)]
    days = sorted({days_of(year, month, 1) - back for year, month in months for back in (0, 1)})
    column = Column.from_list(Kind.TIMESTAMP, [day * 86_400_000_000 for day in days])
    dates = [date_of(day) for day in days]
    for index, name in ((0, "YEAR"), (2, "MONTH"), (4, "DAY")):
        expected = [date[index // 2] for date in dates]
        assert part(column, PARTS.index(name)).to_list() == expected
    assert all(days_of(*date) == day for date, day in zip(dates, days, strict=True))


@pytest.mark.parametrize(
    ("value", "source", "expected"),
    [
        (1.5, DOUBLE, 1_500_000), (1.0000005, DOUBLE, 1_000_000), (1e30, DOUBLE, LONG_MAX), (-1e30, DOUBLE, LONG_MIN),
        (float("nan"), DOUBLE, FAILS), (float("inf"), DOUBLE, FAILS), (1, BIGINT, 1_000_000),
        (9223372036855, BIGINT, FAILS),
        (-9223372036854, BIGINT, -9223372036854000000), (Decimal("1.5"), decimal(2, 1), 1_500_000),
        (Decimal("1.0000005"), decimal(8, 7), FAILS), (Decimal("1.0000010"), decimal(8, 7), 1_000_001),
        (Decimal("9223372036854.775807"), decimal(20, 6), LONG_MAX),
        (Decimal("9223372036854.775808"), decimal(20, 6), FAILS),
    ],
)  # fmt: skip
def test_timestamp_seconds(value: Any, source: Type, expected: Any) -> None:
    assert result("timestamp_seconds", TIMESTAMP, (value, source)) == expected


def test_pane_start() -> None:
    minute = 60_000_000
    times = [0, 1, minute - 1, minute, None, -1, 5 * minute + 3, 5 * minute, LONG_MAX]
    column = Column.from_list(Kind.TIMESTAMP, times)
    expected = [None if time is None else time // minute * minute for time in times]
    assert pane_start(column, minute).to_list() == expected


def test_a_pane_that_cannot_start_is_null() -> None:
    assert pane_start(Column.from_list(Kind.TIMESTAMP, [LONG_MIN, LONG_MIN + 1000]), 1000).to_list() == [
        None,
        (LONG_MIN + 1000) // 1000 * 1000,
    ]


def test_wrong_arguments_are_refused() -> None:
    time = Column.from_list(Kind.TIMESTAMP, [0])
    with pytest.raises(ValueError, match="panes of 0 microseconds"):
        pane_start(time, 0)
    with pytest.raises(ValueError, match="no part 10"):
        part(time, len(PARTS))
    from cython_ext.exprs_result import Failures

    with pytest.raises(ValueError, match="no unit 10"):
        truncate(time, len(UNITS), Failures())
    with pytest.raises(TypeError, match="kind 6 was expected"):
        pane_start(Column.from_list(Kind.BIGINT, [0]), 1)


def test_times_written_and_read_are_the_same() -> None:
    for micros in (LONG_MIN, LONG_MAX, 0, -1, 1_577_930_645_123_456):
        written = result("cast", STRING, (micros, TIMESTAMP))
        assert result("cast", TIMESTAMP, (written, STRING)) == micros

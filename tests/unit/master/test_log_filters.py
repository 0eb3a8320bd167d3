"""Conditions that the log source takes over from Spark: which, and that they keep the rows that SQL keeps, also without
compiled kernels."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark.sql.datasource", reason="pyspark is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from pyspark.sql import datasource as spark

from cython_ext.column import Column
from cython_ext.reference_scanner import ListColumn
from job.types import BIGINT, BOOLEAN, DOUBLE, SECONDS, STRING, TIMESTAMP, Type
from master.spark import log_filters
from master.spark.log_filters import RowFilter, condition_of, time_range
from master.spark.splits import TimeRange

FIELDS: dict[str, Type] = {"s": STRING, "i": BIGINT, "b": BOOLEAN, "d": SECONDS, "t": TIMESTAMP, "f": DOUBLE}
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
VALUES: dict[str, list[Any]] = {
    "s": ["", "a", "ab", "abc", "ä", "😀", "b"],
    "i": [0, 1, -1, 2**63 - 1, -(2**63), 404],
    "b": [True, False],
    "d": [Decimal("0"), Decimal("1.5"), Decimal("-0.000001"), Decimal("1e3")],
    "t": [EPOCH, EPOCH + datetime.timedelta(microseconds=1), EPOCH.astimezone(ZoneInfo("Asia/Kathmandu"))],
}
COMPARED = [
    spark.EqualTo,
    spark.EqualNullSafe,
    spark.GreaterThan,
    spark.GreaterThanOrEqual,
    spark.LessThan,
    spark.LessThanOrEqual,
]
TEXTS = [spark.StringStartsWith, spark.StringEndsWith, spark.StringContains]


def _stored(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "d":
        return int(value.scaleb(6))
    return (value - EPOCH) // datetime.timedelta(microseconds=1) if name == "t" else value


def _truth(filter: spark.Filter, row: dict[str, Any]) -> bool | None:
    """SQL's three values of a filter."""
    if isinstance(filter, spark.Not):
        inner = _truth(filter.child, row)
        return None if inner is None else not inner
    value = row[filter.attribute[0]]  # type: ignore[attr-defined]
    match filter:
        case spark.IsNull():
            return value is None
        case spark.IsNotNull():
            return value is not None
        case spark.EqualNullSafe():
            return bool(value is not None and value == filter.value)
    if value is None:
        return None
    match filter:
        case spark.EqualTo():
            return bool(value == filter.value)
        case spark.GreaterThan():
            return bool(value > filter.value)
        case spark.GreaterThanOrEqual():
            return bool(value >= filter.value)
        case spark.LessThan():
            return bool(value < filter.value)
        case spark.LessThanOrEqual():
            return bool(value <= filter.value)
        case spark.In():
            return value in filter.value
        case spark.StringStartsWith():
            return bool(value.startswith(filter.value))
        case spark.StringEndsWith():
            return bool(value.endswith(filter.value))
        case spark.StringContains():
            return filter.value in value
    raise AssertionError(filter)


@st.composite
def filters(draw: st.DrawFn) -> spark.Filter:
    name = draw(st.sampled_from(list(VALUES)))
    value = draw(st.sampled_from(VALUES[name]))
    kinds: list[Any] = [*COMPARED, *(TEXTS if name == "s" else [])]
    plain = draw(
        st.sampled_from([kind((name,), value) for kind in kinds])
        | st.sampled_from([spark.IsNull((name,)), spark.IsNotNull((name,))])
        | st.lists(st.sampled_from(VALUES[name]), min_size=1).map(lambda values: spark.In((name,), tuple(values)))
    )
    return spark.Not(plain) if draw(st.booleans()) else plain


@settings(max_examples=200, deadline=None)
@given(data=st.data(), chosen=st.lists(filters(), max_size=3))
def test_rows_kept_are_those_of_sql(data: st.DataObject, chosen: list[spark.Filter]) -> None:
    row = st.fixed_dictionaries({name: st.none() | st.sampled_from(values) for name, values in VALUES.items()})
    rows = data.draw(st.lists(row, max_size=8))
    conditions = [condition_of(filter, FIELDS) for filter in chosen]
    assert None not in conditions
    lists = {name: [_stored(name, row[name]) for row in rows] for name in VALUES}
    want = [row for row in range(len(rows)) if all(_truth(filter, rows[row]) is True for filter in chosen)]
    kept, count = RowFilter(conditions).kept(  # type: ignore[arg-type]
        {name: Column.from_list(FIELDS[name].kind, values) for name, values in lists.items()}, len(rows)
    )
    expected = {name: [values[row] for row in want] for name, values in lists.items()}
    assert (count, {name: column.to_list() for name, column in kept.items()}) == (len(want), expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_filters, "COMPILED", False)
        kept, count = RowFilter(conditions).kept(  # type: ignore[arg-type]
            {name: ListColumn(FIELDS[name].kind, values) for name, values in lists.items()}, len(rows)
        )
    assert (count, {name: column.to_list() for name, column in kept.items()}) == (len(want), expected)


@pytest.mark.parametrize(
    "filter",
    [
        spark.EqualTo(("f",), 1.5),
        spark.GreaterThan(("f",), math.nan),
        spark.EqualTo(("d",), Decimal("0.0000001")),
        spark.EqualTo(("d",), Decimal("1e12")),
        spark.EqualTo(("d",), 1),
        spark.EqualTo(("i",), True),
        spark.EqualTo(("i",), 2**63),
        spark.EqualTo(("i",), "1"),
        spark.EqualTo(("t",), datetime.datetime(2024, 1, 1)),
        spark.EqualTo(("s", "x"), "a"),
        spark.EqualTo(("none",), "a"),
        spark.EqualNullSafe(("s",), None),
        spark.In(("s",), ("a", None)),
        spark.In(("s",), ()),
        spark.In(("i",), tuple(range(2000))),
        spark.Not(spark.EqualTo(("f",), 1.5)),
    ],
    ids=str,
)
def test_what_is_not_surely_the_same_is_left_to_spark(filter: spark.Filter) -> None:
    assert condition_of(filter, FIELDS) is None


def test_a_range_of_time_is_what_all_conditions_allow() -> None:
    at = [EPOCH + datetime.timedelta(seconds=second) for second in range(10)]
    found = [
        condition_of(filter, FIELDS)
        for filter in (
            spark.GreaterThanOrEqual(("t",), at[1]),
            spark.GreaterThan(("t",), at[2]),
            spark.LessThan(("t",), at[8]),
            spark.LessThanOrEqual(("t",), at[7]),
            spark.EqualTo(("i",), 5),
            spark.Not(spark.LessThan(("t",), at[5])),
            spark.IsNotNull(("t",)),
        )
    ]
    conditions = [condition for condition in found if condition is not None]
    assert len(conditions) == len(found)
    assert time_range(conditions, 7, "t") == TimeRange(2_000_000, 7_000_001, 7)
    assert time_range(conditions, None, "time") == TimeRange(None, None, None)


def test_types_of_a_schema() -> None:
    from pyspark.sql import types

    from master.spark.spark_types import spark_schema, types_of

    assert types_of(spark_schema(FIELDS)) == FIELDS
    other = (types.VariantType(), types.MapType(types.StringType(), types.StringType()), types.StructType([]))
    for refused in (types.IntegerType(), types.TimestampNTZType(), types.StringType("UTF8_LCASE"), *other):
        with pytest.raises(ValueError, match="no field is a"):
            types_of(types.StructType([types.StructField("x", refused)]))

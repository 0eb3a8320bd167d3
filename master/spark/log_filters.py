"""Conditions of a Spark query that the log source answers itself: rows that do not meet them never become Arrow.

Taken are comparisons of a field with a constant, where both engines surely mean the same (docs/EXPRESSIONS.md): texts,
whole numbers, decimals of the field's own scale, truth values, instants. All else is Spark's, such as DOUBLE with its
NaN. Conditions run through our evaluator, or through its plain-Python twin where the kernels are not compiled.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

from pyspark.sql import datasource as spark

from job.plan import Call, ColumnRef, Expr, Literal, columns_of
from job.row_evaluation import RowEvaluator
from job.times import micros_of
from job.types import BIGINT, BOOLEAN, STRING, TIMESTAMP, Kind, Type
from master.spark.kernels import COMPILED
from master.spark.splits import TIME, TimeRange

_EXACT = Context(prec=80)
_COMPARISONS: dict[type[spark.Filter], str] = {
    spark.EqualTo: "eq",
    spark.EqualNullSafe: "eq_null_safe",
    spark.GreaterThan: "gt",
    spark.GreaterThanOrEqual: "ge",
    spark.LessThan: "lt",
    spark.LessThanOrEqual: "le",
}
_TEXT_TESTS: dict[type[spark.Filter], str] = {
    spark.StringStartsWith: "starts_with",
    spark.StringEndsWith: "ends_with",
    spark.StringContains: "contains",
}
_NULL_TESTS: dict[type[spark.Filter], str] = {spark.IsNull: "is_null", spark.IsNotNull: "is_not_null"}
VALUES_MAX = 1000
"""Values of an IN; a longer list is left to Spark."""


def condition_of(filter: spark.Filter, fields: Mapping[str, Type]) -> Expr | None:
    """The filter as a BOOLEAN expression over `fields`, by the names that Spark has for them; None for one that is left to
    Spark."""
    if isinstance(filter, spark.Not):
        inner = condition_of(filter.child, fields)
        return None if inner is None else Call("not", (inner,), BOOLEAN)
    kind = type(filter)
    attribute: tuple[str, ...] = getattr(filter, "attribute", ())
    if len(attribute) != 1 or attribute[0] not in fields:
        return None
    column = ColumnRef(attribute[0], fields[attribute[0]])
    if kind in _NULL_TESTS:
        return Call(_NULL_TESTS[kind], (column,), BOOLEAN)
    if isinstance(filter, spark.In):
        values = [_literal(value, column.type) for value in filter.value]
        if not values or len(values) > VALUES_MAX or None in values:
            return None
        return Call("in", (column, *(value for value in values if value is not None)), BOOLEAN)
    name = _COMPARISONS.get(kind) or (_TEXT_TESTS.get(kind) if column.type == STRING else None)
    value = _literal(getattr(filter, "value", None), column.type)
    return None if name is None or value is None else Call(name, (column, value), BOOLEAN)


def _literal(value: Any, type_: Type) -> Literal | None:
    """`value` as a constant of just that type; None where it is none."""
    if type_ == STRING and isinstance(value, str):
        return Literal(value, type_)
    if type_ == BOOLEAN and isinstance(value, bool):
        return Literal(value, type_)
    if type_ == BIGINT and isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return Literal(value, type_)
    if type_ == TIMESTAMP and isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return Literal(micros_of(value), type_)
    if type_.kind is Kind.DECIMAL and isinstance(value, Decimal) and value.is_finite():
        scaled = value.scaleb(type_.scale, _EXACT)
        if scaled == scaled.to_integral_value() and abs(scaled) < 10**type_.precision:
            return Literal(f"{value:.{type_.scale}f}", type_)
    return None


def time_range(conditions: Iterable[Expr], disorder_us: int | None, time: str = TIME) -> TimeRange:
    """The instants that a row may have which meets all conditions on the column `time`."""
    start_us, end_us = None, None
    for condition in conditions:
        match condition:
            case Call(function, (ColumnRef(name), Literal(int() as value))) if name == time:
                if function in ("eq", "ge", "gt", "eq_null_safe"):
                    start_us = value if start_us is None else max(start_us, value)
                if function in ("eq", "le", "lt", "eq_null_safe"):
                    end_us = value + 1 if end_us is None else min(end_us, value + 1)
    return TimeRange(start_us, end_us, disorder_us)


class RowFilter:
    """Keeps the rows that meet all of `conditions`. Not thread-safe."""

    def __init__(self, conditions: Sequence[Expr]) -> None:
        whole = None
        for condition in conditions:
            whole = condition if whole is None else Call("and", (whole, condition), BOOLEAN)
        self._condition = whole
        self.names = [] if whole is None else list(dict.fromkeys(ref.name for ref in columns_of(whole)))
        self._types = {} if whole is None else {ref.name: ref.type for ref in columns_of(whole)}
        self._evaluator = self._compiled(whole) if whole is not None and COMPILED else None

    def _compiled(self, condition: Expr) -> Any:
        from job.evaluate import Evaluator

        return Evaluator([condition])

    def kept(self, columns: Mapping[str, Any], rows: int) -> tuple[Mapping[str, Any], int]:
        """The columns of the rows that are kept, and how many these are."""
        if self._condition is None:
            return columns, rows
        if self._evaluator is not None:
            chosen = self._evaluator.run(columns, rows)[0].selection()
        else:
            chosen = self._chosen(columns, rows)
        if len(chosen) == rows:
            return columns, rows
        return {name: column.take(chosen) for name, column in columns.items()}, len(chosen)

    def _chosen(self, columns: Mapping[str, Any], rows: int) -> list[int]:
        lists = {name: _plain(columns[name].to_list(), self._types[name]) for name in self.names}
        evaluator, condition = RowEvaluator(), self._condition
        assert condition is not None
        return [
            row
            for row in range(rows)
            if evaluator.run([condition], {name: values[row] for name, values in lists.items()})[0] is True
        ]


def _plain(values: list[Any], type_: Type) -> list[Any]:
    """Values as `cython_ext.reference` takes them."""
    if type_.kind is not Kind.DECIMAL:
        return values
    return [None if value is None else Decimal(value).scaleb(-type_.scale, _EXACT) for value in values]



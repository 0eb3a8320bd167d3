"""Between plain Python values and columns: literals, and functions that run once per distinct value of a
block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context
from typing import Any

from cython_ext import reference
from cython_ext.column import Column
from cython_ext.exprs_distinct import distinct_rows
from cython_ext.exprs_logic import overlay
from cython_ext.exprs_result import Failures
from cython_ext.failure import Failure
from job.literal_values import value_of
from job.plan import Call, Literal
from job.types import Kind, Type

_EXACT = Context(prec=80)


def stored(value: Any, type_: Type) -> Any:
    """`value` as a column takes it: a DECIMAL as its scaled integer."""
    if value is None or type_.kind is not Kind.DECIMAL:
        return value
    return int(value.scaleb(type_.scale, _EXACT))


def constant(value: Any, type_: Type, rows: int = 1) -> Column:
    """A constant column of one Python value."""
    return Column.from_list(type_.kind, [stored(value, type_)], constant=True, length=rows)


def values_of(column: Column, type_: Type) -> list[Any]:
    """The rows of a column as Python values, DECIMALs as decimal.Decimal."""
    return column.to_list(type_.scale if type_.kind is Kind.DECIMAL else -1)


class DistinctCall:
    """Runs a function of `cython_ext.reference` once for every distinct tuple of arguments in a block.

    Its columns are the arguments of `call` that are no literals, in order.
    """

    def __init__(self, call: Call) -> None:
        self.function, self.result = call.function, call.type
        self.types = tuple(argument.type for argument in call.arguments)
        self.fixed = [value_of(a) if isinstance(a, Literal) else None for a in call.arguments]
        self.varying = [i for i, a in enumerate(call.arguments) if not isinstance(a, Literal)]

    def run(self, columns: Sequence[Column], failures: Failures) -> Column:
        """The function for every row that `failures.mask` asks for; NULL in the others."""
        return self._evaluate(list(columns), failures.mask, failures)

    def finish(
        self, base: Column, left: Column | None, columns: Sequence[Column], failures: Failures
    ) -> Column:
        """`base`, with the rows that a kernel has `left` evaluated here."""
        if left is None:
            return base
        return overlay(base, left, self._evaluate(list(columns), left, failures))

    def _evaluate(self, columns: list[Column], wanted: Column | None, failures: Failures) -> Column:
        if all(column.constant for column in columns):
            return self._evaluate_constant(columns, failures)
        first, codes = distinct_rows(columns, wanted)
        values = [values_of(c.take(first), self.types[i]) for c, i in zip(columns, self.varying, strict=True)]
        results, failed = self._call_all(list(zip(*values, strict=True)))
        # The last entry is for rows that nobody asked for.
        if any(failed):
            failures.add_rows(Column.from_list(Kind.BOOLEAN, [*failed, False]).take(codes))
        return Column.from_list(self.result.kind, [*results, None]).take(codes)

    def _evaluate_constant(self, columns: list[Column], failures: Failures) -> Column:
        rows = len(columns[0])
        if rows == 0:
            return Column.from_list(self.result.kind, [])
        values = [values_of(c.repeat(1), self.types[i]) for c, i in zip(columns, self.varying, strict=True)]
        results, failed = self._call_all(list(zip(*values, strict=True)))
        if any(failed):
            failures.add_rows(Column.from_list(Kind.BOOLEAN, [True], constant=True, length=rows))
        return Column.from_list(self.result.kind, results, constant=True, length=rows)

    def _call_all(self, rows: Sequence[tuple[Any, ...]]) -> tuple[list[Any], list[bool]]:
        """(stored results, which of them failed)."""
        call, function, types, result = reference.call, self.function, self.types, self.result
        arguments = list(self.fixed)
        results: list[Any] = []
        failed: list[bool] = []
        for row in rows:
            for i, value in zip(self.varying, row, strict=True):
                arguments[i] = value
            try:
                results.append(stored(call(function, types, result, arguments), result))
                failed.append(False)
            except Failure:
                results.append(None)
                failed.append(True)
        return results, failed


class DistinctTexts:
    """Runs a kernel over texts once for every distinct one. What the kernel gives has one row more than it got: NULL, for
    rows that nobody asked for.
    """

    def __init__(self, call: Call, kernel: Callable[[Column], Column]) -> None:
        self._kernel, self._constant = kernel, DistinctCall(call)

    def run(self, columns: Sequence[Column], failures: Failures) -> Column:
        """The result for every row that `failures.mask` asks for; NULL in the others. Nothing fails."""
        if columns[0].constant:
            return self._constant.run(columns, failures)
        first, codes = distinct_rows(list(columns), failures.mask)
        return self._kernel(columns[0].take(first)).take(codes)


Run = Callable[[Sequence[Column], Failures], Column]
"""Columns of the arguments to the column of the result; rows that fail are reported."""

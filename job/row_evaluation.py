"""Evaluates expressions row by row, in plain Python: what `job.evaluate` must equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cython_ext import reference
from cython_ext.failure import Failure
from job.literal_values import value_of
from job.plan import Call, ColumnRef, Expr, Literal


class RowEvaluator:
    """Evaluates expressions row by row and counts the calls that fail, each time they are met."""

    def __init__(self) -> None:
        self.eval_errors = 0
        self._row: Mapping[str, Any] = {}

    def run(self, expressions: Sequence[Expr], row: Mapping[str, Any]) -> list[Any]:
        """The values of `expressions` for a row of `cython_ext.reference`'s values by field name."""
        self._row = row
        return [self._value(expression) for expression in expressions]

    def _value(self, expr: Expr) -> Any:
        if isinstance(expr, ColumnRef):
            return self._row[expr.name]
        return value_of(expr) if isinstance(expr, Literal) else self._call(expr)

    def _call(self, call: Call) -> Any:
        lazy = _LAZY.get(call.function)
        if lazy is not None:
            return lazy(self, call)
        values = [self._value(argument) for argument in call.arguments]
        types = tuple(argument.type for argument in call.arguments)
        try:
            return reference.call(call.function, types, call.type, values)
        except Failure:
            self.eval_errors += 1
            return None

    def _and(self, call: Call) -> bool | None:
        return self._connect(call, False)

    def _or(self, call: Call) -> bool | None:
        return self._connect(call, True)

    def _connect(self, call: Call, decisive: bool) -> bool | None:
        """Left to right, up to the first value that decides."""
        result: bool | None = not decisive
        for argument in call.arguments:
            value: bool | None = self._value(argument)
            if value is decisive:
                return decisive
            if value is None:
                result = None
        return result

    def _case(self, call: Call) -> Any:
        arguments = call.arguments
        for at in range(0, len(arguments) - 1, 2):
            if self._value(arguments[at]):
                return self._value(arguments[at + 1])
        return self._value(arguments[-1]) if len(arguments) % 2 else None

    def _coalesce(self, call: Call) -> Any:
        for argument in call.arguments:
            value = self._value(argument)
            if value is not None:
                return value
        return None


_LAZY = {
    "and": RowEvaluator._and,
    "or": RowEvaluator._or,
    "case": RowEvaluator._case,
    "coalesce": RowEvaluator._coalesce,
}

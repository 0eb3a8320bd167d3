"""Calls to try expressions with: each over a plain column, over a constant, and in the plain-Python
reference."""

from __future__ import annotations

import math
from typing import Any

from cython_ext import reference
from cython_ext.column import Column
from cython_ext.failure import Failure
from job.evaluate import Evaluator
from job.evaluation_values import stored, values_of
from job.literal_values import value_of
from job.plan import Call, ColumnRef, Expr, Literal
from job.types import BIGINT, STRING, Type

FAILS = "fails"
"""What `result` gives for a row that fails."""


def text(value: str | None) -> Literal:
    return Literal(value, STRING)


def number(value: int | None) -> Literal:
    return Literal(value, BIGINT)


def same(a: Any, b: Any) -> bool:
    """Equal values of one type; NaN equals NaN, and -0.0 is not 0.0."""
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return type(a) is type(b) and bool(a == b)


def result(function: str, type_: Type, *arguments: Literal | tuple[Any, Type]) -> Any:
    """The value of a call or FAILS. (value, type) becomes a column, a Literal stays one. The compiled
    evaluation, over a block with other rows around and over constants, must agree with the reference."""
    expressions = [
        argument if isinstance(argument, Literal) else ColumnRef(f"f{i}", argument[1])
        for i, argument in enumerate(arguments)
    ]
    call = Call(function, tuple(expressions), type_)
    expected = _reference(call, [value_of(a) if isinstance(a, Literal) else a[0] for a in arguments])
    fields = {f"f{i}": a for i, a in enumerate(arguments) if not isinstance(a, Literal)}
    for shape in ("block", "constant"):
        got = _evaluated(call, fields, shape)
        assert same(got, expected), f"{shape}: {got!r}, reference: {expected!r}"
    return expected


def _reference(call: Call, values: list[Any]) -> Any:
    try:
        return reference.call(call.function, [a.type for a in call.arguments], call.type, values)
    except Failure:
        return FAILS


def _evaluated(call: Call, fields: dict[str, tuple[Any, Type]], shape: str) -> Any:
    columns = {}
    for name, (value, type_) in fields.items():
        one = stored(value, type_)
        if shape == "constant":
            columns[name] = Column.from_list(type_.kind, [one], constant=True, length=1)
        else:
            columns[name] = Column.from_list(type_.kind, [None, one, None])
    evaluator = Evaluator([call])
    rows = 1 if shape == "constant" or not fields else 3
    got = values_of(evaluator.run(columns, rows)[0], call.type)[rows // 2]
    if evaluator.eval_errors:
        assert got is None
        return FAILS
    return got


def evaluate(expressions: list[Expr], rows: int, **columns: Column) -> tuple[list[list[Any]], int]:
    """(values of each expression, failures counted)."""
    evaluator = Evaluator(expressions)
    done = evaluator.run(columns, rows)
    return [values_of(c, e.type) for c, e in zip(done, expressions, strict=True)], evaluator.eval_errors

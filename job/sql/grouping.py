"""From expressions over lines to expressions over groups: what is a key, what is finished, what is neither.
"""

from __future__ import annotations

from collections.abc import Sequence

from job.plan import Call, ColumnRef, Expr, Literal, aggregate_name, columns_of, key_name
from job.sql.coercion import cast
from job.sql.windows import MARK
from job.types import NULL, STRING, WINDOW


class NotGroupedError(Exception):
    """An expression uses a field that is neither a key nor inside an aggregate: `field`."""

    def __init__(self, field: str) -> None:
        self.field = field
        super().__init__(field)


def place(expression: Expr, keys: Sequence[Expr]) -> Expr:
    """`expression` over the finished columns of a group. Raises NotGroupedError."""
    for index, key in enumerate(keys):
        if expression == key:
            return ColumnRef(key_name(index), key.type)
    if isinstance(expression, Literal):
        return expression
    if isinstance(expression, Call):
        arguments = tuple(place(argument, keys) for argument in expression.arguments)
        return Call(expression.function, arguments, expression.type)
    if not expression.name.startswith(MARK):
        raise NotGroupedError(expression.name)
    name = expression.name[1:]
    return ColumnRef(aggregate_name(int(name)) if name.isdigit() else name, expression.type)


def has_aggregate(expression: Expr) -> bool:
    """Whether an expression holds an aggregate."""
    return any(column.name[:1] == MARK and column.name[1:].isdigit() for column in columns_of(expression))


def is_window(expression: Expr) -> bool:
    """Whether an expression is the window, or its start or end, and nothing else."""
    return (
        isinstance(expression, ColumnRef)
        and expression.name[:1] == MARK
        and not expression.name[1:].isdigit()
    )


def has_window(expression: Expr) -> bool:
    """Whether an expression reads the window."""
    return any(is_window(column) for column in columns_of(expression))


def has_array(expression: Expr) -> bool:
    """Whether an `array` call stands anywhere in the expression."""
    if not isinstance(expression, Call):
        return False
    return expression.function == "array" or any(has_array(argument) for argument in expression.arguments)


def settled(expression: Expr) -> Expr:
    """A bare NULL is a STRING in keys and results."""
    return cast(expression, STRING) if expression.type == NULL else expression


def unplaceable(expression: Expr) -> str:
    """Why an expression cannot be a column of the result, "" where it can."""
    inner = (
        expression.arguments
        if isinstance(expression, Call) and expression.function == "array"
        else (expression,)
    )
    if any(has_array(part) for part in inner):
        return (
            "array(...) stands only as the shares of approx_percentile, whose result is a column of its own"
        )
    if isinstance(expression, Call) and any(column.type == WINDOW for column in columns_of(expression)):
        return "a window is no value to compute with; use its start or end"
    return ""

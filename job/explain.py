"""A plan for people: what is read, what is computed beside the log, what is computed per group, all with types."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from job.functions import is_slow
from job.plan import Aggregate, Call, ColumnRef, Expr, Literal, Plan
from job.types import BIGINT, STRING, TIMESTAMP, Kind

_INFIX = {
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq_null_safe": "<=>",
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "int_div": "DIV",
    "mod": "%",
    "rlike": "RLIKE",
    "like": "LIKE",
}
_UNITS = ((86_400_000_000, "day"), (3_600_000_000, "hour"), (60_000_000, "minute"), (1_000_000, "second"))
SLOW_MARK = " [slow]"


def explain(plan: Plan) -> str:
    """The plan as indented text, the subquery's plan first. Functions that leave the kernels are marked [slow]."""
    lines = list(_plan_lines(plan))
    if any(SLOW_MARK in line for line in lines):
        lines.append("[slow]: runs outside the kernels, once per distinct value of a block")
    return "\n".join(lines) + "\n"


def _plan_lines(plan: Plan) -> Iterator[str]:
    if plan.inner is not None:
        yield "first stage"
        for line in _plan_lines(plan.inner):
            yield "  " + line
        yield "second stage"
    what = "rows of the first stage" if plan.inner is not None else f"lines of {plan.source}"
    yield f"scan {what}"
    for field in plan.fields:
        yield f"  {field.name}: {field.type}"
    if not plan.fields:
        yield "  no field: lines are only counted"
    yield "for each row"
    yield from _row_lines(plan)
    yield "for each group" + (" of a window" if plan.window is not None else "")
    yield from _result_lines(plan)


def _row_lines(plan: Plan) -> Iterator[str]:
    if plan.where is not None:
        yield f"  where {text(plan.where)}"
    if plan.window is not None:
        window = plan.window
        slide = f" every {duration(window.slide_us)}" if window.slide_us != window.size_us else ""
        yield f"  window of {duration(window.size_us)}{slide} over {text(window.time)}"
    for index, key in enumerate(plan.keys):
        yield f"  key{index} = {text(key)}: {key.type}"
    for index, aggregate in enumerate(plan.aggregates):
        yield f"  agg{index} = {_aggregate(aggregate)}: {aggregate.type}"
    if plan.where is None and plan.window is None and not plan.keys and not plan.aggregates:
        yield "  nothing"


def _result_lines(plan: Plan) -> Iterator[str]:
    if plan.having is not None:
        yield f"  having {text(plan.having)}"
    for output in plan.outputs:
        yield f"  {output.name} = {text(output.expr)}: {output.expr.type}"
    order = ["window"] if plan.window is not None else []
    for term in plan.order:
        direction = "descending" if term.descending else "ascending"
        order.append(f"{text(term.expr)} {direction}, NULLs {'first' if term.nulls_first else 'last'}")
    order += [f"key{index}" for index in range(len(plan.keys))]
    if order:
        yield "  order by " + "; ".join(order)
    if plan.limit is not None:
        yield f"  limit {plan.limit}" + (" per window" if plan.window is not None else "")


def _aggregate(aggregate: Aggregate) -> str:
    arguments = [text(argument) for argument in aggregate.arguments]
    if aggregate.function == "approx_percentile":
        arguments.append(repr(aggregate.parameter))
    where = f" where {text(aggregate.filter)}" if aggregate.filter is not None else ""
    return f"{aggregate.function}({', '.join(arguments) or '*'}){where}"


def duration(microseconds: int) -> str:
    """A length of time in the largest unit that fits: '90 seconds', '1 hour'."""
    for size, unit in _UNITS:
        if microseconds % size == 0:
            count = microseconds // size
            return f"{count} {unit}" + ("" if count == 1 else "s")
    return f"{microseconds} microseconds"


def text(expr: Expr) -> str:
    """An expression in short: operators between their operands, casts with their type."""
    if isinstance(expr, ColumnRef):
        return expr.name
    if isinstance(expr, Literal):
        return _literal(expr)
    arguments = [text(argument) for argument in expr.arguments]
    writer = _WRITERS.get(expr.function)
    mark = SLOW_MARK if is_slow(expr) else ""
    if writer is not None:
        return writer(expr, arguments) + mark
    if expr.function in _INFIX:
        return f"({arguments[0]} {_INFIX[expr.function]} {arguments[1]})" + mark
    return f"{expr.function}({', '.join(arguments)})" + mark


def _joined(expr: Call, arguments: list[str]) -> str:
    return "(" + f" {expr.function.upper()} ".join(arguments) + ")"


def _cast(expr: Call, arguments: list[str]) -> str:
    return f"{expr.function}({arguments[0]} as {expr.type})"


def _case(expr: Call, arguments: list[str]) -> str:
    pairs = zip(arguments[::2], arguments[1::2], strict=False)
    otherwise = f" else {arguments[-1]}" if len(arguments) % 2 else ""
    return "case" + "".join(f" when {one} then {two}" for one, two in pairs) + otherwise + " end"


_WRITERS: dict[str, Callable[[Call, list[str]], str]] = {
    "and": _joined,
    "or": _joined,
    "cast": _cast,
    "try_cast": _cast,
    "case": _case,
    "not": lambda expr, arguments: f"(NOT {arguments[0]})",
    "neg": lambda expr, arguments: f"(-{arguments[0]})",
    "is_null": lambda expr, arguments: f"({arguments[0]} IS NULL)",
    "is_not_null": lambda expr, arguments: f"({arguments[0]} IS NOT NULL)",
    "in": lambda expr, arguments: f"({arguments[0]} IN ({', '.join(arguments[1:])}))",
}


def _literal(literal: Literal) -> str:
    value, kind = literal.value, literal.type
    parameter = f":{literal.parameter}=" if literal.parameter else ""
    if value is None:
        return f"{parameter}NULL"
    if kind == STRING:
        return parameter + "'" + str(value).replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
    if kind == TIMESTAMP:
        return f"{parameter}TIMESTAMP(micros={value})"
    if kind == BIGINT or kind.kind is Kind.DECIMAL:
        return f"{parameter}{value}"
    return parameter + (str(value).upper() if isinstance(value, bool) else f"{value!r}")

"""The typing rules of functions over text and time."""

from __future__ import annotations

from collections.abc import Callable

from job.plan import Call, Expr, Literal
from job.sql import patterns
from job.sql.application import Application
from job.types import ARRAY, BIGINT, BOOLEAN, STRING, TIMESTAMP, Kind

REST_LENGTH = 2**31 - 1
"""The length of substr that stands for "to the end"."""
_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1


def _fixed(a: Application) -> Expr:
    function = a.function
    a.count(len(function.parameters) - function.optional, len(function.parameters))
    arguments = [a.converted(index, function.parameters[index]) for index in range(len(a.arguments))]
    return a.call(arguments, function.result)


def _like(a: Application) -> Expr:
    a.count(2, 3)
    pattern = a.literal(1, STRING, "the pattern")
    escape = a.literal(2, STRING, "the escape character") if len(a.arguments) == 3 else Literal("\\", STRING)
    problem = patterns.like_problem(str(pattern.value), str(escape.value))
    if problem:
        a.fail(problem, "", 1)
    return a.call((a.converted(0, STRING), pattern, escape), BOOLEAN)


def _rlike(a: Application) -> Expr:
    a.count(2, 2)
    return a.call((a.converted(0, STRING), _pattern(a)), BOOLEAN)


def _pattern(a: Application) -> Literal:
    pattern = a.literal(1, STRING, "the pattern")
    try:
        patterns.check_regex(str(pattern.value))
    except ValueError as error:
        a.fail(f"the regular expression {error}", patterns.ADVICE, 1)
    return pattern


def _regexp_extract(a: Application) -> Expr:
    a.count(2, 3)
    pattern = _pattern(a)
    group = a.literal(2, BIGINT, "the group") if len(a.arguments) == 3 else Literal(1, BIGINT)
    groups = patterns.group_count(str(pattern.value))
    if not 0 <= int(group.value or 0) <= groups:
        a.fail(
            f"the pattern has {groups} groups, no group {group.value}",
            "Put parentheses around what to take.",
            1,
        )
    return a.call((a.converted(0, STRING), pattern, group), STRING)


def _trim(a: Application) -> Expr:
    a.count(1, 2)
    return a.call([a.converted(index, STRING) for index in range(len(a.arguments))], STRING)


def _trim_side(a: Application) -> Expr:
    """ltrim and rtrim take the characters first, as in Spark."""
    a.count(1, 2)
    arguments = [a.converted(index, STRING) for index in range(len(a.arguments))]
    return a.call(arguments[::-1], STRING)


def _int(a: Application, index: int) -> Expr:
    """A BIGINT argument that Spark takes as INT; constants are held to it now."""
    argument = a.converted(index, BIGINT)
    if (
        isinstance(argument, Literal)
        and isinstance(argument.value, int)
        and not _INT_MIN <= argument.value <= _INT_MAX
    ):
        a.fail(f"{argument.value} is out of range", "", index)
    return argument


def _substr(a: Application) -> Expr:
    a.count(2, 3)
    length = _int(a, 2) if len(a.arguments) == 3 else Literal(REST_LENGTH, BIGINT)
    return a.call((a.converted(0, STRING), _int(a, 1), length), STRING)


def _left(a: Application) -> Expr:
    a.count(2, 2)
    return a.call((a.converted(0, STRING), Literal(1, BIGINT), _int(a, 1)), STRING)


def _concat(a: Application) -> Expr:
    a.count(1, 256)
    arguments: list[Expr] = []
    for index in range(len(a.arguments)):
        argument = a.converted(index, STRING)
        inner = (
            argument.arguments
            if isinstance(argument, Call) and argument.function == "concat"
            else (argument,)
        )
        arguments += inner
    return arguments[0] if len(arguments) == 1 else a.call(arguments, STRING)


def _replace(a: Application) -> Expr:
    a.count(2, 3)
    replacement = a.converted(2, STRING) if len(a.arguments) == 3 else Literal("", STRING)
    return a.call((a.converted(0, STRING), a.converted(1, STRING), replacement), STRING)


URL_PARTS = ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO")


def _parse_url(a: Application) -> Expr:
    a.count(2, 3)
    part = a.literal(1, STRING, "the part")
    if part.value not in URL_PARTS:
        a.fail(
            f"there is no part {part.value!r} of a URL",
            f"Write one of {', '.join(URL_PARTS)}, in upper case.",
            1,
        )
    arguments: list[Expr] = [a.converted(0, STRING), part]
    if len(a.arguments) == 3:
        if part.value != "QUERY":
            a.fail("only the part QUERY takes a key", "", 2)
        arguments.append(a.literal(2, STRING, "the key"))
    return a.call(arguments, STRING)


_TRUNC_UNITS = {
    "MICROSECOND": "MICROSECOND",
    "MILLISECOND": "MILLISECOND",
    "SECOND": "SECOND",
    "MINUTE": "MINUTE",
    "HOUR": "HOUR",
    "DAY": "DAY",
    "DD": "DAY",
    "WEEK": "WEEK",
    "MONTH": "MONTH",
    "MON": "MONTH",
    "MM": "MONTH",
    "QUARTER": "QUARTER",
    "YEAR": "YEAR",
    "YYYY": "YEAR",
    "YY": "YEAR",
}


def _date_trunc(a: Application) -> Expr:
    a.count(2, 2)
    unit = str(a.literal(0, STRING, "the unit").value).upper()
    if unit not in _TRUNC_UNITS:
        a.fail(
            f"there is no unit {unit!r}",
            "Write one of " + ", ".join(dict.fromkeys(_TRUNC_UNITS.values())) + ".",
            0,
        )
    return a.call((Literal(_TRUNC_UNITS[unit], STRING), a.converted(1, TIMESTAMP)), TIMESTAMP)


_EXTRACT_UNITS = {
    **dict.fromkeys(("YEAR", "Y", "YEARS", "YR", "YRS"), "year"),
    **dict.fromkeys(("QUARTER", "QTR"), "quarter"),
    **dict.fromkeys(("MONTH", "MON", "MONS", "MONTHS"), "month"),
    **dict.fromkeys(("WEEK", "W", "WEEKS"), "week"),
    **dict.fromkeys(("DAY", "D", "DAYS"), "day"),
    **dict.fromkeys(("DAYOFWEEK", "DOW"), "dayofweek"),
    "DOY": "dayofyear",
    **dict.fromkeys(("HOUR", "H", "HOURS", "HR", "HRS"), "hour"),
    **dict.fromkeys(("MINUTE", "M", "MIN", "MINS", "MINUTES"), "minute"),
}


def _extract(a: Application) -> Expr:
    a.count(2, 2)
    unit = str(a.literal(0, STRING, "the unit").value).upper()
    if unit not in _EXTRACT_UNITS:
        advice = (
            "Write one of "
            + ", ".join(dict.fromkeys(name.upper() for name in _EXTRACT_UNITS.values()))
            + "; for SECOND, second(time)."
        )
        a.fail(f"{unit!r} cannot be extracted", advice, 0)
    return Call(_EXTRACT_UNITS[unit], (a.converted(1, TIMESTAMP),), BIGINT)


def _timestamp_seconds(a: Application) -> Expr:
    a.count(1, 1)
    argument = a.number()
    if argument.type.kind is Kind.DECIMAL and argument.type.scale > 6:
        a.fail("timestamp_seconds takes microseconds at the finest", "Write CAST(x AS DECIMAL(18, 6)).", 0)
    return a.call((argument,), TIMESTAMP)


def _to_timestamp(a: Application) -> Expr:
    if len(a.arguments) != 1:
        a.fail("to_timestamp takes one text in the usual form", "Write to_timestamp('2024-05-01 10:00:00').")
    return a.converted(0, TIMESTAMP)


def _array(a: Application) -> Expr:
    """The shares of approx_percentile; nothing else takes an array."""
    a.count(1, 256)
    return a.call(a.arguments, ARRAY)


RULES: dict[str, Callable[[Application], Expr]] = {
    "array": _array,
    "fixed": _fixed,
    "like": _like,
    "rlike": _rlike,
    "regexp_extract": _regexp_extract,
    "trim": _trim,
    "trim_side": _trim_side,
    "substr": _substr,
    "left": _left,
    "concat": _concat,
    "replace": _replace,
    "parse_url": _parse_url,
    "date_trunc": _date_trunc,
    "extract": _extract,
    "timestamp_seconds": _timestamp_seconds,
    "to_timestamp": _to_timestamp,
}

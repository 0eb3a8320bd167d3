"""Every function of docs/EXPRESSIONS.md on plain Python values: the oracle of the kernels, the slow path of
rare functions, and what runs where the compiled kernels are missing.

Values are None, bool, int (BIGINT; TIMESTAMP in microseconds), decimal.Decimal, float and str. Lazy
evaluation is the caller's: `call` takes values, and of `and`, `or`, `case` and `coalesce` the rules for
NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from cython_ext import reference_casts, reference_numbers, reference_text, reference_time, reference_url
from cython_ext.failure import Failure
from cython_ext.reference_casts import BIGINT, DECIMAL, DOUBLE, ValueType

Types = Sequence[ValueType]
Values = Sequence[Any]
Function = Callable[[Types, ValueType, Values], Any]


def call(function: str, types: Types, result: ValueType, values: Values) -> Any:
    """`function` of `values`, whose types are `types`, as a value of type `result`; None is NULL.

    Raises Failure where the row fails, KeyError for an unknown function.
    """
    if function not in NULL_AWARE and any(value is None for value in values):
        _ = FUNCTIONS[function]  # an unknown function is refused also for NULLs
        return None
    return FUNCTIONS[function](types, result, values)


def equal(a: Any, b: Any) -> bool:
    """Whether two values of one type are equal: NaN equals NaN."""
    return bool(a == b) or bool(a != a and b != b)


def less(a: Any, b: Any) -> bool:
    """Whether a comes before b: NaN is the greatest, text goes by its UTF-8 bytes."""
    if isinstance(a, str):
        return a.encode() < str(b).encode()
    if isinstance(a, float):
        return bool(a < b or (b != b and a == a))
    return bool(a < b)


def logical_and(values: Values) -> bool | None:
    """False wins over NULL, NULL over true."""
    return False if False in values else None if None in values else True


def logical_or(values: Values) -> bool | None:
    """True wins over NULL, NULL over false."""
    return True if True in values else None if None in values else False


def _in(values: Values) -> bool | None:
    candidates = values[1:]
    if values[0] is None:
        return None
    if any(candidate is not None and equal(values[0], candidate) for candidate in candidates):
        return True
    return None if None in candidates else False


def case(values: Values) -> Any:
    """c1, v1, c2, v2, ..., [else]."""
    for at in range(0, len(values) - 1, 2):
        if values[at]:
            return values[at + 1]
    return values[-1] if len(values) % 2 else None


def _extreme(better: Callable[[Any, Any], bool], values: Values) -> Any:
    best = None
    for value in values:
        if value is not None and (best is None or better(value, best)):
            best = value
    return best


def _nullif(values: Values) -> Any:
    a, b = values
    return None if a is not None and b is not None and equal(a, b) else a


_LONG_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: reference_numbers.checked_long(a + b),
    "sub": lambda a, b: reference_numbers.checked_long(a - b),
    "mul": lambda a, b: reference_numbers.checked_long(a * b),
    "int_div": reference_numbers.int_div_long,
    "mod": reference_numbers.mod_long,
}
_DOUBLE_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": reference_numbers.mul_double,
    "div": reference_numbers.div_double,
    "mod": reference_numbers.mod_double,
}
_DECIMAL_ARITHMETIC = {
    "add": reference_numbers.add_decimal,
    "sub": reference_numbers.sub_decimal,
    "mul": reference_numbers.mul_decimal,
    "div": reference_numbers.div_decimal,
    "mod": reference_numbers.mod_decimal,
}


def _arithmetic(name: str, types: Types, result: ValueType, values: Values) -> Any:
    a, b = values
    if types[0].kind == DECIMAL and name == "int_div":
        return reference_numbers.int_div_decimal(a, b)
    if types[0].kind == DECIMAL:
        return _DECIMAL_ARITHMETIC[name](a, b, result.precision, result.scale)
    table: dict[str, Any] = _DOUBLE_ARITHMETIC if types[0].kind == DOUBLE else _LONG_ARITHMETIC
    return table[name](a, b)


def _neg(types: Types, result: ValueType, values: Values) -> Any:
    if types[0].kind == BIGINT:
        return reference_numbers.checked_long(-values[0])
    return values[0].copy_negate() if types[0].kind == DECIMAL and values[0] else -values[0]


def _abs(types: Types, result: ValueType, values: Values) -> Any:
    size = values[0].copy_abs() if types[0].kind == DECIMAL else abs(values[0])
    return reference_numbers.checked_long(size) if types[0].kind == BIGINT else size


def _whole(up: bool, types: Types, result: ValueType, values: Values) -> Any:
    if types[0].kind == DOUBLE:
        return reference_numbers.whole_double(values[0], up)
    if types[0].kind == DECIMAL:
        return reference_numbers.whole_decimal(values[0], up, result.precision)
    return values[0]


def _round(types: Types, result: ValueType, values: Values) -> Any:
    value, places = values
    if types[0].kind == DOUBLE:
        return reference_numbers.round_double(value, places)
    if types[0].kind == DECIMAL:
        return reference_numbers.round_decimal(value, places, result.precision, result.scale)
    return reference_numbers.round_long(value, places)


def _try_cast(types: Types, result: ValueType, values: Values) -> Any:
    try:
        return reference_casts.cast(values[0], types[0], result)
    except Failure:
        return None


def _cast(types: Types, result: ValueType, values: Values) -> Any:
    return reference_casts.cast(values[0], types[0], result)


def _timestamp_seconds(types: Types, result: ValueType, values: Values) -> int:
    return reference_casts.timestamp_of_seconds(values[0], types[0].kind)


def _plain(function: Callable[..., Any]) -> Function:
    """A function that needs no types."""
    return lambda types, result, values: function(*values)


def _spread(function: Callable[[Values], Any]) -> Function:
    """A function of all its values at once."""
    return lambda types, result, values: function(values)


def _parts() -> dict[str, Function]:
    names = ("year", "quarter", "month", "week", "day", "dayofweek", "dayofyear", "hour", "minute", "second")
    return {name: _plain(partial(reference_time.part, name)) for name in names}


NULL_AWARE = frozenset(
    {"and", "or", "eq_null_safe", "is_null", "is_not_null", "in", "greatest", "least", "case", "coalesce"}
    | {"nullif", "cast", "try_cast"}
)
"""Functions that decide themselves what NULL arguments mean."""

FUNCTIONS: dict[str, Function] = {
    "and": _spread(logical_and),
    "or": _spread(logical_or),
    "not": _plain(lambda a: not a),
    "eq": _plain(equal),
    "ne": _plain(lambda a, b: not equal(a, b)),
    "lt": _plain(less),
    "le": _plain(lambda a, b: not less(b, a)),
    "gt": _plain(lambda a, b: less(b, a)),
    "ge": _plain(lambda a, b: not less(a, b)),
    "eq_null_safe": _plain(lambda a, b: a is b if a is None or b is None else equal(a, b)),
    "is_null": _plain(lambda a: a is None),
    "is_not_null": _plain(lambda a: a is not None),
    "in": _spread(_in),
    **{name: partial(_arithmetic, name) for name in ("add", "sub", "mul", "div", "int_div", "mod")},
    "neg": _neg,
    "abs": _abs,
    "floor": partial(_whole, False),
    "ceil": partial(_whole, True),
    "round": _round,
    "greatest": _spread(partial(_extreme, lambda value, best: less(best, value))),
    "least": _spread(partial(_extreme, less)),
    "case": _spread(case),
    "coalesce": _spread(lambda values: next((value for value in values if value is not None), None)),
    "nullif": _spread(_nullif),
    "cast": _cast,
    "try_cast": _try_cast,
    "like": _plain(reference_text.like),
    "rlike": _plain(reference_text.rlike),
    "regexp_extract": _plain(reference_text.regexp_extract),
    "lower": _plain(str.lower),
    "upper": _plain(str.upper),
    "trim": _plain(reference_text.trim),
    "ltrim": _plain(reference_text.ltrim),
    "rtrim": _plain(reference_text.rtrim),
    "length": _plain(len),
    "substr": _plain(reference_text.substr),
    "split_part": _plain(reference_text.split_part),
    "concat": _plain(reference_text.concat),
    "replace": _plain(reference_text.replace),
    "starts_with": _plain(str.startswith),
    "ends_with": _plain(str.endswith),
    "contains": _plain(lambda text, part: part in text),
    "parse_url": _plain(reference_url.parse_url),
    "url_decode": _plain(reference_url.url_decode),
    "date_trunc": _plain(reference_time.truncate),
    **_parts(),
    "unix_micros": _plain(lambda micros: micros),
    "unix_seconds": _plain(lambda micros: micros // 1_000_000),
    "timestamp_seconds": _timestamp_seconds,
}

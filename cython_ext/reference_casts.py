"""Casts on plain Python values with the rules of Spark's ANSI mode; what does not convert raises
`Failure`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Protocol

from cython_ext import reference_time
from cython_ext.failure import Failure
from cython_ext.reference_numbers import LONG_MAX, LONG_MIN, checked_long, fitted, scaled_integer

# job.types.Kind; tests hold the two together.
NULL, BOOLEAN, BIGINT, DECIMAL, DOUBLE, STRING, TIMESTAMP = range(7)

_BLANKS = "".join(map(chr, range(33)))  # what Java's trim removes
_BLANKS_AND_DELETE = _BLANKS + "\x7f"  # what Spark's trimAll removes
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_LONG = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_HEX_DOUBLE = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?")
_WORD_DOUBLES = {
    "inf": math.inf, "+inf": math.inf, "infinity": math.inf, "+infinity": math.inf,
    "-inf": -math.inf, "-infinity": -math.inf, "nan": math.nan,
}  # fmt: skip
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?")
_EXPONENT_MAX = 2**31 - 1


class ValueType(Protocol):
    """What a cast must know of a type; job.types.Type is one."""

    @property
    def kind(self) -> int: ...
    @property
    def precision(self) -> int: ...
    @property
    def scale(self) -> int: ...


def cast(value: Any, source: ValueType, target: ValueType) -> Any:
    """`value` as `target`; None stays None. Raises Failure."""
    if value is None or (source.kind == target.kind and target.kind != DECIMAL):
        return value
    if target.kind == DECIMAL:
        return fitted(_as_decimal(value, source.kind), target.precision, target.scale)
    return _CASTS[target.kind](value, source.kind)


def _as_decimal(value: Any, kind: int) -> Decimal:
    if kind == STRING:
        return read_decimal(value)
    if kind == DOUBLE:
        if math.isnan(value) or math.isinf(value):
            raise Failure("no number")
        return Decimal(repr(value))
    if kind == TIMESTAMP:
        return Decimal(value).scaleb(-6)
    return Decimal(value)


def _as_boolean(value: Any, kind: int) -> bool:
    if kind != STRING:
        return bool(value != 0)
    word = value.strip(_BLANKS_AND_DELETE)
    word = word.lower() if word.isascii() else word
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise Failure("no boolean")


def _as_long(value: Any, kind: int) -> int:
    if kind == STRING:
        word = value.strip(_BLANKS_AND_DELETE)
        if _LONG.fullmatch(word) is None or len(word.lstrip("+-0")) > 19:
            raise Failure("no whole number")
        return checked_long(int(word))
    if kind == TIMESTAMP:
        return int(value // 1_000_000)
    if kind == DOUBLE:
        return _cut(value)
    return checked_long(scaled_integer(value, 0)) if kind == DECIMAL else int(value)


def _cut(value: float) -> int:
    if math.isnan(value) or math.isinf(value):
        raise Failure("beyond BIGINT")
    return LONG_MAX if value == 2.0**63 else checked_long(int(value))


def _as_double(value: Any, kind: int) -> float:
    if kind == STRING:
        return read_double(value)
    if kind == TIMESTAMP:
        return float(value) / 1_000_000
    return float(value)


def _as_timestamp(value: Any, kind: int) -> int:
    if kind == STRING:
        return reference_time.read(value)
    if kind == BIGINT:
        return int(max(LONG_MIN, min(LONG_MAX, value * 1_000_000)))
    if kind == DOUBLE:
        return _cut(value * 1_000_000.0)
    if kind == DECIMAL:
        return checked_long(scaled_integer(value, 6))
    return int(value)


def _as_string(value: Any, kind: int) -> str:
    if kind == BOOLEAN:
        return "true" if value else "false"
    if kind == DECIMAL:
        return format(value, "f")
    if kind == DOUBLE:
        return double_text(value)
    if kind == TIMESTAMP:
        return reference_time.text_of(value)
    return str(value)


_CASTS: dict[int, Callable[[Any, int], Any]] = {
    BOOLEAN: _as_boolean,
    BIGINT: _as_long,
    DOUBLE: _as_double,
    STRING: _as_string,
    TIMESTAMP: _as_timestamp,
}


def read_double(text: str) -> float:
    """As Java's Double.parseDouble, plus Spark's names for infinities and NaN in any case."""
    word = text.strip(_BLANKS)
    if _DOUBLE.fullmatch(word):
        return float(word.rstrip("fFdD") if "N" not in word and "I" not in word else word)
    if word.isascii() and word.lower() in _WORD_DOUBLES:
        return _WORD_DOUBLES[word.lower()]
    if _HEX_DOUBLE.fullmatch(word):
        digits = word.rstrip("fFdD") if word[-1] in "fFdD" else word
        try:
            return float.fromhex(digits)
        except OverflowError:
            return -math.inf if word.startswith("-") else math.inf
    raise Failure("no number")


def read_decimal(text: str) -> Decimal:
    """As java.math.BigDecimal reads it: an exponent is allowed, and digits of any script are."""
    word = text.strip(_BLANKS)
    match = _DECIMAL.fullmatch(word)
    if match is None or (match.group(1) and abs(int(match.group(1))) > _EXPONENT_MAX):
        raise Failure("no number")
    return Decimal(word)


def double_text(value: float) -> str:
    """As Java's Double.toString since version 19: the shortest digits, at least two, that read back as the value."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "-Infinity" if value < 0 else "Infinity"
    shortest = Decimal(repr(value))
    if len(shortest.as_tuple().digits) == 1:
        shortest = Decimal(f"{value:.1e}")
    sign, digits, exponent = shortest.as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + int(exponent)  # digits before the point
    minus = "-" if sign else ""
    if text == "0":
        return minus + "0.0"
    if -2 <= point <= 7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{text}"
        return f"{minus}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


def timestamp_of_seconds(value: Any, kind: int) -> int:
    """Spark's timestamp_seconds: unlike cast it refuses decimals below the microsecond, and BIGINTs beyond
    the range; DOUBLEs beyond it saturate."""
    if kind == DOUBLE:
        if math.isnan(value) or math.isinf(value):
            raise Failure("no number")
        return max(LONG_MIN, min(LONG_MAX, int(min(max(value * 1_000_000.0, -1e19), 1e19))))
    if kind == DECIMAL:
        micros = scaled_integer(value, 6)
        if Decimal(micros).scaleb(-6) != value:
            raise Failure("below the microsecond")
        return checked_long(micros)
    return checked_long(value * 1_000_000)

"""Arithmetic and rounding on plain Python values, with Spark's rules: int, decimal.Decimal and float.

BIGINT results beyond 64 bits, DECIMAL results beyond their precision and divisions by zero raise `Failure`.
"""

from __future__ import annotations

import math
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_CEILING,
    ROUND_DOWN,
    ROUND_FLOOR,
    ROUND_HALF_UP,
    Context,
    Decimal,
)

from cython_ext.failure import Failure

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
EXACT = Context(prec=400, rounding=ROUND_HALF_UP, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Wide enough that nothing but an explicit rounding rounds."""


def checked_long(value: int) -> int:
    """`value`, which must fit BIGINT."""
    if not LONG_MIN <= value <= LONG_MAX:
        raise Failure("beyond BIGINT")
    return value


def fitted(value: Decimal, precision: int, scale: int) -> Decimal:
    """`value` rounded half up to `scale`, which must not need more than `precision` digits."""
    if value and value.adjusted() > 80:
        raise Failure("too many digits")
    rounded = value.quantize(Decimal((0, (1,), -scale)), rounding=ROUND_HALF_UP, context=EXACT)
    if rounded.copy_abs() >= Decimal((0, (1,), precision - scale)):
        raise Failure("too many digits")
    return rounded if rounded else Decimal((0, (0,), -scale))  # there is no negative zero


def add_decimal(a: Decimal, b: Decimal, precision: int, scale: int) -> Decimal:
    return fitted(EXACT.add(a, b), precision, scale)


def sub_decimal(a: Decimal, b: Decimal, precision: int, scale: int) -> Decimal:
    return fitted(EXACT.subtract(a, b), precision, scale)


def mul_decimal(a: Decimal, b: Decimal, precision: int, scale: int) -> Decimal:
    return fitted(EXACT.multiply(a, b), precision, scale)


def div_decimal(a: Decimal, b: Decimal, precision: int, scale: int) -> Decimal:
    if b == 0:
        raise Failure("division by zero")
    top, bottom = scaled_integer(a, 38), scaled_integer(b, 38)
    quotient = (2 * abs(top) * 10**scale + abs(bottom)) // (2 * abs(bottom))
    sign = 1 if (top < 0) != (bottom < 0) else 0
    return fitted(Decimal((sign, tuple(int(d) for d in str(quotient)), -scale)), precision, scale)


def int_div_decimal(a: Decimal, b: Decimal) -> int:
    if b == 0:
        raise Failure("division by zero")
    top, bottom = scaled_integer(a, 38), scaled_integer(b, 38)
    quotient = abs(top) // abs(bottom)
    return checked_long(-quotient if (top < 0) != (bottom < 0) else quotient)


def mod_decimal(a: Decimal, b: Decimal, precision: int, scale: int) -> Decimal:
    if b == 0:
        raise Failure("division by zero")
    return fitted(EXACT.remainder(a, b), precision, scale)


def scaled_integer(value: Decimal, scale: int) -> int:
    """value * 10**scale, towards zero."""
    return int(value.scaleb(scale, EXACT).to_integral_value(ROUND_DOWN, EXACT))


def int_div_long(a: int, b: int) -> int:
    if b == 0:
        raise Failure("division by zero")
    quotient = abs(a) // abs(b)
    return checked_long(-quotient if (a < 0) != (b < 0) else quotient)


def mod_long(a: int, b: int) -> int:
    if b == 0:
        raise Failure("division by zero")
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def mul_double(a: float, b: float) -> float:
    return a * b


def div_double(a: float, b: float) -> float:
    if b == 0:
        raise Failure("division by zero")
    return a / b


def mod_double(a: float, b: float) -> float:
    if b == 0:
        raise Failure("division by zero")
    if math.isinf(a) or math.isnan(a) or math.isnan(b):
        return math.nan
    return math.fmod(a, b)


def whole_double(value: float, up: bool) -> int:
    """floor or ceil. NaN gives 0, as in Spark."""
    if math.isnan(value):
        return 0
    if math.isinf(value):
        raise Failure("beyond BIGINT")
    return checked_long(math.ceil(value) if up else math.floor(value))


def whole_decimal(value: Decimal, up: bool, precision: int) -> Decimal:
    whole = value.to_integral_value(ROUND_CEILING if up else ROUND_FLOOR, EXACT)
    return fitted(whole, precision, 0)


def round_long(value: int, places: int) -> int:
    if places >= 0:
        return value
    power = 10 ** min(-places, 40)
    rounded = (abs(value) + power // 2) // power * power
    return checked_long(-rounded if value < 0 else rounded)


def round_double(value: float, places: int) -> float:
    """Half up on the shortest decimal text of the value."""
    if math.isnan(value) or math.isinf(value):
        return value
    exact = Decimal(repr(value))
    if places >= -int(exact.as_tuple().exponent):
        return float(exact)
    if exact and exact.adjusted() + 1 < -places:
        return 0.0
    rounded = exact.quantize(Decimal((0, (1,), -places)), rounding=ROUND_HALF_UP, context=EXACT)
    return float(rounded) + 0.0  # -0.0 becomes 0.0: a BigDecimal has no negative zero


def round_decimal(value: Decimal, places: int, precision: int, scale: int) -> Decimal:
    places = max(places, -38)
    if places < scale:
        value = value.quantize(Decimal((0, (1,), -places)), rounding=ROUND_HALF_UP, context=EXACT)
    return fitted(value, precision, scale)

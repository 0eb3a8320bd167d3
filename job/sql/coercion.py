"""Which types meet in which: Spark's rules (ANSI mode) for the types of job/types.py.

The decimal rules are those of Spark's DecimalPrecision with spark.sql.decimalOperations.allowPrecisionLoss on
(its default): beyond 38 digits the scale gives way, down to 6.
"""

from __future__ import annotations

from decimal import Decimal

from job.plan import Call, Expr, Literal
from job.types import DECIMAL_PRECISION_MAX, DOUBLE, NULL, STRING, Kind, Type, decimal

BIGINT_DECIMAL = decimal(20, 0)
"""What a BIGINT becomes where it meets a DECIMAL."""
_SCALE_KEPT = 6
_PLAIN = (Kind.BOOLEAN, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE, Kind.STRING, Kind.TIMESTAMP)


def adjusted(precision: int, scale: int) -> Type:
    """DECIMAL(precision, scale), cut to 38 digits so that the integral digits stay and at least 6 of the
    scale.
    """
    if precision <= DECIMAL_PRECISION_MAX:
        return decimal(precision, scale)
    integral = precision - scale
    kept = max(DECIMAL_PRECISION_MAX - integral, min(scale, _SCALE_KEPT))
    return decimal(DECIMAL_PRECISION_MAX, kept)


def bounded(precision: int, scale: int) -> Type:
    """DECIMAL with both numbers cut at 38: the type of sums and averages."""
    return decimal(min(precision, DECIMAL_PRECISION_MAX), min(scale, DECIMAL_PRECISION_MAX))


def wider_decimal(left: Type, right: Type) -> Type:
    """The DECIMAL that holds both; where 38 digits do not do, integral digits go first."""
    scale = max(left.scale, right.scale)
    integral = max(left.precision - left.scale, right.precision - right.scale)
    excess = max(integral + scale - DECIMAL_PRECISION_MAX, 0)
    return decimal(min(integral + scale, DECIMAL_PRECISION_MAX), max(scale - excess, 0))


def arithmetic_decimal(function: str, left: Type, right: Type) -> Type:
    """The type of add, sub, mul, div and mod over two DECIMALs."""
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    if function == "mul":
        return adjusted(p1 + p2 + 1, s1 + s2)
    if function == "div":
        scale = max(_SCALE_KEPT, s1 + p2 + 1)
        return adjusted(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    if function == "mod":
        return adjusted(min(p1 - s1, p2 - s2) + scale, scale)
    return adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale)


def common_type(types: list[Type]) -> Type | None:
    """The type that values of all `types` share (NULL fits any), None where Spark would refuse too.

    A STRING meets BIGINT as BIGINT, DECIMAL and DOUBLE as DOUBLE, and other types as that type.
    """
    result = NULL
    # Spark looks at strings last so that the answer does not depend on the order of the arguments.
    for kind_type in sorted(types, key=lambda one: one.kind is Kind.STRING):
        wider = _wider(result, kind_type)
        if wider is None:
            return None
        result = wider
    return result


def _wider(left: Type, right: Type) -> Type | None:
    if left == right or right.kind is Kind.NULL:
        return left
    if left.kind is Kind.NULL:
        return right
    if left.is_numeric and right.is_numeric:
        if DOUBLE in (left, right):
            return DOUBLE
        return wider_decimal(as_decimal(left), as_decimal(right))
    if right.kind is Kind.STRING and left.kind in _PLAIN:
        return string_meets(left)
    if left.kind is Kind.STRING and right.kind in _PLAIN:
        return string_meets(right)
    return None


def string_meets(other: Type) -> Type:
    """What a STRING and a value of another type are compared or computed as."""
    return DOUBLE if other.kind is Kind.DECIMAL else other


def as_decimal(kind_type: Type) -> Type:
    """The DECIMAL that holds a BIGINT or DECIMAL."""
    return BIGINT_DECIMAL if kind_type.kind is Kind.BIGINT else kind_type


def integer_literal_decimal(literal: Literal) -> Literal:
    """A BIGINT literal as the DECIMAL of just its digits: how Spark types `2` in `price * 2`."""
    text = str(literal.value)
    return Literal(text, decimal(len(text.lstrip("-")), 0), literal.parameter)


_CASTS: dict[Kind, tuple[Kind, ...]] = {
    Kind.NULL: _PLAIN,
    Kind.STRING: _PLAIN,
    Kind.BOOLEAN: (Kind.BOOLEAN, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE, Kind.STRING),
    Kind.BIGINT: _PLAIN,
    Kind.DECIMAL: _PLAIN,
    Kind.DOUBLE: _PLAIN,
    Kind.TIMESTAMP: (Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE, Kind.STRING, Kind.TIMESTAMP),
}


def can_cast(source: Type, target: Type) -> bool:
    """Whether CAST has a meaning between two types."""
    return target.kind in _CASTS.get(source.kind, ())


def cast(expression: Expr, target: Type, function: str = "cast") -> Expr:
    """`expression` as `target`: itself where it is of that type, a literal where that is exact, else a call.
    """
    if expression.type == target:
        return expression
    if isinstance(expression, Literal):
        folded = _fold(expression, target)
        if folded is not None:
            return folded
    return Call(function, (expression,), target)


def _fold(literal: Literal, target: Type) -> Literal | None:
    value, kind = literal.value, literal.type.kind
    if value is None:
        return Literal(None, target, literal.parameter)
    if kind not in (Kind.BIGINT, Kind.DECIMAL):
        return None
    if target == DOUBLE:
        return Literal(float(str(value)), DOUBLE, literal.parameter)
    if target.kind is Kind.DECIMAL:
        return _fold_decimal(Decimal(str(value)), target, literal.parameter)
    if target == STRING and kind is Kind.BIGINT:
        return Literal(str(value), STRING, literal.parameter)
    return None


def _fold_decimal(value: Decimal, target: Type, parameter: str) -> Literal | None:
    """None where digits would be lost: the engine rounds or fails, by its own rule."""
    sign, digits, exponent = value.as_tuple()
    shift = int(exponent) + target.scale
    if shift < 0 or len(digits) + shift > target.precision:
        return None
    scaled = int("".join(map(str, digits))) * 10**shift
    return Literal(decimal_text(-scaled if sign else scaled, target.scale), target, parameter)


def decimal_text(scaled: int, scale: int) -> str:
    """The text of scaled / 10**scale with exactly `scale` digits behind the point."""
    digits = str(abs(scaled)).rjust(scale + 1, "0")
    sign = "-" if scaled < 0 else ""
    return (
        f"{sign}{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}" if scale else sign + digits
    )

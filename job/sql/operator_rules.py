"""The typing rules of operators, conditionals and casts: Spark's implicit casts made explicit."""

from __future__ import annotations

from collections.abc import Callable

from job.plan import Call, Expr, Literal
from job.sql import coercion
from job.sql.application import Application, fold_text
from job.sql.coercion import can_cast, cast
from job.sql.limits import IN_CANDIDATES_MAX
from job.sql.syntax import TypeName
from job.types import (
    BIGINT,
    BOOLEAN,
    DECIMAL_PRECISION_MAX,
    DOUBLE,
    NULL,
    STRING,
    TIMESTAMP,
    Kind,
    Type,
    decimal,
)


def _logic(a: Application) -> Expr:
    arguments: list[Expr] = []
    for index in range(len(a.arguments)):
        argument = a.converted(index, BOOLEAN)
        same = (
            isinstance(argument, Call) and argument.function == a.function.plan and a.function.plan != "not"
        )
        arguments += argument.arguments if isinstance(argument, Call) and same else (argument,)
    return a.call(arguments, BOOLEAN)


def _comparison(a: Application) -> Expr:
    a.count(2, 2)
    left, right = _operands(a)
    return a.call((left, right), BOOLEAN)


def _operands(a: Application) -> tuple[Expr, Expr]:
    """Both sides of a comparison in one type; a BIGINT literal meets a DECIMAL with just its digits."""
    found = a.common((0, 1))
    if found.kind is Kind.DECIMAL:
        left, right = (_decimal_operand(argument).type for argument in a.arguments)
        found = coercion.wider_decimal(left, right)
    return a.cast(a.arguments[0], found, 0), a.cast(a.arguments[1], found, 1)


def _decimal_operand(argument: Expr) -> Expr:
    """An operand of decimal arithmetic: of its own precision, literals of just their digits."""
    if isinstance(argument, Literal) and argument.type == BIGINT and argument.value is not None:
        return coercion.integer_literal_decimal(argument)
    if argument.type == NULL:
        return cast(argument, decimal(1, 0))
    return cast(argument, coercion.as_decimal(argument.type))


def _between(a: Application) -> Expr:
    """x >= low AND x <= high, each side converted on its own, as Spark does."""
    a.count(3, 3)
    low = _operands(a.part((0, 1)))
    high = _operands(a.part((0, 2)))
    return Call("and", (Call("ge", low, BOOLEAN), Call("le", high, BOOLEAN)), BOOLEAN)


def _in(a: Application) -> Expr:
    a.count(2, IN_CANDIDATES_MAX + 1)
    found = a.common(range(len(a.arguments)))
    return a.call([a.cast(argument, found, index) for index, argument in enumerate(a.arguments)], BOOLEAN)


def _null_test(a: Application) -> Expr:
    a.count(1, 1)
    a.common((0,))
    return a.call(a.arguments, BOOLEAN)


def _truth_test(a: Application) -> Expr:
    wanted = Literal(a.function.names[0] == "is true", BOOLEAN)
    return Call("eq_null_safe", (a.converted(0, BOOLEAN), wanted), BOOLEAN)


def _arithmetic(a: Application) -> Expr:
    a.count(2, 2)
    found = a.common((0, 1))
    if found == STRING:
        found = DOUBLE
    if found == NULL:
        found = DOUBLE if a.function.plan == "div" else BIGINT
    if not found.is_numeric:
        advice = (
            "For whole days or hours write date_trunc, for seconds unix_seconds(time)."
            if found == TIMESTAMP
            else ""
        )
        a.fail(f"{a.function.usage} takes numbers, not {found}", advice)
    if found.kind is Kind.DECIMAL:
        return _decimal_arithmetic(a)
    if a.function.plan == "int_div" and found == DOUBLE:
        a.fail("DIV takes whole numbers or decimals, not a DOUBLE", "Write CAST(a / b AS BIGINT).")
    between = found
    if a.function.plan == "div":
        found = DOUBLE
    operands = [cast(a.cast(argument, between, index), found) for index, argument in enumerate(a.arguments)]
    return a.call(operands, found)


def _decimal_arithmetic(a: Application) -> Expr:
    left, right = (_decimal_operand(argument) for argument in a.arguments)
    if a.function.plan == "int_div":
        return a.call((left, right), BIGINT)
    return a.call((left, right), coercion.arithmetic_decimal(a.function.plan, left.type, right.type))


def _sign(a: Application) -> Expr:
    a.count(1, 1)
    argument = a.number()
    return a.call((argument,), argument.type)


def _whole(a: Application) -> Expr:
    """floor and ceil: a BIGINT is itself, a DECIMAL(p, s) becomes DECIMAL(p - s + 1, 0)."""
    a.count(1, 1)
    argument = a.number()
    kind = argument.type
    if kind == BIGINT or (kind.kind is Kind.DECIMAL and kind.scale == 0):
        return argument
    if kind == DOUBLE:
        return a.call((argument,), BIGINT)
    return a.call((argument,), decimal(kind.precision - kind.scale + 1, 0))


def _round(a: Application) -> Expr:
    a.count(1, 2)
    argument = a.number()
    digits = 0
    if len(a.arguments) == 2:
        digits = int(a.literal(1, BIGINT, "the number of digits").value or 0)
        if not -DECIMAL_PRECISION_MAX <= digits <= DECIMAL_PRECISION_MAX:
            a.fail("round takes -38 to 38 digits", "", 1)
    kind = argument.type
    if kind == BIGINT and digits >= 0:
        return argument
    if kind.kind is Kind.DECIMAL:
        kind = _rounded(kind, digits)
    return a.call((argument, Literal(digits, BIGINT)), kind)


def _rounded(kind: Type, digits: int) -> Type:
    """Spark's type of round over a DECIMAL: room for the carry, the scale cut to `digits`."""
    least = kind.precision - kind.scale + 1
    if digits < 0:
        return decimal(min(max(least, 1 - digits), DECIMAL_PRECISION_MAX), 0)
    scale = min(kind.scale, digits)
    return decimal(min(least + scale, DECIMAL_PRECISION_MAX), scale)


def _case(a: Application) -> Expr:
    pairs = len(a.arguments) // 2
    values = [2 * pair + 1 for pair in range(pairs)] + ([2 * pairs] if len(a.arguments) % 2 else [])
    found = a.common(values)
    arguments = [
        a.cast(argument, found, index) if index in values else a.converted(index, BOOLEAN)
        for index, argument in enumerate(a.arguments)
    ]
    return a.call(arguments, found)


def _if(a: Application) -> Expr:
    a.count(3, 3)
    return _case(a)


def _coalesce(a: Application) -> Expr:
    a.count(1, 256)
    found = a.common(range(len(a.arguments)))
    if len(a.arguments) == 1:
        return a.arguments[0]
    return a.call([a.cast(argument, found, index) for index, argument in enumerate(a.arguments)], found)


def _nvl2(a: Application) -> Expr:
    a.count(3, 3)
    a.common((0,))
    found = a.common((1, 2))
    condition = Call("is_not_null", (a.arguments[0],), BOOLEAN)
    return a.call((condition, a.cast(a.arguments[1], found, 1), a.cast(a.arguments[2], found, 2)), found)


def _nullif(a: Application) -> Expr:
    """nullif(a, b) keeps the type of a; where a comparison would convert a, it is a CASE."""
    a.count(2, 2)
    left, right = _operands(a)
    first = a.arguments[0]
    if left == first:
        return a.call((left, right), first.type)
    equal = Call("eq", (left, right), BOOLEAN)
    return Call("case", (equal, Literal(None, first.type), first), first.type)


def _extreme(a: Application) -> Expr:
    a.count(2, 256)
    found = a.common(range(len(a.arguments)), strings_mix=False)
    return a.call([a.cast(argument, found, index) for index, argument in enumerate(a.arguments)], found)


_TYPE_NAMES: dict[str, Type] = {
    **dict.fromkeys(("TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG"), BIGINT),
    "DOUBLE": DOUBLE,
    "BOOLEAN": BOOLEAN,
    **dict.fromkeys(("STRING", "TEXT"), STRING),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMP_LTZ"), TIMESTAMP),
}
_TYPE_ADVICE = {
    "DATE": "There is no DATE type; write date_trunc('DAY', time), or TIMESTAMP '2024-05-01'.",
    "FLOAT": "Write DOUBLE.",
    "VARCHAR": "Write STRING.",
    "CHAR": "Write STRING.",
    "TIMESTAMPNTZ": "Write TIMESTAMP; all times are UTC.",
    "TIMESTAMP_NTZ": "Write TIMESTAMP; all times are UTC.",
}


def target_type(a: Application, name: TypeName) -> Type:
    """The type that a cast names. Integer types are all BIGINT."""
    if name.name in ("DECIMAL", "NUMERIC", "DEC"):
        precision, scale = (*name.numbers, 0)[:2] if name.numbers else (10, 0)
        try:
            return decimal(precision, scale)
        except ValueError as error:
            a.fail(str(error))
    if name.name not in _TYPE_NAMES or name.numbers:
        advice = _TYPE_ADVICE.get(
            name.name, "Write BIGINT, DECIMAL(p, s), DOUBLE, STRING, BOOLEAN or TIMESTAMP."
        )
        a.fail(f"there is no type {name.name}{name.numbers or ''} here", advice, 1)
    return _TYPE_NAMES[name.name]


def _cast(a: Application) -> Expr:
    name = a.node.arguments[1]
    assert isinstance(name, TypeName)
    target = target_type(a, name)
    argument = a.arguments[0]
    if not can_cast(argument.type, target):
        a.fail(f"a {argument.type} cannot be cast to {target}", "For windows, use w.start and w.end.")
    if isinstance(argument, Literal) and argument.type == STRING and isinstance(argument.value, str):
        folded = fold_text(argument, target)
        if isinstance(folded, Literal):
            return folded
    return cast(argument, target, a.function.plan)


RULES: dict[str, Callable[[Application], Expr]] = {
    "logic": _logic,
    "comparison": _comparison,
    "between": _between,
    "in": _in,
    "null_test": _null_test,
    "truth_test": _truth_test,
    "arithmetic": _arithmetic,
    "sign": _sign,
    "whole": _whole,
    "round": _round,
    "case": _case,
    "if": _if,
    "coalesce": _coalesce,
    "nvl2": _nvl2,
    "nullif": _nullif,
    "extreme": _extreme,
    "cast": _cast,
}

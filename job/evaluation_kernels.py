"""Which kernel runs which function of docs/EXPRESSIONS.md: the table from names and types to compiled code.

`kernel_for` prepares a call once: literals are read, patterns compiled, scales looked up. What it returns
takes the columns of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import NamedTuple

from cython_ext import (
    exprs_arithmetic,
    exprs_compare,
    exprs_like,
    exprs_logic,
    exprs_regex,
    exprs_text,
    exprs_time,
    reference_text,
)
from cython_ext.column import Column
from cython_ext.exprs_result import Failures
from job.errors import JobError
from job.evaluation_casts import cast_kernel, is_slow_cast
from job.evaluation_values import DistinctCall, DistinctTexts, Run, stored
from job.literal_values import value_of
from job.plan import Call, Expr, Literal
from job.types import STRING, Kind


class Kernel(NamedTuple):
    """A prepared call."""

    run: Run
    inputs: tuple[Expr, ...]
    """The arguments that `run` takes as columns."""
    fails: bool = False
    """Some row may fail."""
    slow: bool = False
    """Runs in Python, once per distinct value."""


SLOW_FUNCTIONS = frozenset({"rlike", "regexp_extract", "parse_url", "url_decode"})
"""Functions that always run in Python; see `is_slow` for a call whose types make it so."""

LAZY_FUNCTIONS = frozenset({"and", "or", "case", "coalesce"})
"""Functions that look at an argument only where they need it; `job.evaluate` runs them."""


def is_slow(call: Call) -> bool:
    """Whether a call runs in Python, once per distinct value of a block."""
    if call.function in ("cast", "try_cast"):
        return is_slow_cast(call.arguments[0].type.kind, call.type.kind)
    return call.function in SLOW_FUNCTIONS or (call.function == "round" and call.type.kind is Kind.DOUBLE)


def kernel_for(call: Call) -> Kernel:
    """The kernel of a call. Raises JobError for an unknown function, a bad pattern, or a regular expression
    where google-re2 is missing."""
    if is_slow(call):
        return _slow(call)
    if call.function in ("cast", "try_cast"):
        run, fails = cast_kernel(call)
        return Kernel(run, call.arguments, fails)
    build = KERNELS.get(call.function)
    if build is None:
        raise JobError(f"no function {call.function!r} can be evaluated over rows")
    return build(call)


def _slow(call: Call) -> Kernel:
    if call.function in ("rlike", "regexp_extract"):
        prepared_regex = _regex(call)
        if prepared_regex is not None:
            return prepared_regex
    prepared = DistinctCall(call)
    inputs: tuple[Expr, ...] = tuple(a for a in call.arguments if not isinstance(a, Literal))
    if not inputs:  # the first argument stands for all rows
        prepared.fixed[0], prepared.varying, inputs = None, [0], call.arguments[:1]
    fails = call.function in ("parse_url", "url_decode", "cast")
    run = _uncounted(prepared.run) if call.function == "try_cast" else prepared.run
    return Kernel(run, inputs, fails, slow=True)


def _regex(call: Call) -> Kernel | None:
    """RE2 over the bytes of the column; None where the general way has to do."""
    pattern = _text_literal(call, 1)
    try:
        finder = reference_text.span_finder(pattern, captures=call.function == "regexp_extract")
    except (ImportError, ValueError) as error:
        raise JobError(str(error)) from error
    if finder is None or isinstance(call.arguments[0], Literal):
        return None
    match, anchor = finder
    if call.function == "rlike":
        run = DistinctTexts(call, lambda texts: exprs_regex.found(texts, match, anchor)).run
        return Kernel(run, call.arguments[:1], slow=True)
    group = call.arguments[2]
    if not isinstance(group, Literal) or not isinstance(group.value, int):
        raise JobError("argument 3 of regexp_extract must be a whole number")
    number = group.value
    run = DistinctTexts(call, lambda texts: exprs_regex.extracted(texts, match, anchor, number)).run
    return Kernel(run, call.arguments[:1], slow=True)


def _uncounted(run: Run) -> Run:
    return lambda columns, failures: run(columns, Failures())


def _text_literal(call: Call, index: int) -> str:
    argument = call.arguments[index]
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        raise JobError(f"argument {index + 1} of {call.function} must be a text literal")
    return argument.value


def _compare(operator: int, call: Call) -> Kernel:
    compare = exprs_compare.compare
    return Kernel(lambda c, f: compare(operator, c[0], c[1]), call.arguments)


def _unary(function: Callable[[Column], Column], call: Call) -> Kernel:
    return Kernel(lambda c, f: function(c[0]), call.arguments)


def _binary(function: Callable[[Column, Column], Column], call: Call) -> Kernel:
    return Kernel(lambda c, f: function(c[0], c[1]), call.arguments)


def _in(call: Call) -> Kernel:
    """Literal candidates become one prepared set; the others are compared one by one."""
    subject, *candidates = call.arguments
    literals = [stored(value_of(c), c.type) for c in candidates if isinstance(c, Literal)]
    others = tuple(c for c in candidates if not isinstance(c, Literal))
    members = exprs_compare.Membership(Column.from_list(subject.type.kind, literals)) if literals else None

    def run(columns: Sequence[Column], failures: Failures) -> Column:
        first = columns[0]
        found = [members.test(first)] if members is not None else []
        found += [exprs_compare.compare(exprs_compare.EQ, first, other) for other in columns[1:]]
        return reduce(exprs_logic.logical_or, found)

    return Kernel(run, (subject, *others))


_OPERATORS = {
    "add": exprs_arithmetic.ADD,
    "sub": exprs_arithmetic.SUBTRACT,
    "mul": exprs_arithmetic.MULTIPLY,
    "div": exprs_arithmetic.DIVIDE,
    "int_div": exprs_arithmetic.DIVIDE,
    "mod": exprs_arithmetic.REMAINDER,
}


def _arithmetic(call: Call) -> Kernel:
    operator, kind = _OPERATORS[call.function], call.arguments[0].type.kind
    if kind is Kind.DECIMAL:
        return _decimal_arithmetic(operator, call)
    function = exprs_arithmetic.double if kind is Kind.DOUBLE else exprs_arithmetic.bigint
    fails = kind is not Kind.DOUBLE or call.function in ("div", "mod")
    return Kernel(lambda c, f: function(operator, c[0], c[1], f), call.arguments, fails)


def _decimal_arithmetic(operator: int, call: Call) -> Kernel:
    a, b = (argument.type.scale for argument in call.arguments)
    if call.function == "int_div":
        int_div = exprs_arithmetic.decimal_int_div
        return Kernel(lambda c, f: int_div(c[0], a, c[1], b, f), call.arguments, fails=True)
    precision, scale = call.type.precision, call.type.scale
    decimal = exprs_arithmetic.decimal
    run: Run = lambda c, f: decimal(operator, c[0], a, c[1], b, precision, scale, f)  # noqa: E731
    return Kernel(run, call.arguments, fails=True)


def _neg(call: Call) -> Kernel:
    kind = call.type.kind
    if kind is Kind.BIGINT:
        return Kernel(lambda c, f: exprs_arithmetic.negate_bigint(c[0], f), call.arguments, fails=True)
    return _unary(
        exprs_arithmetic.negate_double if kind is Kind.DOUBLE else exprs_arithmetic.negate_decimal, call
    )


def _abs(call: Call) -> Kernel:
    kind = call.type.kind
    if kind is Kind.BIGINT:
        return Kernel(lambda c, f: exprs_arithmetic.absolute_bigint(c[0], f), call.arguments, fails=True)
    return _unary(
        exprs_arithmetic.absolute_double if kind is Kind.DOUBLE else exprs_arithmetic.absolute_decimal, call
    )


def _identity(call: Call) -> Kernel:
    return Kernel(lambda c, f: c[0], call.arguments[:1])


def _whole(up: bool, call: Call) -> Kernel:
    source = call.arguments[0].type
    if source.kind is Kind.BIGINT:
        return _identity(call)
    if source.kind is Kind.DOUBLE:
        return Kernel(lambda c, f: exprs_arithmetic.whole_double(c[0], up, f), call.arguments, fails=True)
    whole, scale, precision = exprs_arithmetic.whole_decimal, source.scale, call.type.precision
    return Kernel(lambda c, f: whole(c[0], scale, precision, up, f), call.arguments, fails=True)


def _round(call: Call) -> Kernel:
    source, places = call.arguments[0].type, call.arguments[1]
    if not isinstance(places, Literal) or not isinstance(places.value, int):
        raise JobError("argument 2 of round must be a whole number")
    count = max(-38, min(38, places.value))
    if source.kind is Kind.BIGINT:
        if count >= 0:
            return _identity(call)
        long = exprs_arithmetic.round_bigint
        return Kernel(lambda c, f: long(c[0], -count, f), call.arguments[:1], fails=True)
    rescale, scale, target = exprs_arithmetic.rescale, source.scale, call.type
    run: Run = lambda c, f: rescale(c[0], scale, target.precision, target.scale, f, count)  # noqa: E731
    return Kernel(run, call.arguments[:1], fails=True)


def _extreme(greatest: bool, call: Call) -> Kernel:
    extreme = exprs_compare.extreme
    return Kernel(lambda c, f: reduce(lambda a, b: extreme(a, b, greatest), c), call.arguments)


def _nullif(call: Call) -> Kernel:
    compare, null_where = exprs_compare.compare, exprs_logic.null_where
    return Kernel(lambda c, f: null_where(c[0], compare(exprs_compare.EQ, c[0], c[1])), call.arguments)


def _like(call: Call) -> Kernel:
    escape = _text_literal(call, 2) if len(call.arguments) > 2 else "\\"
    try:
        pattern = exprs_like.LikePattern(_text_literal(call, 1), escape)
    except ValueError as error:
        raise JobError(str(error)) from error
    return Kernel(lambda c, f: pattern.test(c[0]), call.arguments[:1])


def _change_case(upper: bool, call: Call) -> Kernel:
    rest = DistinctCall(call)
    rest.fixed[0], rest.varying = None, [0]

    def run(columns: Sequence[Column], failures: Failures) -> Column:
        done, left = exprs_text.change_case(columns[0], upper)
        return rest.finish(done, left, columns, failures)

    return Kernel(run, call.arguments)


def _trim(side: int, call: Call) -> Kernel:
    inputs = call.arguments if len(call.arguments) > 1 else (call.arguments[0], Literal(" ", STRING))
    return Kernel(lambda c, f: exprs_text.trim(c[0], c[1], side), inputs)


def _substr(call: Call) -> Kernel:
    return Kernel(lambda c, f: exprs_text.substr(c[0], c[1], c[2]), call.arguments)


def _split_part(call: Call) -> Kernel:
    return Kernel(lambda c, f: exprs_text.split_part(c[0], c[1], c[2], f), call.arguments, fails=True)


def _replace(call: Call) -> Kernel:
    return Kernel(lambda c, f: exprs_text.replace(c[0], c[1], c[2], f), call.arguments, fails=True)


def _concat(call: Call) -> Kernel:
    return Kernel(lambda c, f: exprs_text.concat(list(c), f), call.arguments, fails=True)


def _date_trunc(call: Call) -> Kernel:
    name = _text_literal(call, 0)
    if name not in exprs_time.UNITS:
        raise JobError(f"date_trunc knows {', '.join(exprs_time.UNITS)}, not {name!r}")
    unit = exprs_time.UNITS.index(name)
    return Kernel(lambda c, f: exprs_time.truncate(c[0], unit, f), call.arguments[1:], fails=True)


def _part(index: int, call: Call) -> Kernel:
    return Kernel(lambda c, f: exprs_time.part(c[0], index), call.arguments)


def _timestamp_seconds(call: Call) -> Kernel:
    source = call.arguments[0].type

    def run(columns: Sequence[Column], failures: Failures) -> Column:
        if source.kind is Kind.BIGINT:
            return exprs_time.seconds_of_bigint(columns[0], False, failures)
        if source.kind is Kind.DOUBLE:
            return exprs_time.seconds_of_double(columns[0], True, failures)
        return exprs_time.seconds_of_decimal(columns[0], source.scale, True, failures)

    return Kernel(run, call.arguments, fails=True)


Build = Callable[[Call], Kernel]

KERNELS: dict[str, Build] = {
    "not": partial(_unary, exprs_logic.logical_not),
    "eq": partial(_compare, exprs_compare.EQ),
    "ne": partial(_compare, exprs_compare.NE),
    "lt": partial(_compare, exprs_compare.LT),
    "le": partial(_compare, exprs_compare.LE),
    "gt": partial(_compare, exprs_compare.GT),
    "ge": partial(_compare, exprs_compare.GE),
    "eq_null_safe": partial(_binary, exprs_compare.equal_null_safe),
    "is_null": partial(_unary, exprs_logic.is_null),
    "is_not_null": partial(_unary, exprs_logic.is_not_null),
    "in": _in,
    **dict.fromkeys(_OPERATORS, _arithmetic),
    "neg": _neg,
    "abs": _abs,
    "floor": partial(_whole, False),
    "ceil": partial(_whole, True),
    "round": _round,
    "greatest": partial(_extreme, True),
    "least": partial(_extreme, False),
    "nullif": _nullif,
    "like": _like,
    "lower": partial(_change_case, False),
    "upper": partial(_change_case, True),
    "trim": partial(_trim, exprs_text.TRIM_BOTH),
    "ltrim": partial(_trim, exprs_text.TRIM_LEFT),
    "rtrim": partial(_trim, exprs_text.TRIM_RIGHT),
    "length": partial(_unary, exprs_text.length),
    "substr": _substr,
    "split_part": _split_part,
    "concat": _concat,
    "replace": _replace,
    "starts_with": partial(_binary, exprs_text.starts_with),
    "ends_with": partial(_binary, exprs_text.ends_with),
    "contains": partial(_binary, exprs_text.contains),
    "date_trunc": _date_trunc,
    **{name.lower(): partial(_part, index) for index, name in enumerate(exprs_time.PARTS)},
    "unix_micros": partial(_unary, exprs_time.unix_micros),
    "unix_seconds": partial(_unary, exprs_time.unix_seconds),
    "timestamp_seconds": _timestamp_seconds,
}

FUNCTIONS = frozenset(KERNELS) | SLOW_FUNCTIONS | LAZY_FUNCTIONS | {"cast", "try_cast"}
"""Every function that can be evaluated over rows; `array` is put together by whoever reads a result."""

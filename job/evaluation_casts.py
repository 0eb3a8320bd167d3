"""Which kernel casts what: the table from pairs of kinds to compiled code."""

from __future__ import annotations

from collections.abc import Sequence

from cython_ext import exprs_arithmetic, exprs_cast, exprs_double, exprs_time
from cython_ext.column import Column
from cython_ext.exprs_result import Failures
from job.errors import JobError
from job.evaluation_values import DistinctCall, Run
from job.plan import Call
from job.types import Kind

_SLOW = frozenset({(Kind.DOUBLE, Kind.DECIMAL)})


def is_slow_cast(source: Kind, target: Kind) -> bool:
    """Whether a cast runs in Python, once per distinct value."""
    return (source, target) in _SLOW


def cast_kernel(call: Call) -> tuple[Run, bool]:
    """(what runs the cast, whether rows may fail) for a `cast` or `try_cast` that is not slow. Raises
    JobError for kinds that do not convert."""
    run, fails = _cast(call)
    if call.function == "try_cast":
        return _uncounted(run), False
    return run, fails


def _uncounted(run: Run) -> Run:
    return lambda columns, failures: run(columns, Failures())


def _cast(call: Call) -> tuple[Run, bool]:
    source, target = call.arguments[0].type, call.type
    if source == target:
        return (lambda c, f: c[0]), False
    if source.kind is Kind.NULL:
        return (lambda c, f: exprs_cast.typed_null(target.kind, len(c[0]))), False
    if source.kind is Kind.STRING:
        return _from_string(call), True
    builders = {
        Kind.BOOLEAN: _to_boolean,
        Kind.BIGINT: _to_bigint,
        Kind.DECIMAL: _to_decimal,
        Kind.DOUBLE: _to_double,
        Kind.STRING: _to_string,
        Kind.TIMESTAMP: _to_timestamp,
    }
    prepared = builders[target.kind](call) if target.kind in builders else None
    if prepared is None:
        raise JobError(f"{source} does not convert to {target}")
    return prepared


def _from_string(call: Call) -> Run:
    target, rest = call.type, _rest(call)

    def run(columns: Sequence[Column], failures: Failures) -> Column:
        done, left = exprs_cast.read_string(columns[0], target.kind, target.precision, target.scale, failures)
        return rest.finish(done, left, columns, failures)

    return run


def _rest(call: Call) -> DistinctCall:
    """What finishes the rows that a cast kernel leaves; a literal argument arrives as a constant column."""
    rest = DistinctCall(Call("cast", call.arguments, call.type))
    rest.fixed, rest.varying = [None], [0]
    return rest


def _to_boolean(call: Call) -> tuple[Run, bool] | None:
    if not call.arguments[0].type.is_numeric:
        return None
    return (lambda c, f: exprs_cast.to_boolean(c[0])), False


def _to_bigint(call: Call) -> tuple[Run, bool] | None:
    source = call.arguments[0].type
    if source.kind is Kind.BOOLEAN:
        return (lambda c, f: exprs_cast.boolean_to_bigint(c[0])), False
    if source.kind is Kind.TIMESTAMP:
        return (lambda c, f: exprs_time.unix_seconds(c[0])), False
    if source.kind is Kind.DOUBLE:
        return (lambda c, f: exprs_cast.double_to_bigint(c[0], f)), True
    return (lambda c, f: exprs_cast.decimal_to_bigint(c[0], source.scale, f)), True


def _to_decimal(call: Call) -> tuple[Run, bool] | None:
    source, precision, scale = call.arguments[0].type, call.type.precision, call.type.scale
    if source.kind is Kind.DECIMAL:
        rescale = exprs_arithmetic.rescale
        fails = precision - scale < source.precision - source.scale or scale < source.scale
        return (lambda c, f: rescale(c[0], source.scale, precision, scale, f)), fails
    if source.kind is Kind.TIMESTAMP:
        return (lambda c, f: exprs_cast.timestamp_to_decimal(c[0], precision, scale, f)), True
    if source.kind is Kind.BOOLEAN:
        whole = exprs_cast.boolean_to_bigint
        widen = exprs_cast.bigint_to_decimal
        return (lambda c, f: widen(whole(c[0]), precision, scale, f)), precision == scale
    return (lambda c, f: exprs_cast.bigint_to_decimal(c[0], precision, scale, f)), precision - scale < 19


def _to_double(call: Call) -> tuple[Run, bool] | None:
    source = call.arguments[0].type
    if source.kind is Kind.BIGINT:
        return (lambda c, f: exprs_cast.bigint_to_double(c[0])), False
    if source.kind is Kind.BOOLEAN:
        return (lambda c, f: exprs_cast.bigint_to_double(exprs_cast.boolean_to_bigint(c[0]))), False
    if source.kind is Kind.TIMESTAMP:
        return (lambda c, f: exprs_cast.timestamp_to_double(c[0])), False
    rest = _rest(call)

    def run(columns: Sequence[Column], failures: Failures) -> Column:
        done, left = exprs_cast.decimal_to_double(columns[0], source.scale)
        return rest.finish(done, left, columns, failures)

    return run, False


def _to_string(call: Call) -> tuple[Run, bool] | None:
    source = call.arguments[0].type
    if source.kind is Kind.BOOLEAN:
        return (lambda c, f: exprs_cast.boolean_to_string(c[0])), False
    if source.kind is Kind.TIMESTAMP:
        return (lambda c, f: exprs_cast.timestamp_to_string(c[0])), False
    if source.kind is Kind.DOUBLE:
        return (lambda c, f: exprs_double.to_string(c[0])), False
    return (lambda c, f: exprs_cast.number_to_string(c[0], source.scale)), False


def _to_timestamp(call: Call) -> tuple[Run, bool] | None:
    source = call.arguments[0].type
    if source.kind is Kind.BIGINT:
        return (lambda c, f: exprs_time.seconds_of_bigint(c[0], True, f)), False
    if source.kind is Kind.DOUBLE:
        return (lambda c, f: exprs_time.seconds_of_double(c[0], False, f)), True
    if source.kind is Kind.DECIMAL:
        return (lambda c, f: exprs_time.seconds_of_decimal(c[0], source.scale, False, f)), True
    return None

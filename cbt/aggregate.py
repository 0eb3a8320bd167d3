"""The aggregate contract: which state an aggregate keeps, and how a state becomes a value.

Every state merges commutatively and associatively, so a result does not depend on order, threads or the shape
of a tree. Several aggregates may finish the same state: `sum(x)`, `avg(x)` and `count(x)` share one.
docs/AGGREGATES.md has the layouts. Kinds of values are the numbers of `job.types.Kind`, which this layer may
not import.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import IntEnum
from typing import NamedTuple

from cbt.errors import AggregateError

DECIMAL_NARROW_DIGITS = 19
"""Decimals of at most this many digits are summed in 128 bits: 2**64 of them stay below 2**127."""

_KIND_NAMES = ("NULL", "BOOLEAN", "BIGINT", "DECIMAL", "DOUBLE", "STRING", "TIMESTAMP")
_NULL, _BOOLEAN, _BIGINT, _DECIMAL, _DOUBLE, _STRING, _TIMESTAMP = range(7)


class StateKind(IntEnum):
    """What a group keeps for an aggregate. The numbers are part of `cython_ext.states`: never renumber.

    MIN, MAX, HLL and QUANTILES are 10, 20, 30 and 40 plus the kind of their argument.
    """

    COUNT = 1
    SUM = 2
    SUM_DECIMAL = 3
    SUM_DECIMAL_WIDE = 4
    SUM_DOUBLE = 5
    MIN_BOOLEAN = 11
    MIN_BIGINT = 12
    MIN_DECIMAL = 13
    MIN_DOUBLE = 14
    MIN_STRING = 15
    MIN_TIMESTAMP = 16
    MAX_BOOLEAN = 21
    MAX_BIGINT = 22
    MAX_DECIMAL = 23
    MAX_DOUBLE = 24
    MAX_STRING = 25
    MAX_TIMESTAMP = 26
    HLL_BOOLEAN = 31
    HLL_BIGINT = 32
    HLL_DECIMAL = 33
    HLL_DOUBLE = 34
    HLL_STRING = 35
    HLL_TIMESTAMP = 36
    QUANTILES_BIGINT = 42
    QUANTILES_DECIMAL = 43
    QUANTILES_DOUBLE = 44


class Finish(IntEnum):
    """How a state becomes a value. The numbers are part of `cython_ext.states`."""

    COUNT = 1
    """BIGINT, never NULL: rows that counted. From COUNT and every SUM."""
    SUM = 2
    """BIGINT, DECIMAL or DOUBLE; NULL without rows, or beyond the result's range (an overflow)."""
    AVG = 3
    """DOUBLE, or DECIMAL from decimals; NULL without rows."""
    VALUE = 4
    """MIN and MAX: a value of the argument's kind; NULL without rows."""
    ESTIMATE = 5
    """HLL: BIGINT, never NULL."""
    QUANTILE = 6
    """QUANTILES: DOUBLE; NULL without rows."""
    SKETCH = 7
    """HLL: STRING, never NULL: base64 of the bytes that DataSketches and Spark read."""


class Resolved(NamedTuple):
    """The state an aggregate needs and the finish it asks of it."""

    state: StateKind
    finish: Finish


class AggregateInput(NamedTuple):
    """What feeds a state. Aggregates whose inputs are equal share one state."""

    state: StateKind
    argument: Hashable
    """The expression whose values count; None counts rows."""
    filter: Hashable = None
    """The condition that a row must meet; None for all rows."""


def resolve(function: str, kind: int, precision: int = 0, scale: int = 0) -> Resolved:
    """The state and finish of `function` over an argument of `kind` (DECIMAL with its precision and scale).

    `kind` is NULL for `count(*)`, and for `count` of several arguments of which none may be NULL: those
    rows are then picked by a mask. Raises AggregateError for a function that does not take the kind, and for
    `count_distinct`, which is no state but a table over (keys, arguments).
    """
    found = _resolve(function, kind, precision)
    if found is None:
        name = _KIND_NAMES[kind] if 0 <= kind < len(_KIND_NAMES) else f"kind {kind}"
        shown = f"{name}({precision},{scale})" if kind == _DECIMAL else name
        raise AggregateError(f"no aggregate {function} over {shown}")
    return found


def _resolve(function: str, kind: int, precision: int) -> Resolved | None:
    if function == "count":
        return Resolved(StateKind.COUNT, Finish.COUNT)
    if function in ("sum", "avg"):
        state = _sum_state(kind, precision)
        return Resolved(state, Finish.SUM if function == "sum" else Finish.AVG) if state else None
    if function in ("min", "max") and _BOOLEAN <= kind <= _TIMESTAMP:
        return Resolved(StateKind((10 if function == "min" else 20) + kind), Finish.VALUE)
    if function == "approx_count_distinct" and _BOOLEAN <= kind <= _TIMESTAMP:
        return Resolved(StateKind(30 + kind), Finish.ESTIMATE)
    if function == "hll_sketch_agg" and kind in (_BIGINT, _STRING):
        return Resolved(StateKind(30 + kind), Finish.SKETCH)
    if function == "approx_percentile" and kind in (_BIGINT, _DECIMAL, _DOUBLE):
        return Resolved(StateKind(40 + kind), Finish.QUANTILE)
    return None


def _sum_state(kind: int, precision: int) -> StateKind | None:
    if kind == _BIGINT:
        return StateKind.SUM
    if kind == _DOUBLE:
        return StateKind.SUM_DOUBLE
    if kind == _DECIMAL:
        return StateKind.SUM_DECIMAL if precision <= DECIMAL_NARROW_DIGITS else StateKind.SUM_DECIMAL_WIDE
    return None

"""Which state and finish an aggregate gets."""

from __future__ import annotations

import pytest

from cbt.aggregate import AggregateInput, Finish, Resolved, StateKind, resolve
from cbt.errors import AggregateError
from cython_ext.column import Column
from cython_ext.groups import GroupTable
from job.types import Kind

KINDS = [Kind.BOOLEAN, Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE, Kind.STRING, Kind.TIMESTAMP]


def test_count_takes_anything() -> None:
    for kind in [Kind.NULL, *KINDS]:
        assert resolve("count", kind, 0, 0) == Resolved(StateKind.COUNT, Finish.COUNT)


def test_sum_and_avg_share_a_state() -> None:
    assert resolve("sum", Kind.BIGINT) == (StateKind.SUM, Finish.SUM)
    assert resolve("avg", Kind.BIGINT) == (StateKind.SUM, Finish.AVG)
    assert resolve("avg", Kind.DOUBLE) == (StateKind.SUM_DOUBLE, Finish.AVG)


@pytest.mark.parametrize(
    ("precision", "state"), [(1, "SUM_DECIMAL"), (19, "SUM_DECIMAL"), (20, "SUM_DECIMAL_WIDE")]
)
def test_wide_decimals_get_a_wide_sum(precision: int, state: str) -> None:
    assert resolve("sum", Kind.DECIMAL, precision, 1).state is StateKind[state]


@pytest.mark.parametrize("kind", KINDS)
def test_states_by_kind_are_named_after_it(kind: Kind) -> None:
    assert resolve("min", kind) == (StateKind[f"MIN_{kind.name}"], Finish.VALUE)
    assert resolve("max", kind) == (StateKind[f"MAX_{kind.name}"], Finish.VALUE)
    assert resolve("approx_count_distinct", kind) == (StateKind[f"HLL_{kind.name}"], Finish.ESTIMATE)


def test_percentiles_are_of_numbers() -> None:
    assert resolve("approx_percentile", Kind.DECIMAL, 9, 2) == (StateKind.QUANTILES_DECIMAL, Finish.QUANTILE)
    with pytest.raises(AggregateError, match="approx_percentile over STRING"):
        resolve("approx_percentile", Kind.STRING)


@pytest.mark.parametrize(("function", "kind"), [("sum", Kind.STRING), ("avg", Kind.TIMESTAMP), ("median", 2)])
def test_what_does_not_exist_is_named(function: str, kind: int) -> None:
    with pytest.raises(AggregateError, match=f"no aggregate {function}"):
        resolve(function, kind)


def test_decimals_are_named_with_their_digits() -> None:
    with pytest.raises(AggregateError, match=r"DECIMAL\(9,2\)"):
        resolve("median", Kind.DECIMAL, 9, 2)


def test_inputs_that_are_equal_share_a_state() -> None:
    assert len({AggregateInput(StateKind.SUM, "bytes"), AggregateInput(StateKind.SUM, "bytes", None)}) == 1


@pytest.mark.parametrize("state", list(StateKind))
def test_the_kernel_knows_every_state(state: StateKind) -> None:
    """A state of the contract can be made, fed one value, and finished by the function that names it."""
    kind = int(state) % 10 if state > 10 else {2: 2, 3: 3, 4: 3, 5: 4}.get(int(state), 2)
    value = {Kind.BOOLEAN: True, Kind.STRING: "x", Kind.DOUBLE: 1.0}.get(Kind(kind), 1)
    finishes = {10: Finish.VALUE, 20: Finish.VALUE, 30: Finish.ESTIMATE, 40: Finish.QUANTILE}
    table = GroupTable([], [state])
    table.update([], [Column.from_list(kind, [value])], [None], 1)
    finish = finishes.get(int(state) // 10 * 10, Finish.COUNT)
    column, overflows = table.finish(0, finish, 0.5, 9, 0)
    expected = 1 if finish in (Finish.COUNT, Finish.ESTIMATE) else value
    assert (column.to_list(), overflows) == ([expected], 0)
    table.check()

"""Columns, selections and their limits."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from cython_ext.column import BLOCK_ROWS_MAX, Column, Selection
from job.types import Kind

VALUES: list[tuple[Kind, list[Any]]] = [
    (Kind.BOOLEAN, [True, None, False]),
    (Kind.BIGINT, [-(2**63), None, 2**63 - 1]),
    (Kind.TIMESTAMP, [0, -1, None]),
    (Kind.DOUBLE, [0.5, None, -1e300]),
    (Kind.DECIMAL, [10**38 - 1, None, -(10**38) + 1, -1, 2**64]),
    (Kind.STRING, ["", None, "é", "x" * 1000]),
    (Kind.NULL, [None, None]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES)
def test_values_come_back(kind: Kind, values: list[Any]) -> None:
    column = Column.from_list(kind, values)
    assert (column.kind, len(column), column.to_list(), column.constant) == (kind, len(values), values, False)
    assert column.has_nulls == (None in values)


@pytest.mark.parametrize(("kind", "values"), VALUES)
def test_taking_rows(kind: Kind, values: list[Any]) -> None:
    rows = [len(values) - 1, 0, 0]
    taken = Column.from_list(kind, values).take(Selection.from_list(rows))
    assert taken.to_list() == [values[row] for row in rows]
    constant = Column.from_list(kind, values[:1], constant=True, length=4).take(Selection.from_list(rows))
    assert (constant.constant, constant.to_list()) == (True, values[:1] * 3)


def test_kinds_are_those_of_the_job() -> None:
    """The numbers in column.pxd, which no Python sees, show in what each kind takes and gives."""
    for kind, values in VALUES:
        assert [type(v) for v in Column.from_list(kind, values).to_list()] == [type(v) for v in values]
    assert [int(kind) for kind, _ in sorted(VALUES)] == list(range(7))
    for kind in (Kind.WINDOW, Kind.ARRAY):
        with pytest.raises(ValueError, match="no column kind"):
            Column.from_list(kind, [])


def test_decimals_with_their_scale() -> None:
    column = Column.from_list(Kind.DECIMAL, [-150, None, 10**38 - 1])
    assert column.to_list(2) == [Decimal("-1.50"), None, Decimal("999999999999999999999999999999999999.99")]


def test_selection_of_true_rows() -> None:
    assert Column.from_list(Kind.BOOLEAN, [True, None, False, True]).selection().to_list() == [0, 3]
    assert Column.from_list(Kind.BOOLEAN, [True], constant=True, length=3).selection().to_list() == [0, 1, 2]
    assert Column.from_list(Kind.BOOLEAN, [None], constant=True, length=3).selection().to_list() == []
    with pytest.raises(TypeError, match="only a BOOLEAN column"):
        Column.from_list(Kind.BIGINT, [1]).selection()


def test_a_constant_repeats() -> None:
    for kind, values in VALUES:
        repeated = Column.from_list(kind, values[:1], constant=True, length=1).repeat(5)
        assert (repeated.constant, repeated.to_list()) == (True, values[:1] * 5)
        assert repeated.repeat(0).to_list() == []
    with pytest.raises(ValueError, match="only a constant"):
        Column.from_list(Kind.BIGINT, [1]).repeat(2)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(OverflowError):
        Column.from_list(Kind.BIGINT, [2**63])
    with pytest.raises(TypeError):
        Column.from_list(Kind.BIGINT, ["1"])
    with pytest.raises(ValueError, match="one value"):
        Column.from_list(Kind.BIGINT, [1, 2], constant=True)
    with pytest.raises(ValueError, match="rows in a column"):
        Column.from_list(Kind.BIGINT, [1], constant=True, length=BLOCK_ROWS_MAX + 1)
    with pytest.raises(IndexError, match="row 3 of 2"):
        Column.from_list(Kind.BIGINT, [1, 2]).take(Selection.from_list([3]))

"""Columns, selections and their limits."""

from __future__ import annotations

import gc
from decimal import Decimal
from typing import Any

import pytest

from cython_ext.column import BLOCK_ROWS_MAX, Column, Selection
from cython_ext.groups import GroupTable
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


@pytest.mark.parametrize(("kind", "values"), VALUES)
def test_columns_are_joined(kind: int, values: list[Any]) -> None:
    parts = [
        Column.from_list(kind, values),
        Column.from_list(kind, []),
        Column.from_list(kind, values[:1], constant=True, length=3),
        Column.from_list(kind, [None, *values]),
    ]
    joined = Column.joined(parts)
    assert (joined.constant, joined.to_list()) == (False, values + values[:1] * 3 + [None, *values])
    assert Column.joined(parts[:1]).to_list() == values


def test_what_cannot_be_joined() -> None:
    with pytest.raises(ValueError, match="no columns"):
        Column.joined([])
    with pytest.raises(ValueError, match=r"kind 5 joined to one of kind 2"):
        Column.joined([Column.from_list(Kind.BIGINT, [1]), Column.from_list(Kind.STRING, ["a"])])


@pytest.mark.parametrize("constant", [False, True])
def test_a_detached_column_has_texts_of_its_own(constant: bool) -> None:
    texts = ["only"] if constant else ["", None, "some", "é" * 40]
    column = Column.from_list(Kind.STRING, texts, constant=constant, length=7)
    own = column.detached()
    assert (own.constant, len(own), own.to_list()) == (constant, len(column), column.to_list())
    assert Column.from_list(Kind.STRING, [None], constant=True, length=2).detached().to_list() == [None, None]


def test_a_detached_column_keeps_no_table_alive() -> None:
    """Rows of finished windows kept the group tables of all panes: 4.6 GB for a sliding window of an hour."""

    def held(column: Column) -> list[object]:
        return [held for held in gc.get_referents(column) for held in held if isinstance(held, GroupTable)]

    table = GroupTable([Kind.STRING], [])
    table.update([Column.from_list(Kind.STRING, ["a", "b"])], [], [], 2)
    (keys,) = table.keys()
    taken = keys.take(Selection.from_list([1]))
    assert held(taken) == [table]
    assert held(taken.detached()) == []


def test_bytes_of_columns() -> None:
    texts = Column.from_list(Kind.STRING, ["ab", None, "cde"])
    assert (texts.text_bytes, texts.memory_bytes) == (5, 3 * 17 + 5)
    numbers = Column.from_list(Kind.BIGINT, [1, 2])
    assert (numbers.text_bytes, numbers.memory_bytes) == (0, 16)
    assert Column.from_list(Kind.STRING, ["abc"], constant=True, length=9).text_bytes == 3

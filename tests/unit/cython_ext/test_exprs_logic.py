"""Three-valued logic, masks, choosing, and rows of distinct values."""

from __future__ import annotations

from typing import Any

import pytest

from cython_ext.column import Column
from cython_ext.exprs_distinct import distinct_rows
from cython_ext.exprs_logic import (
    TEST_NOT_FALSE,
    TEST_NOT_TRUE,
    TEST_NULL,
    TEST_TRUE,
    choose,
    coalesce,
    logical_and,
    null_where,
    overlay,
    rows_where,
)
from job.types import BIGINT, BOOLEAN, STRING, Kind
from tests.expression_cases import result

TRUTH = [True, False, None]


def booleans(*values: bool | None) -> Column:
    return Column.from_list(Kind.BOOLEAN, values)


def longs(*values: int | None) -> Column:
    return Column.from_list(Kind.BIGINT, values)


@pytest.mark.parametrize("a", TRUTH)
@pytest.mark.parametrize("b", TRUTH)
def test_and_or(a: bool | None, b: bool | None) -> None:
    conjunction = False if False in (a, b) else None if None in (a, b) else True
    disjunction = True if True in (a, b) else None if None in (a, b) else False
    assert result("and", BOOLEAN, (a, BOOLEAN), (b, BOOLEAN)) is conjunction
    assert result("or", BOOLEAN, (a, BOOLEAN), (b, BOOLEAN)) is disjunction


def test_not() -> None:
    assert [result("not", BOOLEAN, (a, BOOLEAN)) for a in TRUTH] == [False, True, None]


def test_null_tests() -> None:
    assert [result("is_null", BOOLEAN, (a, BIGINT)) for a in (1, None)] == [False, True]
    assert [result("is_not_null", BOOLEAN, (a, STRING)) for a in ("", None)] == [True, False]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (TEST_TRUE, [True, False, False]),
        (TEST_NOT_TRUE, [False, True, True]),
        (TEST_NOT_FALSE, [True, False, True]),
        (TEST_NULL, [False, False, True]),
    ],
)
def test_masks(test: int, expected: list[bool]) -> None:
    column = booleans(*TRUTH)
    assert rows_where(None, column, test).to_list() == expected
    above = booleans(True, True, False)
    assert rows_where(above, column, test).to_list() == [e and m for e, m in zip(expected, [True, True, False], strict=True)]


def test_choose_takes_the_first_true_arm() -> None:
    first, second = booleans(True, None, False, True), booleans(True, True, False, True)
    values = [longs(1, 1, 1, None), longs(2, 2, 2, 2)]
    assert choose([first, second], values).to_list() == [1, 2, None, None]
    assert choose([first, second], [*values, longs(3, 3, 3, 3)]).to_list() == [1, 2, 3, None]


def test_choose_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="1 conditions with 3 values"):
        choose([booleans(True)], [longs(1)] * 3)
    with pytest.raises(ValueError, match="1 and 2 rows"):
        choose([booleans(True)], [longs(1, 2)])
    with pytest.raises(TypeError, match="kinds 2 and 5"):
        choose([booleans(True)], [longs(1), Column.from_list(Kind.STRING, ["x"])])


def test_coalesce_of_constants_is_constant() -> None:
    null, one = (Column.from_list(Kind.BIGINT, [v], constant=True, length=3) for v in (None, 1))
    out = coalesce([null, one])
    assert (out.constant, out.to_list()) == (True, [1, 1, 1])
    assert coalesce([longs(None, 5, None), one]).to_list() == [1, 5, 1]


def test_null_where_and_overlay() -> None:
    assert null_where(longs(1, 2, None), booleans(True, None, False)).to_list() == [None, 2, None]
    assert overlay(longs(1, 2), booleans(False, True), longs(8, 9)).to_list() == [1, 9]


def test_empty_blocks() -> None:
    assert logical_and(booleans(), booleans()).to_list() == []
    assert choose([booleans()], [longs()]).to_list() == []
    assert rows_where(None, booleans(), TEST_TRUE).to_list() == []


def spread(columns: list[Column], wanted: Column | None = None) -> list[Any]:
    """The rows as `distinct_rows` gives them back, None where they were not wanted."""
    first, codes = distinct_rows(columns, wanted)
    assert len(first) == len(set(first.to_list()))
    rows = [*zip(*(c.take(first).to_list() for c in columns), strict=True), None]
    return [rows[code] for code in codes.to_list()]


def test_distinct_rows_stand_for_all() -> None:
    texts = ["a", None, "b", "a", "", None, "b" * 20, "b" * 20]
    column = Column.from_list(Kind.STRING, texts)
    assert spread([column]) == [(text,) for text in texts]
    assert len(distinct_rows([column], None)[0]) == 5
    numbers = longs(1, 1, 2, 1, None, None, 3, 4)
    assert spread([column, numbers]) == list(zip(texts, numbers.to_list(), strict=True))


def test_distinct_rows_of_a_mask() -> None:
    wanted = booleans(False, True, True)
    assert spread([longs(1, 2, 2)], wanted) == [None, (2,), (2,)]


def test_distinct_doubles_differ_by_sign_of_zero() -> None:
    first, _ = distinct_rows([Column.from_list(Kind.DOUBLE, [0.0, -0.0, 0.0])], None)
    assert len(first) == 2


def test_many_distinct_rows() -> None:
    values = [i * 7 % 4000 for i in range(9000)]
    assert spread([longs(*values)]) == [(v,) for v in values]


def test_a_case_of_bigints() -> None:
    assert result("case", BIGINT, (None, BOOLEAN), (1, BIGINT), (True, BOOLEAN), (2, BIGINT), (3, BIGINT)) == 2
    assert result("case", BIGINT, (False, BOOLEAN), (1, BIGINT)) is None
    assert result("coalesce", BIGINT, (None, BIGINT), (2, BIGINT)) == 2
    assert result("nullif", BIGINT, (1, BIGINT), (None, BIGINT)) == 1

"""The memory of columns: who keeps the bytes of a STRING alive, and what is refused rather than misread."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

from cbt.aggregate import Finish, StateKind
from cython_ext import exprs_cast, exprs_compare, exprs_logic, exprs_text
from cython_ext.column import STRING_BYTES_MAX, Column, Selection
from cython_ext.exprs_result import Failures
from cython_ext.groups import GroupTable
from cython_ext.order import sort_rows
from cython_ext.scan import BLOCK_BYTES_MAX, Scanner
from job.types import Kind
from tests import scan_cases

ROWS = 40
SIZE = 100
"""Bytes of a text: small enough for the allocator to hand the same place out again at once."""


def texts(letter: str) -> Column:
    """A column whose texts nobody else holds; `letter` is not part of the marks that `overwrite` leaves."""
    values: list[Any] = [f"{row:03}/{letter}".ljust(SIZE, letter) for row in range(ROWS)]
    return Column.from_list(Kind.STRING, [None if row % 7 == 3 else v for row, v in enumerate(values)])


def overwrite() -> list[bytes]:
    """Bytes all over the places that were freed just now."""
    gc.collect()
    return [b"#" * size for size in [SIZE] * 400 + [*range(20, 9000, 20)] * 6]


def text(value: str) -> Column:
    return Column.from_list(Kind.STRING, [value], constant=True, length=ROWS)


def whole(value: int) -> Column:
    return Column.from_list(Kind.BIGINT, [value], constant=True, length=ROWS)


def even() -> Column:
    return Column.from_list(Kind.BOOLEAN, [row % 2 == 0 for row in range(ROWS)])


def group_keys(kinds: list[Kind]) -> Callable[[], Column]:
    def make() -> Column:
        table = GroupTable(kinds, [])
        table.update([texts("k")] * len(kinds), [], [], ROWS)
        return table.keys()[-1]

    return make


def greatest_text() -> Column:
    table = GroupTable([Kind.BIGINT], [StateKind.MAX_STRING])
    keys = Column.from_list(Kind.BIGINT, list(range(ROWS)))
    table.update([keys], [texts("m")], [None], ROWS)
    return table.finish(0, Finish.VALUE)[0]


def scanned() -> Column:
    """Texts in the block, and (with bytes that are no UTF-8) in the arena of the scan."""
    case = scan_cases.CASES["combined"]
    lines = [line.replace(b"GET /", b"GET /\xff%03d" % row) for row, line in enumerate(case.lines * 9)]
    batch = Scanner(case.program, ["request"]).scan(b"\n".join(lines))
    return batch.columns[0]


def sorted_rows() -> Column:
    column = texts("s")
    return column.take(sort_rows([column], [True], [False]))


MAKERS: dict[str, Callable[[], Column]] = {
    "from_list": lambda: texts("x"),
    "take": lambda: texts("x").take(Selection.from_list(list(range(ROWS)))),
    "take a constant": lambda: text("c" * SIZE).take(Selection.from_list([0, 3])),
    "repeat": lambda: text("r" * SIZE).repeat(ROWS),
    "substr": lambda: exprs_text.substr(texts("x"), whole(2), whole(90)),
    "trim": lambda: exprs_text.trim(texts("x"), text("x"), exprs_text.TRIM_RIGHT),
    "split_part": lambda: exprs_text.split_part(texts("x"), text("/"), whole(2), Failures()),
    "concat": lambda: exprs_text.concat([text("/"), texts("x")], Failures()),
    "concat of constants": lambda: exprs_text.concat([text("/"), text("y" * SIZE)], Failures()),
    "replace": lambda: exprs_text.replace(texts("x"), text("/"), text("--"), Failures()),
    "change_case": lambda: exprs_text.change_case(texts("x"), True)[0],
    "case": lambda: exprs_logic.choose([even()], [texts("x"), text("e" * SIZE)]),
    "coalesce": lambda: exprs_logic.coalesce([texts("x"), text("e" * SIZE)]),
    "overlay": lambda: exprs_logic.overlay(texts("x"), even(), texts("y")),
    "nullif": lambda: exprs_logic.null_where(texts("x"), even()),
    "greatest": lambda: exprs_compare.extreme(texts("x"), texts("y"), True),
    "number_to_string": lambda: exprs_cast.number_to_string(
        Column.from_list(Kind.BIGINT, list(range(ROWS))), 0
    ),
    "timestamp_to_string": lambda: exprs_cast.timestamp_to_string(
        Column.from_list(Kind.TIMESTAMP, list(range(ROWS)))
    ),
    "boolean_to_string": lambda: exprs_cast.boolean_to_string(even()),
    "one key": group_keys([Kind.STRING]),
    "several keys": group_keys([Kind.STRING, Kind.STRING]),
    "max": greatest_text,
    "scan": scanned,
    "sort": sorted_rows,
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_column_keeps_its_texts_alive(name: str) -> None:
    column = MAKERS[name]()
    marks = overwrite()
    first = column.to_list()
    assert not any("#" in value for value in first if value is not None)
    assert first == MAKERS[name]().to_list()
    # What was taken from a column lives on without it.
    rest = column.take(Selection.from_list([len(first) - 1, 0]))
    del column, marks
    marks = overwrite()
    assert rest.to_list() == [first[-1], first[0]]
    assert marks


def test_a_text_is_str_or_bytes() -> None:
    """Anything else was once read as if it were bytes: whatever lay there in memory."""
    for value in (5, 0.5, bytearray(b"x"), ("x",)):
        with pytest.raises(TypeError):
            Column.from_list(Kind.STRING, [value])


def test_a_text_beyond_the_limit_is_refused() -> None:
    """Sizes have 32 bits: the size of such a text was once cut down to them."""
    try:
        large = bytes(STRING_BYTES_MAX + 1)  # zero pages that nobody touches
    except MemoryError:
        pytest.skip("no 4 GiB of address space")
    with pytest.raises(OverflowError, match="a text of 4294967296 bytes"):
        Column.from_list(Kind.STRING, [large])
    with pytest.raises(ValueError, match="cut them into blocks"):
        Scanner(scan_cases.CASES["combined"].program, []).scan(large)
    assert BLOCK_BYTES_MAX == STRING_BYTES_MAX


def test_a_constant_without_rows_holds_no_value_to_take() -> None:
    """Its value was never stored: rows taken from it were once whatever lay in memory."""
    empty = Column.from_list(Kind.STRING, ["x"], constant=True, length=0)
    with pytest.raises(IndexError, match="row 0 of 0"):
        empty.take(Selection.from_list([0]))
    assert empty.take(Selection.from_list([])).to_list() == []
    with pytest.raises(ValueError, match="only a constant column"):
        empty.repeat(3)


def test_none_is_no_column() -> None:
    """Lists of columns are checked, too: a None in them once ended the process."""
    column: Any = texts("x")
    for call in (
        lambda: exprs_logic.coalesce([None, column]),  # type: ignore[list-item]
        lambda: exprs_logic.choose([even()], [column, None]),  # type: ignore[list-item]
        lambda: exprs_text.concat([column, None], Failures()),  # type: ignore[list-item]
        lambda: sort_rows([column, None], [False, False], [True, True]),
        lambda: GroupTable([Kind.STRING], []).update([None], [], [], ROWS),
    ):
        with pytest.raises(TypeError):
            call()

"""The group table: keys, masks, selections, refusals. Property tests compare whole tables with a model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cbt.aggregate import Finish, StateKind
from cython_ext.column import Column, Selection
from cython_ext.exprs_compare import EQ, compare
from cython_ext.groups import GroupTable, InvariantError, _test_hash_bits
from job.types import Kind


@pytest.fixture(params=[64, 3, 0], ids=lambda bits: f"{bits}bits")
def _collisions(request: pytest.FixtureRequest) -> Iterator[None]:
    _test_hash_bits(request.param)
    yield
    _test_hash_bits()


def strings(values: list[str | bytes | None]) -> Column:
    return Column.from_list(Kind.STRING, values)


def counts(table: GroupTable, state: int = 0) -> dict[object, object]:
    table.check()
    values = table.finish(state, Finish.COUNT)[0].to_list()
    columns = table.keys()
    rows = zip(*(column.to_list() for column in columns), strict=True)
    return dict(zip(rows, values, strict=True))


@pytest.mark.usefixtures("_collisions")
def test_strings_of_all_lengths_are_told_apart() -> None:
    # 126 and 127 lie on both sides of the longest key that is hashed in place.
    values: list[str | bytes | None] = [None, ""]
    values += ["x" * size for size in [*range(1, 40), 125, 126, 127, 128, 16382, 16383, 16384, 70000]]
    values += ["y" * size for size in range(1, 40)]
    table = GroupTable([Kind.STRING], [StateKind.COUNT])
    table.update([strings(values + values[::-1])], [None], [None], 2 * len(values))
    assert counts(table) == {(value,): 2 for value in values}


@pytest.mark.usefixtures("_collisions")
def test_groups_keep_the_order_of_their_first_row() -> None:
    values = [(i * 37) % 1009 for i in range(3000)]
    table = GroupTable([Kind.BIGINT], [StateKind.COUNT])
    table.update([Column.from_list(Kind.BIGINT, values)], [None], [None], len(values))
    assert table.keys()[0].to_list() == list(dict.fromkeys(values))
    table.check()


def test_keys_of_every_kind_come_back() -> None:
    nan = float("nan")
    columns = [
        Column.from_list(Kind.NULL, [None] * 4),
        Column.from_list(Kind.BOOLEAN, [True, False, None, True]),
        Column.from_list(Kind.BIGINT, [-(2**63), 2**63 - 1, None, 0]),
        Column.from_list(Kind.DECIMAL, [10**37, -(10**37), None, -1]),
        Column.from_list(Kind.DOUBLE, [0.5, -0.0, None, nan]),
        strings(["", "é", None, b"\xff\x00"]),
        Column.from_list(Kind.TIMESTAMP, [-1, 1, None, 2]),
    ]
    table = GroupTable([column.kind for column in columns], [])
    table.update(columns, [], [], 4)
    assert len(table) == 4
    keys = table.keys()
    got = [column.to_list() for column in keys]
    assert got[:4] == [column.to_list() for column in columns[:4]]
    assert repr(got[4]) == "[0.5, 0.0, None, nan]"
    assert got[5:] == [column.to_list() for column in columns[5:]]
    table.check()


def test_equal_doubles_are_one_key() -> None:
    nan = float("nan")
    table = GroupTable([Kind.DOUBLE], [StateKind.COUNT])
    table.update([Column.from_list(Kind.DOUBLE, [0.0, -0.0, nan, -nan])], [None], [None], 4)
    assert table.finish(0, Finish.COUNT)[0].to_list() == [2, 2]


def test_neighbouring_keys_do_not_run_together() -> None:
    table = GroupTable([Kind.STRING, Kind.STRING], [StateKind.COUNT])
    table.update([strings(["ab", "a", None, ""]), strings(["c", "bc", "", None])], [None], [None], 4)
    assert len(counts(table)) == 4


def test_masks_nulls_and_selections_pick_rows() -> None:
    keys = strings(["a", "b", "a", "b", "c"])
    values = Column.from_list(Kind.BIGINT, [1, 2, None, 4, 5])
    mask = Column.from_list(Kind.BOOLEAN, [True, False, True, None, True])
    kinds = [StateKind.COUNT, StateKind.COUNT, StateKind.SUM, StateKind.SUM]
    table = GroupTable([Kind.STRING], kinds)
    table.update(
        [keys], [None, values, values, values], [None, None, None, mask], 5, Selection.from_list([0, 1, 2, 3])
    )
    assert table.keys()[0].to_list() == ["a", "b"]
    assert table.finish(0, Finish.COUNT)[0].to_list() == [2, 2]
    assert table.finish(1, Finish.COUNT)[0].to_list() == [1, 2]
    assert table.finish(2, Finish.SUM)[0].to_list() == [1, 6]
    assert table.finish(3, Finish.SUM)[0].to_list() == [1, None]


def test_a_null_mask_is_not_true_whatever_lies_below_it() -> None:
    values = Column.from_list(Kind.BIGINT, [0, None, 0])
    mask = compare(EQ, values, Column.from_list(Kind.BIGINT, [0, 0, 0]))
    assert mask.to_list() == [True, None, True]
    table = GroupTable([], [StateKind.COUNT])
    table.update([], [None], [mask], 3)
    assert table.finish(0, Finish.COUNT)[0].to_list() == [2]


def test_constants_serve_all_rows() -> None:
    key = Column.from_list(Kind.STRING, ["k"], True, 3)
    four = Column.from_list(Kind.BIGINT, [4], True, 3)
    null = Column.from_list(Kind.BIGINT, [None], True, 3)
    false = Column.from_list(Kind.BOOLEAN, [False], True, 3)
    true = Column.from_list(Kind.BOOLEAN, [True], True, 3)
    table = GroupTable([Kind.STRING], [StateKind.SUM] * 4)
    table.update([key], [four, null, four, four], [None, None, false, true], 3)
    got = [table.finish(state, Finish.SUM)[0].to_list() for state in range(4)]
    assert got == [[12], [None], [None], [12]]


def test_a_table_without_keys_has_one_group() -> None:
    table = GroupTable([], [StateKind.COUNT])
    assert len(table) == 0
    table.ensure_group()
    table.ensure_group()
    assert table.finish(0, Finish.COUNT)[0].to_list() == [0]
    table = GroupTable([], [StateKind.COUNT])
    table.update([], [None], [None], 1000)
    table.check()
    assert table.finish(0, Finish.COUNT)[0].to_list() == [1000]
    assert table.keys() == []


@pytest.mark.usefixtures("_collisions")
def test_merge_adds_groups_and_leaves_the_other_table_alone() -> None:
    a = GroupTable([Kind.STRING], [StateKind.COUNT, StateKind.MAX_STRING])
    b = GroupTable([Kind.STRING], [StateKind.COUNT, StateKind.MAX_STRING])
    x, y = strings(["x", "y", "x"]), strings(["z", "y", "y"])
    a.update([x], [None, x], [None, None], 3)
    b.update([y], [None, y], [None, None], 3)
    a.merge(b)
    assert counts(b) == {("z",): 1, ("y",): 2}
    del b
    assert counts(a) == {("x",): 2, ("y",): 3, ("z",): 1}
    assert a.finish(1, Finish.VALUE)[0].to_list() == ["x", "y", "z"]


def test_what_was_handed_out_outlives_the_table() -> None:
    table = GroupTable([Kind.STRING], [StateKind.MIN_STRING])
    column = strings([f"/product/{i}" for i in range(500)])
    table.update([column], [column], [None], 500)
    keys, least = table.keys()[0], table.finish(0, Finish.VALUE)[0]
    assert table.frozen
    with pytest.raises(RuntimeError, match="handed out"):
        table.update([column], [column], [None], 500)
    del table, column
    expected = [f"/product/{i}" for i in range(500)]
    assert keys.to_list() == expected
    assert least.to_list() == expected


@pytest.mark.usefixtures("_collisions")
def test_distinct_pairs_are_counted_per_group() -> None:
    keys = strings(["a", "a", "b", None, "a", "c"])
    values = Column.from_list(Kind.BIGINT, [1, 1, 1, 2, 3, None])
    others = strings(["u", "u", "u", "u", None, "u"])
    table = GroupTable([Kind.STRING], [])
    one = GroupTable([Kind.STRING, Kind.BIGINT], [])
    two = GroupTable([Kind.STRING, Kind.BIGINT, Kind.STRING], [])
    table.update([keys], [], [], 6)
    one.update([keys, values], [], [], 6)
    two.update([keys, values, others], [], [], 6)
    assert table.count_distinct(one, 1).to_list() == [2, 1, 1, 0]
    assert table.count_distinct(two, 1).to_list() == [1, 1, 1, 0]


def test_distinct_values_of_the_one_group_without_keys() -> None:
    table, pairs = GroupTable([], []), GroupTable([Kind.BIGINT], [])
    values = Column.from_list(Kind.BIGINT, [i % 77 for i in range(1000)])
    table.ensure_group()
    pairs.update([values], [], [], 1000)
    assert table.count_distinct(pairs, 0).to_list() == [77]
    with pytest.raises(ValueError, match="begin with the keys"):
        table.count_distinct(table, 0)


def test_an_empty_table_is_small_and_growth_is_counted() -> None:
    table = GroupTable([Kind.STRING], [StateKind.COUNT])
    empty = table.bytes_used
    assert empty < 1024
    column = strings([f"/p/{i:06}" for i in range(10000)])
    table.update([column], [None], [None], 10000)
    # 8 count + 4 size + 10 key, rounded up to 24, and slots of 8 bytes between 37 and 75 % full
    assert 10000 * 32 < table.bytes_used < 10000 * 60


def test_shapes_are_checked() -> None:
    table = GroupTable([Kind.STRING], [StateKind.SUM])
    key, value = strings(["a", "b"]), Column.from_list(Kind.BIGINT, [1, 2])
    with pytest.raises(ValueError, match="1 keys and 1 states"):
        table.update([], [value], [None], 2)
    with pytest.raises(ValueError, match="2 rows, not 3"):
        table.update([key], [value], [None], 3)
    with pytest.raises(TypeError, match="kind 2, not 5"):
        table.update([value], [value], [None], 2)
    with pytest.raises(TypeError, match="kind 5, not 2"):
        table.update([key], [key], [None], 2)
    with pytest.raises(TypeError, match="mask"):
        table.update([key], [value], [value], 2)
    with pytest.raises(ValueError, match="needs an input"):
        table.update([key], [None], [None], 2)
    with pytest.raises(IndexError, match="row 2 of 2"):
        table.update([key], [value], [None], 2, Selection.from_list([0, 2]))
    with pytest.raises(ValueError, match="same keys"):
        table.merge(GroupTable([Kind.STRING], []))
    with pytest.raises(ValueError, match="another table"):
        table.merge(table)
    assert len(table) == 0


def test_unknown_kinds_and_finishes_are_refused() -> None:
    with pytest.raises(ValueError, match="key of kind 7"):
        GroupTable([Kind.WINDOW], [])
    with pytest.raises(ValueError, match="state of kind 99"):
        GroupTable([], [99])
    table = GroupTable([], [StateKind.COUNT])
    with pytest.raises(ValueError, match="no finish"):
        table.finish(0, Finish.AVG)
    with pytest.raises(IndexError):
        table.finish(1, Finish.COUNT)


def test_invariant_errors_are_their_own() -> None:
    assert issubclass(InvariantError, RuntimeError)


def test_values_that_were_copied_leave_the_table_open() -> None:
    values = Column.from_list(Kind.BIGINT, [1, 2])
    table = GroupTable([Kind.BIGINT], [StateKind.SUM, StateKind.MAX_STRING])
    table.update([values], [values, strings(["a", "b"])], [None, None], 2)
    before = table.finish(0, Finish.SUM)[0], table.keys()[0]
    table.update([values], [values, strings(["c", "d"])], [None, None], 2)
    assert table.finish(0, Finish.SUM)[0].to_list() == [2, 4]
    assert [column.to_list() for column in before] == [[1, 2], [1, 2]]
    assert not table.frozen
    assert table.finish(1, Finish.VALUE)[0].to_list() == ["c", "d"]
    assert table.frozen

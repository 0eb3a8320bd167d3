"""What states make of values: sums, averages, least and greatest, by hand and as Spark 4.3 answers."""

from __future__ import annotations

import base64
import math
from decimal import Decimal

import pytest

from cbt.aggregate import Finish, StateKind, resolve
from cython_ext.column import Column
from cython_ext.groups import GroupTable
from cython_ext.sketch_hll import HllSketch
from job.types import Kind

NAN, INF = math.nan, math.inf


def table_of(state: StateKind, kind: Kind, values: list[object]) -> GroupTable:
    table = GroupTable([], [state])
    table.update([], [Column.from_list(kind, values)], [None], len(values))
    table.ensure_group()
    table.check()
    return table


def finish(function: str, kind: Kind, values: list[object], *arguments: object) -> object:
    precision, scale = (arguments[-2], arguments[-1]) if len(arguments) > 1 else (0, 0)
    resolved = resolve(function, kind, precision, scale)  # type: ignore[arg-type]
    table = table_of(resolved.state, kind, values)
    p = arguments[0] if len(arguments) in (1, 3) else 0.0
    column, overflows = table.finish(0, resolved.finish, p, 0, scale)  # type: ignore[arg-type]
    (value,) = column.to_list()
    return "overflow" if overflows else value


def test_sums_of_integers_go_beyond_64_bits_and_back() -> None:
    big = 2**63 - 1
    assert finish("sum", Kind.BIGINT, [big, big, -big, -5]) == big - 5
    assert finish("sum", Kind.BIGINT, [big, 1]) == "overflow"
    assert finish("sum", Kind.BIGINT, [-(2**63)]) == -(2**63)
    assert finish("sum", Kind.BIGINT, [-(2**63), -1]) == "overflow"
    assert finish("sum", Kind.BIGINT, [None]) is None


def test_averages_of_integers_are_rounded_once() -> None:
    assert finish("avg", Kind.BIGINT, [2**62, 2**62, 2**62, 3]) == 3.458764513820541e18
    # As a sum of doubles this would lose the ones.
    assert finish("avg", Kind.BIGINT, [2**53, 1, 1, 1, 1]) == (2**53 + 4) / 5
    assert finish("avg", Kind.BIGINT, [2**63 - 1] * 3) == float(2**63 - 1)
    assert finish("avg", Kind.BIGINT, [-1, -2]) == -1.5
    assert finish("avg", Kind.BIGINT, [None, None]) is None


# Spark's own answers: SELECT sum(x), avg(x) over DECIMAL(p, s), values by their digits.
SPARK = [
    (9, 2, [1, 2, 2], "0.05", "0.016667"),
    (9, 2, [-1, -2, -2], "-0.05", "-0.016667"),
    (9, 2, [100001] * 3 + [5] * 4, "3000.23", "428.604286"),
    (18, 6, [1500000, 1, 1, 1, 1, 1, 1], "1.500006", "0.2142865714"),
    (1, 0, [5, 5, 5, 5, 4], "24", "4.8"),
    (19, 0, [10**19 - 1] * 12, "119999999999999999988", "9999999999999999999"),
    (28, 18, [10**28 - 1] * 3, "29999999999.999999999999999997", "9999999999.999999999999999999"),
    (34, 34, [1, 1, 0], "2E-34", "6.667E-35"),
    (38, 0, [10**38 - 1] * 2, None, None),
    (
        38,
        2,
        [10**33 - 1, 1, 10**33, 7, 7, 7],
        "20000000000000000000000000000000.21",
        "3333333333333333333333333333333.368333",
    ),
    (38, 2, [10**37 - 1, 1, 10**36, 7, 7, 7], "110000000000000000000000000000000000.21", None),
    (38, 20, [-1, -1, -1, 0, 0, 0, 0], "-3E-20", "-4.286E-21"),
    (38, 30, [10**37, 5, 5], "10000000.00000000000000000000000000001", None),
    (38, 35, [1, 1, 0], "2E-35", "6.67E-36"),
    (38, 35, [1, 2, 0, 0, 0, 0, 0], "3E-35", "4.29E-36"),
    (38, 36, [10**38 - 1, 1, 1], None, None),
    # 5 of 11 parts are 0.4545...: rounded once, not to some 38 digits first
    (38, 0, [2 * 10**34 + 3, *[0] * 10], f"2{'0' * 33}3", f"{'18' * 17}.4545"),
    (38, 0, [2 * 10**33 + 7, *[0] * 10], f"2{'0' * 32}7", f"{'18' * 16}2.4545"),
    (38, 38, [54, *[0] * 109], "5.4E-37", "0"),
    (38, 37, [15, 0, 0, 0], "1.5E-36", "3.8E-37"),
]


@pytest.mark.parametrize(("precision", "scale", "values", "total", "average"), SPARK)
def test_decimals_as_spark(
    precision: int, scale: int, values: list[object], total: str | None, average: str | None
) -> None:
    state = resolve("sum", Kind.DECIMAL, precision, scale).state
    table = table_of(state, Kind.DECIMAL, values)
    for how, more, digits, expected in (
        (Finish.SUM, 10, scale, total),
        (Finish.AVG, 4, min(38, scale + 4), average),
    ):
        column, overflows = table.finish(0, how, 0.0, min(38, precision + more), scale)
        (value,) = column.to_list(digits)
        if expected is None:
            assert (value, overflows) == (None, 1)
        else:
            assert (value, overflows) == (Decimal(expected), 0)


def test_decimals_overflow_by_the_digits_of_the_result() -> None:
    for state in (StateKind.SUM_DECIMAL, StateKind.SUM_DECIMAL_WIDE):
        table = table_of(state, Kind.DECIMAL, [-999, -1])
        for precision, expected in ((4, -1000), (3, None)):
            column, overflows = table.finish(0, Finish.SUM, 0.0, precision, 2)
            assert (column.to_list(), overflows) == ([expected], int(expected is None))
        # -5.0000 as an average has 7 digits
        assert table.finish(0, Finish.AVG, 0.0, 7, 2)[0].to_list() == [-5000000]
        assert table.finish(0, Finish.AVG, 0.0, 6, 2)[1] == 1


def test_sums_of_doubles_are_exact_until_the_end() -> None:
    assert finish("sum", Kind.DOUBLE, [1e100, 1.0, -1e100]) == 1.0
    assert finish("sum", Kind.DOUBLE, [0.1] * 10) == 1.0
    assert finish("avg", Kind.DOUBLE, [0.1, 0.2, 0.3, None]) == 0.2
    assert finish("sum", Kind.DOUBLE, [INF, 1.0]) == INF
    assert math.isnan(finish("avg", Kind.DOUBLE, [INF, -INF]))  # type: ignore[arg-type]
    assert finish("sum", Kind.DOUBLE, [None]) is None
    assert math.copysign(1.0, finish("sum", Kind.DOUBLE, [-0.0])) == 1.0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "values", "least", "greatest"),
    [
        (Kind.BOOLEAN, [True, False, None], False, True),
        (Kind.BOOLEAN, [True, True], True, True),
        (Kind.BIGINT, [3, -(2**63), 2**63 - 1], -(2**63), 2**63 - 1),
        (Kind.TIMESTAMP, [3, 4], 3, 4),
        (Kind.DECIMAL, [10**37, -(10**37), 1], -(10**37), 10**37),
        (Kind.DOUBLE, [1.0, -INF, INF], -INF, INF),
        (Kind.STRING, ["b", "", "\x7f", "é", None], "", "é"),
        (Kind.STRING, ["ab", "a", "abc"], "a", "abc"),
        (Kind.BIGINT, [None, None], None, None),
        (Kind.STRING, [None], None, None),
        (Kind.BOOLEAN, [None], None, None),
    ],
)
def test_least_and_greatest(kind: Kind, values: list[object], least: object, greatest: object) -> None:
    for ordered in (values, values[::-1]):
        assert finish("min", kind, ordered) == least
        assert finish("max", kind, ordered) == greatest


def test_nan_is_the_greatest_double_and_zero_has_one_form() -> None:
    assert finish("min", Kind.DOUBLE, [NAN, 1.0]) == 1.0
    assert math.isnan(finish("max", Kind.DOUBLE, [INF, NAN]))  # type: ignore[arg-type]
    for values in ([0.0, -0.0], [-0.0, 0.0], [-0.0]):
        for function in ("min", "max"):
            assert math.copysign(1.0, finish(function, Kind.DOUBLE, values)) == 1.0  # type: ignore[arg-type]


def test_strings_that_shrink_and_grow_keep_their_bytes_counted() -> None:
    table = GroupTable([], [StateKind.MAX_STRING])
    sizes = []
    for value in ("a", "b" * 5000, "c", "d" * 300):
        table.update([], [Column.from_list(Kind.STRING, [value])], [None], 1)
        table.check()
        sizes.append(table.bytes_used)
    assert sizes[1] - sizes[0] == 4999
    assert sizes[1:] == [sizes[1]] * 3
    assert table.finish(0, Finish.VALUE)[0].to_list() == ["d" * 300]


def test_percentiles_of_decimals_are_scaled() -> None:
    values: list[object] = [150, 250, 350]
    assert finish("approx_percentile", Kind.DECIMAL, values, 0.0, 9, 2) == 1.5
    assert finish("approx_percentile", Kind.DECIMAL, values, 0.5, 9, 2) == pytest.approx(2.5, rel=0.01)
    assert finish("approx_percentile", Kind.DECIMAL, values, 1.0, 9, 2) == 3.5
    assert finish("approx_percentile", Kind.BIGINT, [None], 0.5) is None


def test_distinct_values_of_every_kind() -> None:
    assert finish("approx_count_distinct", Kind.BIGINT, [1, 2, 2, None]) == 2
    assert finish("approx_count_distinct", Kind.TIMESTAMP, [1, 2]) == 2
    assert finish("approx_count_distinct", Kind.DOUBLE, [0.0, -0.0, NAN, -NAN]) == 2
    assert finish("approx_count_distinct", Kind.STRING, ["", "a", None]) == 2
    assert finish("approx_count_distinct", Kind.DECIMAL, [1, -1, 10**30]) == 3
    assert finish("approx_count_distinct", Kind.BOOLEAN, [True, False, True]) == 2
    assert finish("approx_count_distinct", Kind.BOOLEAN, [None]) == 0


def test_sketches_of_groups_are_those_that_others_read() -> None:
    keys = Column.from_list(Kind.BIGINT, [i % 2 for i in range(2000)])
    table = GroupTable([Kind.BIGINT], [StateKind.HLL_BIGINT, StateKind.COUNT])
    table.update([keys], [Column.from_list(Kind.BIGINT, list(range(2000))), None], [None, None], 2000)
    expected = []
    for first in (0, 1):
        sketch = HllSketch()
        for value in range(first, 2000, 2):
            sketch.update(value.to_bytes(8, "little"))
        expected.append(sketch.serialize())
    assert table.sketches(0) == expected
    with pytest.raises(ValueError, match="no sketch"):
        table.sketches(1)


def test_a_percentile_outside_0_to_1_is_refused() -> None:
    table = table_of(StateKind.QUANTILES_DOUBLE, Kind.DOUBLE, [1.0])
    with pytest.raises(ValueError, match="percentile"):
        table.finish(0, Finish.QUANTILE, 1.5)


@pytest.mark.parametrize(
    ("kind", "values"),
    [(Kind.BIGINT, [1, None, *range(2000)]), (Kind.STRING, ["", "a"]), (Kind.STRING, [None])],
)
def test_a_sketch_as_text_is_the_sketch(kind: Kind, values: list[object]) -> None:
    text = finish("hll_sketch_agg", kind, values)
    (sketch,) = table_of(StateKind[f"HLL_{kind.name}"], kind, values).sketches(0)
    assert base64.b64decode(str(text), validate=True) == sketch
    with pytest.raises(ValueError, match="no sketch that others read"):
        table_of(StateKind.SUM, Kind.BIGINT, [1]).finish(0, Finish.SKETCH)

"""Exact sums against fractions, which round once as well."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cython_ext.exact_sum import exact_total, exact_total_of_parts

FINITE = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-1e6, 1e6),
    st.integers(-(2**53), 2**53).map(float),
    st.sampled_from([5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.1, -0.1]),
)


def rounded(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def same(a: float, b: float) -> bool:
    return struct.pack("<d", a) == struct.pack("<d", b)


@settings(max_examples=500, deadline=None)
@given(st.lists(FINITE, max_size=30), st.integers(1, 2**64 - 1) | st.integers(1, 30))
def test_sums_and_averages_are_rounded_once(values: list[float], divisor: int) -> None:
    total = sum(map(Fraction, values), Fraction(0))
    assert same(exact_total(values), rounded(total))
    # a quotient may round to zero from below, and we have no -0.0
    assert same(exact_total(values, divisor), rounded(total / divisor) + 0.0)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(FINITE, max_size=8), max_size=8), st.randoms())
def test_parts_merge_in_any_order(parts: list[list[float]], rng: object) -> None:
    total = exact_total([value for part in parts for value in part])
    rng.shuffle(parts)  # type: ignore[attr-defined]
    assert same(exact_total_of_parts(parts), total)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], 0.0),
        ([-0.0], 0.0),
        ([1e308, 1e308, -1e308, -1e308], 0.0),
        ([1e308, 1e308], math.inf),
        ([-1.7976931348623157e308, -1.7976931348623157e308], -math.inf),
        ([1e100, 1.0, -1e100], 1.0),
        ([5e-324, 1e308, -1e308], 5e-324),
        ([math.inf, 1.0], math.inf),
        ([-math.inf, 1e308], -math.inf),
        ([1.7976931348623157e308, 9.979201547673598e291], 1.7976931348623157e308),
        ([1.7976931348623157e308, 9.979201547673599e291], math.inf),
    ],
)
def test_edges(values: list[float], expected: float) -> None:
    assert same(exact_total(values), expected)
    assert same(exact_total(values[::-1]), expected)
    assert same(exact_total_of_parts([[value] for value in values]), expected)


@pytest.mark.parametrize("values", [[math.nan], [math.inf, -math.inf], [math.nan, math.inf, 1.0]])
def test_not_a_number(values: list[float]) -> None:
    assert math.isnan(exact_total(values))
    assert math.isnan(exact_total_of_parts([[value] for value in values]))


def test_halves_go_to_even() -> None:
    assert exact_total([2.0**53, 1.0]) == 2.0**53
    assert exact_total([2.0**53, 1.0, 5e-324]) == 2.0**53 + 2
    assert exact_total([2.0**53 + 2, 1.0]) == 2.0**53 + 4
    assert exact_total([5e-324], 2) == 0.0
    assert exact_total([5e-324] * 3, 2) == 2 * 5e-324


def test_no_values_have_no_average() -> None:
    with pytest.raises(ZeroDivisionError):
        exact_total([], 0)

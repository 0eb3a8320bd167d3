"""Quantile sketches: buckets, their 1 %, ranks, and the independence of order."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cython_ext.sketch_quantiles import QuantileSketch, bucket_of, value_of

ANY = st.one_of(st.floats(), st.floats(-1e4, 1e4), st.integers(-1000, 1000).map(float))
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def sketch_of(values: list[float]) -> QuantileSketch:
    sketch = QuantileSketch()
    sketch.update(values)
    sketch.check()
    return sketch


def spark_order(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


def close(estimate: float, value: float) -> bool:
    if math.isnan(value) or math.isinf(value):
        return repr(estimate) == repr(value)
    error = abs(Fraction(estimate) - Fraction(value))
    return error * 100 <= abs(Fraction(value)) or estimate == value


@settings(max_examples=1000, deadline=None)
@given(FINITE)
def test_every_value_is_within_one_percent_of_its_bucket(value: float) -> None:
    assert close(value_of(bucket_of(value)), value)


@settings(max_examples=1000, deadline=None)
@given(FINITE)
def test_the_bucket_is_the_one_of_the_definition(value: float) -> None:
    if value == 0:
        assert bucket_of(value) == 0
        return
    fraction, exponent = math.frexp(abs(value))
    s = Fraction(fraction) * 2 - 1
    bucket = math.floor(6 * s**3 - 21 * s**2 + 50 * s)
    assert bucket_of(abs(value)) == 1 + 35 * (exponent - 1 + 1074) + bucket
    assert bucket_of(-abs(value)) == -bucket_of(abs(value))


@settings(max_examples=1000, deadline=None)
@given(ANY, ANY)
def test_buckets_are_in_the_order_of_values(a: float, b: float) -> None:
    low, high = sorted([a, b], key=spark_order)
    assert bucket_of(low) <= bucket_of(high)


def test_bounds_between_buckets() -> None:
    for exponent in (-1074, -1023, -1022, -1, 0, 1, 1023):
        value = math.ldexp(1.0, exponent)
        assert bucket_of(value) == 1 + 35 * (exponent + 1074)
        below = math.nextafter(value, 0.0)
        assert bucket_of(below) == (35 * (exponent + 1074) if exponent > -1022 else bucket_of(below))
    assert [bucket_of(x) for x in (-0.0, math.inf, -math.inf, math.nan)] == [0, 73431, -73431, 73432]
    assert value_of(73431) == math.inf
    assert math.isnan(value_of(73432))


def test_known_buckets_stay_what_they_are() -> None:
    """The numbering is part of the stored state: it must never change."""
    known = {1.0: 37591, 1.5: 37611, 2.0: 37626, 0.001: 37242, 200.0: 37858, math.pi: 37648, 1e300: 72471}
    assert {value: bucket_of(value) for value in known} == known


@settings(max_examples=400, deadline=None)
@given(st.lists(ANY, min_size=1, max_size=50), st.floats(0, 1))
def test_quantiles_are_within_one_percent_of_the_value_of_that_rank(values: list[float], p: float) -> None:
    rank = max(1, math.ceil(p * len(values)))
    expected = sorted(values, key=spark_order)[rank - 1]
    got = sketch_of(values).quantile(p)
    assert got is not None
    assert close(got, expected + 0.0)


def test_ends_are_exact() -> None:
    values = [0.1, 0.2, 17.3, 99.9]
    sketch = sketch_of(values)
    assert [sketch.quantile(p) for p in (0.0, 0.25, 0.76, 1.0)] == [0.1, 0.1, 99.9, 99.9]
    assert sketch_of([3.3] * 5).quantile(0.5) == 3.3


def test_nothing_has_no_quantile() -> None:
    assert QuantileSketch().quantile(0.5) is None
    assert QuantileSketch().buckets() == []
    assert len(QuantileSketch()) == 0


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_other_percentiles_are_refused(p: float) -> None:
    with pytest.raises(ValueError, match="percentile"):
        sketch_of([1.0]).quantile(p)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(ANY, max_size=30), min_size=1, max_size=6), st.randoms())
def test_any_order_of_merges_gives_the_same_state(parts: list[list[float]], rng: random.Random) -> None:
    expected = sketch_of([value for part in parts for value in part])
    rng.shuffle(parts)
    sketches = [sketch_of(part) for part in parts]
    while len(sketches) > 1:
        other = sketches.pop(rng.randrange(len(sketches)))
        rng.choice(sketches).merge(other)
    sketches[0].check()
    assert sketches[0].buckets() == expected.buckets()
    for p in (0.0, 0.3, 0.5, 0.99, 1.0):
        assert repr(sketches[0].quantile(p)) == repr(expected.quantile(p))


def test_memory_follows_the_buckets_not_the_values() -> None:
    rng = random.Random(3)
    values = [rng.lognormvariate(0, 1) for _ in range(20000)]
    sketch = sketch_of(values)
    buckets = sketch.buckets()
    assert sum(count for _, count in buckets) == len(sketch) == 20000
    assert buckets == sorted(buckets)
    assert sketch.bytes_used < 40 * len(buckets) + 200
    assert len(buckets) < 500


def test_a_sketch_is_not_merged_into_itself() -> None:
    sketch = sketch_of([1.0])
    with pytest.raises(ValueError, match="itself"):
        sketch.merge(sketch)

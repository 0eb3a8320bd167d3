"""HyperLogLog against Apache DataSketches itself: same coupons, registers, bytes and estimates."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cython_ext.hashing import murmur3
from cython_ext.sketch_hll import SERIAL_BYTES_MAX, HllSketch

datasketches = pytest.importorskip("datasketches")
HLL_8 = datasketches.tgt_hll_type.HLL_8
SIZES = [0, 1, 2, 7, 8, 9, 24, 25, 48, 49, 96, 97, 192, 193, 383, 384, 385, 1000, 2620, 12000, 50_000]


def texts(first: int, count: int) -> list[str]:
    return [f"/product/{i}" for i in range(first, first + count)]


def ours(values: list[str]) -> HllSketch:
    sketch = HllSketch()
    for value in values:
        sketch.update(value.encode())
    sketch.check()
    return sketch


def theirs(values: list[str]) -> object:
    sketch = datasketches.hll_sketch(12, HLL_8)
    for value in values:
        sketch.update(value)
    return sketch


def union(*sketches: object) -> object:
    result = datasketches.hll_union(12)
    for sketch in sketches:
        result.update(sketch)
    return result.get_result(HLL_8)


def normal(data: bytes) -> tuple[bytes, bytes]:
    """A serial form without what depends on order: coupons sorted; no HIP estimate, marked out of order."""
    if data[7] & 3 == 2:
        flags = bytes([data[5] | 16])
        return data[:5] + flags + data[6:8] + bytes(8) + data[16:40], data[40:]
    head = 4 * data[0]
    coupons = sorted(data[i : i + 4][::-1] for i in range(head, len(data), 4))
    return data[:head], b"".join(coupon[::-1] for coupon in coupons)


@pytest.mark.parametrize("count", SIZES)
def test_bytes_are_those_of_datasketches(count: int) -> None:
    values = texts(0, count)
    assert normal(ours(values).serialize()) == normal(theirs(values).serialize_compact())  # type: ignore[attr-defined]
    assert ours(values).serialize() == b"".join(normal(ours(values).serialize()))


@pytest.mark.parametrize("count", [*SIZES, 200_000])
def test_estimates_are_those_of_a_union(count: int) -> None:
    # The union of a sketch with itself has no HIP estimate either, so DataSketches answers the composite one.
    a, b = texts(0, count * 2 // 3), texts(count // 3, count - count // 3)
    both = theirs(texts(0, count))
    expected = union(both, both)
    sketch = ours(a)
    sketch.merge(ours(b))
    sketch.check()
    assert round(sketch.estimate()) == round(expected.get_estimate())  # type: ignore[attr-defined]
    if count > 384:
        # Only the order of multiplications differs.
        assert sketch.estimate() == pytest.approx(expected.get_estimate(), rel=1e-12)  # type: ignore[attr-defined]
        assert sketch.serialize() == expected.serialize_compact()  # type: ignore[attr-defined]


@pytest.mark.parametrize("count", SIZES)
def test_datasketches_reads_ours_and_we_read_theirs(count: int) -> None:
    values = texts(0, count)
    data = ours(values).serialize()
    read = datasketches.hll_sketch.deserialize(data)
    assert normal(read.serialize_compact()) == normal(data)
    for form in (theirs(values).serialize_compact(), theirs(values).serialize_updatable()):  # type: ignore[attr-defined]
        sketch = HllSketch.deserialize(form)
        sketch.check()
        assert sketch.serialize() == data
    assert len(data) <= SERIAL_BYTES_MAX


def test_whole_numbers_hash_as_eight_bytes() -> None:
    expected = datasketches.hll_sketch(12, HLL_8)
    sketch = HllSketch()
    for value in range(-100, 100):
        expected.update(value)
        sketch.update(value.to_bytes(8, "little", signed=True))
    assert normal(sketch.serialize()) == normal(expected.serialize_compact())


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 900), max_size=8), st.randoms())
def test_any_order_of_merges_gives_the_same_bytes(sizes: list[int], rng: random.Random) -> None:
    parts = [texts(rng.randrange(500), size) for size in sizes]
    expected = ours([value for part in parts for value in part])
    rng.shuffle(parts)
    sketches = [ours(part) for part in parts]
    while len(sketches) > 1:
        other = sketches.pop(rng.randrange(len(sketches)))
        rng.choice(sketches).merge(other)
    for sketch in sketches:
        sketch.check()
        assert sketch.serialize() == expected.serialize()


def test_the_empty_text_is_a_value() -> None:
    assert ours([""]).estimate() == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: b"",
        lambda data: data[:7],
        lambda data: data[:1] + b"\2" + data[2:],
        lambda data: data[:2] + b"\x08" + data[3:],
        lambda data: data[:3] + b"\x0d" + data[4:],
        lambda data: data[:7] + b"\x02" + data[8:],
        lambda data: data[:7] + b"\x0b" + data[8:],
    ],
)
@pytest.mark.parametrize("count", [3, 30, 3000])
def test_other_bytes_are_refused(count: int, change: object) -> None:
    with pytest.raises(ValueError, match="sketch"):
        HllSketch.deserialize(change(ours(texts(0, count)).serialize()))  # type: ignore[operator]


def test_impossible_coupons_and_registers_are_refused() -> None:
    listed = ours(texts(0, 3)).serialize()
    with pytest.raises(ValueError, match="no value"):
        HllSketch.deserialize(listed[:8] + b"\1\0\0\0" + listed[12:])
    with pytest.raises(ValueError, match="claims"):
        HllSketch.deserialize(listed[:8] + listed[12:16] + listed[12:])
    registers = ours(texts(0, 3000)).serialize()
    with pytest.raises(ValueError, match="beyond 63"):
        HllSketch.deserialize(registers[:-1] + b"\x40")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for candidate in (data, b"\2\1\7\x0c\3\x08" + data, b"\3\1\7\x0c\5\x08\0\x09" + data):
        try:
            sketch = HllSketch.deserialize(candidate)
        except ValueError:
            continue
        sketch.check()


def test_murmur3_is_the_published_one() -> None:
    # From the reference implementation by Austin Appleby (x64, 128 bits), as other libraries cite it.
    assert murmur3(b"") == (0, 0)
    assert murmur3(b"hello") == (0xCBD8A7B341BD9B02, 0x5B1E906A48AE1D19)
    assert murmur3(b"The quick brown fox jumps over the lazy dog") == (0xE34BBC7BBC071B6C, 0x7A433CA9C49A9347)

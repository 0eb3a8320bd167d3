"""Arithmetic on the ring."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from srt.ids import (
    DIGITS,
    SPACE,
    clockwise,
    closest,
    digit,
    distance,
    job_key,
    key_of,
    nearness,
    number_of,
    shared_prefix,
)

NUMBERS = st.one_of(st.integers(0, SPACE - 1), st.integers(0, 300), st.integers(SPACE - 300, SPACE - 1))


def test_job_keys_are_sha1() -> None:
    assert job_key("top-urls") == hashlib.sha1(b"top-urls").digest()[:16]
    assert job_key("top-urls", 3) == hashlib.sha1(b"top-urls/3").digest()[:16]
    assert job_key("top-urls", 0) != job_key("top-urls")
    assert job_key("größe") == hashlib.sha1("größe".encode()).digest()[:16]


def test_digits_and_prefixes() -> None:
    number = number_of(bytes.fromhex("0123456789abcdef0123456789abcdef"))
    assert [digit(number, index) for index in range(4)] == [0, 1, 2, 3]
    assert digit(number, 31) == 15
    assert shared_prefix(number, number) == DIGITS
    assert shared_prefix(number, number ^ 1) == 31
    assert shared_prefix(number, number ^ (1 << 127)) == 0
    assert shared_prefix(number, number ^ (8 << 120)) == 1


def test_ties_go_to_the_one_clockwise() -> None:
    assert closest(100, [90, 110]) == 110
    assert closest(0, [SPACE - 5, 5]) == 5
    assert closest(SPACE - 1, [SPACE - 3, 1]) == 1
    assert closest(100, [95, 110]) == 95


@given(NUMBERS, NUMBERS, NUMBERS)
def test_nearness_orders_by_distance_and_never_ties(key: int, one: int, other: int) -> None:
    assert key_of(number_of(key_of(one))) == key_of(one)
    assert distance(one, other) == distance(other, one) <= SPACE // 2
    assert (clockwise(one, other) + clockwise(other, one)) % SPACE == 0
    if one != other:
        assert nearness(key, one) != nearness(key, other)
        if distance(key, one) < distance(key, other):
            assert closest(key, [other, one]) == one


@given(NUMBERS, NUMBERS)
def test_shared_prefix_is_that_of_the_hex_text(one: int, other: int) -> None:
    texts = f"{one:032x}", f"{other:032x}"
    same = next((index for index in range(32) if texts[0][index] != texts[1][index]), 32)
    assert shared_prefix(one, other) == same

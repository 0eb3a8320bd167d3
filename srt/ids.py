"""Places on the ring: 128-bit numbers, read as 32 digits of base 16.

Ids and keys are 16 bytes, big-endian, in messages and tables; the arithmetic here is on the numbers. The ring is the numbers
modulo 2**128; *clockwise* is upwards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

ID_BYTES = 16
ID_BITS = 8 * ID_BYTES
DIGIT_BITS = 4
DIGITS = ID_BITS // DIGIT_BITS
BASE = 1 << DIGIT_BITS
SPACE = 1 << ID_BITS
_MASK = SPACE - 1


def job_key(name: str, partition: int | None = None) -> bytes:
    """Where a job's master lives: the first 128 bits of SHA-1(name); of SHA-1(name/p) for partition p of several."""
    text = name if partition is None else f"{name}/{partition}"
    return hashlib.sha1(text.encode(), usedforsecurity=False).digest()[:ID_BYTES]


def number_of(key: bytes) -> int:
    """The number of 16 bytes."""
    return int.from_bytes(key, "big")


def key_of(number: int) -> bytes:
    """The 16 bytes of a number."""
    return number.to_bytes(ID_BYTES, "big")


def shared_prefix(one: int, other: int) -> int:
    """How many leading digits two numbers share, 0 to 32."""
    return (ID_BITS - (one ^ other).bit_length()) // DIGIT_BITS


def digit(number: int, index: int) -> int:
    """The digit at an index, 0 being the most significant."""
    return (number >> (ID_BITS - DIGIT_BITS - DIGIT_BITS * index)) & (BASE - 1)


def clockwise(start: int, end: int) -> int:
    """How far it is from start upwards to end."""
    return (end - start) & _MASK


def distance(one: int, other: int) -> int:
    """The shorter way round."""
    way = (one - other) & _MASK
    return min(way, SPACE - way)


def nearness(key: int, number: int) -> int:
    """Orders numbers by how close they are to a key: smaller is closer. No two numbers are equally close: of two at the same
    distance the one clockwise from the key is."""
    way = (number - key) & _MASK
    return way << 1 if way <= SPACE - way else ((SPACE - way) << 1) | 1


def closest(key: int, numbers: Iterable[int]) -> int:
    """The number closest to a key; ValueError when there is none."""
    return min(numbers, key=lambda number: nearness(key, number))

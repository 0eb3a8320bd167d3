"""The key hash and the key encoding, against docs/AGGREGATES.md written down once more in Python."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cython_ext.column import Column
from cython_ext.groups import GroupTable
from cython_ext.hashing import key_hash, key_hash_split
from job.types import Kind

WORD = 2**64 - 1
K0, K1, K2, K3 = 0x6A09E667F3BCC909, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1
DOCUMENT = Path(__file__).parents[3] / "docs" / "AGGREGATES.md"


def fold(a: int, b: int) -> int:
    return a ^ b ^ (a * b & WORD) ^ (a * b >> 64)


def defined(data: bytes, seed: int) -> int:
    def word(i: int) -> int:
        return int.from_bytes(data[i : i + 8], "little")

    n = len(data)
    h = seed ^ (n * K0 & WORD)
    h = fold(word(0) ^ K1, word(8) ^ h)
    if n > 16:
        for i in range((n - 1) % 16 + 1, n, 16):
            h = fold(word(i) ^ K1, word(i + 8) ^ h)
    return fold(h ^ K2, K3)


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=100), st.integers(0, WORD))
def test_the_hash_is_the_documented_one(data: bytes, seed: int) -> None:
    assert key_hash(data, seed) == defined(data, seed)
    if data:
        assert key_hash_split(data, seed) == key_hash(data, seed)


def test_every_length_takes_every_byte_into_account() -> None:
    for size in range(1, 70):
        data = bytes(range(100, 100 + size))
        changed = {key_hash(data[:i] + b"\0" + data[i + 1 :]) for i in range(size)}
        assert len(changed | {key_hash(data), key_hash(data + b"\0"), key_hash(data[:-1])}) == size + 3


def test_known_hashes_stay_what_they_are() -> None:
    assert f"{key_hash(b''):016x}" == "3014fb63a8812c8d"
    assert f"{key_hash(bytes([14]) + b'/product/1234'):016x}" == "08881ab915703843"
    assert f"{key_hash(b'x' * 200, 7):016x}" == "313c107155ee30bf"


def test_a_changed_bit_changes_half_of_the_hash() -> None:
    rng = random.Random(11)
    flips, trials = [0] * 64, 0
    for size in (8, 14, 33, 70):
        for _ in range(60):
            data = rng.randbytes(size)
            bit = rng.randrange(8 * size)
            other = (int.from_bytes(data, "little") ^ (1 << bit)).to_bytes(size, "little")
            difference = key_hash(data) ^ key_hash(other)
            trials += 1
            for i in range(64):
                flips[i] += difference >> i & 1
    # 240 coins: more than 6 standard deviations from the half is no chance
    assert all(abs(count - trials / 2) < 6 * (trials / 4) ** 0.5 for count in flips)


@pytest.mark.parametrize("form", ["/product/{}", "/p?id={:08}&session=0", "{}", "/static/{:x}/app.js"])
def test_numbered_keys_spread_like_random_ones(form: str) -> None:
    """The top 32 bits are what the table tells keys by: about n^2 / 2^33 pairs of 20,000 may agree."""
    hashes = [key_hash(form.format(i).encode()) for i in range(20000)]
    assert len({h >> 32 for h in hashes}) >= 19997
    slots = [0] * 256
    for h in hashes:
        slots[h >> 56] += 1
    assert max(slots) < 78 + 6 * 9
    assert min(slots) > 78 - 6 * 9


def test_the_documented_key_and_hash() -> None:
    text = DOCUMENT.read_text()
    match = re.search(r"```\n((?:[0-9a-f]{2} +)+[0-9a-f]{2})\n```\n\nwith the hash `([0-9a-f]{16})`", text)
    assert match is not None
    data = bytes.fromhex(match[1])
    table = GroupTable([Kind.STRING, Kind.BIGINT, Kind.STRING], [])
    columns = [
        Column.from_list(Kind.STRING, ["GET"]),
        Column.from_list(Kind.BIGINT, [200]),
        Column.from_list(Kind.STRING, [None]),
    ]
    table.update(columns, [], [], 1)
    assert table.encoded_keys() == [data]
    assert f"{key_hash(data):016x}" == match[2]


def test_keys_are_encoded_as_documented() -> None:
    nan = float("nan")
    cases = [
        (Kind.STRING, [None, "", "ab", "x" * 126, "x" * 127, "x" * 16383]),
        (Kind.BOOLEAN, [None, False, True]),
        (Kind.BIGINT, [None, -2]),
        (Kind.TIMESTAMP, [5]),
        (Kind.DECIMAL, [None, -(10**37)]),
        (Kind.DOUBLE, [None, -0.0, -nan, 1.0]),
        (Kind.NULL, [None]),
    ]
    expected = [
        [b"\0", b"\1", b"\3ab", b"\x7f" + b"x" * 126, b"\x80\1" + b"x" * 127, b"\x80\x80\1" + b"x" * 16383],
        [b"\0", b"\1", b"\2"],
        [b"\0", b"\1\xfe" + b"\xff" * 7],
        [b"\1\5" + bytes(7)],
        [b"\0", b"\1" + (-(10**37)).to_bytes(16, "little", signed=True)],
        [b"\0", b"\1" + bytes(8), b"\1" + bytes(6) + b"\xf8\x7f", b"\1" + bytes(6) + b"\xf0\x3f"],
        [b"\0"],
    ]
    for (kind, values), keys in zip(cases, expected, strict=True):
        table = GroupTable([kind], [])
        table.update([Column.from_list(kind, values)], [], [], len(values))
        assert table.encoded_keys() == keys

"""Runs as bytes: the example of docs/RUN.md, round trips of every state, and everything that is no run."""

from __future__ import annotations

import random
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cbt.aggregate import Finish, StateKind
from cbt.codec import compress, expand
from cython_ext.column import Column
from cython_ext.groups import GroupTable, _test_hash_bits
from cython_ext.hashing import key_hash
from cython_ext.merge import Merger, SortedTable
from cython_ext.run import (
    RunError,
    RunShape,
    block_head,
    check_block,
    check_sum,
    compress_block,
    decode_run,
    encode_run,
    expand_block,
    expanded_size,
    is_compressed,
    run_header,
)
from job.types import Kind

DOCS = Path(__file__).resolve().parents[3] / "docs" / "RUN.md"
KINDS: dict[StateKind, Kind | None] = {
    kind: Kind(kind % 10) if kind >= StateKind.MIN_BOOLEAN else None for kind in StateKind
} | {
    StateKind.SUM: Kind.BIGINT,
    StateKind.SUM_DECIMAL: Kind.DECIMAL,
    StateKind.SUM_DECIMAL_WIDE: Kind.DECIMAL,
    StateKind.SUM_DOUBLE: Kind.DOUBLE,
}
VALUES: dict[Kind, list[Any]] = {
    Kind.BOOLEAN: [True, False, None],
    Kind.BIGINT: [0, -1, 1, 63, 64, -64, -65, 2**63 - 1, -(2**63), None],
    Kind.TIMESTAMP: [0, 1_700_000_000_000_000, None],
    Kind.DECIMAL: [0, -1, 10**38 - 1, -(10**38) + 1, 2**64, None],
    Kind.DOUBLE: [0.0, 1.5, -1e308, 5e-324, float("inf"), float("-inf"), float("nan"), None],
    Kind.STRING: ["", "a", "b" * 200, None],
}


def table_of(state: StateKind, groups: int = 40, rows: int = 300, seed: int = 1) -> GroupTable:
    """Groups with none, one and many values."""
    source = random.Random(seed)
    table = GroupTable([Kind.STRING, Kind.BIGINT], [state])
    keys = [f"key {source.randrange(groups)}" for _ in range(rows)]
    second = [source.choice([None, 1, 2]) for _ in range(rows)]
    kind = KINDS[state]
    values = None
    if kind is not None:
        values = Column.from_list(kind, [source.choice(VALUES[kind]) for _ in range(rows)])
    columns = [Column.from_list(Kind.STRING, keys), Column.from_list(Kind.BIGINT, second)]
    table.update(columns, [values], [None], rows)
    return table


def blocks_of(table: GroupTable, block_bytes: int = 1000) -> list[bytes]:
    stream = SortedTable(RunShape(table), table)
    return list(iter(lambda: stream.next_block(block_bytes), None))


def read_back(table: GroupTable, blocks: list[bytes]) -> GroupTable:
    found = GroupTable(table.key_kinds, table.state_kinds)
    assert not Merger(RunShape(table), [blocks]).fill(found, 1 << 30, 1 << 40)
    found.check()
    return found


def the_example() -> bytes:
    section = DOCS.read_text().split("## An example")[1]
    lines = re.findall(r"^((?:[0-9a-f]{2} )*[0-9a-f]{2})(?:  .*)?$", section, re.MULTILINE)
    return bytes.fromhex("".join(lines))


def test_the_example_of_the_documentation() -> None:
    table = GroupTable([Kind.STRING], [StateKind.COUNT, StateKind.SUM])
    keys = Column.from_list(Kind.STRING, ["GET", "POST", "GET"])
    values = Column.from_list(Kind.BIGINT, [100, None, 200])
    table.update([keys], [None, values], [None, None], 3)
    shape = RunShape(table)
    assert encode_run(shape, blocks_of(table)) == the_example()
    found = read_back(table, decode_run(shape, the_example(), expand))
    assert found.keys()[0].to_list() == ["GET", "POST"]
    assert found.finish(0, Finish.COUNT)[0].to_list() == [2, 1]
    assert found.finish(1, Finish.SUM)[0].to_list() == [300, None]


@pytest.mark.parametrize("state", list(StateKind))
def test_every_state_comes_back(state: StateKind) -> None:
    table = table_of(state)
    shape = RunShape(table)
    blocks = blocks_of(table)
    assert len(blocks) > 1 or sum(map(len, blocks)) < 2000
    packed = [compress_block(shape, block, compress, 1) for block in blocks]
    assert decode_run(shape, encode_run(shape, packed), expand) == blocks
    found = read_back(table, blocks)
    again = GroupTable(table.key_kinds, table.state_kinds)
    again.merge(found)
    assert blocks_of(again) == blocks
    assert sorted(found.encoded_keys()) == sorted(table.encoded_keys())


@pytest.mark.parametrize("state", list(StateKind))
def test_merging_runs_is_merging_tables(state: StateKind) -> None:
    tables = [table_of(state, seed=seed) for seed in range(5)]
    whole = GroupTable(tables[0].key_kinds, tables[0].state_kinds)
    for table in tables:
        whole.merge(table)
    merger = Merger(RunShape(whole), [blocks_of(table, 100) for table in tables])
    assert merger.next_block(1 << 30) == blocks_of(whole, 1 << 30)[0]
    assert merger.next_block(1 << 30) is None
    direct = GroupTable(whole.key_kinds, whole.state_kinds)
    Merger(RunShape(whole), [blocks_of(table, 100) for table in tables]).fill(direct, 1 << 30, 1 << 40)
    assert direct.encoded_keys() == read_back(whole, blocks_of(whole)).encoded_keys()


def test_blocks_ascend_and_are_about_as_large_as_asked() -> None:
    table = table_of(StateKind.COUNT, groups=2000, rows=4000)
    blocks = blocks_of(table, 500)
    heads = [block_head(block) for block in blocks]
    assert all(before[2] < after[1] for before, after in pairwise(heads))
    assert all(500 <= len(block) - 48 < 560 for block in blocks[:-1])
    assert sum(head[0] for head in heads) == len(table)


def test_streams_stop_at_a_hash() -> None:
    table = table_of(StateKind.COUNT, groups=200, rows=400)
    shape = RunShape(table)
    for stream in (SortedTable(shape, table), Merger(shape, [blocks_of(table)])):
        low = stream.next_block(1 << 20, 1 << 63)
        assert low is not None
        assert block_head(low)[2] < 1 << 63
        assert stream.next_block(1 << 20, 1 << 63) is None
        high = stream.next_block(1 << 20)
        assert high is not None
        assert block_head(high)[1] >= 1 << 63
        assert block_head(low)[0] + block_head(high)[0] == len(table)


def test_a_run_of_no_groups() -> None:
    table = GroupTable([], [StateKind.COUNT])
    shape = RunShape(table)
    assert blocks_of(table) == []
    assert decode_run(shape, encode_run(shape, []), expand) == []
    table.ensure_group()
    found = decode_run(shape, encode_run(shape, blocks_of(table)), expand)
    assert len(read_back(table, found)) == 1


def test_compression_is_undone() -> None:
    table = table_of(StateKind.COUNT, groups=500, rows=900)
    shape = RunShape(table)
    [block] = blocks_of(table, 1 << 20)
    packed = compress_block(shape, block, compress)
    assert len(packed) < len(block) * 0.7
    assert is_compressed(shape, packed)
    assert not is_compressed(shape, block)
    assert expanded_size(shape, packed) == len(block)
    assert expand_block(shape, packed, expand) == block
    assert compress_block(shape, packed, compress) == packed
    with pytest.raises(RunError, match="are allowed"):
        expand_block(shape, packed, expand, len(block) - 1)


def test_any_damaged_byte_is_found() -> None:
    table = table_of(StateKind.SUM_DOUBLE, groups=3, rows=9)
    shape = RunShape(table)
    run = encode_run(shape, [compress_block(shape, block, compress, 1) for block in blocks_of(table)])
    for at in range(len(run)):
        for bit in (1, 128):
            broken = bytearray(run)
            broken[at] ^= bit
            with pytest.raises(RunError):
                decode_run(shape, broken, expand)
    for size in range(len(run)):
        with pytest.raises(RunError):
            decode_run(shape, run[:size], expand)
    with pytest.raises(RunError):
        decode_run(shape, run + b"\0", expand)


def reseal(block: bytearray) -> bytes:
    block[8:16] = key_hash(bytes(block[16:])).to_bytes(8, "little")
    return bytes(block)


@pytest.mark.parametrize("state", list(StateKind))
def test_blocks_made_to_harm_are_refused_or_sound(state: StateKind) -> None:
    """With the checksum made right again: whatever is accepted can be merged and written."""
    table = table_of(state, groups=3, rows=12)
    shape = RunShape(table)
    source = random.Random(5)
    [block] = blocks_of(table, 1 << 20)
    refused = 0
    for _ in range(400):
        broken = bytearray(block)
        for _ in range(source.choice([1, 1, 2])):
            at = source.randrange(32 + 8 * 2, len(block))
            broken[at] = source.choice([0, 1, 127, 128, 255, broken[at] ^ 1])
        data = reseal(broken)
        try:
            check_block(shape, data)
        except RunError:
            refused += 1
            with pytest.raises(RunError):
                decode_run(shape, encode_run(shape, [data]), expand)
            continue
        merged = Merger(shape, [[data], [data]]).next_block(1 << 20)
        assert merged is not None
        check_block(shape, merged)
    assert refused > 100


def test_what_is_no_run_of_ours() -> None:
    table = table_of(StateKind.COUNT)
    run = encode_run(RunShape(table), blocks_of(table))
    other = RunShape(GroupTable([Kind.STRING], [StateKind.COUNT]))
    with pytest.raises(RunError, match="other keys"):
        decode_run(other, run, expand)
    seeded = RunShape(GroupTable(table.key_kinds, table.state_kinds, 7))
    with pytest.raises(RunError, match="seed"):
        decode_run(seeded, run, expand)
    with pytest.raises(RunError, match="version 9"):
        decode_run(other, run[:4] + b"\x09" + run[5:], expand)
    with pytest.raises(RunError, match="begin"):
        decode_run(other, b"\x1f\x8b" + bytes(100), expand)
    with pytest.raises(RunError, match="are allowed"):
        decode_run(RunShape(table), run, expand, bytes_max=10)
    with pytest.raises(RunError, match="are allowed"):
        decode_run(RunShape(table), run, expand, block_bytes_max=100)


def test_groups_out_of_order_are_refused() -> None:
    table = table_of(StateKind.COUNT, groups=100)
    shape = RunShape(table)
    blocks = blocks_of(table, 100)
    with pytest.raises(RunError, match="go on"):
        decode_run(shape, encode_run(shape, blocks[::-1]), expand)
    with pytest.raises(RunError):
        Merger(shape, [blocks[::-1]]).next_block(1 << 20)


def test_a_checksum_alone() -> None:
    table = table_of(StateKind.COUNT)
    [block] = blocks_of(table, 1 << 20)
    check_sum(block)
    with pytest.raises(RunError, match="checksum"):
        check_sum(block[:-1])


def test_a_filled_table_is_only_read() -> None:
    table = table_of(StateKind.COUNT)
    found = read_back(table, blocks_of(table))
    assert found.ordered
    with pytest.raises(RuntimeError, match="filled from runs"):
        found.merge(table)
    with pytest.raises(ValueError, match="empty table"):
        Merger(RunShape(table), [blocks_of(table)]).fill(table, 10, 1000)


def test_tables_of_other_seeds_do_not_mix() -> None:
    with pytest.raises(ValueError, match="hashes"):
        SortedTable(RunShape(table_of(StateKind.COUNT)), GroupTable([Kind.STRING, Kind.BIGINT], [StateKind.COUNT], 1))


def test_errors_of_a_source_come_through() -> None:
    table = table_of(StateKind.COUNT, groups=100)

    def source() -> Any:
        yield blocks_of(table, 100)[0]
        raise OSError("gone")

    merger = Merger(RunShape(table), [source()])
    with pytest.raises(OSError, match="gone"):
        merger.next_block(1 << 20)


def test_update_until_stops_and_goes_on() -> None:
    keys = [Column.from_list(Kind.BIGINT, list(range(5000)))]
    table = GroupTable([Kind.BIGINT], [StateKind.COUNT])
    done = table.update_until(keys, [None], [None], 5000, None, 0, 10_000)
    assert 0 < done < 5000
    assert done % 256 == 0
    assert table.entry_bytes >= 10_000
    assert len(table) == done
    table.clear()
    assert len(table) == table.entry_bytes == 0
    assert table.update_until(keys, [None], [None], 5000, None, done) == 5000
    assert len(table) == 5000 - done
    table.check()
    table.clear(keep_memory=False)
    assert table.bytes_used < 400
    table.check()


def block_of(columns: list[bytes], raw_sizes: list[int] | None = None) -> bytes:
    """A block of one group, its checksum and hashes right; columns of another raw size claim to be compressed."""
    hashed = key_hash(columns[0]).to_bytes(8, "little")
    sizes = zip(raw_sizes or map(len, columns), map(len, columns), strict=True)
    body = b"".join([raw.to_bytes(4, "little") + stored.to_bytes(4, "little") for raw, stored in sizes] + columns)
    return reseal(
        bytearray((32 + len(body)).to_bytes(4, "little") + b"\1\0\0\0" + bytes(8) + hashed + hashed + body)
    )


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (Kind.NULL, b"\0", [b"\1", b"\1" + bytes(8)]),
        (Kind.BOOLEAN, b"\2", [b"\3", b"\xff"]),
        (Kind.BIGINT, b"\1" + bytes(8), [b"\2" + bytes(8), b"\1" + bytes(7)]),
        (Kind.TIMESTAMP, b"\0", [b"\0\0", b"\x80" + bytes(8)]),
        (Kind.DOUBLE, b"\1" + bytes(6) + b"\xf8\x7f", [b"\1" + bytes(7) + b"\x80", b"\1\1" + bytes(5) + b"\xf8\x7f"]),
        (Kind.DECIMAL, b"\1" + (10**38 - 1).to_bytes(16, "little"), [b"\1" + (10**38).to_bytes(16, "little")]),
        (Kind.STRING, b"\2a", [b"\2", b"\x82\0a", b"\2ab"]),
    ],
)
def test_keys_must_be_as_their_values_are_written(kind: Kind, good: bytes, bad: list[bytes]) -> None:
    """Else one value has two groups; and what stands for NULL was once read beyond its end."""
    shape = RunShape(GroupTable([kind], [StateKind.COUNT]))
    check_block(shape, block_of([good, b"\1"]))
    for key in bad:
        with pytest.raises(RunError):
            check_block(shape, block_of([key, b"\1"]))


def varint_of(value: int, size: int = 0) -> bytes:
    """Of at least `size` bytes, more than it should have if need be."""
    out = bytearray()
    while value >> 7 or len(out) + 1 < size:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


@pytest.mark.parametrize("column", [1, 2, 3])
def test_counts_and_sums_are_written_as_short_as_they_can_be(column: int) -> None:
    """Else equal groups have different bytes. Short numbers are looked at apart from long ones."""
    shape = RunShape(GroupTable([Kind.STRING], [StateKind.COUNT, StateKind.SUM]))
    greatest = (1 << 128) - 1 if column == 3 else (1 << 64) - 1
    sound = [varint_of(value) for value in (0, 1, 127, 128, (1 << 56) - 1, 1 << 56, 1 << 63, greatest)]
    damaged = [varint_of(1, size) for size in (2, 8, 9, 10)] + [varint_of(0, 2), varint_of(greatest + 1)]
    for number in sound:
        check_block(shape, block_of([b"\2a", *[b"\1"] * (column - 1), number, *[b"\1"] * (3 - column)]))
    for number in damaged:
        with pytest.raises(RunError):
            check_block(shape, block_of([b"\2a", *[b"\1"] * (column - 1), number, *[b"\1"] * (3 - column)]))


def test_a_value_beyond_decimals_is_refused() -> None:
    shape = RunShape(GroupTable([Kind.BIGINT], [StateKind.MAX_DECIMAL]))
    for value, sound in [(10**38 - 1, True), (10**38, False)]:
        varint, left = b"", 2 * value + 1
        while left:
            varint += bytes([left & 127 | (128 if left >> 7 else 0)])
            left >>= 7
        block = block_of([b"\0", varint])
        if sound:
            check_block(shape, block)
        else:
            with pytest.raises(RunError):
                check_block(shape, block)


def test_nothing_may_lie_behind_a_compressed_column() -> None:
    shape = RunShape(GroupTable([Kind.STRING], [StateKind.COUNT]))
    key = b"\xac\2" + b"x" * 299
    for junk, sound in [(b"", True), (b"junk", False)]:
        run = encode_run(shape, [block_of([compress(key) + junk, b"\1"], [len(key), 1])])
        # The hash is that of the key, not of its frame.
        hashed = key_hash(key).to_bytes(8, "little")
        block = bytearray(run[len(run_header(shape)) : -24])
        block[16:32] = hashed + hashed
        run = encode_run(shape, [reseal(block)])
        if sound:
            assert len(decode_run(shape, run, expand)) == 1
        else:
            with pytest.raises(RunError, match="4 bytes of unused data"):
                decode_run(shape, run, expand)


def test_all_blocks_together_have_a_limit() -> None:
    table = table_of(StateKind.COUNT, groups=200, rows=400)
    shape = RunShape(table)
    blocks = blocks_of(table, 500)
    packed = encode_run(shape, [compress_block(shape, block, compress) for block in blocks])
    plain = encode_run(shape, blocks)
    total = sum(map(len, blocks))
    for run in (packed, plain):
        assert decode_run(shape, run, expand, expanded_bytes_max=total) == blocks
        with pytest.raises(RunError, match="are allowed"):
            decode_run(shape, run, expand, expanded_bytes_max=total - 1)


@pytest.mark.parametrize("kind", [StateKind.SUM, StateKind.SUM_DECIMAL, StateKind.SUM_DECIMAL_WIDE])
def test_sums_of_every_size_merge(kind: StateKind) -> None:
    """Small ones are added as they are, large ones by way of an entry: both to the same bytes."""
    powers = [sign << bits for bits in (0, 6, 59, 60, 61, 62) for sign in (1, -1)]
    edges = [power + more for power in powers for more in (-1, 0, 1)]
    column = Kind.BIGINT if kind is StateKind.SUM else Kind.DECIMAL
    for left in edges:
        tables = []
        for values in ([left] * len(edges), edges):
            table = GroupTable([Kind.BIGINT], [StateKind.COUNT, kind])
            keys = Column.from_list(Kind.BIGINT, list(range(len(edges))))
            table.update([keys], [None, Column.from_list(column, values)], [None, None], len(edges))
            tables.append(table)
        blocks = [blocks_of(table, 100) for table in tables]
        found = Merger(RunShape(tables[0]), [*blocks, blocks[0]]).next_block(1 << 20)
        for _ in range(2):
            tables[1].merge(tables[0])
        assert [found] == blocks_of(tables[1], 1 << 20)
        values = read_back(tables[1], [found]).finish(1, Finish.SUM, 0.0, 38)[0].to_list()
        sums = [2 * left + edge for edge in edges]
        fitting = [value if column is Kind.DECIMAL or -(2**63) <= value < 2**63 else None for value in sums]
        assert sorted(map(repr, values)) == sorted(map(repr, fitting))


@pytest.mark.parametrize("bits", [64, 40, 5, 0])
def test_tables_are_sorted_by_hash_and_key(bits: int) -> None:
    """Whatever way their slots lie: those at the end of the index that have gone on at its beginning, and long clusters."""
    _test_hash_bits(bits)
    try:
        for groups in (0, 1, 2, 11, 12, 13, 500, 3000):
            table = GroupTable([Kind.BIGINT], [StateKind.COUNT])
            keys = Column.from_list(Kind.BIGINT, list(range(groups)))
            table.update([keys], [None], [None], groups)
            found = read_back(table, blocks_of(table, 300)).encoded_keys() if groups else []
            mask = (1 << 64) - (1 << 64 - bits)
            assert found == sorted(table.encoded_keys(), key=lambda key: (key_hash(key) & mask, key))
    finally:
        _test_hash_bits()


def test_a_filled_table_is_not_sorted_again() -> None:
    table = table_of(StateKind.COUNT)
    found = read_back(table, blocks_of(table))
    with pytest.raises(ValueError, match="no index"):
        SortedTable(RunShape(table), found)

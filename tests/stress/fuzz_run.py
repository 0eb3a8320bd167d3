"""Fuzzes the reading of runs: `python tests/stress/fuzz_run.py [SECONDS] [SEED]`.

Each round makes a sound run of random keys and states, damages it, and decodes it. All that may come of it is a RunError,
or groups that can be merged, written, read and finished like any others. Most rounds make the checksums right again,
and half of them damage columns before they are compressed, so that the damage is met where it hurts. A failure prints
the seed of its round; for reads out of bounds run it with sanitized kernels, as tests/stress/test_sanitized.py does.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cbt.aggregate import Finish, StateKind
from cbt.codec import compress, expand
from cython_ext.column import Column
from cython_ext.groups import GroupTable
from cython_ext.hashing import key_hash
from cython_ext.merge import Merger, SortedTable
from cython_ext.run import (
    RunError,
    RunShape,
    compress_block,
    decode_run,
    encode_run,
    run_header,
    run_trailer,
)
from job.types import Kind

BLOCK_HEAD, TRAILER_BYTES = 32, 24
BLOCK_BYTES_MAX, RUN_BYTES_MAX = 1 << 20, 4 << 20
INPUTS: dict[StateKind, Kind | None] = {
    kind: Kind(kind % 10) if kind >= StateKind.MIN_BOOLEAN else None for kind in StateKind
} | {
    StateKind.SUM: Kind.BIGINT,
    StateKind.SUM_DECIMAL: Kind.DECIMAL,
    StateKind.SUM_DECIMAL_WIDE: Kind.DECIMAL,
    StateKind.SUM_DOUBLE: Kind.DOUBLE,
}
VALUES: dict[Kind, list[Any]] = {
    Kind.NULL: [None],
    Kind.BOOLEAN: [True, False, None],
    Kind.BIGINT: [0, -1, 63, 64, -65, 2**63 - 1, -(2**63), None],
    Kind.TIMESTAMP: [0, 1_700_000_000_000_000, None],
    Kind.DECIMAL: [0, -1, 10**38 - 1, -(10**38) + 1, 2**64, None],
    Kind.DOUBLE: [0.0, -0.0, 1.5, -1e308, 5e-324, float("inf"), float("-inf"), float("nan"), None],
    Kind.STRING: ["", "a", "ab", "b" * 130, "c" * 700, None],
}


def a_table(random: Random) -> GroupTable:
    """Few keys of any kinds, some states of any kinds, some rows."""
    keys = random.choices(list(VALUES), k=random.randrange(4))
    states = random.choices(list(StateKind), k=random.randrange(4))
    table = GroupTable(keys, states)
    rows = random.choice([0, 1, 5, 40, 300])
    columns = [Column.from_list(kind, random.choices(VALUES[kind], k=rows)) for kind in keys]
    if keys and keys[0] is Kind.BIGINT:
        columns[0] = Column.from_list(Kind.BIGINT, random.choices(range(200), k=rows))
    inputs = []
    for state in states:
        kind = INPUTS[state]
        values = VALUES[Kind.BIGINT if kind is None else kind]
        inputs.append(None if kind is None else Column.from_list(kind, random.choices(values, k=rows)))
    table.update(columns, inputs, [None] * len(states), rows)
    return table


def damage(random: Random, data: bytes, first: int = 0) -> bytes:
    """With one or a few bytes changed from `first` on, or bytes left out, put in, moved."""
    out = bytearray(data)
    for _ in range(random.choice([1, 1, 1, 2, 5])):
        if len(out) <= first:
            break
        at = random.randrange(first, len(out))
        end = min(len(out), at + random.choice([1, 1, 2, 8, 40]))
        how = random.randrange(10)
        if how < 4:
            out[at] = random.choice([0, 1, 2, 127, 128, 255, random.randrange(256)])
        elif how < 6:
            out[at] ^= 1 << random.randrange(8)
        elif how == 6:
            del out[at:end]
        elif how == 7:
            out[at:at] = random.randbytes(end - at)
        elif how == 8:
            out[at:end] = random.choice([b"\xff", b"\x80", b"\0"]) * (end - at)
        else:
            other = random.randrange(first, len(out))
            out[at:end] = out[other : other + end - at]
    return bytes(out)


def resized(random: Random, block: bytes, columns: int) -> bytes:
    """Its sizes made to fit again, the difference given to one column."""
    out = bytearray(block)
    out[:4] = len(out).to_bytes(4, "little")
    sizes = [int.from_bytes(out[BLOCK_HEAD + 8 * c + 4 :][:4], "little") for c in range(columns)]
    chosen = random.randrange(columns)
    size = sizes[chosen] + len(out) - BLOCK_HEAD - 8 * columns - sum(sizes)
    if 0 <= size < 1 << 32:
        at = BLOCK_HEAD + 8 * chosen
        out[at + 4 : at + 8] = size.to_bytes(4, "little")
        if random.random() < 0.9:
            out[at : at + 4] = size.to_bytes(4, "little")
    return bytes(out)


def sealed(block: bytes) -> bytes:
    """With the checksum that its bytes have."""
    return block[:8] + key_hash(block[16:]).to_bytes(8, "little") + block[16:]


def damaged_block(random: Random, shape: RunShape, block: bytes, columns: int) -> bytes:
    head = BLOCK_HEAD + 8 * columns
    if random.random() < 0.5 and len(block) > head:
        broken = sealed(resized(random, damage(random, block, head), columns))
        try:
            return compress_block(shape, broken, compress, random.choice([1, 64]))
        except RunError:
            return broken
    broken = damage(random, compress_block(shape, block, compress, 1), random.choice([0, 16, head]))
    if random.random() < 0.5 and len(broken) >= head:
        broken = resized(random, broken, columns)
    return sealed(broken) if len(broken) >= BLOCK_HEAD and random.random() < 0.9 else broken


def damaged_run(random: Random, shape: RunShape, blocks: list[bytes], columns: int) -> bytes:
    how = random.random()
    if how < 0.15 or not blocks:
        return damage(random, encode_run(shape, blocks))
    if how < 0.25:
        random.shuffle(blocks)
        return encode_run(shape, random.choices(blocks, k=random.randint(1, 3)))
    chosen = random.randrange(len(blocks))
    broken = damaged_block(random, shape, blocks[chosen], columns)
    parts = [*blocks[:chosen], broken, *blocks[chosen + 1 :]]
    groups = sum(int.from_bytes(part[4:8], "little") for part in parts)
    return b"".join([run_header(shape), *parts, run_trailer(len(parts), groups)])


def use(shape: RunShape, table: GroupTable, blocks: list[bytes]) -> None:
    """Does with sound blocks what a tree does, and asks for every result."""
    merged: list[bytes] = []
    merger = Merger(shape, [blocks, blocks, blocks[:1]])
    while (block := merger.next_block(700)) is not None:
        merged.append(block)
    again = decode_run(shape, encode_run(shape, merged), expand, 1 << 30, 1 << 30)
    found = GroupTable(table.key_kinds, table.state_kinds)
    Merger(shape, [again]).fill(found, 1 << 30, 1 << 40)
    found.check()
    other = GroupTable(table.key_kinds, table.state_kinds)
    other.merge(found)
    other.check()
    key_columns = found.keys()
    for column in key_columns:
        column.to_list()
    for state in range(len(table.state_kinds)):
        for how in Finish:
            try:
                found.finish(state, how, 0.5, 38, 0)[0].to_list()
            except ValueError:
                continue  # a state without that finish


def one_round(seed: int) -> bool:
    """Whether the damaged run was refused."""
    random = Random(seed)
    table = a_table(random)
    shape = RunShape(table)
    stream = SortedTable(shape, table)
    blocks = list(iter(lambda: stream.next_block(random.choice([50, 500, 1 << 16])), None))
    columns = _column_count(shape, blocks)
    data = damaged_run(random, shape, blocks, columns)
    try:
        found = decode_run(shape, data, expand, RUN_BYTES_MAX, BLOCK_BYTES_MAX, RUN_BYTES_MAX)
    except RunError:
        return True
    use(shape, table, found)
    return False


def _column_count(shape: RunShape, blocks: list[bytes]) -> int:
    """Of a block: those whose sizes fill it exactly."""
    for count in range(1, 16):
        if blocks:
            sizes = [int.from_bytes(blocks[0][BLOCK_HEAD + 8 * c + 4 :][:4], "little") for c in range(count)]
            if BLOCK_HEAD + 8 * count + sum(sizes) == len(blocks[0]):
                return count
    return 1


def main() -> None:
    seconds, seed = float((sys.argv[1:2] or ["60"])[0]), int((sys.argv[2:3] or ["1"])[0])
    until = time.monotonic() + seconds
    rounds = refused = 0
    while time.monotonic() < until:
        try:
            refused += one_round(seed + rounds)
        except BaseException:
            print(f"failed in the round of seed {seed + rounds}", file=sys.stderr)
            raise
        rounds += 1
    print(f"{rounds} damaged runs, {refused} refused, the others sound")


if __name__ == "__main__":
    main()

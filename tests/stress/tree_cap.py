"""Many groups under a memory cap, in a process of its own: prints what the answer and the peak memory were.

usage: tree_cap.py EVENTS KEYS KEY_BYTES TREES MEMORY_MIB SPILL_DIR

Each tree gets its share of the events: first each of its KEYS once, then keys at random. Keys are paths that end in a number
as good as random, so that nothing but the path compresses well.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cbt.aggregate import Finish, StateKind
from cbt.budget import Budget
from cbt.options import BudgetOptions
from cbt.tree import Batch, Tree
from cython_ext.column import Column
from job.types import Kind

ROWS = 16_384
STEP = 15_485_863  # a prime, so that steps meet every key once
SCATTER, GATHER = 0x9E3779B97F4A7C15, pow(0x9E3779B97F4A7C15, -1, 1 << 64)
WORD = (1 << 64) - 1
PATH = b"/shop/women/shoes/summer-sale/sandals/leather/brown"


def key_format(key_bytes: int) -> bytes:
    """Of keys of that many bytes: a path and 16 hexadecimal digits."""
    return (PATH * (key_bytes // len(PATH) + 1))[: key_bytes - 17] + b"/%016x"


def draw(source: Random, keys: int, first: int) -> list[int]:
    """ROWS numbers of keys, for the events of a tree from number `first` on."""
    if first < keys:
        return [number * STEP % keys for number in range(first, first + ROWS)]
    return [value % keys for value in array("Q", source.randbytes(8 * ROWS))]


def feed(tree: Tree, indices: list[int], form: bytes, key_bytes: int) -> None:
    keys = b"".join([form % (index * SCATTER & WORD) for index in indices])
    values = Column.from_buffer(Kind.BIGINT, array("q", indices).tobytes())
    tree.update([Column.from_buffer(Kind.STRING, keys, key_bytes)], [None, values], [None, None], len(indices))


def answer(batches: Iterator[Batch]) -> list[int]:
    """Groups, events, the sum of values, and groups that are wrong: each sum is the number of the key times its count."""
    found = [0, 0, 0, 0]
    for batch in batches:
        names = batch.keys()[0].to_list()
        counts = batch.finish(0, Finish.COUNT)[0].to_list()
        sums = batch.finish(1, Finish.SUM)[0].to_list()
        found[0] += len(batch)
        found[1] += sum(counts)
        found[2] += sum(sums)
        found[3] += sum(
            (int(name[-16:], 16) * GATHER & WORD) * count != total
            for name, count, total in zip(names, counts, sums, strict=True)
        )
    return found


def main(events: int, keys: int, key_bytes: int, tree_count: int, memory_mib: int, spill_dir: str) -> None:
    budget = Budget(BudgetOptions(memory_max=memory_mib << 20, spill_dir=spill_dir))
    trees = [Tree([Kind.STRING], [StateKind.COUNT, StateKind.SUM], budget=budget) for _ in range(tree_count)]
    source, form = Random(7), key_format(key_bytes)
    weighed = 0
    spent_s = 0.0
    rounds = events // ROWS
    for number in range(rounds):
        indices = draw(source, keys, number // tree_count * ROWS)
        weighed += sum(indices)
        begin = time.process_time()
        feed(trees[number % tree_count], indices, form, key_bytes)
        spent_s += time.process_time() - begin
    answers = [answer(tree.batches()) for tree in trees]
    used = budget.used_bytes
    for tree in trees:
        tree.close()
    print(
        json.dumps(
            {
                "found": [sum(column) for column in zip(*answers, strict=True)],
                "expected": [keys * tree_count, rounds * ROWS, weighed, 0],
                "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
                "feed_s": round(spent_s, 1),
                "used_mib": used >> 20,
                "left_bytes": budget.used_bytes - sum(tree.bytes_used for tree in trees),
                "left_on_disk": 0 if budget.spill_file is None else budget.spill_file.length,
            }
        )
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:6]), sys.argv[6])

"""Many groups under a memory cap, in a process of its own: prints what the answer and the peak memory were.

usage: tree_cap.py EVENTS KEYS KEY_BYTES TREES MEMORY_MIB SPILL_DIR
"""

from __future__ import annotations

import json
import resource
import sys
from array import array
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cbt.aggregate import Finish, StateKind
from cbt.budget import Budget
from cbt.options import BudgetOptions
from cbt.tree import Tree
from cython_ext.column import Column
from job.types import Kind

ROWS = 16_384


def main(events: int, keys: int, key_bytes: int, tree_count: int, memory_mib: int, spill_dir: str) -> None:
    budget = Budget(BudgetOptions(memory_max=memory_mib << 20, spill_dir=spill_dir))
    kinds = [Kind.STRING], [StateKind.COUNT, StateKind.SUM]
    trees = [Tree(*kinds, budget=budget) for _ in range(tree_count)]
    source = Random(7)
    seen = bytearray(keys * tree_count // 8 + 1)
    groups = weighed = 0
    path = b"/shop/%0" + str(key_bytes - 6).encode() + b"d"
    for number in range(events // ROWS):
        drawn = array("Q", source.randbytes(8 * ROWS))
        indices = [value % keys for value in drawn]
        first = number % tree_count * keys
        for index in indices:
            at, bit = (first + index) >> 3, 1 << ((first + index) & 7)
            if not seen[at] & bit:
                seen[at] |= bit
                groups += 1
        weighed += sum(indices)
        names = Column.from_buffer(Kind.STRING, b"".join([path % index for index in indices]), key_bytes)
        values = Column.from_buffer(Kind.BIGINT, array("q", indices).tobytes())
        trees[number % tree_count].update([names], [None, values], [None, None], ROWS)
    found = [0, 0, 0, 0]
    for tree in trees:
        for batch in tree.batches():
            names_found = batch.keys()[0].to_list()
            counts = batch.finish(0, Finish.COUNT)[0].to_list()
            sums = batch.finish(1, Finish.SUM)[0].to_list()
            found[0] += len(batch)
            found[1] += sum(counts)
            found[2] += sum(sums)
            # Each group by itself: the sum over its rows is its number times their count.
            found[3] += sum(
                int(name[6:]) * count != total
                for name, count, total in zip(names_found, counts, sums, strict=True)
            )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    expected = [groups, events // ROWS * ROWS, weighed, 0]
    print(json.dumps({"found": found, "expected": expected, "peak_mib": peak >> 20}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:6]), sys.argv[6])

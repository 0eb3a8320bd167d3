"""A disk that gets full under several trees, in a process of its own: prints what became of each.

usage: tree_full.py HOW SPILL_DIR

HOW: `limit`, spill_max is reached; `file`, the process may write files of no more than that; `disk`, SPILL_DIR is on a disk
of no more than that.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from cbt.aggregate import StateKind
from cbt.budget import Budget
from cbt.check import check
from cbt.errors import SpillError
from cbt.options import BudgetOptions
from cbt.tree import Tree
from job.types import Kind
from tests.stress.tree_cap import ROWS, answer, draw, feed, key_format

MEMORY_BYTES, DISK_BYTES = 16 << 20, 32 << 20
KEY_BYTES, SMALL_KEYS, SMALL_TREES = 40, 10_000, 8
KINDS = [Kind.STRING], [StateKind.COUNT, StateKind.SUM]


class Job:
    """A tree and what must be in it."""

    def __init__(self, budget: Budget, keys: int) -> None:
        self.tree = Tree(*KINDS, budget=budget)
        self.keys, self.events, self.weighed = keys, 0, 0
        self.source = Random(keys)

    def go_on(self) -> None:
        indices = draw(self.source, self.keys, self.events)
        self.events += ROWS
        self.weighed += sum(indices)
        feed(self.tree, indices, key_format(KEY_BYTES), KEY_BYTES)

    def is_exact(self) -> bool:
        check(self.tree)
        return answer(self.tree.batches()) == [min(self.keys, self.events), self.events, self.weighed, 0]


def main(how: str, spill_dir: str) -> None:
    if how == "file":
        resource.setrlimit(resource.RLIMIT_FSIZE, (DISK_BYTES, DISK_BYTES))
    spill_max = DISK_BYTES if how == "limit" else None
    budget = Budget(BudgetOptions(memory_max=MEMORY_BYTES, spill_dir=spill_dir, spill_max=spill_max))
    small = [Job(budget, SMALL_KEYS) for _ in range(SMALL_TREES)]
    large = Job(budget, 1 << 40)
    error = ""
    while not error:
        for job in small:
            job.go_on()
        for _ in range(SMALL_TREES):
            try:
                large.go_on()
            except SpillError as problem:
                error = str(problem)
                break
    assert budget.spill_file is not None
    print(
        json.dumps(
            {
                "error": error,
                "on_disk": budget.spill_file.length,
                "large_is_exact": large.is_exact(),
                "small_are_exact": [job.is_exact() for job in small],
                "after": go_on_without(large, small, budget),
                "left": [budget.spill_file.length, budget.tree_count, len(os.listdir(spill_dir))],
                "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
            }
        )
    )


def go_on_without(large: Job, small: list[Job], budget: Budget) -> list[bool]:
    """Whether the small ones, and a new one that needs the disk, are exact when the large one has gone; closes all."""
    large.tree.close()
    other = Job(budget, 400_000)
    for _ in range(30):
        for job in (*small, other):
            job.go_on()
    exact = [job.is_exact() for job in (*small, other)]
    exact.append(other.tree.stats().spilled_bytes > 0)
    for job in (*small, other):
        job.tree.close()
    return exact


if __name__ == "__main__":
    main(*sys.argv[1:])

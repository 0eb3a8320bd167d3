"""The memory that a process gives its aggregates: one budget, handed down to all that make trees or hold rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cbt.budget import Budget, Ledger
from cbt.errors import MemoryCapError
from cbt.options import BudgetOptions, Options
from cbt.tree import Tree

SHARE = 16
"""A table, and a batch of groups being finished, take at most the cap divided by this."""


class Memory:
    """A budget, and the sizes of the trees under it. May be shared by threads and jobs."""

    def __init__(self, budget: Budget | None = None, options: Options = Options()) -> None:  # noqa: B008 - frozen
        """Without a budget there is no cap."""
        self.budget = budget or Budget(BudgetOptions(memory_max=None))
        self.options = options

    def tree(self, key_kinds: Sequence[int], state_kinds: Sequence[int]) -> Tree:
        """An empty tree. Raises ValueError for kinds that do not exist."""
        return Tree(key_kinds, state_kinds, self.options, self.budget)

    def hold(self) -> Holding:
        """An account for rows that are held outside trees."""
        return Holding(self.budget)


class Holding:
    """Bytes of finished rows, charged to the budget as long as this object lives: keep it where the rows are kept."""

    __slots__ = ("_ledger",)

    def __init__(self, budget: Budget) -> None:
        self._ledger = Ledger(budget)

    def __del__(self) -> None:
        self._ledger.charge(-self._ledger.used_bytes)

    @property
    def held_bytes(self) -> int:
        return self._ledger.used_bytes

    def resize(self, size: int) -> None:
        """The rows take `size` bytes from now on. Has trees make room; raises MemoryCapError when that is not enough."""
        budget = self._ledger.budget
        self._ledger.charge(size - self._ledger.used_bytes)
        if not budget.make_room():
            raise MemoryCapError(
                f"the rows of the result take {size:,} bytes beside {budget.used_bytes - size:,} of groups and other rows, "
                f"and memory_max is {budget.options.memory_max:,}: add LIMIT or HAVING, or raise memory_max"
            )


def capped(memory_max: int, spill_dir: str, spill_max: int | None = None) -> Memory:
    """A memory of at most `memory_max` bytes; what does not fit goes to an unnamed file in `spill_dir`, of at most
    `spill_max` bytes."""
    sizes = Options()
    trees = replace(
        sizes,
        table_bytes_max=min(sizes.table_bytes_max, memory_max // SHARE),
        batch_bytes_max=min(sizes.batch_bytes_max, memory_max // SHARE),
    )
    return Memory(Budget(BudgetOptions(memory_max=memory_max, spill_dir=spill_dir, spill_max=spill_max)), trees)

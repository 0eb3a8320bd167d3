"""One memory cap for all trees of the process: who uses how much, and who gives way when it gets tight.

Every table and block is charged to its tree's `Ledger` and so to the `Budget`. Beyond `compress_share` of the cap the
largest trees compress their blocks, beyond `spill_share` they move them to disk (cbt/policy.py decides). Trees of other
threads are relieved when they are idle; a busy one relieves itself at its next step.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from threading import Lock, RLock
from typing import Protocol
from weakref import WeakSet

from cbt.errors import MemoryCapError, SpillError
from cbt.options import BudgetOptions
from cbt.policy import Pressure, pressure, refuse_at, relief_target
from cbt.spill import SpillFile
from cython_ext.memory import trim_memory


class Tenant(Protocol):
    """What a budget asks of a tree. Each is called with the tree's lock held."""

    lock: RLock
    ledger: Ledger

    def __hash__(self) -> int: ...
    def drain(self) -> None: ...
    def compress(self, enough: Callable[[], bool]) -> None: ...
    def spill(self, enough: Callable[[], bool]) -> None: ...
    @property
    def table_bytes(self) -> int: ...


class Ledger:
    """The memory of one tree."""

    __slots__ = ("_booked_bytes", "budget")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._booked_bytes = 0

    @property
    def used_bytes(self) -> int:
        self.budget.book()
        return self._booked_bytes

    def charge(self, size: int) -> None:
        """Books `size` more bytes, or fewer. May be called by whatever frees a block, at any place of any thread."""
        self.budget.charge(self, size)

    def book(self, size: int) -> None:
        """Of the budget, its lock held."""
        self._booked_bytes += size


class Budget:
    """The cap and its trees. Thread-safe."""

    def __init__(self, options: BudgetOptions | None = None) -> None:
        self.options = options or BudgetOptions(memory_max=None)
        self.peak_bytes = 0
        """The most that was ever in use."""
        self.tree_count = 0
        """Trees that have outgrown their table."""
        self._lock = Lock()
        self._booked_bytes = 0
        self._charges: deque[tuple[Ledger | None, int]] = deque()
        spill_dir = self.options.spill_dir
        self.spill_file = None if spill_dir is None else SpillFile(spill_dir, self.options.spill_max)
        self.refused: str | None = None
        """Why the disk took no more, if it did not the last time."""
        self._tenants: WeakSet[Tenant] = WeakSet()
        self._registering = Lock()
        self._relieving = Lock()
        self.relieve_at: float = math.inf
        """Bytes in use at which trees must come to `settle`."""
        if self.options.memory_max is not None:
            self.relieve_at = self.options.memory_max * self.options.compress_share

    @property
    def pressure(self) -> Pressure:
        return pressure(self.options, self.used_bytes)

    @property
    def spilled_bytes(self) -> int:
        """Bytes ever written to disk."""
        return 0 if self.spill_file is None else self.spill_file.bytes_written

    @property
    def used_bytes(self) -> int:
        """Bytes of all trees."""
        self.book()
        return self._booked_bytes

    def charge(self, ledger: Ledger, size: int) -> None:
        # Python may free a block, and so come here, anywhere: also in a thread that is in `book` already.
        self._charges.append((ledger, size))
        self.book()

    def count_trees(self, change: int) -> None:
        """A tree has outgrown its table (1), or is gone (-1)."""
        self._charges.append((None, change))
        self.book()

    def book(self) -> None:
        """Does what was left to do by those who found the books in use."""
        while self._charges and self._lock.acquire(blocking=False):
            try:
                while self._charges:
                    ledger, change = self._charges.popleft()
                    if ledger is None:
                        self.tree_count += change
                    else:
                        ledger.book(change)
                        self._booked_bytes += change
                        self.peak_bytes = max(self.peak_bytes, self._booked_bytes)
            finally:
                self._lock.release()

    def register(self, tenant: Tenant) -> None:
        with self._registering:
            self._tenants.add(tenant)

    def _all_tenants(self) -> list[Tenant]:
        with self._registering:
            return list(self._tenants)

    def settle(self, tenant: Tenant) -> None:
        """Called by a tree, its lock held, after it has grown: makes room when it is time to.

        Raises MemoryCapError when there is none to be made, and SpillError when the disk refuses. The tree then still holds
        every row it was given.
        """
        if self.options.memory_max is None or self.used_bytes < self.relieve_at:
            return
        if not self._relieving.acquire(blocking=False):
            return
        try:
            self._relieve(tenant)
        finally:
            self._relieving.release()
        used = self.used_bytes
        if used > refuse_at(self.options, used, tenant.ledger.used_bytes, len(self._tenants)):
            if self.refused is not None:
                raise SpillError(self.refused)
            if self.spill_file is None:
                raise MemoryCapError(
                    f"the groups take {used:,} bytes, compressed as they are, and memory_max is "
                    f"{self.options.memory_max:,}: raise it, or give a spill_dir"
                )

    def make_room(self) -> bool:
        """Called by who holds memory but no tree: has trees give way when it is time to. Whether all is below the cap."""
        memory_max = self.options.memory_max
        if memory_max is not None and self.used_bytes >= self.relieve_at:
            with self._relieving:
                self._relieve(None)
        return memory_max is None or self.used_bytes <= memory_max

    def _relieve(self, tenant: Tenant | None) -> None:
        level = self.pressure
        memory_max = self.options.memory_max or 0
        if level is not Pressure.CALM:
            self._drain_tables(tenant, memory_max // 4)
            self._ask(tenant, Pressure.TIGHT, lambda tree: tree.compress)
        if self.pressure is Pressure.FULL and self.spill_file is not None:
            self._ask(tenant, Pressure.FULL, lambda tree: tree.spill)
            trim_memory()
        # Trees whose blocks are compressed by now need not be asked again at once.
        step = max(memory_max // 64, 1)
        self.relieve_at = max(int(memory_max * self.options.compress_share), self.used_bytes + step)
        if self.spill_file is not None or self.used_bytes < memory_max:
            full = max(int(memory_max * self.options.spill_share), 1)
            self.relieve_at = min(self.relieve_at, max(full, self.used_bytes + 1))

    def _drain_tables(self, tenant: Tenant | None, tables_max: int) -> None:
        trees = sorted(self._all_tenants(), key=lambda tree: -tree.table_bytes)
        total = sum(tree.table_bytes for tree in trees)
        for tree in trees:
            if total <= tables_max:
                return
            size = tree.table_bytes
            self._with(tenant, tree, tree.drain)
            total -= size - tree.table_bytes

    def _ask(
        self, tenant: Tenant | None, level: Pressure, way: Callable[[Tenant], Callable[[Callable[[], bool]], None]]
    ) -> None:
        """Has the largest trees give way until the target of `level` is met."""
        target = relief_target(self.options, level)

        def enough() -> bool:
            return self.used_bytes <= target

        for tree in sorted(self._all_tenants(), key=lambda tree: -tree.ledger.used_bytes):
            if enough():
                return
            give = way(tree)
            self._with(tenant, tree, lambda give=give: give(enough))  # type: ignore[misc]

    @staticmethod
    def _with(tenant: Tenant | None, tree: Tenant, action: Callable[[], None]) -> None:
        """Acts on a tree unless another thread is using it."""
        if tree is tenant:
            action()
        elif tree.lock.acquire(blocking=False):
            try:
                action()
            finally:
                tree.lock.release()

    def close(self) -> None:
        """Gives the spill file back. Trees that have blocks in it can no longer be read."""
        if self.spill_file is not None:
            self.spill_file.close()

"""One memory for many: what rows hold beside trees, and trees that threads merge into each other."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import TracebackType

import pytest

from cbt.aggregate import Finish, StateKind
from cbt.budget import Budget
from cbt.check import check
from cbt.errors import MemoryCapError
from cbt.memory import Memory
from cbt.options import BudgetOptions, Options
from cbt.tree import Tree
from cython_ext.column import Column
from job.types import Kind
from tests.patience import PATIENCE_S


def counted(tree: Tree, names: list[str]) -> None:
    tree.update([Column.from_list(Kind.STRING, names)], [None], [None], len(names))


def counts(tree: Tree) -> dict[str, int]:
    return {
        name: count
        for batch in tree.batches()
        for name, count in zip(
            batch.keys()[0].to_list(), batch.finish(0, Finish.COUNT)[0].to_list(), strict=True
        )
    }


def test_rows_are_charged_as_long_as_they_are_held() -> None:
    budget = Budget(BudgetOptions(memory_max=1000))
    holding = Memory(budget).hold()
    holding.resize(600)
    holding.resize(400)
    assert (budget.used_bytes, budget.peak_bytes, holding.held_bytes) == (400, 600, 400)
    del holding
    assert budget.used_bytes == 0


def test_rows_beyond_the_cap_are_an_error_that_says_what_to_do() -> None:
    holding = Memory(Budget(BudgetOptions(memory_max=1000))).hold()
    with pytest.raises(MemoryCapError, match=r"take 1,001 bytes.*add LIMIT or HAVING, or raise memory_max"):
        holding.resize(1001)


def test_trees_make_room_for_rows(tmp_path: Path) -> None:
    budget = Budget(BudgetOptions(memory_max=60_000, spill_dir=str(tmp_path), table_bytes_min=512))
    memory = Memory(budget, Options.tiny())
    tree = memory.tree([Kind.STRING], [StateKind.COUNT])
    counted(tree, [f"key {number}" for number in range(400)])
    assert budget.spilled_bytes == 0
    holding = memory.hold()
    holding.resize(60_000 - budget.used_bytes + 1)
    assert budget.spilled_bytes > 0
    assert budget.used_bytes <= 60_000
    assert len(counts(tree)) == 400
    check(tree)


class RecordedLock:
    """A lock that writes down who took it."""

    def __init__(self, name: str, taken: list[str]) -> None:
        self._lock, self._name, self._taken = threading.RLock(), name, taken

    def __enter__(self) -> None:
        self._lock.acquire()
        self._taken.append(self._name)

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._lock.release()


def test_two_trees_are_locked_in_one_order_whichever_is_merged_into_the_other() -> None:
    """Each took its own argument's lock first: two threads that merged two trees into each other waited forever."""
    taken: list[str] = []
    one, two = (Tree([Kind.STRING], [StateKind.COUNT]) for _ in range(2))
    one.lock = RecordedLock("one", taken)  # type: ignore[assignment]
    two.lock = RecordedLock("two", taken)  # type: ignore[assignment]
    one.merge(two)
    assert taken[:2] == ["one", "two"]
    taken.clear()
    two.merge(one)
    assert taken[:2] == ["one", "two"]


def test_threads_merge_trees_into_each_other() -> None:
    trees = [Tree([Kind.STRING], [StateKind.COUNT], Options.tiny()) for _ in range(2)]
    for tree in trees:
        counted(tree, [f"key {number}" for number in range(20)])

    def merge(to: Tree, other: Tree) -> None:
        for _ in range(20):
            to.merge(other)

    pairs = [(trees[0], trees[1]), (trees[1], trees[0])]
    threads = [threading.Thread(target=merge, args=pair, daemon=True) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the threads wait for each other"
    for tree in trees:
        assert len(set(counts(tree).values())) == 1
        check(tree)


def test_threads_make_trees_while_others_ask_them_to_give_way() -> None:
    """The set of trees changed while another thread went through it."""
    budget = Budget(BudgetOptions(memory_max=1, compress_share=0.0, spill_share=1.0))
    kept = [Tree([Kind.STRING], [], Options.tiny(), budget) for _ in range(300)]
    stop = threading.Event()

    def make() -> None:
        while not stop.is_set():
            kept.append(Tree([Kind.STRING], [], Options.tiny(), budget))
            del kept[300:-20]

    thread = threading.Thread(target=make, daemon=True)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(300):
            budget.relieve_at = 0
            budget.make_room()
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        thread.join(PATIENCE_S)


def test_a_small_tree_gives_its_table_away() -> None:
    budget = Budget(BudgetOptions(memory_max=1 << 20))
    tree = Tree([Kind.STRING], [StateKind.COUNT], Options.tiny(), budget)
    counted(tree, ["a", "b", "a"])
    used = budget.used_bytes
    table = tree.take_table()
    assert table is not None
    assert table.keys()[0].to_list() == ["a", "b"]
    assert budget.used_bytes < used
    assert counts(tree) == {}
    counted(tree, [f"key {number}" for number in range(100)])
    assert tree.take_table() is None
    assert len(counts(tree)) == 100


def test_a_packed_tree_shares_its_groups_with_those_it_is_merged_into() -> None:
    budget = Budget()
    packed, small = (Tree([Kind.STRING], [StateKind.COUNT], budget=budget) for _ in range(2))
    counted(packed, [f"key {number}" for number in range(1000)])
    counted(small, ["key 1"])
    packed.pack(1000)
    small.pack(1000)
    assert packed.root is not None
    assert small.root is None
    used = budget.used_bytes
    small.merge(packed)
    assert budget.used_bytes - used < 4096
    assert sum(counts(small).values()) == 1001

"""The tree by itself: small panes, order, limits, budgets, disks, and answers that are refused when groups are lost."""

from __future__ import annotations

import errno
import gc
import os
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from cbt.aggregate import Finish, StateKind
from cbt.budget import Budget, Ledger
from cbt.check import check
from cbt.distinct import DistinctCounts
from cbt.errors import CbtError, InvariantError, MemoryCapError, RunError, SpillError
from cbt.node import Inner, leaves, runs
from cbt.options import BudgetOptions, Options
from cbt.tree import Tree
from cython_ext.column import Column, Selection
from cython_ext.groups import GroupTable
from job.types import Kind

SMALL = Options(table_bytes_max=2000, block_bytes=1000, slice_bytes=500, leaf_bytes_max=8000, fanout_max=8)


def tree_of(budget: Budget | None = None, options: Options | None = None) -> Tree:
    return Tree([Kind.STRING], [StateKind.COUNT, StateKind.SUM], options or Options.tiny(), budget)


def feed(tree: Tree, keys: Iterable[object], value: int = 1) -> None:
    names = [f"key {key}" for key in keys]
    values = Column.from_list(Kind.BIGINT, [value], True, len(names))
    tree.update([Column.from_list(Kind.STRING, names)], [None, values], [None, None], len(names))


def feed_on_and_on(tree: Tree, steps: list[int]) -> None:
    """A hundred new groups at a time, until something breaks; `steps` gets an element for each time."""
    for start in range(0, 100_000, 100):
        steps.append(start)
        feed(tree, range(start, start + 100))


def counts(tree: Tree) -> dict[str, int]:
    found: dict[str, int] = {}
    for batch in tree.batches():
        keys = batch.keys()[0].to_list()
        values = batch.finish(0, Finish.COUNT)[0].to_list()
        assert len(batch) == len(keys)
        assert not found.keys() & set(keys)
        found.update(zip(keys, values, strict=True))
    return found


def test_a_small_tree_is_its_table() -> None:
    tree = tree_of(options=Options())
    feed(tree, range(300))
    table = GroupTable(tree.key_kinds, tree.state_kinds)
    assert tree.root is None
    assert tree.bytes_used == tree.table_bytes
    assert len(tree) == 300
    assert len(list(tree.batches())) == 1
    feed(tree, range(10))  # a snapshot does not freeze the tree
    assert sum(counts(tree).values()) == 310
    table.merge(next(tree.batches()).table)
    assert tree.bytes_used < 2 * table.bytes_used


def test_a_large_tree_has_every_part() -> None:
    tree = tree_of()
    for number in range(30):
        feed(tree, range(number * 20, number * 20 + 40))
    check(tree)
    stats = tree.stats()
    assert isinstance(tree.root, Inner)
    assert stats.depth > 2
    assert min(stats.counters.drains, stats.counters.flushes, stats.counters.merges, stats.counters.splits) > 5
    assert stats.counters.groups_written > 620
    assert stats.memory_bytes > 0 == stats.spilled_bytes
    assert stats.leaf_count == len(list(leaves(tree.root)))
    assert len(tree) == stats.group_count_max >= 620
    found = counts(tree)
    assert len(found) == 620
    assert sum(found.values()) == 1200


def test_batches_are_bounded_and_in_order() -> None:
    tree = tree_of()
    feed(tree, range(200))
    batches = list(tree.batches())
    assert all(1 <= len(batch) <= 5 for batch in batches)
    whole = tree_of(options=Options())
    feed(whole, range(200))
    [one] = list(whole.batches())
    keys = [key for batch in batches for key in batch.keys()[0].to_list()]
    assert keys == one.keys()[0].to_list()
    assert keys != sorted(keys)


def test_a_tree_without_keys_has_one_group() -> None:
    tree = Tree([], [StateKind.COUNT], Options.tiny())
    assert list(tree.batches()) == []
    tree.ensure_group()
    tree.ensure_group()
    tree.drain()
    tree.ensure_group()
    [batch] = tree.batches()
    assert batch.finish(0, Finish.COUNT)[0].to_list() == [0]
    tree.update([], [None], [None], 7)
    [batch] = tree.batches()
    assert batch.finish(0, Finish.COUNT)[0].to_list() == [7]


def test_selected_rows_only() -> None:
    tree = tree_of()
    keys = Column.from_list(Kind.STRING, [str(i) for i in range(1000)])
    values = Column.from_list(Kind.BIGINT, list(range(1000)))
    chosen = Selection.from_list(range(0, 1000, 3))
    tree.update([keys], [None, values], [None, None], 1000, chosen)
    assert set(counts(tree)) == {str(i) for i in range(0, 1000, 3)}


def test_trees_of_other_shapes_do_not_merge() -> None:
    tree = tree_of()
    with pytest.raises(ValueError, match="same keys"):
        tree.merge(tree)
    with pytest.raises(ValueError, match="same keys"):
        tree.merge(Tree([Kind.STRING], [StateKind.COUNT]))
    with pytest.raises(RunError):
        tree.insert_run(b"no run at all, but long enough to be looked at")
    assert len(tree) == 0


def test_clear_gives_everything_back() -> None:
    budget = Budget(BudgetOptions(memory_max=1 << 20))
    tree = tree_of(budget)
    empty = tree.bytes_used
    feed(tree, range(500))
    assert budget.used_bytes == tree.bytes_used > 10 * empty
    assert budget.tree_count == 1
    tree.clear()
    assert counts(tree) == {}
    assert budget.used_bytes == tree.bytes_used <= empty + 400
    feed(tree, range(5))
    assert len(tree) == 5
    tree.close()
    del tree
    gc.collect()
    assert budget.used_bytes == budget.tree_count == 0


def test_under_pressure_blocks_are_compressed() -> None:
    options = Options(table_bytes_max=20_000, block_bytes=4096, leaf_bytes_max=20_000)
    plain, packed = tree_of(options=options), tree_of(
        Budget(BudgetOptions(memory_max=10 << 20, compress_share=0.0, table_bytes_min=20_000)), options
    )
    for tree in (plain, packed):
        for start in range(0, 20_000, 500):
            feed(tree, range(start, start + 1000))
        check(tree)
    assert packed.stats().memory_bytes < 0.6 * plain.stats().memory_bytes
    assert packed.stats().counters.blocks_compressed > 50
    assert plain.stats().counters.blocks_compressed == 0
    assert counts(plain) == counts(packed)


def test_a_full_memory_without_a_disk_is_an_error_that_loses_nothing() -> None:
    budget = Budget(BudgetOptions(memory_max=60_000, table_bytes_min=512))
    tree, other = tree_of(budget), tree_of(budget)
    feed(other, range(50))
    steps: list[int] = []
    with pytest.raises(MemoryCapError, match="memory_max is 60,000"):
        feed_on_and_on(tree, steps)
    assert len(counts(tree)) == 100 * len(steps)
    check(tree)
    tree.close()
    feed(other, range(50))
    assert counts(other) == {f"key {i}": 2 for i in range(50)}


def spilled(tmp_path: Path, **changes: object) -> Budget:
    values: dict[str, object] = {
        "memory_max": 40_000, "table_bytes_min": 512, "compress_share": 0.2, "spill_share": 0.4,
        "spill_dir": str(tmp_path),
    }  # fmt: skip
    return Budget(BudgetOptions(**{**values, **changes}))  # type: ignore[arg-type]


def test_beyond_the_cap_blocks_go_to_disk(tmp_path: Path) -> None:
    budget = spilled(tmp_path, memory_max=300_000)
    options = Options(table_bytes_max=8000, block_bytes=8000, slice_bytes=4000, leaf_bytes_max=64_000)
    trees = [tree_of(budget, options) for _ in range(3)]
    peak = 0
    for start in range(0, 40_000, 400):
        for number, tree in enumerate(trees):
            feed(tree, range(start, start + 400 * (number + 1)))
            peak = max(peak, budget.used_bytes)
    assert sum(tree.stats().spilled_bytes for tree in trees) > 400_000
    for number, tree in enumerate(trees):
        check(tree)
        assert tree.stats().spilled_bytes > 0
        assert sum(counts(tree).values()) == 40_000 * (number + 1)
    assert peak < 330_000
    assert budget.spill_file is not None
    budget.spill_file.check()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_an_error_that_loses_nothing_and_stops_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = spilled(tmp_path)
    tree, other = tree_of(budget), tree_of(budget)
    feed(other, range(50))
    pwrite = os.pwrite
    room = [20_000]

    def narrow(number: int, data: bytes, offset: int) -> int:
        if offset + len(data) > room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(number, data, offset)

    monkeypatch.setattr(os, "pwrite", narrow)
    steps: list[int] = []
    with pytest.raises(SpillError, match="is full"):
        feed_on_and_on(tree, steps)
    assert len(counts(tree)) == 100 * len(steps)
    check(tree)
    tree.close()
    del tree
    gc.collect()
    feed(other, range(50))
    assert counts(other) == {f"key {i}": 2 for i in range(50)}
    room[0] = 1 << 30
    feed(other, range(10_000))
    check(other)
    assert len(counts(other)) == 10_000


def test_the_spill_limit_is_kept(tmp_path: Path) -> None:
    budget = spilled(tmp_path, spill_max=10_000)
    tree = tree_of(budget)
    with pytest.raises(SpillError, match="spill_max, 10,000 bytes"):
        feed_on_and_on(tree, [])
    assert budget.spill_file is not None
    assert budget.spill_file.length <= 10_000


def test_a_damaged_disk_is_noticed_and_the_tree_answers_no_more(tmp_path: Path) -> None:
    budget = spilled(tmp_path)
    tree = tree_of(budget)
    feed(tree, range(3000))
    assert budget.spill_file is not None
    os.pwrite(budget.spill_file._file, b"\xff" * budget.spill_file.length, 0)
    with pytest.raises(RunError):
        counts(tree)
    with pytest.raises(RunError):
        feed_on_and_on(tree, [])
    for action in (lambda: feed(tree, range(3)), lambda: counts(tree), lambda: list(tree.runs())):
        with pytest.raises(CbtError, match="groups of this tree were lost"):
            action()
    tree.clear()
    feed(tree, range(3))
    assert len(counts(tree)) == 3


def test_trees_of_several_threads_share_a_budget(tmp_path: Path) -> None:
    budget = spilled(tmp_path, memory_max=60_000)
    trees = [tree_of(budget) for _ in range(4)]
    problems: list[BaseException] = []

    def work(tree: Tree) -> None:
        try:
            for start in range(0, 4000, 100):
                feed(tree, range(start, start + 200))
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(tree,)) for tree in trees]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    for tree in trees:
        check(tree)
        assert sum(counts(tree).values()) == 8000


@pytest.mark.parametrize("damage", ["range", "order", "pending", "fanout", "charge"])
def test_checks_find_what_is_broken(damage: str) -> None:
    tree = tree_of()
    feed(tree, range(400))
    check(tree)
    assert isinstance(tree.root, Inner)
    leaf = next(leaf for leaf in leaves(tree.root) if len(leaf.base.blocks) > 1)
    if damage == "range":
        leaf.high -= 1 << 60
    elif damage == "order":
        leaf.base.blocks.reverse()
    elif damage == "pending":
        leaf.pending += [leaf.base] * 9
    elif damage == "fanout":
        tree.root.children *= 3
    else:
        tree.ledger.book(-tree.ledger.used_bytes)
    with pytest.raises(InvariantError):
        check(tree)


def test_runs_of_a_tree_are_compressed_and_bounded() -> None:
    tree = tree_of()
    feed(tree, range(500))
    encoded = list(tree.runs())
    assert len(encoded) > 5
    other = tree_of(options=Options())
    for run in encoded:
        other.insert_run(run)
    assert counts(other) == counts(tree)
    assert other.root is not None
    assert sum(run.groups for run in runs(other.root)) == 500


@pytest.mark.parametrize("options", [Options.tiny(), Options()])
def test_distinct_values_are_counted_by_group(options: Options) -> None:
    groups = Tree([Kind.STRING], [StateKind.COUNT], options)
    pairs = Tree([Kind.STRING, Kind.BIGINT], [], options)
    expected: dict[str, set[int]] = {}
    for number in range(20):
        names = [f"key {i * number % 37}" for i in range(60)]
        values = [i * i % 11 for i in range(60)]
        keys = Column.from_list(Kind.STRING, names)
        groups.update([keys], [None], [None], 60)
        counted = Selection.from_list([i for i in range(60) if names[i] != "key 0"])
        pairs.update([keys, Column.from_list(Kind.BIGINT, values)], [], [], 60, counted)
        for name, value in zip(names, values, strict=True):
            expected.setdefault(name, set()).update([value] if name != "key 0" else [])
    counts = DistinctCounts(pairs, 1)
    found: dict[str, int] = {}
    for batch in groups.batches():
        found.update(zip(batch.keys()[0].to_list(), counts.column(batch).to_list(), strict=True))
    assert found == {name: len(values) for name, values in expected.items()}


def test_distinct_values_of_groups_that_are_not_there() -> None:
    groups, pairs = Tree([Kind.STRING], [StateKind.COUNT]), Tree([Kind.STRING, Kind.BIGINT], [])
    feed_one = Column.from_list(Kind.STRING, ["a"])
    groups.update([feed_one], [None], [None], 1)
    for name in "abcdefgh":
        keys = Column.from_list(Kind.STRING, [name])
        pairs.update([keys, Column.from_list(Kind.BIGINT, [1])], [], [], 1)
    counts = DistinctCounts(pairs, 1)
    with pytest.raises(ValueError, match="not among the groups"):
        counts.column(next(groups.batches()))
    with pytest.raises(ValueError, match="of which 2 are keys"):
        DistinctCounts(pairs, 2)


def test_a_tree_whose_rows_are_half_in_answers_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tree_of()
    feed(tree, range(10))

    def no_memory() -> None:
        raise MemoryError("no memory to sort a table")

    monkeypatch.setattr(tree, "drain", no_memory)
    with pytest.raises(MemoryError):
        feed(tree, range(1000))
    monkeypatch.undo()
    with pytest.raises(CbtError, match="groups of this tree were lost: no memory"):
        counts(tree)


def test_rows_that_do_not_fit_change_nothing() -> None:
    tree = tree_of()
    feed(tree, range(10))
    with pytest.raises(ValueError, match="1 keys and 2 states"):
        tree.update([], [None, None], [None, None], 3)
    with pytest.raises(TypeError):
        tree.update([Column.from_list(Kind.BIGINT, [1])], [None, None], [None, None], 1)
    assert len(counts(tree)) == 10


def test_small_trees_go_on_when_a_large_one_has_filled_the_memory() -> None:
    budget = Budget(BudgetOptions(memory_max=60_000, table_bytes_min=512))
    large, small = tree_of(budget), tree_of(budget)
    with pytest.raises(MemoryCapError):
        feed_on_and_on(large, [])
    assert budget.used_bytes > 60_000
    feed(small, range(10))
    with pytest.raises(MemoryCapError):
        feed(large, range(10))
    large.close()
    feed(small, range(100))
    assert len(counts(small)) == 100


def test_a_tree_begins_with_its_share_of_the_cap() -> None:
    budget = Budget(BudgetOptions(memory_max=80_000, table_bytes_min=512))
    tree = tree_of(budget, Options())
    feed(tree, range(1000))
    assert tree.stats().counters.drains > 1
    assert tree.table_bytes < 40_000


def test_the_books_are_right_whatever_thread_frees_a_block() -> None:
    """Also one that is in the books already: Python frees objects of a cycle anywhere."""
    budget = Budget(BudgetOptions())
    tree, other = Ledger(budget), Ledger(budget)
    budget._lock.acquire()
    tree.charge(100)
    other.charge(-30)
    budget.count_trees(1)
    assert budget.used_bytes == 0
    budget._lock.release()
    assert (budget.used_bytes, tree.used_bytes, other.used_bytes, budget.tree_count) == (70, 100, -30, 1)
    threads = [threading.Thread(target=lambda: [tree.charge(n) for n in range(2000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.used_bytes == 70 + 4 * sum(range(2000))


def test_trees_may_be_made_while_another_thread_looks_for_room() -> None:
    budget = Budget(BudgetOptions())
    kept = [tree_of(budget) for _ in range(300)]
    problems: list[BaseException] = []
    stop = threading.Event()

    def look() -> None:
        try:
            while not stop.is_set():
                assert len(budget._all_tenants()) >= len(kept)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=look) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for _ in range(1000):
            tree_of(budget)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert problems == []


def pieces(count: int, groups: int = 100, same: bool = False) -> Iterable[bytes]:
    """Encoded runs, in blocks of 1,000 bytes."""
    for number in range(count):
        tree = tree_of(options=Options(block_bytes=1000))
        feed(tree, range(groups) if same else range(groups * number, groups * (number + 1)))
        yield from tree.runs()


@pytest.mark.parametrize(("same", "written_max"), [(False, 5500), (True, 8000)])
def test_groups_that_do_not_come_again_wait_to_be_merged(same: bool, written_max: int) -> None:
    """Merging them early would write each of them again and again, and free nothing."""
    tree = tree_of(options=Options(block_bytes=1000, leaf_bytes_max=32_000))
    most = 0
    for piece in pieces(40, same=same):
        tree.insert_run(piece)
        most = max(most, tree.bytes_used)
    assert sum(counts(tree).values()) == 4000
    assert tree.counters.merges >= (2 if same else 1)
    assert tree.counters.groups_written <= written_max  # 4,000 of them as they came
    if same:
        assert most < 12 * 2 * 1420  # of 40 pieces: what comes again is merged all the while
    check(tree)


def test_what_is_merged_is_not_in_memory_twice() -> None:
    budget = Budget()
    tree = tree_of(budget, Options(block_bytes=1000, leaf_bytes_max=1_000_000))
    for piece in pieces(4, 2000):
        tree.insert_run(piece)
    before = tree.bytes_used
    budget.peak_bytes = 0
    with tree.lock:
        tree._merge_leaf(next(leaves(tree.root)))  # type: ignore[arg-type]
    assert tree.counters.merges == 1
    assert budget.peak_bytes < 1.2 * before
    assert len(counts(tree)) == 8000

"""The compressed buffer tree: groups of any number under a memory cap.

A small hot table in front combines what comes often. When it is full it becomes a run, sorted by (hash, key), that
waits in the root. Inner nodes pass their runs on, merged and cut by hash range; leaves merge what waits into one
aggregated run, and split when that grows too large. Python decides about runs; kernels move groups. Runs are docs/RUN.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, pairwise
from threading import RLock
from typing import Any, NoReturn, Protocol

from cbt.budget import Budget, Ledger
from cbt.codec import expand
from cbt.errors import CbtError, SpillError
from cbt.node import HASH_END, Inner, Leaf, Node, depth, lanes, leaves, runs
from cbt.options import BudgetOptions, Options
from cbt.policy import Pressure, inner_cuts, inner_is_due, leaf_cuts, leaf_is_due, table_bytes
from cbt.run import Block, Run, opened, used_up
from cbt.stats import Counters, TreeStats
from cython_ext.column import Column, Selection
from cython_ext.groups import GroupTable
from cython_ext.merge import Merger, SortedTable
from cython_ext.run import RunShape, decode_run, encode_run

_numbers = count()
"""Of trees in the order of their making."""


class Stream(Protocol):
    """Groups in order, block by block (cython_ext/merge)."""

    def next_block(self, bytes_max: int, until: int | None = None) -> bytes | None: ...


class Batch:
    """Some groups of a snapshot, in order of (hash, key)."""

    __slots__ = ("table",)

    def __init__(self, table: GroupTable) -> None:
        self.table = table

    def __len__(self) -> int:
        return len(self.table)

    def keys(self) -> list[Column]:
        """The key columns."""
        return self.table.keys()

    def finish(
        self, state: int, how: int, parameter: float = 0.0, precision: int = 0, scale: int = 0
    ) -> tuple[Column, int]:
        """As `GroupTable.finish`."""
        return self.table.finish(state, how, parameter, precision, scale)


class Tree:
    """The groups of some keys with their states; may be used by several threads, one at a time."""

    def __init__(
        self,
        key_kinds: Sequence[int],
        state_kinds: Sequence[int],
        options: Options = Options(),  # noqa: B008 - frozen
        budget: Budget | None = None,
    ) -> None:
        """Raises ValueError for kinds that a GroupTable does not take. A tree that never outgrows its table is little more
        than the table."""
        self.options = options
        self.budget = budget or Budget(BudgetOptions(memory_max=None))
        self.ledger = Ledger(self.budget)
        self.lock = RLock()
        self._number = next(_numbers)
        self.counters = Counters()
        self.root: Node | None = None
        """None: all groups are in the table."""
        self._table = GroupTable(key_kinds, state_kinds)
        self._shape: RunShape | None = None
        self._table_charged = 0
        self._table_max = table_bytes(options, self.budget.options, self.budget.tree_count + 1)
        self._broken: BaseException | None = None
        self.budget.register(self)

    @contextmanager
    def _sound(self) -> Iterator[None]:
        """The lock, unless groups were lost: then nothing is done any more, for every answer would be wrong."""
        with self.lock:
            if self._broken is not None:
                self._refuse()
            yield

    def _refuse(self) -> NoReturn:
        raise CbtError(f"groups of this tree were lost: {self._broken}") from self._broken

    @contextmanager
    def _moving(self) -> Iterator[None]:
        """While runs are between nodes: whatever stops it, memory, the disk or the user, leaves the tree broken."""
        try:
            yield
        except BaseException as problem:
            self._broken = problem
            raise

    # rows and groups in

    def update(
        self,
        keys: Sequence[Column],
        inputs: Sequence[Column | None],
        masks: Sequence[Column | None],
        rows: int,
        selection: Selection | None = None,
    ) -> None:
        """Adds rows, as `GroupTable.update`. Raises MemoryCapError or SpillError when there is no room any more; the rows
        are in the tree then, too."""
        with self.lock:
            if self._broken is not None:
                self._refuse()
            try:
                self._update(keys, inputs, masks, rows, selection)
            except (TypeError, ValueError, IndexError):
                raise  # before anything changed, unless it came from runs that were being moved
            except BaseException as problem:
                self._broken = problem  # some rows are in, some are not
                raise
            if self.budget.used_bytes >= self.budget.relieve_at:
                self.budget.settle(self)

    def _update(
        self,
        keys: Sequence[Column],
        inputs: Sequence[Column | None],
        masks: Sequence[Column | None],
        rows: int,
        selection: Selection | None,
    ) -> None:
        total = rows if selection is None else len(selection)
        done = 0
        while True:
            done = self._table.update_until(keys, inputs, masks, rows, selection, done, self._table_max)
            self._charge_table()
            if self._table.entry_bytes >= self._table_max:
                self.drain()
            if done >= total:
                return

    def ensure_group(self) -> None:
        """Gives a tree without keys its only group, if it has none yet."""
        with self._sound():
            if len(self) == 0:
                self._table.ensure_group()

    def merge(self, other: Tree) -> None:
        """Adds the groups of `other`, which stays as it is. Blocks are shared, not copied."""
        kinds = self.key_kinds, self.state_kinds
        if other is self or kinds != (other.key_kinds, other.state_kinds):
            raise ValueError("only another tree of the same keys and states can be merged")
        # Always the older one's lock first: two threads may merge two trees into each other.
        first, second = (self, other) if self._number < other._number else (other, self)
        with first.lock, second.lock:
            if self._broken is not None:
                self._refuse()
            if other._broken is not None:
                other._refuse()
            found = [] if other.root is None else [Run(blocks) for blocks in lanes(other.root) if blocks]
            with self._moving():
                self._table.merge(other._table)
            self._charge_table()
            if self._table.entry_bytes >= self._table_max:
                self.drain()
            for run in found:
                self._insert(run)
            if self.budget.used_bytes >= self.budget.relieve_at:
                self.budget.settle(self)

    def insert_run(self, data: Any, bytes_max: int = 1 << 30, expanded_bytes_max: int = 1 << 30) -> None:
        """Adds the groups of an encoded run (docs/RUN.md) from outside, of at most `bytes_max` bytes, expanded of at most
        `expanded_bytes_max`.

        Raises RunError, before anything is added, unless it is a sound run of the same keys, states and seed.
        """
        with self._sound():
            blocks = decode_run(self.shape, data, expand, bytes_max, expanded_bytes_max=expanded_bytes_max)
            self._insert(Run(self._keep(block) for block in blocks))
            self.budget.settle(self)

    # groups out

    def batches(self, hash_from: int = 0, hash_to: int = HASH_END) -> Iterator[Batch]:
        """A snapshot: the groups with hashes in [hash_from, hash_to) as of now, in order of (hash, key), each exactly once.

        Changes of the tree afterwards do not show. One batch is in memory at a time, with a block for each run
        that takes part. O(groups).
        """
        merger = self.merger(hash_from, hash_to)
        until = None if hash_to >= HASH_END else hash_to
        return self._batches(merger, until)

    def _batches(self, merger: Merger, until: int | None) -> Iterator[Batch]:
        more = True
        while more:
            table = GroupTable(self._table.key_kinds, self._table.state_kinds, self._table.seed)
            more = merger.fill(table, self.options.batch_groups_max, self.options.batch_bytes_max, until)
            if len(table):
                yield Batch(table)

    def pack(self, groups_min: int) -> None:
        """Turns a table of `groups_min` groups or more into a run, which trees that merge this one then share instead of
        copying groups. O(groups log groups)."""
        with self._sound():
            if len(self._table) >= groups_min:
                self.drain()

    def take_table(self) -> GroupTable | None:
        """All groups as the table they are in, and the tree left empty; None when they have outgrown it. O(1).

        The fast way to read a small tree that is not needed any more. The table is no longer charged to the budget.
        """
        with self._sound():
            if self.root is not None:
                return None
            table = self._table
            self._table = GroupTable(table.key_kinds, table.state_kinds, table.seed)
            self._charge_table()
            return table

    def split(self, hash_from: int, hash_to: int) -> Tree:
        """A tree of the groups with hashes in [hash_from, hash_to); this one stays as it is."""
        part = Tree(self._table.key_kinds, self._table.state_kinds, self.options, self.budget)
        merger = self.merger(hash_from, hash_to)
        with part._sound():
            blocks = part._take(merger, None if hash_to >= HASH_END else hash_to)
            if blocks:
                part._insert(Run(blocks))
            part.budget.settle(part)
        return part

    def runs(self) -> Iterator[bytes]:
        """A snapshot as encoded runs of bounded size, compressed, in order of hash."""
        return self._runs(self.merger(0, HASH_END), None)

    def runs_by(self, ends: Sequence[int]) -> Iterator[list[bytes]]:
        """The same, cut where hashes reach each of `ends`, which ascend: as many lists of runs. O(groups)."""
        merger = self.merger(0, HASH_END)
        for end in ends:
            yield list(self._runs(merger, None if end >= HASH_END else end))

    def _runs(self, merger: Merger, until: int | None) -> Iterator[bytes]:
        blocks: list[bytes] = []
        size = 0
        while (data := merger.next_block(self.options.block_bytes, until)) is not None:
            block = Block(data, self.ledger)
            block.compress(self.shape)
            blocks.append(block.stored())
            size += len(data)
            if size >= self.options.batch_bytes_max:
                yield encode_run(self.shape, blocks)
                blocks, size = [], 0
        if blocks:
            yield encode_run(self.shape, blocks)

    def __len__(self) -> int:
        """Groups: exact while all are in the table, else no more than this, for runs may share some. O(runs)."""
        held = len(self._table)
        return held if self.root is None else held + sum(run.groups for run in runs(self.root))

    @property
    def bytes_used(self) -> int:
        """Memory of tables and blocks. O(1)."""
        return self.ledger.used_bytes

    @property
    def table_bytes(self) -> int:
        """What of it the hot table takes."""
        return self._table_charged

    @property
    def shape(self) -> RunShape:
        if self._shape is None:
            self._shape = RunShape(GroupTable(self._table.key_kinds, self._table.state_kinds))
        return self._shape

    @property
    def key_kinds(self) -> tuple[int, ...]:
        return self._table.key_kinds

    @property
    def state_kinds(self) -> tuple[int, ...]:
        return self._table.state_kinds

    def stats(self) -> TreeStats:
        with self.lock:
            every = [] if self.root is None else list(runs(self.root))
            blocks = [block for run in every for block in run.blocks]
            return TreeStats(
                counters=replace(self.counters),
                group_count_max=len(self),
                depth=0 if self.root is None else depth(self.root),
                leaf_count=0 if self.root is None else sum(1 for _ in leaves(self.root)),
                run_count=sum(1 for run in every if run.blocks),
                table_bytes=self._table.bytes_used,
                memory_bytes=sum(block.memory_bytes for block in blocks),
                spilled_bytes=sum(block.spilled_bytes for block in blocks),
            )

    def clear(self) -> None:
        """Removes all groups and gives their memory back."""
        with self.lock:
            if self.root is not None:
                self.budget.count_trees(-1)
            self.root = None
            self._broken = None
            self._table.clear(keep_memory=False)
            self._charge_table()

    def close(self) -> None:
        """As `clear`; a tree that is dropped needs no close."""
        self.clear()

    def __del__(self) -> None:
        if getattr(self, "root", None) is not None:
            self.budget.count_trees(-1)
        if getattr(self, "_table_charged", 0):
            self.ledger.charge(-self._table_charged)

    # the table

    def _charge_table(self) -> None:
        size = self._table.bytes_used
        if size != self._table_charged:
            self.ledger.charge(size - self._table_charged)
            self._table_charged = size

    def drain(self) -> None:
        """Turns the hot table into a run, and the table empty. The lock is held."""
        if not len(self._table):
            return
        with self._moving():
            self._drain()

    def _drain(self) -> None:
        self.counters.drains += 1
        stream = SortedTable(self.shape, self._table)
        root = self.root
        if isinstance(root, Inner) and self._passes_at_once(root):
            self._pass_on(root, stream)
            self._empty_table()
            self._grow_root()
            return
        blocks = self._take(stream, None)
        self._empty_table()
        self._insert(Run(blocks))

    def _passes_at_once(self, root: Inner) -> bool:
        """Whether the table alone is as large as what the root would wait for."""
        packed = self._table.entry_bytes // 2
        return not root.pending and inner_is_due(self.options, packed, 1, len(root.children))

    def _empty_table(self) -> None:
        self._table_max = table_bytes(self.options, self.budget.options, self.budget.tree_count)
        self._table.clear(keep_memory=self._table.bytes_used <= 4 * self._table_max)
        self._charge_table()

    # runs

    def _keep(self, data: bytes) -> Block:
        """A block of ours, in the form that the memory left asks for."""
        block = Block(data, self.ledger)
        self.counters.groups_written += block.groups
        level = self.budget.pressure
        if level is not Pressure.CALM:
            self._compress_block(block)
            if level is Pressure.FULL and self.budget.spill_file is not None:
                self._spill_block(block)
        return block

    def _take(self, stream: Stream, until: int | None) -> list[Block]:
        blocks = []
        while (data := stream.next_block(self.options.block_bytes, until)) is not None:
            blocks.append(self._keep(data))
        return blocks

    def merger(self, hash_from: int, hash_to: int) -> Merger:
        """A snapshot as a stream of groups in order: those with hashes from `hash_from` on. Some from `hash_to` on may be
        among them: readers stop there."""
        with self._sound():
            sources = self._sources(hash_from, hash_to)
        merger = Merger(self.shape, sources if hash_from < HASH_END else [])
        if 0 < hash_from < HASH_END:
            merger.skip_until(hash_from)
        return merger

    def _sources(self, hash_from: int, hash_to: int) -> list[Any]:
        sources: list[Any] = []
        if len(self._table):
            stream = SortedTable(self.shape, self._table)
            table: list[bytes] = []
            while (data := stream.next_block(self.options.block_bytes)) is not None:
                table.append(data)
            sources.append(table)
        if self.root is not None:
            for lane in lanes(self.root):
                blocks = [block for block in lane if block.last >= hash_from and block.first < hash_to]
                if blocks:
                    sources.append(opened(self.shape, blocks))
        return sources

    def _insert(self, run: Run) -> None:
        """Gives a run to the root."""
        if self.root is None:
            self.root = Leaf(0, HASH_END)
            self.budget.count_trees(1)
        with self._moving():
            self.root.pending.append(run)
            self._settle(self.root)
            self._grow_root()

    def _grow_root(self) -> None:
        root = self.root
        if isinstance(root, Leaf):
            parts: list[Node] = [*self._split_leaf(root)]
        elif isinstance(root, Inner):
            parts = [*self._split_inner(root)]
        else:
            return
        while len(parts) > 1:
            self.root = Inner(parts)
            parts = [*self._split_inner(self.root)]

    def _settle(self, node: Node) -> None:
        """Passes on or merges what waits in a node, if it is time to. Splits are left to the caller."""
        options = self.options
        if isinstance(node, Inner):
            if inner_is_due(options, node.pending_bytes, len(node.pending), len(node.children)):
                waiting, node.pending = node.pending, []
                self._pass_on(node, self._merger_of(waiting))
            return
        if not node.base.blocks and len(node.pending) == 1:
            node.base = node.pending.pop()
        if leaf_is_due(
            options, node.base.raw_bytes, node.pending_bytes, len(node.pending), node.base.spilled, node.kept
        ):
            self._merge_leaf(node)

    def _merge_leaf(self, leaf: Leaf) -> None:
        merged = [leaf.base, *leaf.pending]
        groups = sum(run.groups for run in merged)
        base = Run(self._take(self._merger_of(merged), None))
        leaf.base, leaf.pending, leaf.kept = base, [], base.groups / max(groups, 1)
        self.counters.merges += 1

    def _merger_of(self, runs: Sequence[Run]) -> Merger:
        """Runs that nobody needs any more as one stream."""
        return Merger(self.shape, [used_up(self.shape, run.blocks) for run in runs])

    def _pass_on(self, inner: Inner, stream: Stream) -> None:
        """Cuts a stream over the children, each of which settles what it got."""
        self.counters.flushes += 1
        children: list[Node] = []
        for child in inner.children:
            blocks = self._take(stream, None if child is inner.children[-1] else child.high)
            if blocks:
                child.pending.append(Run(blocks))
                self._settle(child)
            children += self._split_leaf(child) if isinstance(child, Leaf) else self._split_inner(child)
        inner.children = children

    def _split_leaf(self, leaf: Leaf) -> list[Leaf]:
        blocks = leaf.base.blocks
        cuts = leaf_cuts(self.options, [block.raw_bytes for block in blocks])
        if not cuts:
            return [leaf]
        if leaf.pending:
            self._merge_leaf(leaf)
            blocks = leaf.base.blocks
            cuts = leaf_cuts(self.options, [block.raw_bytes for block in blocks])
        bounds = [leaf.low, *(blocks[cut].first for cut in cuts), leaf.high]
        starts = [0, *cuts, len(blocks)]
        self.counters.splits += len(cuts)
        return [
            Leaf(bounds[i], bounds[i + 1], Run(blocks[starts[i] : starts[i + 1]]), leaf.kept)
            for i in range(len(cuts) + 1)
        ]

    def _split_inner(self, inner: Inner) -> list[Inner]:
        cuts = inner_cuts(self.options, len(inner.children))
        if not cuts:
            return [inner]
        if inner.pending:
            waiting, inner.pending = inner.pending, []
            self._pass_on(inner, self._merger_of(waiting))
            cuts = inner_cuts(self.options, len(inner.children))
        starts = [0, *cuts, len(inner.children)]
        self.counters.splits += len(cuts)
        return [Inner(inner.children[a:b]) for a, b in pairwise(starts)]

    # giving way

    def compress(self, enough: Callable[[], bool]) -> None:
        """Compresses blocks until it is enough. The lock is held."""
        if self.root is None:
            return
        for run in runs(self.root):
            for block in run.blocks:
                if not block.settled:
                    self._compress_block(block)
                    if enough():
                        return

    def spill(self, enough: Callable[[], bool]) -> None:
        """Moves blocks to disk until it is enough, those of leaves first. The lock is held."""
        if self.root is None:
            return
        for run in runs(self.root):
            for block in run.blocks:
                if block.memory_bytes:
                    self._compress_block(block)
                    self._spill_block(block)
                    if enough() or self.budget.refused is not None:
                        return

    def _compress_block(self, block: Block) -> None:
        self.counters.blocks_compressed += block.compress(self.shape)

    def _spill_block(self, block: Block) -> None:
        # What the disk refuses stays in memory; the budget says so once that is full.
        if self.budget.spill_file is not None:
            try:
                block.spill(self.budget.spill_file)
            except SpillError as problem:
                self.budget.refused = str(problem)  # the error itself would keep this tree alive
            else:
                self.counters.blocks_spilled += 1
                self.budget.refused = None

"""count(DISTINCT x) over trees: a tree over (keys, x) holds each pair once, and its groups are counted by keys.

Pairs lie in order of their own hash, not of their keys'. So they are counted into another tree, over the keys alone, whose
groups then come in the same order as those of the tree they belong to.
"""

from __future__ import annotations

from cbt.aggregate import StateKind
from cbt.node import HASH_END
from cbt.tree import Batch, Tree
from cython_ext.column import Column
from cython_ext.groups import GroupTable
from cython_ext.merge import counts_in_order, last_hash, partitions_of
from cython_ext.order import split_rows


class DistinctCounts:
    """How many pairs each group has, for the batches of one snapshot in their order.

    `pairs` has the keys of the groups first, then the distinct arguments; pairs whose first argument is NULL do not
    count, and no other argument is NULL, for such rows are left out before. O(pairs), in memory of the same budget.
    """

    def __init__(self, pairs: Tree, key_count: int) -> None:
        """Counts the pairs as of now. Raises ValueError unless there is an argument behind `key_count` keys."""
        if not 0 <= key_count < len(pairs.key_kinds):
            raise ValueError(f"{len(pairs.key_kinds)} columns of pairs, of which {key_count} are keys")
        self._counts = Tree(pairs.key_kinds[:key_count], [StateKind.COUNT], pairs.options, pairs.budget)
        for batch in pairs.batches():
            columns = batch.keys()
            self._counts.update(columns[:key_count], [columns[key_count]], [None], len(batch))
        self._merger = self._counts.merger(0, HASH_END)

    def column(self, batch: Batch) -> Column:
        """BIGINT, never NULL: for each group of the next batch its number of pairs. O(groups).

        Raises ValueError when there are pairs of a group that is in no batch.
        """
        counts = GroupTable(self._counts.key_kinds, self._counts.state_kinds)
        end = last_hash(batch.table) + 1
        self._merger.fill(counts, 1 << 62, 1 << 62, None if end >= HASH_END else end)
        return counts_in_order(batch.table, counts)


def by_partition(pairs: Tree, key_count: int, partitions: int) -> list[Tree]:
    """The pairs of the groups of each partition: those of one group stay together. O(pairs).

    Raises MemoryCapError or SpillError when there is no room for them twice.
    """
    parts = [Tree(pairs.key_kinds, pairs.state_kinds, pairs.options, pairs.budget) for _ in range(partitions)]
    for batch in pairs.batches():
        columns = batch.keys()
        for partition, rows in split_rows(partitions_of(batch.table, key_count, partitions)):
            parts[partition].update(columns, [], [], len(batch), rows)
    return parts

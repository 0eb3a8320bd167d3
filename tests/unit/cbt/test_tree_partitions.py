"""Trees divided by the hash of groups: runs cut at a hash, and pairs that stay with their group."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbt.aggregate import StateKind
from cbt.distinct import by_partition
from cbt.node import HASH_END
from cbt.options import Options
from cbt.tree import Tree
from cython_ext.column import Column
from cython_ext.groups import GroupTable
from cython_ext.hashing import key_hash
from cython_ext.merge import PARTITIONS_LIMIT, partitions_of
from job.types import Kind

BIGINT, STRING, DECIMAL, BOOLEAN = int(Kind.BIGINT), int(Kind.STRING), int(Kind.DECIMAL), int(Kind.BOOLEAN)


def ends_of(partitions: int) -> list[int]:
    return [-(-HASH_END * (number + 1) // partitions) for number in range(partitions)]


def tree_of(numbers: list[int]) -> Tree:
    tree = Tree([BIGINT], [int(StateKind.COUNT)], Options.tiny())
    for at in range(0, len(numbers), 50):
        some = numbers[at : at + 50]
        tree.update([Column.from_list(BIGINT, some)], [None], [None], len(some))
    return tree


def rows(tree: Tree) -> list[tuple[Any, ...]]:
    found = []
    for batch in tree.batches():
        columns = batch.keys()
        found += list(zip(*[column.to_list() for column in columns], strict=True))
    return found


@settings(deadline=None)
@given(st.lists(st.integers(0, 1000), max_size=400), st.integers(1, 9))
def test_runs_are_cut_where_the_hash_reaches_an_end(numbers: list[int], partitions: int) -> None:
    tree = tree_of(numbers)
    low = 0
    for end, runs in zip(ends_of(partitions), tree.runs_by(ends_of(partitions)), strict=True):
        part = Tree([BIGINT], [int(StateKind.COUNT)])
        for run in runs:
            part.insert_run(run)
        assert rows(part) == rows(tree.split(low, end))
        low = end
    assert list(tree.runs()) == next(tree.runs_by([HASH_END]))


KEYS = st.tuples(
    st.one_of(st.none(), st.text(max_size=20)),
    st.one_of(st.none(), st.booleans()),
    st.one_of(st.none(), st.integers(-(10**20), 10**20)),
)


@settings(deadline=None)
@given(st.lists(st.tuples(KEYS, st.integers(0, 3)), min_size=1, max_size=60), st.integers(1, 64))
def test_pairs_stay_with_their_group(lines: list[tuple[Any, int]], partitions: int) -> None:
    """Whatever the kinds of its keys: the partition is that of the group's own hash."""
    kinds = [STRING, BOOLEAN, DECIMAL]
    columns = [
        Column.from_list(kind, [line[0][n] for line in lines]) for n, kind in enumerate(kinds)
    ]
    values = Column.from_list(BIGINT, [line[1] for line in lines])
    groups, pairs = Tree(kinds, [int(StateKind.COUNT)]), Tree([*kinds, BIGINT], [], Options.tiny())
    groups.update(columns, [None], [None], len(lines))
    pairs.update([*columns, values], [], [], len(lines))
    parts = by_partition(pairs, 3, partitions)
    low = 0
    for end, part in zip(ends_of(partitions), parts, strict=True):
        own = {repr(row) for row in rows(groups.split(low, end))}
        assert {repr(row[:3]) for row in rows(part)} == own
        low = end
    assert sorted(map(repr, rows(pairs))) == sorted(repr(row) for part in parts for row in rows(part))


def test_the_partition_of_a_group_is_its_share_of_all_hashes() -> None:
    table = GroupTable([STRING], [])
    words = [f"w{number}" for number in range(200)]
    table.update([Column.from_list(STRING, words)], [], [], len(words))
    hashes = [key_hash(bytes([len(word) + 1]) + word.encode()) for word in words]
    assert partitions_of(table, 1, 7).to_list() == [one * 7 >> 64 for one in hashes]
    assert set(partitions_of(table, 0, 7).to_list()) == {key_hash(b"") * 7 >> 64}
    for keys, partitions in ((2, 7), (-1, 7), (1, 0), (1, PARTITIONS_LIMIT + 1)):
        with pytest.raises(ValueError, match="partitions by"):
            partitions_of(table, keys, partitions)

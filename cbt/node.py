"""Nodes of a tree: hash ranges with the runs that wait in them. Shape only; cbt/tree.py moves groups between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cbt.run import Block, Run

HASH_END = 1 << 64
"""One past the greatest hash."""


class Leaf:
    """The groups with hashes in [low, high): one aggregated run, and runs that wait to be merged into it."""

    __slots__ = ("base", "high", "kept", "low", "pending")

    def __init__(self, low: int, high: int, base: Run | None = None, kept: float = 0.0) -> None:
        self.low, self.high = low, high
        self.base = base or Run()
        self.kept = kept
        """The share of groups that its last merge left; 0 before the first."""
        self.pending: list[Run] = []

    @property
    def pending_bytes(self) -> int:
        return sum(run.raw_bytes for run in self.pending)


class Inner:
    """Children whose ranges follow one another from low to high, and runs that wait to be passed on to them."""

    __slots__ = ("children", "high", "low", "pending")

    def __init__(self, children: Sequence[Node]) -> None:
        self.low: int = children[0].low
        self.high: int = children[-1].high
        self.children: list[Node] = list(children)
        self.pending: list[Run] = []

    @property
    def pending_bytes(self) -> int:
        return sum(run.raw_bytes for run in self.pending)


Node = Leaf | Inner


def leaves(node: Node) -> Iterator[Leaf]:
    """The leaves below a node in order of hash."""
    if isinstance(node, Leaf):
        yield node
    else:
        for child in node.children:
            yield from leaves(child)


def inners(node: Node) -> Iterator[Inner]:
    """The inner nodes from `node` down, each before its children."""
    if isinstance(node, Inner):
        yield node
        for child in node.children:
            yield from inners(child)


def depth(node: Node) -> int:
    """Levels of nodes."""
    return 1 + (depth(node.children[0]) if isinstance(node, Inner) else 0)


def runs(node: Node) -> Iterator[Run]:
    """All runs, those of leaves first: in the order in which they go to disk."""
    every = list(leaves(node))
    for leaf in every:
        yield leaf.base
    for leaf in every:
        yield from leaf.pending
    for inner in inners(node):
        yield from inner.pending


def lanes(node: Node) -> Iterator[list[Block]]:
    """All blocks as few ascending sequences: runs of different leaves do not overlap, so the first runs of all leaves make
    one, the second ones another. A reader merges as many lanes as the fullest leaf has runs."""
    for inner in inners(node):
        for run in inner.pending:
            yield list(run.blocks)
    every = list(leaves(node))
    yield [block for leaf in every for block in leaf.base.blocks]
    for number in range(max(len(leaf.pending) for leaf in every)):
        yield [
            block
            for leaf in every
            if number < len(leaf.pending)
            for block in leaf.pending[number].blocks
        ]

"""The invariants of a tree, as a method: tests end with it."""

from __future__ import annotations

from cbt.errors import InvariantError
from cbt.node import HASH_END, Inner, Leaf, Node
from cbt.run import Run
from cbt.tree import Tree
from cython_ext.run import check_block


def check(tree: Tree) -> None:
    """Raises InvariantError unless the tree is sound; RunError or SpillError for blocks that are not. O(bytes).

    Holds: ranges of children follow one another and cover their parent's; every run ascends and stays in its node's
    range; leaves and inner nodes keep to the limits of the options; blocks are what they say; the ledger is the sum.
    """
    with tree.lock:
        tree._table.check()
        if tree.root is not None:
            if (tree.root.low, tree.root.high) != (0, HASH_END):
                raise InvariantError(f"the root covers {tree.root.low:#x} to {tree.root.high:#x}")
            _check_node(tree, tree.root)
        if tree.ledger.used_bytes < tree.table_bytes:
            raise InvariantError(f"{tree.ledger.used_bytes} bytes charged, of which the table {tree.table_bytes}")


def _check_node(tree: Tree, node: Node) -> None:
    for run in node.pending:
        _check_run(tree, run, node)
    if len(node.pending) > tree.options.pending_runs_max + 1:
        raise InvariantError(f"{len(node.pending)} runs wait in a node")
    if isinstance(node, Leaf):
        _check_run(tree, node.base, node)
        return
    _check_children(tree, node)
    for child in node.children:
        _check_node(tree, child)


def _check_children(tree: Tree, inner: Inner) -> None:
    bounds = [bound for child in inner.children for bound in (child.low, child.high)]
    inside = [*zip(bounds[1:-1:2], bounds[2::2], strict=True)]
    if bounds[0] != inner.low or bounds[-1] != inner.high or any(high != low for high, low in inside):
        raise InvariantError(f"the ranges of children do not cover {inner.low:#x} to {inner.high:#x}: {bounds}")
    if any(child.low >= child.high for child in inner.children):
        raise InvariantError("a child has an empty range")
    if not 1 <= len(inner.children) <= tree.options.fanout_max:
        raise InvariantError(f"an inner node has {len(inner.children)} children")
    if len({type(child) for child in inner.children}) != 1:
        raise InvariantError("leaves are not all on one level")


def _check_run(tree: Tree, run: Run, node: Node) -> None:
    last = -1
    for block in run.blocks:
        if not last < block.first <= block.last or not node.low <= block.first <= block.last < node.high:
            raise InvariantError(f"a block of {block.first:#x} to {block.last:#x} in a node from {node.low:#x}")
        last = block.last
        block.check(tree.shape)
        check_block(tree.shape, block.open(tree.shape))
    if run.groups != sum(block.groups for block in run.blocks):
        raise InvariantError(f"a run of {run.groups} groups has others")

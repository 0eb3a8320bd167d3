"""What a tree does when: pure decisions over sizes. Doing it is `cbt/tree.py` and `cbt/budget.py`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from cbt.options import BudgetOptions, Options


class Pressure(IntEnum):
    """How near the memory cap is."""

    CALM = 0
    """Memory to spare: blocks stay as they are, which is fastest."""
    TIGHT = 1
    """Blocks are compressed: new ones when they are made, old ones until half the cap is free again."""
    FULL = 2
    """Compressed blocks go to disk."""


SPILLED_RATIO = 1.2
"""Times a leaf's run that waits for it when it lies on disk: reading and writing it back costs more than waiting."""

KEPT_SHARE = 0.9
"""Of the groups of a merge: where so many are left, keys seldom come again, and merging early saves no memory."""

WAITING_LEAVES = 4
"""Times leaf_bytes_max that then waits for a leaf: each group is written about once instead of twice or more."""

SLACK_SHARE = 1 / 16
"""Of memory_max: what trees with less than the average may use beyond it."""


def pressure(options: BudgetOptions, used_bytes: int) -> Pressure:
    if options.memory_max is None or used_bytes < options.memory_max * options.compress_share:
        return Pressure.CALM
    return Pressure.TIGHT if used_bytes < options.memory_max * options.spill_share else Pressure.FULL


def relief_target(options: BudgetOptions, level: Pressure) -> int:
    """The bytes in use to go down to, at `level`: a little below where it begins, so that relief comes in pieces."""
    share = options.compress_share if level is Pressure.TIGHT else options.spill_share
    return int((options.memory_max or 0) * share * 0.9)


def refuse_at(options: BudgetOptions, used_bytes: int, tree_bytes: int, tree_count: int) -> float:
    """The bytes in use beyond which a tree of `tree_bytes`, one of `tree_count`, gets an error: small trees go on a little
    longer, so that the one which fills the memory gets it first."""
    slack = 0.0 if tree_bytes * tree_count >= used_bytes else SLACK_SHARE
    return (options.memory_max or 0) * (1 + slack)


def table_bytes(options: Options, budget: BudgetOptions, tree_count: int) -> int:
    """The entries a hot table may have: all tables together an eighth of the cap, their slots and slack as much again."""
    if budget.memory_max is None:
        return options.table_bytes_max
    fair = budget.memory_max // (8 * max(tree_count, 1))
    return min(options.table_bytes_max, max(fair, budget.table_bytes_min))


def inner_is_due(options: Options, pending_bytes: int, pending_count: int, child_count: int) -> bool:
    """Whether an inner node passes its runs on."""
    return pending_bytes >= options.slice_bytes * child_count or pending_count > options.pending_runs_max


def leaf_is_due(
    options: Options, base_bytes: int, pending_bytes: int, pending_count: int, base_spilled: bool, kept: float
) -> bool:
    """Whether a leaf merges what waits into its run; `kept` is the share of groups that its last merge left."""
    if pending_count > options.pending_runs_max:
        return True
    if kept >= KEPT_SHARE:
        return pending_bytes >= WAITING_LEAVES * options.leaf_bytes_max
    ratio = SPILLED_RATIO * options.pending_ratio if base_spilled else options.pending_ratio
    return pending_bytes >= max(options.leaf_bytes_max / 4, base_bytes * ratio)


def leaf_cuts(options: Options, block_bytes: Sequence[int]) -> list[int]:
    """Where a leaf with blocks of these sizes is cut: numbers of blocks that begin another leaf. Halves are left with room
    to grow; leaves that need no split give []."""
    total = sum(block_bytes)
    if total <= options.leaf_bytes_max:
        return []
    wanted = -(-total * 2 // options.leaf_bytes_max)
    cuts: list[int] = []
    seen = 0
    for number, size in enumerate(block_bytes):
        if number and seen * wanted >= total * (len(cuts) + 1):
            cuts.append(number)
        seen += size
    return cuts


def inner_cuts(options: Options, child_count: int) -> list[int]:
    """Where an inner node with this many children is cut: numbers of children that begin another node."""
    if child_count <= options.fanout_max:
        return []
    parts = -(-child_count * 2 // (options.fanout_max + 1))
    return [child_count * part // parts for part in range(1, parts)]

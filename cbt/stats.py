"""What a tree has done and holds: counters that only grow, and sizes as of now."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Counters:
    """What a tree has done since it was made."""

    drains: int = 0
    """Times the hot table was emptied into runs."""
    flushes: int = 0
    """Times an inner node passed its runs on."""
    merges: int = 0
    """Times a leaf merged what waited."""
    splits: int = 0
    """Nodes made by splitting."""
    groups_written: int = 0
    """Groups in blocks made, each time they were."""
    blocks_compressed: int = 0
    blocks_spilled: int = 0


@dataclass(frozen=True)
class TreeStats:
    """A tree as of now."""

    counters: Counters
    group_count_max: int
    """Groups, a group that lies in several runs counted in each."""
    depth: int
    leaf_count: int
    run_count: int
    table_bytes: int
    memory_bytes: int
    """Of blocks in memory."""
    spilled_bytes: int

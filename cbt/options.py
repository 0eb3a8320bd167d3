"""The sizes of a tree and of a memory budget: frozen, validated together, with presets."""

from __future__ import annotations

from dataclasses import dataclass

from cbt.errors import OptionsError

KIB = 1 << 10
MIB = 1 << 20


@dataclass(frozen=True)
class Options:
    """The sizes of one tree; the defaults are the preset for real work, `tiny` makes small inputs use every part.

    Bytes of runs are those of uncompressed blocks. docs/ARCHITECTURE.md says how the parts act together.
    """

    table_bytes_max: int = 16 * MIB
    """Entries of the hot table in front, which memory is taken for as they come; a cap of memory makes it smaller. What
    fits into it is never sorted, and what comes often is combined here."""
    block_bytes: int = 64 * KIB
    """Columns of one block: what is decompressed at once, per run that takes part in a merge."""
    slice_bytes: int = 32 * KIB
    """What an inner node waits for, per child, before it passes its runs on: smaller pieces cost more than they hold."""
    leaf_bytes_max: int = 8 * MIB
    """The aggregated run of a leaf; a larger one is split."""
    fanout_max: int = 256
    """Children of an inner node: 256 leaves are two gigabytes, so trees are two levels deep in practice. Many children are
    fine since merging costs one comparison per doubling of runs."""
    pending_runs_max: int = 48
    """Runs that wait in a node to be merged."""
    pending_ratio: float = 1.25
    """A leaf merges when as many bytes wait as this times its aggregated run: more writes groups less often, and holds
    more of them twice."""
    batch_groups_max: int = 64 * KIB
    """Groups of one batch of a snapshot."""
    batch_bytes_max: int = 2 * MIB
    """Bytes of one batch of a snapshot, and of one run for the wire."""

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {getattr(self, name)}, below {least}"
            for name, least in _LEAST.items()
            if getattr(self, name) < least
        ]
        if self.leaf_bytes_max < 2 * self.block_bytes:
            problems.append("leaf_bytes_max is below two blocks, so no leaf could be split")
        if not 0.0 < self.pending_ratio <= 16.0:
            problems.append(f"pending_ratio is {self.pending_ratio}, not in (0, 16]")
        if problems:
            raise OptionsError("; ".join(problems))

    @classmethod
    def tiny(cls) -> Options:
        """A few groups fill a table, a block, a leaf: for tests."""
        return cls(
            table_bytes_max=512,
            block_bytes=64,
            slice_bytes=64,
            leaf_bytes_max=256,
            fanout_max=3,
            pending_runs_max=3,
            pending_ratio=0.5,
            batch_groups_max=5,
            batch_bytes_max=1 * KIB,
        )


_LEAST = {
    "table_bytes_max": 1,
    "block_bytes": 1,
    "slice_bytes": 1,
    "leaf_bytes_max": 2,
    "fanout_max": 2,
    "pending_runs_max": 2,
    "batch_groups_max": 1,
    "batch_bytes_max": 1,
}


@dataclass(frozen=True)
class BudgetOptions:
    """The memory that all trees of a process share, and where they may go beyond it."""

    memory_max: int | None = 256 * MIB
    """Bytes of tables and blocks; None: no cap, and nothing is ever compressed."""
    compress_share: float = 0.7
    """Of memory_max: from here on blocks are compressed."""
    spill_share: float = 0.85
    """Of memory_max: from here on blocks go to disk. The rest is for merges under way."""
    spill_dir: str | None = None
    """A directory for one unnamed file; None: nothing goes to disk."""
    spill_max: int | None = None
    """Bytes on disk; None: what the disk has."""
    table_bytes_min: int = 64 * KIB
    """What a hot table keeps however many trees there are."""

    def __post_init__(self) -> None:
        problems = []
        if self.memory_max is not None and self.memory_max < 1:
            problems.append(f"memory_max is {self.memory_max}")
        if not 0.0 <= self.compress_share <= self.spill_share <= 1.0:
            problems.append(
                f"compress_share {self.compress_share} and spill_share {self.spill_share} do not ascend within [0, 1]"
            )
        if self.spill_max is not None and self.spill_max < 0:
            problems.append(f"spill_max is {self.spill_max}")
        if problems:
            raise OptionsError("; ".join(problems))

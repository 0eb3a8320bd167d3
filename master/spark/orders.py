"""What tasks of a backfill are told. Light: also executors without kernels know it."""

from __future__ import annotations

import msgspec

from job.formats import Format
from job.plan import Plan
from master.spark.splits import Split


class Job(msgspec.Struct, frozen=True):
    """A backfill, as its tasks know it."""

    plan: Plan
    format: Format
    is_per_window: bool
    """As a live job: the outer plans of nested ones see the rows of one window of the log at a time."""
    asked_us: tuple[int, int]
    """The windows of the log that are wanted: those that start in [first, end)."""
    memory_max: int
    spill_dir: str | None
    spill_max: int
    folder: str | None
    """The work folder, where there is one."""

    @property
    def chain(self) -> list[Plan]:
        """The plans that follow one another, each behind a shuffle: the first reads the log."""
        plans = [self.plan]
        while (inner := plans[0].inner) is not None:
            plans.insert(0, inner)
        return plans[:1] if self.is_per_window else plans


class SplitTask(msgspec.Struct, frozen=True, array_like=True):
    """The splits of one task, numbered from `first`; `name` is what its work is kept as."""

    name: str
    first: int
    splits: tuple[Split, ...]

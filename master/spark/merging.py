"""Behind the shuffle: the runs of one part merged, its windows finished as far as a part can. Pure.

Panes are merged by the kernels that vertices use, windows finished by the code that masters use. What leaves a part are
rows that may be in the result: groups that pass HAVING and, with LIMIT, are among the best of their hash range, with their
keys and aggregates. `WindowRows` has them as a run whose keys are all these columns, so rows travel in the format of groups.
`Joined` makes windows of the rows of all parts. For a plan in a subquery `StageMerge` passes the rows on to the row phase of
the plan around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from cbt.memory import Memory
from cbt.tree import Tree
from cython_ext.column import Column
from job.panes import PaneStore, StateShape
from job.plan import Plan
from job.row_phase import RowPhase
from master.kept_rows import Columns
from master.spark.partials import RUN_BYTES_MAX
from master.spark.records import PartCounts, WindowRows
from master.stages import Stages, fields_of, innermost
from master.windows import FinishedWindow, WindowFinisher, result_columns
from srt.frame_messages import PaneRun


class Merged(Protocol):
    """What `merged` needs of a finisher or of all stages."""

    @property
    def groups(self) -> int: ...
    @property
    def eval_errors(self) -> int: ...
    @property
    def overflow(self) -> int: ...


def store_of(plan: Plan, runs: Iterable[PaneRun], memory: Memory) -> PaneStore:
    """The panes that `runs` have together. O(groups log runs). Raises RunError for a damaged run, MemoryCapError,
    SpillError."""
    store = PaneStore(StateShape(plan), memory)
    for run in runs:
        state = store.pane(run.start_us)
        state.version += 1
        tree = state.groups if run.table == 0 else state.pairs[run.table - 1]
        tree.insert_run(run.run, RUN_BYTES_MAX, RUN_BYTES_MAX)
    return store


class FinalMerge:
    """A part of the outermost plan."""

    def __init__(self, plan: Plan, memory: Memory) -> None:
        self._plan, self._memory = plan, memory
        self._finisher = WindowFinisher(plan)

    def rows(self, runs: Iterable[PaneRun], starts: Iterable[int | None]) -> Iterator[WindowRows]:
        """The rows of the windows that start at `starts`, ascending. Raises as `store_of`."""
        store = store_of(self._plan, runs, self._memory)
        for start in starts:
            if start is not None:
                self._finisher.release_before(start)
            batches = self._finisher.best_rows(store, start, is_last=True)
            yield from _row_runs(self._plan, batches, start, self._memory)

    @property
    def counts(self) -> PartCounts:
        return _counts(self._finisher, self._finisher.eval_errors, self._memory)


class StageMerge:
    """A part of a plan whose rows another plan, `above`, reads."""

    def __init__(self, plan: Plan, above: Plan, memory: Memory) -> None:
        self._plan, self._memory = plan, memory
        self._finisher = WindowFinisher(plan)
        self.phase = RowPhase(above, memory)

    def reduce(self, runs: Iterable[PaneRun], starts: Iterable[int | None]) -> None:
        """Adds the rows of the windows that start at `starts`, ascending, to `phase`. Raises as `store_of`."""
        store = store_of(self._plan, runs, self._memory)
        for start in starts:
            if start is not None:
                self._finisher.release_before(start)
            for rows in self._finisher.unordered(store, start, is_last=True):
                self.phase.process(fields_of(rows), rows.rows)

    @property
    def counts(self) -> PartCounts:
        """The failures of `phase` are told with its panes."""
        return _counts(self._finisher, self._finisher.eval_errors, self._memory)


class WindowMerge:
    """A part of nested plans as a live job runs them: the outer plans see the rows of one window of the log at a time."""

    def __init__(self, plan: Plan, memory: Memory) -> None:
        self._plan, self._memory = plan, memory
        self._stages = Stages(plan, memory)
        self._finisher = WindowFinisher(plan)

    def rows(self, runs: Iterable[PaneRun], starts: Iterable[int | None]) -> Iterator[WindowRows]:
        """The rows of the windows that start at `starts`, ascending. Raises as `store_of`."""
        store = store_of(innermost(self._plan), runs, self._memory)
        for start in starts:
            if start is not None:
                self._stages.release_before(start)
            reduced = self._stages.reduced_window(store, start)
            batches = self._finisher.best_rows(reduced, None, is_last=True)
            yield from _row_runs(self._plan, batches, start, self._memory)

    @property
    def counts(self) -> PartCounts:
        counts = _counts(self._stages, self._stages.eval_errors + self._finisher.eval_errors, self._memory)
        counts.overflow += self._finisher.overflow
        return counts


def _counts(merged: Merged, eval_errors: int, memory: Memory) -> PartCounts:
    budget = memory.budget
    return PartCounts(merged.groups, eval_errors, merged.overflow, budget.peak_bytes, budget.spilled_bytes)


def _row_tree(plan: Plan, memory: Memory) -> Tree:
    """Of rows: all their columns are keys, and keys differ, so none are taken for the same."""
    return memory.tree([kind for _, kind in result_columns(plan)], [])


def _row_runs(
    plan: Plan, batches: Iterable[tuple[Columns, int]], start_us: int | None, memory: Memory
) -> Iterator[WindowRows]:
    tree = _row_tree(plan, memory)
    names = [name for name, _ in result_columns(plan)]
    for columns, rows in batches:
        if rows:
            tree.update([columns[name] for name in names], [], [], rows)
    for run in tree.runs():
        yield WindowRows(start_us, run)


class Joined:
    """The finished windows of a plan, from the rows of all its parts."""

    def __init__(self, plan: Plan, memory: Memory) -> None:
        self._plan, self._memory = plan, memory
        self._finisher = WindowFinisher(plan)
        source = innermost(plan).window
        self._is_per_window = plan.window is None
        self._size_us = 0 if source is None else source.size_us

    def window(self, start_us: int | None, runs: Iterable[bytes]) -> FinishedWindow:
        """The window that starts at `start_us`. O(rows log rows). Raises RunError, MemoryCapError, SpillError."""
        tree = _row_tree(self._plan, self._memory)
        for run in runs:
            tree.insert_run(run, RUN_BYTES_MAX, RUN_BYTES_MAX)
        start = None if self._is_per_window else start_us
        window = self._finisher.finish_rows(self._batches(tree), start, self._memory.hold())
        if start is None and start_us is not None:
            return window._replace(start_us=start_us, end_us=start_us + self._size_us)
        return window

    def _batches(self, tree: Tree) -> Iterator[tuple[Columns, int]]:
        names = [name for name, _ in result_columns(self._plan)]
        is_empty = True
        for batch in tree.batches():
            is_empty = False
            yield dict(zip(names, batch.keys(), strict=True)), len(batch)
        if is_empty:
            yield {name: Column.from_list(kind, []) for name, kind in result_columns(self._plan)}, 0

    @property
    def eval_errors(self) -> int:
        """Expressions that failed here and nowhere before: with LIMIT the parts have counted those of ORDER BY."""
        finisher = self._finisher
        return finisher.eval_errors if self._plan.limit is None else finisher.output_errors

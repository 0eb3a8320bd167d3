"""Blocks of columns through a plan into panes: the row phase of a job.

Pure: it is handed columns and changes only its own store. The agent drives one per job (and thread) with what the scan
delivers; the second stage of a nested query drives one with finished rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from cbt.memory import Memory
from cython_ext.column import Column
from cython_ext.exprs_time import pane_start
from cython_ext.order import split_rows
from job.evaluate import Evaluator
from job.panes import ENDLESS_PANE, PaneStore, StateShape
from job.plan import Plan
from job.window import pane_us


class RowPhase:
    """Runs WHERE, the keys and the inputs of `plan` over blocks and adds the rows to `store`."""

    def __init__(self, plan: Plan, memory: Memory | None = None) -> None:
        """`memory` is what the panes may take; without it there is no cap."""
        self.plan = plan
        self.shape = StateShape(plan)
        self.store = PaneStore(self.shape, memory or Memory())
        self.late = 0
        """Rows that came when their pane was closed, and were dropped."""
        self.filtered = 0
        """Rows of which WHERE was not true."""
        self.outside = 0
        """Rows in no pane that is kept: outside of `kept_us`, or without a time."""
        self.kept_us: tuple[int, int] | None = None
        """Panes that start in [first, end) are kept; None: all are."""
        self.over_us: int | None = None
        """Rows of other panes that start earlier are late: the plan that kept them is closed."""
        self.pane_rows: dict[int, int] = {}
        """Rows that went into each pane."""
        self._where = None if plan.where is None else Evaluator([plan.where])
        self._values = Evaluator(self.shape.expressions)
        self._pane_us = None if plan.window is None else pane_us(plan.window.size_us, plan.window.slide_us)

    def process(self, columns: Mapping[str, Column], rows: int) -> None:
        """Adds `rows` rows; `columns` has at least the plan's fields. Raises MemoryCapError or SpillError when the groups
        find no room any more."""
        if self._where is not None:
            chosen = self._where.run(columns, rows)[0].selection()
            if len(chosen) < rows:
                self.filtered += rows - len(chosen)
                columns = {field.name: columns[field.name].take(chosen) for field in self.plan.fields}
                rows = len(chosen)
        if rows == 0:
            return
        values = self._values.run(columns, rows)
        if self._pane_us is None or self.shape.time is None:
            if self._takes(ENDLESS_PANE, rows):
                self.store.pane(ENDLESS_PANE).update(self.shape, values, rows)
            return
        panes = pane_start(values[self.shape.time], self._pane_us)
        untimed = rows
        for start, selection in split_rows(panes):
            untimed -= len(selection)
            if self._takes(start, len(selection)):
                chosen_rows = None if len(selection) == rows else selection
                self.store.pane(start).update(self.shape, values, rows, chosen_rows)
        self.outside += untimed

    def _takes(self, start_us: int, rows: int) -> bool:
        """Whether the pane takes rows; they are counted either way."""
        closed_us = self.store.closed_before_us
        if self.kept_us is not None and not self.kept_us[0] <= start_us < self.kept_us[1]:
            self.leave_out(start_us, rows)
        elif closed_us is not None and start_us < closed_us:
            self.late += rows
        else:
            self.pane_rows[start_us] = self.pane_rows.get(start_us, 0) + rows
            return True
        return False

    def leave_out(self, start_us: int, rows: int) -> None:
        """Counts rows of a pane that is not kept."""
        if self.over_us is not None and start_us < self.over_us:
            self.late += rows
        else:
            self.outside += rows

    def take(self) -> PaneStore:
        """What was added since the last call, to be merged elsewhere; closed panes stay closed here. O(1)."""
        taken, self.store = self.store, PaneStore(self.shape, self.store.memory)
        if taken.closed_before_us is not None:
            self.store.close_before(taken.closed_before_us)
        return taken

    @property
    def eval_errors(self) -> int:
        """Row expressions that failed and became NULL."""
        return self._values.eval_errors + (0 if self._where is None else self._where.eval_errors)

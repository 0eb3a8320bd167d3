"""A plan and the plans nested in it, run one after the other. Pure.

The innermost plan reads the log; each outer one reads the finished rows of the one below, block by block, through the
same row phase and finisher.
"""

from __future__ import annotations

from collections.abc import Iterator

from cython_ext.column import Column
from job.panes import PaneStore
from job.plan import Plan
from job.row_phase import RowPhase
from job.types import Kind
from master.windows import FinishedWindow, WindowFinisher

WINDOW_PARTS = ("start", "end")
"""An inner output `w` of type WINDOW is read by the outer plan as the fields `w.start` and `w.end`."""


def innermost(plan: Plan) -> Plan:
    """The plan that reads the log."""
    return plan if plan.inner is None else innermost(plan.inner)


class Stages:
    """Finishes `plan` from the panes of its innermost plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._finisher = WindowFinisher(plan)
        self._inner = None if plan.inner is None else Stages(plan.inner)
        self._phase = None if plan.inner is None else RowPhase(plan)

    def finish(self, store: PaneStore) -> Iterator[FinishedWindow]:
        """The finished windows, oldest first; `store` is what the innermost row phase left."""
        if self._inner is None or self._phase is None:
            return self._finisher.finish(store)
        for window in self._inner.finish(store):
            self._phase.process(_fields(window), window.rows)
        return self._finisher.finish(self._phase.store)

    @property
    def source(self) -> Plan:
        """The plan that reads the log: its windows are those of the whole."""
        return innermost(self.plan)

    def finish_window(self, store: PaneStore, start_us: int | None) -> FinishedWindow:
        """One window while the panes of `store` still grow. Outer plans see the rows of this window alone."""
        if self._inner is None:
            return self._finisher.finish_window(store, start_us, growing=True)
        below = self._inner.finish_window(store, start_us)
        phase = RowPhase(self.plan)
        phase.process(_fields(below), below.rows)
        (above,) = self._finisher.finish(phase.store)
        return above._replace(start_us=below.start_us, end_us=below.end_us)

    @property
    def eval_errors(self) -> int:
        """Expressions over finished rows that failed and became NULL, in all stages."""
        below = 0 if self._inner is None else self._inner.eval_errors
        phase = 0 if self._phase is None else self._phase.eval_errors
        return below + phase + self._finisher.eval_errors

    @property
    def overflow(self) -> int:
        """Aggregates that left their type and became NULL, in all stages."""
        return (0 if self._inner is None else self._inner.overflow) + self._finisher.overflow


def _fields(window: FinishedWindow) -> dict[str, Column]:
    fields: dict[str, Column] = {}
    for output in window.columns:
        if output.type.kind is Kind.WINDOW:
            names = [f"{output.name}.{part}" for part in WINDOW_PARTS]
            fields.update(zip(names, output.columns, strict=True))
        else:
            fields[output.name] = output.columns[0]
    return fields

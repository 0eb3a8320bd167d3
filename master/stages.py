"""A plan and the plans nested in it, run one after the other. Pure.

The innermost plan reads the log; each outer one reads the finished rows of the one below, batch by batch, through the
same row phase and finisher. Their order does not matter to it, so without LIMIT they are never all in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from cbt.memory import Memory
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
    """Finishes `plan` from the panes of its innermost plan. Groups and rows of all stages share `memory`."""

    def __init__(self, plan: Plan, memory: Memory | None = None) -> None:
        self.plan = plan
        self._memory = memory or Memory()
        self._finisher = WindowFinisher(plan)
        self._inner = None if plan.inner is None else Stages(plan.inner, self._memory)
        self._phase = None if plan.inner is None else RowPhase(plan, self._memory)

    def finish(self, store: PaneStore) -> Iterator[FinishedWindow]:
        """The finished windows, oldest first; `store` is what the innermost row phase left, and is used up. Raises
        MemoryCapError, SpillError."""
        return self._finisher.finish(self._reduced(store))

    def _unordered(self, store: PaneStore) -> Iterator[FinishedWindow]:
        """The rows of all windows in any order, part by part."""
        return self._finisher.all_unordered(self._reduced(store))

    def _reduced(self, store: PaneStore) -> PaneStore:
        """The panes of this stage: what it makes of the rows of the stages below."""
        if self._inner is None or self._phase is None:
            return store
        for part in self._inner._unordered(store):
            self._phase.process(fields_of(part), part.rows)
        return self._phase.store

    @property
    def source(self) -> Plan:
        """The plan that reads the log: its windows are those of the whole."""
        return innermost(self.plan)

    def finish_window(self, store: PaneStore, start_us: int | None) -> FinishedWindow:
        """One window as it stands, while the panes of `store` still grow. Outer plans see the rows of this window alone."""
        if self._inner is None:
            return self._finisher.finish_window(store, start_us)
        (above,) = self._finisher.finish(self.reduced_window(store, start_us))
        window = self.source.window
        end_us = None if start_us is None or window is None else start_us + window.size_us
        return above._replace(start_us=start_us, end_us=end_us)

    def _unordered_window(self, store: PaneStore, start_us: int | None) -> Iterator[FinishedWindow]:
        if self._inner is None:
            return self._finisher.unordered(store, start_us)
        return self._finisher.all_unordered(self.reduced_window(store, start_us))

    def reduced_window(self, store: PaneStore, start_us: int | None) -> PaneStore:
        """The panes that the outermost of several plans makes of one window of the log."""
        assert self._inner is not None
        phase = RowPhase(self.plan, self._memory)
        for part in self._inner._unordered_window(store, start_us):
            phase.process(fields_of(part), part.rows)
        return phase.store

    def release_before(self, start_us: int) -> None:
        """Windows of the log that start earlier will not be asked for any more."""
        if self._inner is None:
            self._finisher.release_before(start_us)
        else:
            self._inner.release_before(start_us)

    @property
    def groups(self) -> int:
        """Groups of the plan that reads the log, summed over finished windows."""
        return self._finisher.groups if self._inner is None else self._inner.groups

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


def fields_of(window: FinishedWindow) -> dict[str, Column]:
    """The rows of a window as the plan above reads them: columns by field name."""
    fields: dict[str, Column] = {}
    for output in window.columns:
        if output.type.kind is Kind.WINDOW:
            names = [f"{output.name}.{part}" for part in WINDOW_PARTS]
            fields.update(zip(names, output.columns, strict=True))
        else:
            fields[output.name] = output.columns[0]
    return fields

"""Windows that close while the log grows: what to publish when, and as what. Pure.

A window is published as `final` once the watermark passes its end, as `tentative` before that when somebody watches. Lines
that come later, but within the allowed lateness, make a further edition of the final window; still later ones are dropped
by the row phase and counted `late`. Windows without rows are not published. (DESIGN: Time; Honest.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from cbt.memory import Memory
from job.errors import JobError
from job.panes import PaneStore
from job.plan import ColumnRef, Plan
from job.types import Kind
from job.window import open_pane, window_starts
from master.stages import WINDOW_PARTS, Stages, innermost
from master.windows import FinishedWindow

Status = Literal["tentative", "final"]


class Publication(NamedTuple):
    """A window as it stood: `edition` counts from 1 for each window and status `final`; 0 while tentative."""

    window: FinishedWindow
    edition: int
    status: Status


class LiveWindows:
    """Publishes the windows of one plan from a store that keeps growing.

    It owns when panes are closed; whoever drives it owns the watermark. Times are microseconds of event time.
    """

    def __init__(self, plan: Plan, lateness_us: int, memory: Memory | None = None) -> None:
        self.stages = Stages(plan, memory)
        self._window = self.stages.source.window
        _check_stages(plan)
        self._lateness_us = lateness_us
        self._published: dict[int, tuple[int, int]] = {}  # window start -> (edition, version of its panes)
        self.watermark_us: int | None = None
        """Event time up to which windows are closed."""

    def advance(self, store: PaneStore, watermark_us: int) -> Iterator[Publication]:
        """The windows that became final up to `watermark_us`, oldest first, and further editions of those that changed.

        The watermark never goes back: a smaller one than before counts as that one. O(open windows).
        """
        window, before = self._window, self.watermark_us
        if window is None:
            return
        now = self.watermark_us = watermark_us if before is None else max(before, watermark_us)
        for start in window_starts(store.panes, window.size_us, window.slide_us):
            if start + window.size_us > now:
                break
            # A window beyond its lateness stays as it is, also when panes it shares with later windows go on changing.
            if before is None or start + window.size_us + self._lateness_us > before:
                yield from self._final(store, start)
        still_open = open_pane(now, window.size_us, window.slide_us, self._lateness_us)
        store.close_before(still_open)
        self.stages.release_before(still_open)
        for start in [start for start in self._published if start + window.size_us + self._lateness_us <= now]:
            del self._published[start]

    def _final(self, store: PaneStore, start: int) -> Iterator[Publication]:
        edition, seen = self._published.get(start, (0, 0))
        version = self._version(store, start)
        if version != seen:
            self._published[start] = (edition + 1, version)
            yield Publication(self.stages.finish_window(store, start), edition + 1, "final")

    def _version(self, store: PaneStore, start: int) -> int:
        assert self._window is not None
        members = store.panes.irange(start, start + self._window.size_us - 1)
        return sum(store.panes[pane].version for pane in members)

    def open_windows(self, store: PaneStore) -> Iterator[Publication]:
        """The windows with rows that are not final yet, as they stand, oldest first; the endless window of a plan without
        windows."""
        for start in self._open_starts(store) if self._window is not None else [None]:
            yield self._as_it_stands(store, start)

    def current(self, store: PaneStore) -> Publication | None:
        """Of the open windows that hold the newest rows the one that ends first: of sliding windows the fullest."""
        if self._window is None:
            return self._as_it_stands(store, None)
        for start in self._open_starts(store):
            if start + self._window.size_us > store.panes.keys()[-1]:
                return self._as_it_stands(store, start)
        return None

    def _as_it_stands(self, store: PaneStore, start: int | None) -> Publication:
        return Publication(self.stages.finish_window(store, start), 0, "tentative")

    def _open_starts(self, store: PaneStore) -> list[int]:
        assert self._window is not None
        starts = window_starts(store.panes, self._window.size_us, self._window.slide_us)
        return [start for start in starts if start not in self._published]

    def drain(self, store: PaneStore) -> Iterator[Publication]:
        """Everything that is not final as it stands, as final: the log has ended."""
        if self._window is None:
            yield Publication(self.stages.finish_window(store, None), 1, "final")
        elif store.panes:
            yield from self.advance(store, store.panes.keys()[-1] + 2 * self._window.size_us)


def _check_stages(plan: Plan) -> None:
    """An outer plan over windows must group by the window: only then does each window have an answer of its own."""
    inner = plan.inner
    if inner is None:
        return
    _check_stages(inner)
    windows = [output.name for output in inner.outputs if output.expr.type.kind is Kind.WINDOW]
    edges = {f"{name}.{part}" for name in windows for part in WINDOW_PARTS}
    keys = {key.name for key in plan.keys if isinstance(key, ColumnRef)}
    if innermost(plan).window is not None and not edges & keys:
        raise JobError(
            "a query over the windows of a subquery can be followed only when it groups by the window; "
            "add GROUP BY w.start, w being the subquery's window column"
        )

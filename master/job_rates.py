"""How fast a job goes, at the node that leads it: differences of what is committed, over its last seconds. Pure.

Each look at the counters takes O(streams), so they are looked at once a step and when somebody asks. Agents send once per
`emit`, so nothing shorter than a step says anything, and a rate is told over a few of them. Nothing is known at first of a
new leader, nor of a new feed of a changed job, whose counters begin anew.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from master.committed import Committed
from master.requests import Rates

STEP_S = 1.0
"""Least time between two looks; with a longer `emit` that."""
STEPS = 5
"""A rate is told over so many steps, or what is known of them."""


class _Look(NamedTuple):
    """The counters as they became at `at_s`."""

    at_s: float
    feed: int
    lines: int
    rejected: int
    late: int
    results: int


class RateMeter:
    """Of one job, of the time that this node leads it. O(STEPS) memory."""

    def __init__(self) -> None:
        self._looks: deque[_Look] = deque()
        self._index, self._looked_index = -1, -1
        self._changed_s = 0.0
        """When the last entry came."""

    def note(self, state: Committed, now_s: float) -> None:
        """Something may have been committed. O(1), and once a step O(streams)."""
        if state.index != self._index:
            self._index, self._changed_s = state.index, now_s
        if not state.exists or self._looked_index == self._index:
            return
        if not self._looks or now_s >= self._looks[-1].at_s + _step_s(state):
            self._keep(_look(state, self._changed_s), _step_s(state))
            self._looked_index = self._index

    def rates(self, state: Committed, now_s: float) -> Rates | None:
        """None: nothing is known of a whole step yet. O(streams)."""
        self.note(state, now_s)
        if not self._looks:
            return None
        step_s, last = _step_s(state), _look(state, self._changed_s)
        # Between two commits of an agent nothing is known, so the rate is that up to the last; when none comes it falls.
        end_s = last.at_s if now_s <= last.at_s + step_s else now_s
        known = [one for one in (*self._looks, last) if one.feed == last.feed]
        first = next((one for one in reversed(known) if one.at_s <= end_s - STEPS * step_s), known[0])
        over_s = min(end_s - first.at_s, (STEPS + 1) * step_s)  # of a job that stood still until lately
        if over_s < STEP_S:
            return None
        results = (last.results - first.results) / over_s
        if state.derived:
            return Rates(over_s, results)
        lines, rejected = last.lines - first.lines, last.rejected - first.rejected
        late = last.late - first.late
        parsed = lines - rejected
        return Rates(over_s, results, lines / over_s, parsed / over_s, rejected / over_s, late / over_s)

    def _keep(self, look: _Look, step_s: float) -> None:
        if self._looks and self._looks[-1].feed != look.feed:
            self._looks.clear()
        self._looks.append(look)
        while len(self._looks) > 2 and self._looks[1].at_s <= look.at_s - STEPS * step_s:
            self._looks.popleft()


def _look(state: Committed, at_s: float) -> _Look:
    feed = state.book.feeds[-1] if state.book.feeds else 0
    counted = state.coverage(0, (), feed)
    return _Look(at_s, feed, counted.lines, counted.rejected, counted.late, state.editions)


def _step_s(state: Committed) -> float:
    return max(STEP_S, state.settings.emit_us / 1e6)

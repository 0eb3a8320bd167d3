"""Which windows the leader publishes now: final ones, revisions of them, at the deadline tentative ones (F1 to F5), and the
one to look at now, at every emit.

It only proposes; the state machine takes a PUBLISH entry if it still holds where the entry lies in the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from job.plan_book import NEVER_US, Revision
from master.committed import Committed, WindowKey, WindowState
from master.entries import FINAL, TENTATIVE, WITHDRAWN, Publish
from srt.automaton import Instant

MISSING_MAX = 1000


@dataclass(frozen=True)
class FinalityOptions:
    """What the settings of a job do not say."""

    grace_s: float = 3.0
    """How long to wait for the agents that are expected."""
    publish_max: int = 256
    """Windows in one group commit."""


class Finality:
    """The leader's timers; the rest is the committed state."""

    def __init__(self, committed: Committed, options: FinalityOptions) -> None:
        self._committed, self._options = committed, options
        self._since: dict[WindowKey, float] = {}
        """When the first agent was seen beyond the end of a window."""
        self._published: dict[WindowKey, float] = {}
        self._told_late: set[WindowKey] = set()
        """Published at their deadline, with the agents that are missing."""
        self._waiting: set[WindowKey] = set()
        """A PUBLISH is on its way."""
        self._led_s = 0.0
        self._look = False
        self._deadline_s = float("inf")
        self.held = False
        """Nothing is published: those that finish windows have enough to do."""

    @property
    def wake_at(self) -> float:
        return float("inf") if self.held or self._committed.stopped else self._deadline_s

    def lead(self, now_s: float) -> None:
        """Deadlines count from here on for a new leader."""
        self._since.clear()
        self._published.clear()
        self._told_late.clear()
        self._waiting.clear()
        self._led_s = now_s
        self._look = True

    def applied(self, now_s: float) -> None:
        """The committed state has changed."""
        self._look = True
        windows = self._committed.windows
        for known in (self._since, self._published):
            for key in [key for key in known if key not in windows]:
                del known[key]
        self._told_late &= windows.keys()

    def settled(self, entries: Iterable[object]) -> None:
        """A group is committed; `entries` are not on their way yet. A PUBLISH that was void is tried again."""
        self._waiting = {(one.start_us, one.end_us) for one in entries if isinstance(one, Publish)}
        self._look = True

    def hold(self, held: bool) -> None:
        """Begins or ends to hold back what is to be published."""
        self._look = self._look or self.held
        self.held = held

    def due(self, now: Instant) -> list[Publish]:
        """What to append now. O(windows that are open) after a change of state or at a deadline, else O(1)."""
        now_s = now.s
        if self.held or self._committed.stopped or (not self._look and now_s < self._deadline_s):
            return []
        self._look = False
        self._deadline_s = float("inf")
        found: list[Publish] = []
        if not self._started(now_s):
            return found
        keys = sorted(self._committed.windows)
        # Of the windows that hold the newest lines the fullest.
        now_key = next((key for key in keys if key[1] > keys[-1][0]), None)
        for key in keys:
            state = self._committed.windows[key]
            if key in self._waiting or len(found) >= self._options.publish_max:
                continue
            entry = self._entry(key, state, now, key == now_key)
            if entry is not None:
                self._waiting.add(key)
                self._published[key] = now_s
                found.append(entry)
        return found

    def _started(self, now_s: float) -> bool:
        """F4: waits for the agents that are expected, for a while."""
        expect = self._committed.settings.expect
        if 0 < expect <= len(self._committed.roster):
            return True
        ready_s = self._led_s + self._options.grace_s
        if now_s >= ready_s or any(state.count for state in self._committed.windows.values()):
            return True
        self._deadline_s = ready_s
        return False

    def _entry(self, key: WindowKey, state: WindowState, now: Instant, newest: bool) -> Publish | None:
        owner, now_s = self._committed.window_owner(key), now.s
        if owner is None:
            return self._made(key, state, WITHDRAWN, None, now) if state.changed else None
        if self._committed.complete(key):
            if not state.changed and state.status == FINAL:
                return None
            # The first final is not held back; further ones gather what is late.
            if state.status != FINAL or self._rested(key, now_s):
                return self._made(key, state, FINAL, owner, now)
            return None
        if newest and state.changed and self._rested(key, now_s):
            return self._made(key, state, TENTATIVE, owner, now)
        if (state.changed or key not in self._told_late) and self._overdue(key, owner, now_s):
            self._told_late.add(key)
            return self._made(key, state, TENTATIVE, owner, now)
        return None

    def _rested(self, key: WindowKey, now_s: float) -> bool:
        ready_s = self._published.get(key, float("-inf")) + self._committed.settings.emit_us / 1e6
        if now_s >= ready_s:
            return True
        self._deadline_s = min(self._deadline_s, ready_s)
        return False

    def _overdue(self, key: WindowKey, owner: Revision, now_s: float) -> bool:
        """Whether the deadline of an incomplete window has come."""
        since_s = self._since.get(key)
        if since_s is None:
            if not self._anybody_beyond(owner.feed, key[1]):
                return False
            since_s = self._since[key] = now_s
        deadline_s = self._committed.settings.deadline_us / 1e6
        if key in self._told_late:
            since_s = max(since_s, self._published.get(key, since_s))
        ready_s = since_s + deadline_s
        if now_s >= ready_s:
            return True
        self._deadline_s = min(self._deadline_s, ready_s)
        return False

    def _anybody_beyond(self, feed: int, end_us: int) -> bool:
        return len(self._committed.missing(feed, end_us)) < sum(self._committed.roster.values())

    def _made(
        self, key: WindowKey, state: WindowState, status: str, owner: Revision | None, now: Instant
    ) -> Publish:
        agents = sum(self._committed.roster.values())
        late = [] if owner is None or status == FINAL else self._committed.missing(owner.feed, key[1])
        if len(late) == agents and key[1] != NEVER_US:
            late = []  # nobody is late for a window that has not ended
        names = tuple(self._committed.names[agent] for agent in late[:MISSING_MAX])
        edition = self._committed.next_edition(state)
        return Publish(*key, edition, status, agents, names, now.wall_us)

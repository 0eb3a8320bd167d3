"""Which windows the leader publishes now: final ones, further editions of them, at the deadline tentative ones (F1 to F5),
and the one to look at now, at every emit.

It only proposes; the state machine takes a PUBLISH entry if it still holds where the entry lies in the log. Looked at are
windows of which something has changed: their content, whether all or the first agents are beyond their end, or their time
has come. So an entry of the log costs what it touches and closes, not what is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from job.plan_book import NEVER_US, PlanBook, Revision
from master.committed import Committed
from master.committed_parts import WindowKey, WindowState
from master.entries import FINAL, TENTATIVE, WITHDRAWN, Publish
from srt.automaton import NEVER, Instant
from srt.due_times import DueTimes

MISSING_MAX = 1000
BEFORE_ALL_US = -(1 << 63)
"""Where an agent is that has not begun."""


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
        self._to_look_at: set[WindowKey] = set()
        self._ready = DueTimes[WindowKey]()
        """When to look at windows whose time had not come."""
        self._marks: dict[int, tuple[int, int]] = {}
        """Per feed how far the slowest and the fastest agent were at the last look."""
        self._book: PlanBook | None = None
        """Then; None: look at all windows."""
        self._newest: WindowKey | None = None
        self._start_s = 0.0
        self._started = False
        """Finals are published."""
        self._look = False
        self._deadline_s = NEVER
        self.held = False
        """Nothing is published: those that finish windows have enough to do."""

    @property
    def wake_at(self) -> float:
        return NEVER if self.held or self._committed.stopped else self._deadline_s

    def lead(self, now_s: float) -> None:
        """Deadlines count from here on for a new leader."""
        self._since.clear()
        self._published.clear()
        self._told_late.clear()
        self._waiting.clear()
        self._ready = DueTimes[WindowKey]()
        self._book = None
        self._start_s = now_s + self._options.grace_s
        self._started = False
        self._look = True

    def applied(self, now_s: float) -> None:
        """The committed state has changed. O(windows touched)."""
        self._look = True
        windows = self._committed.windows
        for key in windows.take_touched():
            if key in windows:
                self._to_look_at.add(key)
            else:
                self._since.pop(key, None)
                self._published.pop(key, None)
                self._told_late.discard(key)
                self._to_look_at.discard(key)
                self._ready.set(key, NEVER)

    def settled(self, entries: Iterable[object]) -> None:
        """A group is committed; `entries` are not on their way yet. A PUBLISH that was void is tried again."""
        before = self._waiting
        self._waiting = {(one.start_us, one.end_us) for one in entries if isinstance(one, Publish)}
        self._to_look_at |= before - self._waiting
        self._look = True

    def hold(self, held: bool) -> None:
        """Begins or ends to hold back what is to be published."""
        self._look = self._look or self.held
        self.held = held

    def due(self, now: Instant) -> list[Publish]:
        """What to append now. O(windows looked at), all of them after a change of the plan or of who takes part; O(1) unless
        the state has changed or a time has come."""
        now_s = now.s
        if self.held or self._committed.stopped or (not self._look and now_s < self._deadline_s):
            return []
        self._look = False
        if not self._started and self._may_start(now_s):
            self._started = True
            self._to_look_at.update(self._committed.windows)  # finals were held back
        found: list[Publish] = []
        self._to_look_at.update(self._ready.take(now_s))
        self._find_changed()
        for key in sorted(self._to_look_at):
            if len(found) >= self._options.publish_max:
                break
            self._to_look_at.discard(key)
            state = self._committed.windows.get(key)
            if state is None or key in self._waiting:
                continue
            self._deadline_s = NEVER
            entry = self._entry(key, state, now, key == self._newest)
            self._ready.set(key, self._deadline_s if entry is None else NEVER)
            if entry is not None:
                self._waiting.add(key)
                self._published[key] = now_s
                found.append(entry)
        self._deadline_s = min(self._ready.first, NEVER if self._started else self._start_s)
        return found

    def foreseen(self, reach: Mapping[int, int], now: Instant) -> list[Publish]:
        """Finals of windows whose end all agents are beyond once the frame is applied that goes into the log now, `reach`
        far under each feed: right behind it, so that readers have them a commit earlier. What is not so after all is void,
        and looked at again. O(windows closed)."""
        if self.held or self._committed.stopped or not self._started:
            return []
        found: list[Publish] = []
        windows = self._committed.windows
        for feed, mark in reach.items():
            slowest = self._committed.reach(feed)
            closing = windows.ending(BEFORE_ALL_US if slowest is None else slowest, mark)
            for key in list(closing)[: self._options.publish_max]:
                state, owner = windows[key], self._committed.window_owner(key)
                if owner is None or owner.feed != feed or state.status == FINAL:
                    continue
                self._waiting.add(key)
                self._published[key] = now.s
                found.append(self._made(key, state, FINAL, owner, now))
        return found

    def _find_changed(self) -> None:
        """Notes the windows whose end the slowest or the fastest agent has passed since the last look, and those that began
        or ceased to be the newest; all when an agent is farther back than it was, or the plan is another."""
        windows, book = self._committed.windows, self._committed.book
        marks = {feed: self._marks_of(feed) for feed in book.feeds}
        pairs = [(self._marks.get(feed, (BEFORE_ALL_US, BEFORE_ALL_US)), marks[feed]) for feed in marks]
        if book is not self._book or any(old[0] > new[0] or old[1] > new[1] for old, new in pairs):
            self._to_look_at.update(windows)
        else:
            for old, new in pairs:
                for which in (0, 1):
                    if old[which] < new[which]:
                        self._to_look_at.update(windows.ending(old[which], new[which]))
        newest = windows.newest()
        if newest != self._newest:
            self._to_look_at.update(key for key in (self._newest, newest) if key is not None)
        self._marks, self._book, self._newest = marks, book, newest

    def _marks_of(self, feed: int) -> tuple[int, int]:
        slowest, fastest = self._committed.reach(feed), self._committed.marks(feed)[1]
        return (
            BEFORE_ALL_US if slowest is None else slowest,
            BEFORE_ALL_US if fastest is None else fastest,
        )

    def _may_start(self, now_s: float) -> bool:
        """F4: the first final waits for the agents that are expected, for a while. Readers see what there is meanwhile."""
        expect = self._committed.settings.expect
        return 0 < expect <= len(self._committed.roster) or now_s >= self._start_s or self._had_finals()

    def _had_finals(self) -> bool:
        """A window is final, or was: of those that were published it is not there any more."""
        windows = self._committed.windows.values()
        return any(one.status == FINAL for one in windows) or sum(one.count for one in windows) < self._committed.editions

    def _entry(self, key: WindowKey, state: WindowState, now: Instant, newest: bool) -> Publish | None:
        owner, now_s = self._committed.window_owner(key), now.s
        if owner is None:
            return self._made(key, state, WITHDRAWN, None, now) if state.changed else None
        if self._started and self._committed.complete(key):
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
        return self._marks_of(feed)[1] >= end_us

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

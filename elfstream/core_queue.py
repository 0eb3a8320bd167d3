"""Events that wait for a node's core: which one is next, and how late the core is. Pure; the thread around it has the lock.

Leases come first: jobs that run must not lose their leaders because others are being made. Then commit groups: a job
without a leader makes work everywhere until one is elected. Joins of trees wait for these: who gets no answer asks again, so
of each node and tree only the newest is kept. What people ask and what gossip tells is what makes further work, so it waits
for the work that there is; then the core is late, and new jobs are refused.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

from elfstream.core_use import USE_MAX
from master.group_messages import Append, Appended, Beats, BeatsHeard, Elect, Exists, Handover, Vote
from master.job_events import Overload
from master.requests import Ask, DescribeNode
from srt.automaton import WAKE, Received, Stored, StoreFailed
from srt.directory_messages import Rumours
from srt.frame_messages import ForJob
from srt.ring_messages import RING_MESSAGES
from srt.tree_messages import TreeJoin, TreeLeave, TreePing, TreePong

SPAN_S = 1.0
"""Lateness is a mean over about this time: one long event is no overload."""
LATE_MAX_S = 0.25
"""As much as from one sign of life of a leader to the next. A core that is later takes no new jobs."""


_LEASES = (Beats, BeatsHeard, TreePing, TreePong, *RING_MESSAGES)
"""Who does not hear these in time takes somebody for dead, which makes more work than anything else."""


_GROUPS = (Append, Appended, Elect, Vote, Handover, Exists)
FURTHER_MAX = 16
"""Requests and rumours, or joins, between two looks at what is more urgent."""


class Waiting(NamedTuple):
    event: Any
    dealt: Callable[[], None] | None
    """To be called when its effects are carried."""
    since_s: float


class CoreQueue:
    """Events of the same class keep their order; frames and what makes further work take turns."""

    def __init__(self) -> None:
        self._leases: deque[Waiting] = deque()
        self._groups: deque[Waiting] = deque()
        self._work: deque[Waiting] = deque()
        self._joins: dict[tuple[bytes, bytes], Waiting] = {}
        """By sender and tree; a newer one takes the older one's place in the line."""
        self._further: deque[Waiting] = deque()
        self._frames: deque[Waiting] = deque()
        self._frame_next = False
        self._late_s = 0.0
        self._looked_s = 0.0
        self._told = (False, False)
        """The core, whether it is late and whether it is busy."""

    def __len__(self) -> int:
        queues = (self._leases, self._groups, self._work, self._joins, self._further, self._frames)
        return sum(len(queue) for queue in queues)

    @property
    def has_frames(self) -> bool:
        return bool(self._frames)

    @property
    def has_others(self) -> bool:
        return bool(self._leases or self._groups or self._work or self._joins or self._further)

    def put(self, event: Any, dealt: Callable[[], None] | None, now_s: float) -> None:
        if isinstance(event, Received):
            if isinstance(event.message, TreeJoin):
                name = event.sender.id, event.message.key
                older = self._joins.get(name)
                self._joins[name] = Waiting(event, dealt, now_s if older is None else older.since_s)
                _give_up(older)
                return
            if isinstance(event.message, TreeLeave):
                for key in event.message.keys:
                    _give_up(self._joins.pop((event.sender.id, key), None))
        self._of(event).append(Waiting(event, dealt, now_s))

    def _of(self, event: Any) -> deque[Waiting]:
        if event is WAKE:
            return self._leases
        if is_frame(event):
            return self._frames
        if isinstance(event, Received):
            if isinstance(event.message, _LEASES):
                return self._leases
            if isinstance(event.message, _GROUPS):
                return self._groups
            return self._further if isinstance(event.message, Rumours) else self._work
        # Whether the node lives is asked about it, not of it.
        if isinstance(event, Stored | StoreFailed):
            return self._groups
        is_request = isinstance(event, Ask) and not isinstance(event.request, DescribeNode)
        return self._further if is_request else self._work

    def take(self, most: int, now_s: float, frames: bool = True) -> list[Waiting]:
        """What is next, at most so many; `frames`: one may be among them."""
        self._late_s, self._looked_s = self.late_s(now_s), now_s
        for queue in (self._leases, self._groups, self._work):
            if queue:
                return [queue.popleft() for _ in range(min(len(queue), most))]
        if self._joins:
            names = list(islice(self._joins, min(most, FURTHER_MAX)))
            return [self._joins.pop(name) for name in names]
        has_frame = frames and bool(self._frames)
        if self._further and not (has_frame and self._frame_next):
            self._frame_next = True
            return [self._further.popleft() for _ in range(min(len(self._further), most, FURTHER_MAX))]
        self._frame_next = False
        return [self._frames.popleft()] if has_frame else []

    def late_s(self, now_s: float) -> float:
        """How long the oldest event but frames had waited, over the last second or so on the average. Frames wait by design:
        senders have credit for so many, and `cpu_max` may hold them back."""
        if now_s == self._looked_s:
            return self._late_s
        queues = (self._leases, self._groups, self._work, [*islice(self._joins.values(), 1)], self._further)
        heads = [queue[0].since_s for queue in queues if queue]
        waited_s = now_s - min(heads, default=now_s)
        weight = 1.0 - math.exp(-max(0.0, now_s - self._looked_s) / SPAN_S)
        return self._late_s + weight * (waited_s - self._late_s)

    def overload(self, late_s: float, use: float = 0.0) -> Overload | None:
        """What the core is to be told, being so late and so busy now; None: it knows."""
        now = late_s > LATE_MAX_S, use > USE_MAX
        if now == self._told:
            return None
        self._told = now
        return Overload(late_s if now[0] else 0.0, use if now[1] else 0.0)


def is_frame(event: Any) -> bool:
    """It waits for all else, and may be held back."""
    return isinstance(event, Received) and isinstance(event.message, ForJob)


def _give_up(older: Waiting | None) -> None:
    """A join whose place a newer one or a leave has taken."""
    if older is not None and older.dealt is not None:
        older.dealt()

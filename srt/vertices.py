"""The vertices of one node: a reducer for each job whose tree passes here. Pure; what is for others leaves as effects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from cbt.budget import Budget
from cbt.options import Options as TreeSizes
from srt.automaton import NEVER, WAKE, Instant, PeerLost, Received, Ref, Send, Wake
from srt.due_times import DueTimes
from srt.frame_messages import ForJob, Up
from srt.links import Busy, Free, Hold, Room
from srt.reducer import (
    FreeChildren,
    HoldChildren,
    ParentBusy,
    ParentChanged,
    ParentRoom,
    Reducer,
    ReducerOptions,
)
from srt.reducer_tree import ReducerTree


class ForVertex(NamedTuple):
    """Event: one of the reducer (srt/reducer.py), for that of a job. It is made if it is not there."""

    key: bytes
    event: Any


class AtRoot(NamedTuple):
    """Effect: this node is the root of the job's tree; its master takes this."""

    key: bytes
    message: Any


class ForChildHere(NamedTuple):
    """Effect: the answer is for this node itself, as the vertex's child: its agent."""

    key: bytes
    message: Any


class Vertices:
    """All vertices of one node; their trees share `budget`."""

    def __init__(
        self, ref: Ref, trees: ReducerTree, budget: Budget, options: ReducerOptions, sizes: TreeSizes
    ) -> None:
        self.ref = ref
        self.reducers: dict[bytes, Reducer] = {}
        self._trees, self._budget, self._options, self._sizes = trees, budget, options, sizes
        self._due = DueTimes[bytes]()
        self._now = Instant(0.0, 0)

    @property
    def wake_at(self) -> float:
        return self._due.first

    def handle(self, event: Any, now: Instant) -> list[Any]:
        self._now = now
        if isinstance(event, ForVertex):
            return self._give(event.key, event.event)
        if isinstance(event, Received) and isinstance(event.message, ForJob):
            return self._give(event.message.key, Received(event.sender, event.message.body))
        if isinstance(event, Wake):
            return self._wake()
        if isinstance(event, Busy | Room):
            return self._of_link(event)
        if isinstance(event, PeerLost):
            children = [key for key, one in self.reducers.items() if one.parent == event.peer]
            return [effect for key in children for effect in self._give(key, event)]
        raise TypeError(f"no event of vertices: {event!r}")

    def _wake(self) -> list[Any]:
        out: list[Any] = []
        for key in self._due.take(self._now.s):
            out += self._handled(key, self.reducers[key], WAKE)
        return out

    def _of_link(self, event: Busy | Room) -> list[Any]:
        """The link may carry other things of a job whose tree does not pass here."""
        if event.key not in self.reducers:
            return []
        told = ParentBusy(event.peer) if isinstance(event, Busy) else ParentRoom(event.peer)
        return self._give(event.key, told)

    def _give(self, key: bytes, event: Any) -> list[Any]:
        out: list[Any] = []
        reducer = self.reducers.get(key)
        if reducer is None:
            self._forget_idle()
            reducer = self.reducers[key] = Reducer(self.ref, self._budget, self._options, self._sizes)
            parent = self.ref if self._trees.serves(key) else self._trees.parent(key)
            out += self._handled(key, reducer, ParentChanged(parent))
        return out + self._handled(key, reducer, event)

    def _handled(self, key: bytes, reducer: Reducer, event: Any) -> list[Any]:
        effects = reducer.handle(event, self._now)
        self._due.set(key, reducer.wake_at)
        return self._sorted(key, effects)

    def _forget_idle(self) -> None:
        """Lets go of those whose tree does not pass here any more. O(vertices), when a further job comes."""
        for key in [key for key, one in self.reducers.items() if key not in self._trees.vertices and one.is_idle]:
            del self.reducers[key]
            self._due.set(key, NEVER)

    def _sorted(self, key: bytes, effects: Iterable[Any]) -> list[Any]:
        """Who is meant: another node, the master here, or the agent here."""
        out: list[Any] = []
        for effect in effects:
            if isinstance(effect, HoldChildren):
                out.append(Hold(key))
            elif isinstance(effect, FreeChildren):
                out.append(Free(key))
            elif not isinstance(effect, Send):
                out.append(effect)
            elif effect.to != self.ref:
                out.append(Send(effect.to, ForJob(key, effect.message)))
            elif isinstance(effect.message, Up):
                out.append(AtRoot(key, effect.message))
            else:
                out.append(ForChildHere(key, effect.message))
        return out

"""Multicast down a reducer tree, with acknowledgements counted on the way up.

Each attempt counts afresh, and a vertex takes part in an attempt once, whoever its parent is by then. So no agent is counted
twice, however the tree changes meanwhile; one that is missed costs another attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from srt.automaton import NEVER, Ref
from srt.options import TreeOptions
from srt.tree_events import CastDelivered, CastEnded
from srt.tree_messages import TreeCast, TreeCastAck
from srt.vertex import Vertex

CHILD_SHARE = 0.75
"""Of a vertex's time for an attempt, what it gives its children: they report in part before it does."""


@dataclass(slots=True)
class _Cast:
    payload: bytes
    attempt: int = 0
    reply_to: Ref | None = None
    """Who sent the attempt; None at the root."""
    own: int = 0
    """1 when the local agent takes part."""
    waiting: set[bytes] = field(default_factory=set)
    counted: dict[bytes, tuple[int, bool]] = field(default_factory=dict)
    """Per child what it reported in this attempt."""
    had_it: set[bytes] = field(default_factory=set)
    """Children below whom all had the payload in the attempt before."""
    agents: int = 0
    """At the root: the most agents that the tree had since the multicast began."""
    delivered: bool = False
    reported: bool = False
    due: float = NEVER

    def total(self) -> int:
        return self.own + sum(agents for agents, _ in self.counted.values())

    def complete(self) -> bool:
        return not self.waiting and all(complete for _, complete in self.counted.values())


class Casts:
    """The multicasts that the vertices of one node know: at most `casts_max` per tree, oldest forgotten first."""

    def __init__(
        self, options: TreeOptions, send: Callable[[Ref, Any], None], tell: Callable[[Any], None]
    ) -> None:
        self._options = options
        self._send = send
        self._tell = tell
        self._casts: dict[bytes, dict[bytes, _Cast]] = {}
        self.wake_at = NEVER

    def begin(self, vertex: Vertex, cast_id: bytes, payload: bytes, now_s: float) -> None:
        """At the root; ignored when the id was used."""
        if cast_id not in self._casts.get(vertex.key, {}):
            cast = self._note(vertex.key, cast_id, payload)
            self._attempt(vertex, cast_id, cast, 1, self._options.cast_attempt_s, now_s)
            self._settle(vertex, cast_id, cast, now_s)

    def on_cast(self, vertex: Vertex, sender: Ref, message: TreeCast, now_s: float) -> None:
        cast = self._casts.get(vertex.key, {}).get(message.cast)
        if cast is None:
            if message.payload is None:
                self._send(sender, TreeCastAck(vertex.key, message.cast, message.attempt, 0, False))
                return
            cast = self._note(vertex.key, message.cast, message.payload)
        if message.attempt <= cast.attempt:
            if message.attempt == cast.attempt and cast.reply_to == sender:
                self._report(vertex, message.cast, cast)
            else:
                # It has its place in this attempt elsewhere, or it is over.
                self._send(sender, TreeCastAck(vertex.key, message.cast, message.attempt, 0, False))
            return
        cast.reply_to = sender
        self._attempt(vertex, message.cast, cast, message.attempt, message.budget_ms / 1000, now_s)
        self._settle(vertex, message.cast, cast, now_s)

    def on_ack(self, vertex: Vertex, sender: Ref, message: TreeCastAck, now_s: float) -> None:
        cast = self._casts.get(vertex.key, {}).get(message.cast)
        child = vertex.children.get(sender.id)
        if cast is None or child is None or child.ref != sender or message.attempt != cast.attempt:
            return
        if sender.id not in cast.waiting and sender.id not in cast.counted:
            return
        before = cast.counted.get(sender.id)
        cast.counted[sender.id] = (message.agents, message.complete)
        cast.waiting.discard(sender.id)
        if message.complete:
            cast.had_it.add(sender.id)
        if cast.reported and before != cast.counted[sender.id]:
            self._report(vertex, message.cast, cast)
        self._settle(vertex, message.cast, cast, now_s)

    def child_gone(self, vertex: Vertex, child_id: bytes) -> None:
        """What it reported stays counted: those agents have acknowledged. What it owes is not waited for."""
        for cast_id, cast in self._casts.get(vertex.key, {}).items():
            cast.had_it.discard(child_id)
            if child_id in cast.waiting:
                cast.waiting.discard(child_id)
                cast.counted[child_id] = (0, False)
                if not cast.waiting and not cast.reported and cast.reply_to is not None:
                    self._report(vertex, cast_id, cast)

    def end_of_root(self, vertex: Vertex) -> None:
        """The root serves no longer: its multicasts end with what they have."""
        for cast_id, cast in self._casts.get(vertex.key, {}).items():
            if cast.reply_to is None and not cast.reported:
                self._end(vertex, cast_id, cast)

    def forget(self, key: bytes) -> None:
        self._casts.pop(key, None)

    def wake(self, vertices: dict[bytes, Vertex], now_s: float) -> None:
        """Attempts whose time is over."""
        if now_s < self.wake_at:
            return
        for key, casts in list(self._casts.items()):
            for cast_id, cast in list(casts.items()):
                if cast.due > now_s:
                    continue
                cast.due = NEVER
                vertex = vertices[key]
                if cast.reply_to is not None:
                    self._report(vertex, cast_id, cast)
                elif cast.attempt >= self._options.cast_attempts_max:
                    self._end(vertex, cast_id, cast)
                else:
                    self._attempt(
                        vertex, cast_id, cast, cast.attempt + 1, self._options.cast_attempt_s, now_s
                    )
                    self._settle(vertex, cast_id, cast, now_s)
        self.wake_at = min((cast.due for casts in self._casts.values() for cast in casts.values()), default=NEVER)

    def _note(self, key: bytes, cast_id: bytes, payload: bytes) -> _Cast:
        casts = self._casts.setdefault(key, {})
        casts[cast_id] = cast = _Cast(payload)
        if len(casts) > self._options.casts_max:
            del casts[next(iter(casts))]
        return cast

    def _attempt(
        self, vertex: Vertex, cast_id: bytes, cast: _Cast, attempt: int, budget_s: float, now_s: float
    ) -> None:
        cast.attempt, cast.reported = attempt, False
        cast.own = int(vertex.wanted)
        if vertex.wanted and not cast.delivered:
            cast.delivered = True
            self._tell(CastDelivered(vertex.key, cast_id, cast.payload))
        cast.agents = max(cast.agents, vertex.agents)
        cast.counted = {}
        cast.waiting = set(vertex.children)
        cast.due = now_s + budget_s
        self.wake_at = min(self.wake_at, cast.due)
        budget_ms = max(1, int(budget_s * CHILD_SHARE * 1000))
        for child_id, child in vertex.children.items():
            payload = None if child_id in cast.had_it else cast.payload
            self._send(child.ref, TreeCast(vertex.key, cast_id, attempt, budget_ms, payload))
        cast.had_it &= set(vertex.children)

    def _settle(self, vertex: Vertex, cast_id: bytes, cast: _Cast, now_s: float) -> None:
        """Nobody is waited for any more: report, or end when all have it."""
        if cast.waiting or cast.reported:
            return
        if cast.reply_to is not None:
            self._report(vertex, cast_id, cast)
            return
        cast.agents = max(cast.agents, vertex.agents)
        if cast.complete() and cast.total() >= cast.agents:
            self._end(vertex, cast_id, cast)
        # Otherwise the root waits until the attempt is over: counts may still grow, and lost children join again.

    def _report(self, vertex: Vertex, cast_id: bytes, cast: _Cast) -> None:
        cast.reported, cast.due = True, NEVER
        if cast.reply_to is not None:
            ack = TreeCastAck(vertex.key, cast_id, cast.attempt, cast.total(), cast.complete())
            self._send(cast.reply_to, ack)

    def _end(self, vertex: Vertex, cast_id: bytes, cast: _Cast) -> None:
        cast.reported, cast.due = True, NEVER
        self._tell(CastEnded(vertex.key, cast_id, cast.total(), vertex.agents))

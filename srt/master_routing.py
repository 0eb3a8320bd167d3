"""Messages between masters: routed over the ring to the job's key, answered straight back.

At least once: a request without an answer is sent again, so a master may see it twice; `request` tells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from srt.automaton import NEVER, Instant, Received, Ref, Send, Wake
from srt.reducer_tree import ReducerTree
from srt.ring import Ring
from srt.ring_messages import HOPS_MAX
from srt.tree_messages import MasterReply, MasterRequest

PENDING_MAX = 1024
"""Requests of this node without an answer; more are refused."""
RETRY_S = 1.0
TRIES_MAX = 3


class AskMaster(NamedTuple):
    """Event: send this to the master of a key. `request` is the caller's number, unique at this node."""

    key: bytes
    request: int
    payload: bytes


class AnswerMaster(NamedTuple):
    """Event: the local master's answer to `Asked`."""

    origin: Ref
    request: int
    payload: bytes


class Asked(NamedTuple):
    """Effect: another master asks the one here."""

    key: bytes
    origin: Ref
    request: int
    payload: bytes


class Answered(NamedTuple):
    """Effect: the answer; None with the reason when there is none."""

    request: int
    payload: bytes | None
    problem: str = ""
    sender: Ref | None = None
    """Who answered; None: nobody. Without a payload it is the node closest to the key."""


@dataclass(slots=True)
class _Pending:
    key: bytes
    payload: bytes
    due: float
    tries: int = 1


class MasterRouting:
    """Requests of one node under way, and the forwarding of those of others."""

    def __init__(
        self, ring: Ring, trees: ReducerTree, leader: Callable[[bytes, float], Ref | None] = lambda *_: None
    ) -> None:
        """`leader` says who leads a job now (monotonic seconds), as far as its group knows that is kept here."""
        self.ref = ring.ref
        self.wake_at = NEVER
        self._ring = ring
        self._trees = trees
        self._leader = leader
        self._pending: dict[int, _Pending] = {}

    def handle(self, event: Any, now: Instant) -> list[Any]:
        if isinstance(event, Received) and isinstance(event.message, MasterRequest):
            return self._forward(event.message, now.s)
        if isinstance(event, Received) and isinstance(event.message, MasterReply):
            return self._answered(event.sender, event.message)
        if isinstance(event, AskMaster):
            return self._ask(event, now.s)
        if isinstance(event, AnswerMaster):
            return [Send(event.origin, MasterReply(event.request, event.payload))]
        if isinstance(event, Wake):
            return self._retry(now.s)
        raise TypeError(f"no event of master routing: {event!r}")

    def _ask(self, event: AskMaster, now_s: float) -> list[Any]:
        if len(self._pending) >= PENDING_MAX:
            return [
                Answered(event.request, None, f"{PENDING_MAX} requests are waiting for an answer already")
            ]
        self._pending[event.request] = _Pending(event.key, event.payload, now_s + RETRY_S)
        self.wake_at = min(self.wake_at, now_s + RETRY_S)
        return self._forward(MasterRequest(event.key, self.ref, event.request, 0, event.payload), now_s)

    def _forward(self, message: MasterRequest, now_s: float) -> list[Any]:
        if self._trees.serves(message.key):
            return [Asked(message.key, message.origin, message.request, message.payload)]
        following, leader = self._ring.next_hop(message.key), self._leader(message.key, now_s)
        if leader is not None and leader != self.ref:
            following = leader
        vertex = self._trees.vertices.get(message.key)
        if following is None and vertex is not None:
            following = vertex.forward  # the closest, and another of the group leads
        if following is not None and message.hops < HOPS_MAX:
            onward = MasterRequest(
                message.key, message.origin, message.request, message.hops + 1, message.payload
            )
            return [Send(following, onward)]
        if self._ring.active and vertex is None:
            return [Send(message.origin, MasterReply(message.request, None))]
        return []  # who leads is being decided: the origin asks again

    def _answered(self, sender: Ref, message: MasterReply) -> list[Any]:
        if self._pending.pop(message.request, None) is None:
            return []
        problem = "" if message.payload is not None else "no master for that key"
        return [Answered(message.request, message.payload, problem, sender)]

    def _retry(self, now_s: float) -> list[Any]:
        out: list[Any] = []
        for request, pending in list(self._pending.items()):
            if pending.due > now_s:
                continue
            if pending.tries >= TRIES_MAX:
                del self._pending[request]
                out.append(Answered(request, None, f"no answer to {TRIES_MAX} requests"))
                continue
            pending.tries += 1
            pending.due = now_s + RETRY_S
            out += self._forward(MasterRequest(pending.key, self.ref, request, 0, pending.payload), now_s)
        self.wake_at = min((pending.due for pending in self._pending.values()), default=NEVER)
        return out

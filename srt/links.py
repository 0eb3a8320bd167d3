"""One link per neighbour for all jobs: who may send next, and how much.

Deficit round robin (Shreedhar and Varghese 1996) over jobs, by bytes; control messages go first. The receiver grants credit
per job and for the link, as totals since the link began. What finds no room is refused to the producer, never dropped.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from srt.automaton import NEVER, Instant, PeerLost, Received, Ref, Send, Wake
from srt.link_messages import GRANTS_MAX, Grant, JobGrant, SentSoFar
from srt.options import LinkOptions


class Ready(NamedTuple):
    """Effect: `take(peer)` has something now; the driver takes as long as its socket does."""

    peer: Ref


class Room(NamedTuple):
    """Effect: a job whose message was refused may offer again."""

    peer: Ref
    key: bytes


class LinkDown(NamedTuple):
    """Effect: the link broke; these messages were waiting, and what was under way may be lost."""

    peer: Ref
    waiting: tuple[tuple[bytes | None, Any], ...]


@dataclass(slots=True)
class _Queue:
    """One job on one link, as the sender has it."""

    messages: deque[tuple[Any, int]] = field(default_factory=deque)
    queued_bytes: int = 0
    deficit: int = 0
    sent_bytes: int = 0
    limit_bytes: int = 0
    refused: bool = False

    @property
    def idle(self) -> bool:
        return not self.messages


@dataclass(slots=True)
class _Inflow:
    """What came of one job, or of all, and what was dealt with."""

    came_bytes: int = 0
    done_bytes: int = 0
    granted_bytes: int = 0

    @property
    def idle(self) -> bool:
        return self.came_bytes == self.done_bytes


class _Link:
    def __init__(self, peer: Ref, options: LinkOptions) -> None:
        self.peer = peer
        self.control: deque[tuple[Any, int]] = deque()
        self.control_bytes = 0
        self.jobs: OrderedDict[bytes, _Queue] = OrderedDict()
        self.turns: deque[bytes] = deque()
        """Jobs with messages, the one whose turn it is first."""
        self.fresh_turn = True
        self.queued_bytes = 0
        self.sent_bytes = 0
        self.limit_bytes = options.credit_bytes
        self.inflow = _Inflow(granted_bytes=options.credit_bytes)
        self.inflows: OrderedDict[bytes, _Inflow] = OrderedDict()
        self.to_grant: set[bytes] = set()
        self.stalled_at = NEVER


class Links:
    """The links of one node. Bounded per link by `queued_bytes_max`, `control_bytes_max` and `jobs_max`."""

    def __init__(self, options: LinkOptions | None = None) -> None:
        self.options = options or LinkOptions()
        self._links: dict[Ref, _Link] = {}

    @property
    def wake_at(self) -> float:
        return min((link.stalled_at for link in self._links.values()), default=NEVER)

    # the sender's side

    def offer(self, peer: Ref, key: bytes | None, message: Any, size: int) -> bool:
        """A message for a neighbour; key None: control. False: no room; `Room` tells when a job may try again."""
        options, link = self.options, self._link(peer)
        if key is None:
            if link.control_bytes + size > options.control_bytes_max:
                return False
            link.control.append((message, size))
            link.control_bytes += size
            return True
        queue = link.jobs.get(key)
        if queue is None:
            if len(link.jobs) >= options.jobs_max and not _forget_idle(link.jobs):
                return False
            queue = link.jobs[key] = _Queue(limit_bytes=options.job_credit_bytes)
        link.jobs.move_to_end(key)
        over = queue.queued_bytes + size > options.job_bytes_max and queue.queued_bytes
        if over or link.queued_bytes + size > options.queued_bytes_max:
            queue.refused = True
            return False
        if not queue.messages:
            link.turns.append(key)
        queue.messages.append((message, size))
        queue.queued_bytes += size
        link.queued_bytes += size
        return True

    def take(self, peer: Ref, now: Instant) -> tuple[Any, list[Any]] | None:
        """(next message, effects), or None when nothing may go now. O(1) per message, amortised over `quantum_bytes`."""
        link = self._links.get(peer)
        if link is None:
            return None
        if link.control:
            message, size = link.control.popleft()
            link.control_bytes -= size
            return message, []
        blocked = 0
        while blocked < len(link.turns):
            key = link.turns[0]
            queue = link.jobs[key]
            message, size = queue.messages[0]
            if not self._has_credit(link, queue):
                blocked += 1
                self._next_turn(link)
                continue
            if link.fresh_turn:
                queue.deficit += self.options.quantum_bytes
                link.fresh_turn = False
            if size > queue.deficit:
                blocked = 0  # it gets nearer with every round
                self._next_turn(link)
                continue
            link.stalled_at = NEVER
            return message, self._sent(link, key, queue, size)
        if link.turns and link.stalled_at == NEVER:
            link.stalled_at = now.s + self.options.stalled_s
        return None

    def _has_credit(self, link: _Link, queue: _Queue) -> bool:
        """A message may begin while any credit is left, so one larger than all credit gets through."""
        return queue.sent_bytes < queue.limit_bytes and link.sent_bytes < link.limit_bytes

    def _next_turn(self, link: _Link) -> None:
        link.turns.rotate(-1)
        link.fresh_turn = True

    def _sent(self, link: _Link, key: bytes, queue: _Queue, size: int) -> list[Any]:
        queue.messages.popleft()
        queue.deficit -= size
        queue.queued_bytes -= size
        queue.sent_bytes += size
        link.queued_bytes -= size
        link.sent_bytes += size
        if not queue.messages:
            queue.deficit = 0
            link.turns.popleft()
            link.fresh_turn = True
        if not queue.refused or 2 * queue.queued_bytes > self.options.job_bytes_max:
            return []
        queue.refused = False
        return [Room(link.peer, key)]

    # the receiver's side

    def came(self, peer: Ref, key: bytes, size: int) -> None:
        """A job's message arrived."""
        link = self._link(peer)
        link.inflow.came_bytes += size
        self._inflow(link, key).came_bytes += size
        link.inflows.move_to_end(key)

    def done(self, peer: Ref, key: bytes, size: int) -> list[Any]:
        """So many bytes of it were dealt with: their room may be used again. Grants leave when half of a credit is free."""
        link = self._link(peer)
        for inflow, credit in (
            (link.inflow, self.options.credit_bytes),
            (self._inflow(link, key), self.options.job_credit_bytes),
        ):
            inflow.done_bytes = min(inflow.came_bytes, inflow.done_bytes + size)
            if inflow.done_bytes + credit - inflow.granted_bytes >= credit // 2:
                link.to_grant.add(key)
        return self._grant(link) if link.to_grant else []

    def _grant(self, link: _Link) -> list[Any]:
        link.inflow.granted_bytes = link.inflow.done_bytes + self.options.credit_bytes
        keys = sorted(link.to_grant)[:GRANTS_MAX]
        jobs = []
        for key in keys:
            inflow = self._inflow(link, key)
            inflow.granted_bytes = inflow.done_bytes + self.options.job_credit_bytes
            jobs.append(JobGrant(key, inflow.granted_bytes))
        link.to_grant.difference_update(keys)
        return [Send(link.peer, Grant(link.inflow.granted_bytes, jobs))]

    # events

    def handle(self, event: Any, now: Instant) -> list[Any]:
        if isinstance(event, Received) and isinstance(event.message, Grant):
            return self._on_grant(event.sender, event.message)
        if isinstance(event, Received) and isinstance(event.message, SentSoFar):
            return self._on_sent_so_far(event.sender, event.message)
        if isinstance(event, PeerLost):
            return self._down(event.peer)
        if isinstance(event, Wake):
            return self._stalled(now.s)
        raise TypeError(f"no event of links: {event!r}")

    def _on_grant(self, sender: Ref, message: Grant) -> list[Any]:
        link = self._links.get(sender)
        if link is None:
            return []
        link.limit_bytes = max(link.limit_bytes, message.limit_bytes)
        for grant in message.jobs:
            queue = link.jobs.get(grant.key)
            if queue is not None:
                queue.limit_bytes = max(queue.limit_bytes, grant.limit_bytes)
        return [Ready(sender)] if link.turns else []

    def _on_sent_so_far(self, sender: Ref, message: SentSoFar) -> list[Any]:
        link = self._link(sender)
        for inflow, total in (
            (link.inflow, message.total_bytes),
            (self._inflow(link, message.key), message.job_bytes),
        ):
            lost = max(0, total - inflow.came_bytes)
            inflow.came_bytes += lost
            inflow.done_bytes += lost
        link.to_grant.add(message.key)
        return self._grant(link)

    def _stalled(self, now_s: float) -> list[Any]:
        out = []
        for link in self._links.values():
            if now_s >= link.stalled_at:
                link.stalled_at = now_s + self.options.stalled_s if link.turns else NEVER
                for key in list(link.turns)[:GRANTS_MAX]:
                    out.append(Send(link.peer, SentSoFar(link.sent_bytes, key, link.jobs[key].sent_bytes)))
        return out

    def _down(self, peer: Ref) -> list[Any]:
        link = self._links.pop(peer, None)
        if link is None:
            return []
        waiting: list[tuple[bytes | None, Any]] = [(None, message) for message, _ in link.control]
        waiting += [(key, message) for key, queue in link.jobs.items() for message, _ in queue.messages]
        return [LinkDown(peer, tuple(waiting))]

    # small things

    def _link(self, peer: Ref) -> _Link:
        link = self._links.get(peer)
        if link is None:
            link = self._links[peer] = _Link(peer, self.options)
        return link

    def _inflow(self, link: _Link, key: bytes) -> _Inflow:
        inflow = link.inflows.get(key)
        if inflow is None:
            if len(link.inflows) >= self.options.jobs_max:
                _forget_idle(link.inflows)
            inflow = link.inflows[key] = _Inflow(granted_bytes=self.options.job_credit_bytes)
        return inflow


def _forget_idle(jobs: OrderedDict[bytes, Any]) -> bool:
    """Makes room for another job: the one that has been idle the longest goes.

    If only one side forgets, its totals begin anew: either the job gets more credit than it should, within that of the link,
    or it stalls once and `SentSoFar` sets the totals right.
    """
    for key, job in jobs.items():
        if job.idle:
            del jobs[key]
            return True
    return False

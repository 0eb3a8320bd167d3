"""One link per neighbour for all jobs: who may send next, and how much.

Deficit round robin (Shreedhar and Varghese 1996) over jobs, by bytes; control messages go first. The receiver grants credit
per job and for the link, as totals since the link began. No job's message is refused or dropped: above a mark its producer
is told to stop, below half of it to go on.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from srt.automaton import NEVER, Instant, PeerLost, Received, Ref, Send, Wake
from srt.link_messages import GRANTS_MAX, Grant, JobGrant, SentSoFar
from srt.options import LinkOptions


class Ready(NamedTuple):
    """Effect: `take(peer)` may have something now; the driver takes until that is None or its socket is full."""

    peer: Ref


class Busy(NamedTuple):
    """Effect, and event of the cores: too much of a job waits for this neighbour; its producer should stop until `Room`."""

    peer: Ref
    key: bytes


class Room(NamedTuple):
    """Effect, and event of the cores: the job that was `Busy` may go on."""

    peer: Ref
    key: bytes


class Hold(NamedTuple):
    """Effect of the cores: `Links.hold`, this node has no room for more of the job."""

    key: bytes


class Free(NamedTuple):
    """Effect of the cores: `Links.free`."""

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
    busy: bool = False

    @property
    def idle(self) -> bool:
        return not self.messages

    @property
    def has_credit(self) -> bool:
        """A message may begin while any credit is left, so one larger than all credit gets through."""
        return self.sent_bytes < self.limit_bytes


@dataclass(slots=True)
class _Inflow:
    """What came of one job, or of all, and what was dealt with."""

    came_bytes: int = 0
    done_bytes: int = 0
    granted_bytes: int = 0

    @property
    def idle(self) -> bool:
        return self.came_bytes == self.done_bytes

    def free_bytes(self, credit_bytes: int) -> int:
        """What could be granted."""
        return self.done_bytes + credit_bytes - self.granted_bytes


class _Link:
    def __init__(self, peer: Ref, options: LinkOptions) -> None:
        self.peer = peer
        self.control: deque[tuple[Any, int]] = deque()
        self.control_bytes = 0
        self.jobs: OrderedDict[bytes, _Queue] = OrderedDict()
        self.turns: deque[bytes] = deque()
        """Jobs with messages and credit, the one whose turn it is first."""
        self.fresh_turn = True
        self.stalled: OrderedDict[bytes, float] = OrderedDict()
        """Jobs with messages and without credit, and when to say what was sent; ascending."""
        self.stalled_at = NEVER
        """The same for the link."""
        self.queued_bytes = 0
        self.sent_bytes = 0
        self.limit_bytes = options.credit_bytes
        self.inflow = _Inflow(granted_bytes=options.credit_bytes)
        self.inflows: OrderedDict[bytes, _Inflow] = OrderedDict()

    @property
    def wake_at(self) -> float:
        return min(self.stalled_at, next(iter(self.stalled.values()), NEVER))


class Links:
    """The links of one node. Beside what producers send in spite of `Busy`, bounded per link by the options."""

    def __init__(self, options: LinkOptions | None = None) -> None:
        self.options = options or LinkOptions()
        self.control_dropped = 0
        """Control messages that found no room since the start."""
        self._links: dict[Ref, _Link] = {}
        self._held: set[bytes] = set()

    @property
    def queued_bytes(self) -> int:
        """What waits on all links. O(links)."""
        return sum(link.queued_bytes + link.control_bytes for link in self._links.values())

    @property
    def wake_at(self) -> float:
        return min((link.wake_at for link in self._links.values()), default=NEVER)

    # the sender's side

    def send(self, peer: Ref, key: bytes | None, message: Any, size: int) -> list[Any]:
        """A message of `size` bytes for a neighbour. O(1).

        key None: control, which may be lost by contract: beyond `control_bytes_max` the oldest goes. A job's message always
        waits its turn; `Busy` comes once, when more than `job_bytes_max` of it waits, or, while the whole link is above
        `queued_bytes_max`, more than its share of that: small jobs go on beside those that fill the link.
        """
        link = self._link(peer)
        if key is None:
            self._control(link, message, size)
            return [Ready(peer)]
        queue = link.jobs.get(key)
        if queue is None:
            _make_room(link.jobs, self.options.jobs_max)
            queue = link.jobs[key] = _Queue(limit_bytes=self.options.job_credit_bytes)
        link.jobs.move_to_end(key)
        if queue.idle:
            link.turns.append(key)
        queue.messages.append((message, size))
        queue.queued_bytes += size
        link.queued_bytes += size
        if queue.busy or queue.queued_bytes <= self._mark(link):
            return [Ready(peer)]
        queue.busy = True
        return [Ready(peer), Busy(peer, key)]

    def _control(self, link: _Link, message: Any, size: int) -> None:
        link.control.append((message, size))
        link.control_bytes += size
        while link.control_bytes > self.options.control_bytes_max and len(link.control) > 1:
            self.control_dropped += 1
            link.control_bytes -= link.control.popleft()[1]

    def _mark(self, link: _Link) -> int:
        """More of a job than this should not wait."""
        options = self.options
        if link.queued_bytes <= options.queued_bytes_max:
            return options.job_bytes_max
        waiting = len(link.turns) + len(link.stalled)
        return min(options.job_bytes_max, options.queued_bytes_max // max(1, waiting))

    def take(self, peer: Ref, now: Instant) -> tuple[Any, list[Any]] | None:
        """(next message, effects), or None when nothing may go now. O(1) per message, amortised over `quantum_bytes`."""
        link = self._links.get(peer)
        if link is None:
            return None
        if link.control:
            message, size = link.control.popleft()
            link.control_bytes -= size
            return message, []
        if link.turns and link.sent_bytes >= link.limit_bytes:
            link.stalled_at = min(link.stalled_at, now.s + self.options.stalled_s)
            return None
        while link.turns:
            key = link.turns[0]
            queue = link.jobs[key]
            if not queue.has_credit:
                _end_turn(link, stay=False)
                link.stalled[key] = now.s + self.options.stalled_s
                continue
            message, size = queue.messages[0]
            if link.fresh_turn:
                queue.deficit += self.options.quantum_bytes
                link.fresh_turn = False
            if size > queue.deficit:
                _end_turn(link, stay=True)
                continue
            return message, self._sent(link, key, queue, size)
        return None

    def _sent(self, link: _Link, key: bytes, queue: _Queue, size: int) -> list[Any]:
        queue.messages.popleft()
        queue.deficit -= size
        queue.queued_bytes -= size
        queue.sent_bytes += size
        link.queued_bytes -= size
        link.sent_bytes += size
        if queue.idle:
            queue.deficit = 0
            _end_turn(link, stay=False)
        if not queue.busy or 2 * queue.queued_bytes > self._mark(link):
            return []
        queue.busy = False
        return [Room(link.peer, key)]

    # the receiver's side

    def came(self, peer: Ref, key: bytes, size: int) -> bool:
        """A job's message arrived. False: the link had no credit left, and without it a sound peer does not send."""
        link = self._link(peer)
        sound = link.inflow.came_bytes < link.inflow.granted_bytes
        link.inflow.came_bytes += size
        self._inflow(link, key).came_bytes += size
        link.inflows.move_to_end(key)
        return sound

    def done(self, peer: Ref, key: bytes, size: int) -> list[Any]:
        """So many bytes of it were dealt with: their room may be used again. Grants leave when half of a credit is free."""
        link = self._links.get(peer)
        if link is None:
            return []
        options, inflow = self.options, self._inflow(link, key)
        for one in (link.inflow, inflow):
            one.done_bytes = min(one.came_bytes, one.done_bytes + size)
        if (
            key not in self._held
            and inflow.free_bytes(options.job_credit_bytes) >= options.job_credit_bytes // 2
        ):
            return self._grant(link, [key])
        if link.inflow.free_bytes(options.credit_bytes) >= options.credit_bytes // 2:
            return self._grant(link, [])
        return []

    def hold(self, key: bytes) -> None:
        """No further credit for this job, on any link, until `free`. What is granted may still come."""
        self._held.add(key)

    def free(self, key: bytes) -> list[Any]:
        """The job gets the credit that was held back. O(links)."""
        self._held.discard(key)
        effects = []
        for link in self._links.values():
            inflow = link.inflows.get(key)
            if inflow is not None and inflow.free_bytes(self.options.job_credit_bytes) > 0:
                effects += self._grant(link, [key])
        return effects

    def _grant(self, link: _Link, keys: Iterable[bytes]) -> list[Any]:
        link.inflow.granted_bytes = link.inflow.done_bytes + self.options.credit_bytes
        jobs = []
        for key in keys:
            inflow = self._inflow(link, key)
            inflow.granted_bytes = inflow.done_bytes + self.options.job_credit_bytes
            jobs.append(JobGrant(key, inflow.granted_bytes))
        return [Send(link.peer, Grant(link.inflow.granted_bytes, jobs))]

    # events

    def handle(self, event: Any, now: Instant) -> list[Any]:
        """Takes `Received` with messages of links, `PeerLost` when a connection ended, `Wake`; others are a TypeError."""
        if isinstance(event, Received) and isinstance(event.message, Grant):
            return self._on_grant(event.sender, event.message)
        if isinstance(event, Received) and isinstance(event.message, SentSoFar):
            return self._on_sent_so_far(event.sender, event.message)
        if isinstance(event, PeerLost):
            return self._down(event.peer)
        if isinstance(event, Wake):
            return [effect for link in self._links.values() for effect in self._tell_sent(link, now.s)]
        raise TypeError(f"no event of links: {event!r}")

    def _on_grant(self, sender: Ref, message: Grant) -> list[Any]:
        link = self._links.get(sender)
        if link is None:
            return []
        if message.limit_bytes > link.limit_bytes:
            link.limit_bytes, link.stalled_at = message.limit_bytes, NEVER
        for grant in message.jobs:
            queue = link.jobs.get(grant.key)
            if queue is not None:
                queue.limit_bytes = max(queue.limit_bytes, grant.limit_bytes)
                if queue.has_credit and link.stalled.pop(grant.key, None) is not None:
                    link.turns.append(grant.key)
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
        return self._grant(link, [] if message.key in self._held else [message.key])

    def _tell_sent(self, link: _Link, now_s: float) -> list[Any]:
        again_s = now_s + self.options.stalled_s
        keys: list[bytes] = []
        while link.stalled and next(iter(link.stalled.values())) <= now_s and len(keys) < GRANTS_MAX:
            key, _ = link.stalled.popitem(last=False)
            link.stalled[key] = again_s
            keys.append(key)
        if link.stalled_at <= now_s:
            link.stalled_at = again_s if link.turns else NEVER
            keys += list(link.turns)[:1]
        return [Send(link.peer, SentSoFar(link.sent_bytes, key, link.jobs[key].sent_bytes)) for key in keys]

    def _down(self, peer: Ref) -> list[Any]:
        link = self._links.pop(peer, None)
        if link is None:
            return []
        waiting: list[tuple[bytes | None, Any]] = [(None, message) for message, _ in link.control]
        waiting += [(key, message) for key, queue in link.jobs.items() for message, _ in queue.messages]
        room = [Room(peer, key) for key, queue in link.jobs.items() if queue.busy]
        return [LinkDown(peer, tuple(waiting)), *room]

    # small things

    def _link(self, peer: Ref) -> _Link:
        link = self._links.get(peer)
        if link is None:
            link = self._links[peer] = _Link(peer, self.options)
        return link

    def _inflow(self, link: _Link, key: bytes) -> _Inflow:
        inflow = link.inflows.get(key)
        if inflow is None:
            _make_room(link.inflows, self.options.jobs_max)
            inflow = link.inflows[key] = _Inflow(granted_bytes=self.options.job_credit_bytes)
        return inflow

    def check(self) -> None:
        """Raises AssertionError unless the books agree. O(jobs of all links)."""
        for link in self._links.values():
            _check(link)


def _end_turn(link: _Link, stay: bool) -> None:
    key = link.turns.popleft()
    if stay:
        link.turns.append(key)
    link.fresh_turn = True


def _make_room(jobs: OrderedDict[bytes, Any], jobs_max: int) -> None:
    """For another job: the one that has been idle the longest is forgotten, if one is.

    If only one side forgets, its totals begin anew: either the job gets more credit than it should, within that of the link,
    or it stalls once and `SentSoFar` sets the totals right.
    """
    if len(jobs) >= jobs_max:
        idle = next((key for key, job in jobs.items() if job.idle), None)
        if idle is not None:
            del jobs[idle]


def _check(link: _Link) -> None:
    waiting = {key for key, queue in link.jobs.items() if queue.messages}
    if len(link.turns) + len(link.stalled) != len(waiting) or {*link.turns, *link.stalled} != waiting:
        raise AssertionError("jobs with messages are not each in one of the two lines")
    for key, queue in link.jobs.items():
        if sum(size for _, size in queue.messages) != queue.queued_bytes:
            raise AssertionError(f"the queue of {key.hex()} has other bytes than its books")
        if queue.busy and not queue.messages:
            raise AssertionError(f"{key.hex()} is busy though nothing waits")
    if sum(queue.queued_bytes for queue in link.jobs.values()) != link.queued_bytes:
        raise AssertionError("the link has other bytes than its queues")
    if sum(size for _, size in link.control) != link.control_bytes:
        raise AssertionError("control messages have other bytes than their books")
    if list(link.stalled.values()) != sorted(link.stalled.values()):
        raise AssertionError("stalled jobs are not in the order of their times")

"""A vertex of one job's reducer tree: merges the frames of its children and passes one on, and answers back.

It keeps nothing durable, no child's content apart, no list of agents. What it does may be lost at any moment: the root
judges frames by the ranges they name, so a vertex can at worst be slow. V1 to V5 are the rules of docs/PROTOCOL.md.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cbt.budget import Budget, Ledger
from cbt.options import Options as TreeOptions
from srt.automaton import NEVER, Instant, PeerLost, Received, Ref, Send, Wake
from srt.content import Content
from srt.errors import ContentError, OptionsError
from srt.frame_messages import (
    SPANS_MAX,
    Ack,
    Frame,
    Nack,
    Refused,
    Span,
    StreamId,
    Sync,
    SyncAnswer,
    Synced,
    SyncRequest,
    messages,
)
from srt.frames import Assemblies, WholeFrame, joined
from srt.in_flight import InFlight, Source
from srt.options import below

MIB = 1 << 20


class ParentChanged(NamedTuple):
    """The tree gave this vertex (or the agent) another parent, itself at the root, or none for now."""

    parent: Ref | None


class ChildrenChanged(NamedTuple):
    """The children whose leases are good; frames of others are taken all the same (V5)."""

    children: frozenset[Ref]


class ParentBusy(NamedTuple):
    """The link to this node has enough of the job: nothing more is sent there until `ParentRoom`."""

    parent: Ref


class ParentRoom(NamedTuple):
    """It may go on."""

    parent: Ref


class HoldChildren(NamedTuple):
    """Effect: there is no room for more; children get no credit until `FreeChildren`."""


class FreeChildren(NamedTuple):
    """Effect: they get credit again."""


@dataclass(frozen=True)
class ReducerOptions:
    """Of one vertex. Raises OptionsError naming everything that is wrong."""

    hold_s: float = 0.02
    """How long the first frame waits for others to be merged with."""
    frame_bytes_max: int = 64 * MIB
    """Bytes of the outbox at which it is shipped, unless an eighth of the memory cap is less, and about what a frame of a
    child may hold. At half of it, if nothing can be shipped, children are held."""
    burst_bytes: int = 4 * MIB
    """What is given to the link at a time, every `hold_s`, before it says whether that is enough."""
    pending_bytes_max: int = 128 * MIB
    """Bytes of frames that wait for the parent or its answer; the oldest are forgotten beyond it. One is always kept. From
    half of it on nothing more is shipped, from three quarters on children are held."""
    pending_max: int = 1024
    """The same in frames."""
    forget_after_s: float = 30.0
    """A frame without an answer for so long is forgotten: its agents have asked again by themselves."""
    again_s: float = 0.5
    """After the link to the parent broke, if there is no other parent by then, everything is sent again."""
    senders_max: int = 4096
    """Senders whose parts are put together at a time."""
    begun_bytes_max: int = 128 * MIB
    """Of their frames."""
    syncs_max: int = 200_000
    sync_keep_s: float = 10.0

    def __post_init__(self) -> None:
        problems = below(self, _LEAST)
        if self.forget_after_s <= self.hold_s:
            problems.append(f"forget_after_s {self.forget_after_s} is not above hold_s {self.hold_s}")
        if problems:
            raise OptionsError("; ".join(problems))


_LEAST: dict[str, float] = {
    "hold_s": 0.0,
    "frame_bytes_max": 1,
    "burst_bytes": 1,
    "pending_bytes_max": 1,
    "pending_max": 1,
    "again_s": 0.0,
    "senders_max": 1,
    "begun_bytes_max": 1,
    "syncs_max": 1,
    "sync_keep_s": 0.01,
}


@dataclass
class ReducerCounters:
    frames_in: int = 0
    frames_out: int = 0
    refused: int = 0
    """Frames of children that were not sound."""
    forgotten: int = 0
    passed_alone: int = 0


@dataclass
class _Outbox:
    content: Content
    spans: dict[StreamId, Span] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)
    due_s: float = NEVER
    history: int = 0


class Reducer:
    """One vertex. Its trees, and its frames on their way, share `budget` with the other jobs of the node."""

    def __init__(
        self,
        ref: Ref,
        budget: Budget,
        options: ReducerOptions = ReducerOptions(),
        tree_options: TreeOptions = TreeOptions(),  # noqa: B008 - frozen
    ) -> None:
        """Raises OptionsError: frames have to hold the runs of trees."""
        if options.frame_bytes_max < 2 * tree_options.batch_bytes_max:
            raise OptionsError(
                f"frame_bytes_max {options.frame_bytes_max} is below two runs of {tree_options.batch_bytes_max}"
            )
        self.ref, self.options, self.counters = ref, options, ReducerCounters()
        self.parent: Ref | None = None
        self.holding = False
        """Whether the children are held."""
        memory_max = budget.options.memory_max
        self._frame_max = options.frame_bytes_max
        if memory_max is not None:  # closing a frame takes its bytes a few times, none of which can be spilled
            self._frame_max = min(self._frame_max, max(memory_max // 8, 2 * tree_options.batch_bytes_max))
        self._budget, self._tree_options = budget, tree_options
        self._ledger = Ledger(budget)
        self._outbox = self._empty()
        self._flight = InFlight(budget)
        self._busy = False
        self._burst_at = -NEVER
        """The link gets the next burst then."""
        self._again_at = NEVER
        """Everything is sent again then."""
        self._solo = False
        self._children: frozenset[Ref] = frozenset()
        self._reported: set[Ref] = set()
        begun_max = max(options.begun_bytes_max, 2 * options.frame_bytes_max)
        self._begun = Assemblies(2 * options.frame_bytes_max, begun_max, options.senders_max)
        self._syncs: list[SyncRequest] = []
        """Behind the outbox."""
        self._syncs_due: list[SyncRequest] = []
        """Behind the frames that wait."""
        self._routes: OrderedDict[tuple[StreamId, int], tuple[Ref, float]] = OrderedDict()

    def _empty(self) -> _Outbox:
        return _Outbox(Content(self._budget, self._tree_options))

    @property
    def wake_at(self) -> float:
        at = min(self._again_at, self._flight.due_s(self.options.forget_after_s, self.parent is None))
        if self._can_send and self._flight.waiting:
            at = min(at, self._burst_at)
        return min(at, self._outbox.due_s) if self._can_ship else at

    @property
    def is_idle(self) -> bool:
        """Nothing would be lost if it were not there."""
        in_flight = self._flight.due_s(self.options.forget_after_s, True) < NEVER
        return not (in_flight or self._outbox.spans or self._syncs or self._syncs_due or self.holding)

    @property
    def _can_send(self) -> bool:
        return self.parent is not None and not self._busy

    @property
    def _can_ship(self) -> bool:
        """What could not leave yet is better merged with what comes. SYNCs wait for no answers: somebody misses some."""
        return self._can_send and not self._flight.waiting and (bool(self._syncs) or not self._flying(2, 4))

    def _flying(self, part: int, of: int) -> bool:
        """Whether so much of what may be in flight is."""
        flight, limits = self._flight, self.options
        return (
            of * flight.size > part * limits.pending_bytes_max or of * len(flight) > part * limits.pending_max
        )

    def handle(self, event: Any, now: Instant) -> list[Any]:
        effects: list[Any] = []
        if isinstance(event, Received):
            effects = self._receive(event.sender, event.message, now.s)
        elif isinstance(event, ParentChanged):
            self._attach(event.parent, now.s)
        elif isinstance(event, ChildrenChanged):
            self._children = event.children
            self._reported &= event.children
        elif isinstance(event, ParentBusy | ParentRoom) and event.parent == self.parent:
            self._busy = isinstance(event, ParentBusy)
        elif isinstance(event, PeerLost) and event.peer == self.parent:
            self._again_at = min(self._again_at, now.s + self.options.again_s)
        elif isinstance(event, Wake):
            effects = self._forget_old(now.s)
        if now.s >= self._again_at:
            self._restart(now.s)
        return effects + self._flow(now.s)

    def _receive(self, sender: Ref, message: Any, now_s: float) -> list[Any]:
        if isinstance(message, Frame):
            return self._part(sender, message, now_s)
        if isinstance(message, Sync):
            self._sync(sender, message, now_s)
        elif isinstance(message, Refused):
            return [] if self.parent is None else [Send(self.parent, message)]
        elif isinstance(message, Ack):
            if sender == self.parent and any(number in self._flight for number in message.numbers):
                self._solo = False
            return self._answer(message.numbers, Ack)
        elif isinstance(message, Nack):
            return self._answer(message.numbers, Nack)
        elif isinstance(message, Synced):
            return self._synced(message)
        return []

    # frames of children

    def _part(self, sender: Ref, part: Frame, now_s: float) -> list[Any]:
        before = self._begun.held_bytes
        frame = self._begun.take(sender, part)
        self._ledger.charge(self._begun.held_bytes - before)
        if frame is not None:
            return self._frame(sender, frame, now_s)
        if not part.last:
            return []
        self.counters.refused += 1  # some of it did not arrive, or it is not sound
        return [Send(sender, Nack((part.number,)))]

    def _frame(self, sender: Ref, frame: WholeFrame, now_s: float) -> list[Any]:
        self.counters.frames_in += 1
        if frame.solo:
            return self._pass_alone(sender, frame, now_s)
        try:
            content = self._outbox.content.staged(frame.panes, frame.runs, self.options.frame_bytes_max)
        except ContentError:
            self.counters.refused += 1
            return [Send(sender, Nack((frame.number,)))]
        effects = []
        spans = self._merged(frame) if self._fits(frame, content) else None
        if spans is None:
            effects += self._close(now_s)
            spans = {span.stream: span for span in frame.spans}
        box = self._outbox
        box.spans.update(spans)
        box.history = frame.history
        box.content.merge(content)
        box.sources.append((sender, frame.number))
        box.due_s = min(box.due_s, now_s + self.options.hold_s)
        self._reported.add(sender)
        everybody = bool(self._children) and self._children <= self._reported
        if everybody or box.content.bytes_used >= self._frame_max:
            box.due_s = now_s
        if box.content.tight:
            effects += self._close(now_s) + self._forget(1)
        return effects

    def _fits(self, frame: WholeFrame, content: Content) -> bool:
        """Whether one frame can hold both: of the same kinds, and not too large for those who take it."""
        box = self._outbox
        if not box.spans:
            return True
        return (
            frame.history == box.history
            and len(box.spans) + len(frame.spans) <= SPANS_MAX
            and box.content.fits(content)
            and box.content.held_bytes + content.held_bytes <= self._frame_max
        )

    def _merged(self, frame: WholeFrame) -> dict[StreamId, Span] | None:
        """V1; a mutant of the tests lets everything pass."""
        return joined(self._outbox.spans, frame.spans)

    def _pass_alone(self, sender: Ref, frame: WholeFrame, now_s: float) -> list[Any]:
        """A solo frame goes at once, but never before what came earlier of one of its streams."""
        effects = []
        if any(span.stream in self._outbox.spans for span in frame.spans):
            effects += self._close(now_s)
        self.counters.passed_alone += 1
        self.counters.frames_out += 1
        self._flight.add(frame.parts(), [(sender, frame.number)], True, now_s)
        return effects + self._forget(0)

    # up

    def _flow(self, now_s: float) -> list[Any]:
        """Sends what can be sent, and has children held or freed."""
        effects: list[Any] = []
        if self._can_send and now_s >= self._burst_at:
            effects += self._burst(now_s)
        if self._can_ship and now_s >= self._outbox.due_s:
            effects += self._close(now_s) + self._burst(now_s)
        if self._can_send and not self._flight.waiting and self._syncs_due:
            assert self.parent is not None
            effects += [Send(self.parent, sync) for sync in messages(Sync, self._syncs_due)]
            self._syncs_due = []
        return effects + self._hold_or_free()

    def _close(self, now_s: float) -> list[Any]:
        """The outbox becomes a frame, and the SYNCs go behind it (V5)."""
        box, self._outbox = self._outbox, self._empty()
        self._reported.clear()
        self._syncs_due = [*self._syncs_due, *self._syncs][-self.options.syncs_max :]
        self._syncs = []
        if not box.spans:
            return []
        spans = tuple(box.spans[stream] for stream in sorted(box.spans))
        frame = WholeFrame(0, self._solo, spans, box.content.panes(), tuple(box.content.runs()), box.history)
        self.counters.frames_out += 1
        self._flight.add(frame.parts(), box.sources, self._solo, now_s)
        return self._forget(0)

    def _burst(self, now_s: float) -> list[Any]:
        assert self.parent is not None
        parts, lost = self._flight.send(self.options.burst_bytes, now_s)
        self._burst_at = now_s + self.options.hold_s if self._flight.waiting else -NEVER
        effects: list[Any] = [Send(self.parent, part) for part in parts]
        self.counters.forgotten += len(lost)
        return effects + self._answer(tuple(lost), Nack)

    def _hold_or_free(self) -> list[Any]:
        """Children are held while so much cannot leave that a frame would be half full, or too much is in flight."""
        if self._can_ship and not self.holding:
            return []  # and so with little in flight
        box = self._outbox
        stuck_bytes = box.content.held_bytes + self._flight.waiting_bytes
        full = max(stuck_bytes / self._frame_max, len(box.spans) / SPANS_MAX)
        if not self.holding and (full > 0.5 or self._flying(3, 4)):
            self.holding = True
            return [HoldChildren()]
        if self.holding and self._can_send and full <= 0.25 and not self._flying(2, 4):
            self.holding = False
            return [FreeChildren()]
        return []

    def _forget(self, more: int) -> list[Any]:
        """V4: forgets the oldest frames until the limits hold, and `more`; their senders are told."""
        effects: list[Any] = []
        flight, limits = self._flight, self.options
        while len(flight) > 1 and (
            more > 0 or flight.size > limits.pending_bytes_max or len(flight) > limits.pending_max
        ):
            more -= 1
            self.counters.forgotten += 1
            effects += self._answer((flight.oldest,), Nack)
        return effects

    def _attach(self, parent: Ref | None, now_s: float) -> None:
        """V3: what is not acknowledged is sent again, unchanged and in order; all goes alone until the first ACK."""
        if parent == self.parent:
            return
        self.parent, self._busy = parent, False
        self._restart(now_s)

    def _restart(self, now_s: float) -> None:
        """V3, also when the link broke and the parent may be the same: what was on it is lost."""
        self._solo, self._burst_at, self._again_at = True, -NEVER, NEVER
        self._flight.restart(now_s)

    # down

    def _answer(self, numbers: tuple[int, ...], kind: type[Ack] | type[Nack]) -> list[Any]:
        """V4: tells the children whose frames were in ours."""
        told: dict[Ref, list[int]] = defaultdict(list)
        for number in numbers:
            for child, theirs in self._flight.pop(number):
                told[child].append(theirs)
        return [Send(child, one) for child, theirs in told.items() for one in messages(kind, theirs)]

    # syncs

    def _sync(self, sender: Ref, message: Sync, now_s: float) -> None:
        for request in message.requests:
            self._routes.pop((request.stream, request.nonce), None)
            self._routes[request.stream, request.nonce] = (sender, now_s)
        while self._routes:
            _, (_, since_s) = next(iter(self._routes.items()))
            if len(self._routes) <= self.options.syncs_max and since_s + self.options.sync_keep_s > now_s:
                break
            self._routes.popitem(last=False)
        self._syncs = [*self._syncs, *message.requests][-self.options.syncs_max :]
        self._outbox.due_s = min(self._outbox.due_s, now_s + self.options.hold_s)

    def _synced(self, message: Synced) -> list[Any]:
        told: dict[Ref, list[SyncAnswer]] = defaultdict(list)
        for answer in message.answers:
            route = self._routes.pop((answer.stream, answer.nonce), None)
            if route is not None:
                told[route[0]].append(answer)
        return [Send(child, one) for child, answers in told.items() for one in messages(Synced, answers)]

    # time

    def _forget_old(self, now_s: float) -> list[Any]:
        """Frames that were not answered; those that wait for a busy parent are not too old, however long it takes."""
        effects: list[Any] = []
        while self._flight.due_s(self.options.forget_after_s, self.parent is None) <= now_s:
            self.counters.forgotten += 1
            effects += self._answer((self._flight.oldest,), Nack)
        return effects

    def check(self) -> None:
        """Raises AssertionError unless the limits hold and the books agree."""
        self._flight.check()
        if len(self._flight) > max(1, self.options.pending_max):
            raise AssertionError(f"{len(self._flight)} frames are on their way, at most {self.options.pending_max}")
        box = self._outbox
        if len(box.sources) > 1 and box.content.held_bytes > 2 * self.options.frame_bytes_max:
            raise AssertionError(f"the outbox has {box.content.held_bytes} bytes, over twice {self.options.frame_bytes_max}")
        if len(self._flight) > 1 and self._flight.size > self.options.pending_bytes_max:
            raise AssertionError(
                f"{self._flight.size} bytes are on their way, at most {self.options.pending_bytes_max}"
            )

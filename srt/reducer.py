"""A vertex of one job's reducer tree: merges the frames of its children and passes one on, and answers back.

It keeps nothing durable, no child's content apart, no list of agents. What it does may be lost at any moment: the root
judges frames by the ranges they name, so a vertex can at worst be slow. V1 to V5 are the rules of docs/PROTOCOL.md.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from cbt.budget import Budget, Ledger
from cbt.options import Options as TreeOptions
from srt.automaton import NEVER, Instant, Received, Ref, Send, Wake
from srt.content import Content
from srt.errors import ContentError
from srt.frame_messages import (
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
)
from srt.frames import Assembly, WholeFrame, chunks_of, joined

MIB = 1 << 20


class ParentChanged(NamedTuple):
    """The tree gave this vertex (or the agent) another parent, itself at the root, or none for now."""

    parent: Ref | None


class ChildrenChanged(NamedTuple):
    """The children whose leases are good; frames of others are taken all the same (V5)."""

    children: frozenset[Ref]


@dataclass(frozen=True)
class ReducerOptions:
    hold_s: float = 0.02
    """How long the first frame waits for others to be merged with."""
    frame_bytes_max: int = 64 * MIB
    """Memory of the outbox at which it is shipped, and what a frame of a child may hold."""
    pending_bytes_max: int = 128 * MIB
    """Bytes of frames that are not acknowledged; the oldest are forgotten beyond it. One is always kept."""
    pending_max: int = 1024
    forget_after_s: float = 30.0
    """A frame without an answer for so long is forgotten: its agents have asked again by themselves."""
    senders_max: int = 4096
    """Senders whose chunks are put together at a time."""
    syncs_max: int = 200_000
    sync_keep_s: float = 10.0


@dataclass
class _Pending:
    """A frame of ours on its way, and whose frames are in it."""

    chunks: list[Frame]
    sources: list[tuple[Ref, int]]
    run_bytes: int
    since_s: float


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
    sources: list[tuple[Ref, int]] = field(default_factory=list)
    due_s: float = NEVER
    history: int = 0


class Reducer:
    """One vertex. Its trees share `budget` with the other jobs of the node."""

    def __init__(
        self,
        ref: Ref,
        budget: Budget,
        options: ReducerOptions = ReducerOptions(),
        tree_options: TreeOptions = TreeOptions(),  # noqa: B008 - frozen
    ) -> None:
        self.ref, self.options, self.counters = ref, options, ReducerCounters()
        self.parent: Ref | None = None
        self._budget, self._tree_options = budget, tree_options
        self._ledger = Ledger(budget)
        self._outbox = self._empty()
        self._pending: OrderedDict[int, _Pending] = OrderedDict()
        self._pending_bytes = 0
        self._number = 0
        self._solo = False
        self._children: frozenset[Ref] = frozenset()
        self._reported: set[Ref] = set()
        self._assemblies: OrderedDict[Ref, Assembly] = OrderedDict()
        self._syncs: list[SyncRequest] = []
        self._routes: OrderedDict[tuple[StreamId, int], tuple[Ref, float]] = OrderedDict()

    def _empty(self) -> _Outbox:
        return _Outbox(Content(self._budget, self._tree_options))

    @property
    def wake_at(self) -> float:
        oldest = next(iter(self._pending.values()), None)
        return min(
            self._outbox.due_s, NEVER if oldest is None else oldest.since_s + self.options.forget_after_s
        )

    def handle(self, event: Any, now: Instant) -> list[Any]:
        if isinstance(event, Received):
            return self._receive(event.sender, event.message, now.s)
        if isinstance(event, ParentChanged):
            return self._attach(event.parent, now.s)
        if isinstance(event, ChildrenChanged):
            self._children = event.children
            self._reported &= event.children
            return []
        if isinstance(event, Wake):
            return self._wake(now.s)
        return []

    def _receive(self, sender: Ref, message: Any, now_s: float) -> list[Any]:
        if isinstance(message, Frame):
            return self._chunk(sender, message, now_s)
        if isinstance(message, Sync):
            return self._sync(sender, message, now_s)
        if isinstance(message, Refused):
            return [] if self.parent is None else [Send(self.parent, message)]
        if isinstance(message, Ack):
            if sender == self.parent and any(number in self._pending for number in message.numbers):
                self._solo = False
            return self._answer(message.numbers, Ack)
        if isinstance(message, Nack):
            return self._answer(message.numbers, Nack)
        if isinstance(message, Synced):
            return self._synced(message)
        return []

    # frames of children

    def _chunk(self, sender: Ref, chunk: Frame, now_s: float) -> list[Any]:
        assembly = self._assemblies.pop(sender, None) or Assembly(self.options.frame_bytes_max)
        frame = assembly.take(chunk)
        if assembly.run_bytes or (frame is None and not chunk.last):
            self._assemblies[sender] = assembly
            while len(self._assemblies) > self.options.senders_max:
                self._assemblies.popitem(last=False)
        return [] if frame is None else self._frame(sender, frame, now_s)

    def _frame(self, sender: Ref, frame: WholeFrame, now_s: float) -> list[Any]:
        self.counters.frames_in += 1
        if frame.solo:
            return self._pass_alone(sender, frame, now_s)
        box = self._outbox
        try:
            content = box.content.staged(frame.panes, frame.runs, self.options.frame_bytes_max)
        except ContentError:
            self.counters.refused += 1
            return [Send(sender, Nack((frame.number,)))]
        effects = []
        alike = box.content.fits(content) and (frame.history == box.history or not box.spans)
        spans = self._merged(frame) if alike else None
        if spans is None:
            effects += self._ship(now_s)
            box, spans = self._outbox, {span.stream: span for span in frame.spans}
        box.spans.update(spans)
        box.history = frame.history
        box.content.merge(content)
        box.sources.append((sender, frame.number))
        box.due_s = min(box.due_s, now_s + self.options.hold_s)
        self._reported.add(sender)
        everybody = bool(self._children) and self._children <= self._reported
        if everybody or box.content.tight or box.content.bytes_used >= self.options.frame_bytes_max:
            tight = box.content.tight is not None
            effects += self._ship(now_s)
            if tight:
                effects += self._forget(1)
        return effects

    def _merged(self, frame: WholeFrame) -> dict[StreamId, Span] | None:
        """V1; a mutant of the tests lets everything pass."""
        return joined(self._outbox.spans, frame.spans)

    def _pass_alone(self, sender: Ref, frame: WholeFrame, now_s: float) -> list[Any]:
        """A solo frame goes at once, but never before what came earlier of one of its streams."""
        effects = []
        if any(span.stream in self._outbox.spans for span in frame.spans):
            effects += self._ship(now_s)
        self.counters.passed_alone += 1
        return effects + self._send(frame._replace(solo=True), [(sender, frame.number)], now_s)

    # up

    def _ship(self, now_s: float) -> list[Any]:
        """Sends the outbox, and the SYNCs behind it (V5)."""
        box, self._outbox = self._outbox, self._empty()
        self._reported.clear()
        effects: list[Any] = []
        if box.spans:
            spans = tuple(box.spans[stream] for stream in sorted(box.spans))
            frame = WholeFrame(
                0, self._solo, spans, box.content.panes(), tuple(box.content.runs()), box.history
            )
            effects += self._send(frame, box.sources, now_s)
        if self._syncs and self.parent is not None:
            effects.append(Send(self.parent, Sync(tuple(self._syncs))))
            self._syncs = []
        return effects

    def _send(self, frame: WholeFrame, sources: list[tuple[Ref, int]], now_s: float) -> list[Any]:
        self._number += 1
        self.counters.frames_out += 1
        chunks = chunks_of(frame._replace(number=self._number))
        self._pending[self._number] = _Pending(chunks, sources, frame.run_bytes, now_s)
        self._book(frame.run_bytes)
        effects: list[Any] = [] if self.parent is None else [Send(self.parent, chunk) for chunk in chunks]
        return effects + self._forget(0)

    def _forget(self, more: int) -> list[Any]:
        """V4: forgets the oldest frames until the limits hold, and `more`; their senders are told."""
        effects: list[Any] = []
        limits = self.options
        while len(self._pending) > 1 and (
            more > 0
            or self._pending_bytes > limits.pending_bytes_max
            or len(self._pending) > limits.pending_max
        ):
            more -= 1
            self.counters.forgotten += 1
            effects += self._answer((next(iter(self._pending)),), Nack)
        return effects

    def _book(self, size: int) -> None:
        self._pending_bytes += size
        self._ledger.charge(size)

    def _attach(self, parent: Ref | None, now_s: float) -> list[Any]:
        """V3: what is not acknowledged is sent again, unchanged and in order; all goes alone until the first ACK."""
        if parent == self.parent:
            return []
        self.parent = parent
        self._solo = True
        effects: list[Any] = []
        for pending in self._pending.values():
            pending.chunks = [_alone(chunk) for chunk in pending.chunks]
            pending.since_s = now_s
            if parent is not None:
                effects += [Send(parent, chunk) for chunk in pending.chunks]
        if parent is not None and self._syncs and not self._outbox.spans:
            effects += self._ship(now_s)
        return effects

    # down

    def _answer(self, numbers: tuple[int, ...], kind: type[Ack] | type[Nack]) -> list[Any]:
        """V4: tells the children whose frames were in ours."""
        told: dict[Ref, list[int]] = defaultdict(list)
        for number in numbers:
            pending = self._pending.pop(number, None)
            if pending is not None:
                self._book(-pending.run_bytes)
                for child, theirs in pending.sources:
                    told[child].append(theirs)
        return [Send(child, kind(tuple(theirs))) for child, theirs in told.items()]

    # syncs

    def _sync(self, sender: Ref, message: Sync, now_s: float) -> list[Any]:
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
        return []

    def _synced(self, message: Synced) -> list[Any]:
        told: dict[Ref, list[SyncAnswer]] = defaultdict(list)
        for answer in message.answers:
            route = self._routes.pop((answer.stream, answer.nonce), None)
            if route is not None:
                told[route[0]].append(answer)
        return [Send(child, Synced(tuple(answers))) for child, answers in told.items()]

    # time

    def _wake(self, now_s: float) -> list[Any]:
        effects = self._ship(now_s) if now_s >= self._outbox.due_s else []
        while self._pending:
            number, pending = next(iter(self._pending.items()))
            if pending.since_s + self.options.forget_after_s > now_s:
                break
            self.counters.forgotten += 1
            effects += self._answer((number,), Nack)
        return effects

    def check(self) -> None:
        """Raises AssertionError unless the limits hold and the books agree."""
        held = sum(pending.run_bytes for pending in self._pending.values())
        if held != self._pending_bytes:
            raise AssertionError(f"{held} bytes are on their way and {self._pending_bytes} are booked")
        if len(self._pending) > 1 and held > self.options.pending_bytes_max:
            raise AssertionError(f"{held} bytes are on their way, at most {self.options.pending_bytes_max}")
        if list(self._pending) != sorted(self._pending):
            raise AssertionError("frames are not in the order in which they were sent")


def _alone(chunk: Frame) -> Frame:
    return chunk if chunk.solo else msgspec.structs.replace(chunk, solo=True)

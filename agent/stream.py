"""One stream of an agent: where it goes on, and what was sent of it and not acknowledged.

A stream is read once and cut once; of each piece every partition gets its groups, by a way of its own:

    CLOSED ──parent──▶ SYNCING ──SYNCED──▶ OPEN ──NACK, silence, new history──▶ SYNCING
       ▲                  │ refused           │
       └──────────────────┴── revision gone ──┘

A stream whose ways are all OPEN is *at the frontier* when the driver folds new lines into it (`base`), else behind it, and
catches up by reading again. `head` is the cut behind its last piece; `acked` of a way is the root's `next`, as far as it is
known.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from agent.journal import ORIGIN
from agent.stream_events import Portion
from srt.automaton import NEVER
from srt.frame_messages import Counters, PaneLines, Span, StreamId
from srt.frames import WholeFrame

PIECES_MAX = 3
"""Pieces of a stream that may be unacknowledged."""


class State(Enum):
    CLOSED = "closed"
    SYNCING = "syncing"
    OPEN = "open"


@dataclass
class Way:
    """One partition of a stream, on its way through the tree of that partition."""

    id: StreamId
    state: State = State.CLOSED
    nonce: int = 0
    asked_s: float = float("-inf")
    """When its last SYNC left, or may be tried again."""
    heard_s: float = float("-inf")
    """When something of it was last acknowledged."""
    acked: int = -1
    resume: int = -1
    """The cut at which its content goes on: `acked`, or the next cut that is still known; what lies between is lost."""
    solo: bool = False

    @property
    def partition(self) -> int:
        return self.id.partition


@dataclass
class Piece:
    """The aggregate of (start, end]."""

    start: int
    end: int
    watermark_us: int | None
    portion: Portion | None
    """None: dropped for want of memory; it can be folded again."""
    number: int
    """Of the frames that carry it."""
    durable: bool
    """The cut at its end is: before that it must not be sent (A1)."""
    due: set[int]
    """The partitions that have not acknowledged it."""
    teller: int = 0
    """The partition that tells what became of lines: the first one, or if that has them already, lost bytes alone."""
    sent_s: dict[int, float] = field(default_factory=dict)
    """When it was sent, by partition."""

    def frame(self, way: Way, history: int) -> WholeFrame | None:
        if self.portion is None:
            return None
        at_first = self.start == way.resume
        counters = self._counters(way.partition, 1 if at_first and way.acked < way.resume else 0)
        span = Span(way.id, way.acked if at_first else self.start, self.end, self.watermark_us, counters)
        part = self.portion.parts[way.partition] if self.portion.parts else ()
        panes = self.portion.panes
        if way.partition:  # lines are counted once; panes are named, or their groups would belong nowhere
            panes = tuple(sorted({PaneLines(run.revision, run.start_us, 0) for run in part}, key=_start))
        return WholeFrame(self.number, way.solo, (span,), panes, part, history)

    def _counters(self, partition: int, lost_bytes: int) -> Counters:
        assert self.portion is not None
        counters = self.portion.counters
        if partition:
            counters = Counters(lost_bytes=counters.lost_bytes if partition == self.teller else 0)
        return counters + Counters(lost_bytes=lost_bytes)


def _start(pane: PaneLines) -> int:
    return pane.start_us


class Stream:
    """Pure state; `agent/streams.py` moves it."""

    def __init__(self, stream: StreamId, partitions: int = 1, began: int = ORIGIN) -> None:
        self.id = stream.of(0)
        self.began = began
        """The newest cut there was."""
        self.offer: tuple[int, int] | None = None
        """Where it would begin and be split, once it has asked: the root may have taken that though nobody heard so."""
        self.ways = [Way(stream.of(partition)) for partition in range(partitions)]
        self.head = -1
        self.end = -1
        """Where a history lane ends."""
        self.base: int | None = None
        """The cut at which the driver's trees for it began; None: there are none."""
        self.folding: int | None = None
        """The token of a `Fold`."""
        self.watermark_us: int | None = None
        """Of the last piece."""
        self.pieces: deque[Piece] = deque()
        self._given_up: set[int] = set()
        """Ends of pieces that were sent and forgotten: one that is still on its way may be committed."""

    def way(self, partition: int) -> Way | None:
        return self.ways[partition] if partition < len(self.ways) else None

    @property
    def live(self) -> bool:
        return self.id.is_live

    @property
    def is_open(self) -> bool:
        return all(way.state is State.OPEN for way in self.ways)

    @property
    def acked(self) -> int:
        """Before it everything is acknowledged by all; -1: somebody was never opened."""
        return min(way.acked for way in self.ways)

    @property
    def finished(self) -> bool:
        return self.end >= 0 and self.head >= self.end

    @property
    def is_behind(self) -> bool:
        """Open, with more to read again before it is at the frontier, or not told yet that it is there."""
        return self.is_open and self.base != self.head and not self.finished

    @property
    def is_durable(self) -> bool:
        """All cuts at which its pieces end are stored."""
        return all(piece.durable for piece in self.pieces)

    @property
    def has_room(self) -> bool:
        return len(self.pieces) < PIECES_MAX

    @property
    def needed(self) -> set[int]:
        """Cuts at which it may have to go on, or ends."""
        ends = {cut for piece in self.pieces for cut in (piece.start, piece.end)}
        return self.stops | ends | self._given_up | set(self.offer or ())

    @property
    def stops(self) -> set[int]:
        """Cuts at which what is read next must end, if it reaches them."""
        return {self.end, *(way.resume for way in self.ways)}

    def add(
        self, end: int, mark: int | None, portion: Portion, number: int, durable: bool
    ) -> None:
        """Queues the piece that follows. One that brings a watermark alone is for the first partition: cuts are those of
        all, so the root knows what it means for them."""
        due = {way.partition for way in self.ways if way.resume < end} if end > self.head else {0}
        piece = Piece(self.head, end, mark, portion, number, durable, due, min(due))
        self.pieces.append(piece)
        self.head = end
        if mark is not None:
            self.watermark_us = mark

    def stored(self, cut: int) -> bool:
        """A cut is durable. Whether a piece ends there."""
        ending = [piece for piece in self.pieces if piece.end == cut and not piece.durable]
        for piece in ending:
            piece.durable = True
        return bool(ending)

    def to_send(self, way: Way) -> list[Piece]:
        """Pieces that were not sent and may be, in order: none before the one ahead of it."""
        ready = []
        for piece in self.pieces:
            if not piece.durable:
                break
            if way.partition in piece.due and way.partition not in piece.sent_s:
                ready.append(piece)
        return ready

    def acknowledged(self, way: Way, number: int, now_s: float) -> None:
        """A piece is committed in one of its partitions, and so are all before it."""
        for piece in self.pieces:
            self._done(piece, way)
            way.acked = way.resume = max(way.resume, piece.end)
            if piece.number == number:
                break
        way.heard_s, way.solo = now_s, False
        self._drop_done()

    def _done(self, piece: Piece, way: Way) -> None:
        piece.due.discard(way.partition)
        piece.sent_s.pop(way.partition, None)

    def _drop_done(self) -> None:
        while self.pieces and not self.pieces[0].due:
            self.pieces.popleft()
        self._given_up = {end for end in self._given_up if end > self.acked}

    def due_s(self, way: Way, silence_s: float) -> float:
        """When a way must be opened, or, without an answer for so long, opened again."""
        if way.state is State.CLOSED:
            return way.asked_s
        if way.state is State.SYNCING:
            return way.asked_s + silence_s
        since_s = self.silent_since(way)
        return NEVER if since_s is None else since_s + silence_s

    def silent_since(self, way: Way) -> float | None:
        """Since when an answer is due; None: nothing is on its way."""
        sent = [piece.sent_s[way.partition] for piece in self.pieces if way.partition in piece.sent_s]
        return max(min(sent), way.heard_s) if sent else None

    def opened(self, way: Way, following: int, resume: int, end: int, now_s: float) -> None:
        """The root's answer is the truth (A2): when all ways are open it goes on there, with the pieces there are if they
        do. `following` is its `next`, `resume` that cut, or the first one behind it that is known."""
        way.state, way.acked, way.resume, way.heard_s = State.OPEN, following, resume, now_s
        self.end = end
        for piece in self.pieces:
            piece.sent_s.pop(way.partition, None)
            if piece.end <= resume and piece.start != resume:
                piece.due.discard(way.partition)
        self._drop_done()
        if self.is_open:
            self.offer = None
        if self.is_open and not self._goes_on():
            self.restart(min(way.resume for way in self.ways))

    def _goes_on(self) -> bool:
        """Whether the pieces, and what is read behind them, begin where each way does, and can be sent."""
        least = min(way.resume for way in self.ways)
        if least != (self.pieces[0].start if self.pieces else self.head):
            return False
        for way in self.ways:
            mine = [piece for piece in self.pieces if way.partition in piece.due]
            if mine and mine[0].start != way.resume:
                return False
            if not mine and way.resume < self.head:
                return False
        return all(piece.portion is not None or piece.due == piece.sent_s.keys() for piece in self.pieces)

    def forget(self) -> None:
        """The root may have lost what it acknowledged."""
        self.restart(self.head)
        self.offer = None
        for way in self.ways:
            way.acked = way.resume = -1

    def restart(self, at: int) -> None:
        """Forgets its pieces; it will be read again from there."""
        self._given_up.update(piece.end for piece in self.pieces if piece.durable)
        self.pieces.clear()
        self.head, self.base, self.folding, self.watermark_us = at, None, None, None

    def again(self, way: Way) -> bool:
        """Everything is to be sent once more, to another parent (A3). False: some of it must be folded first."""
        mine = [piece for piece in self.pieces if way.partition in piece.due]
        way.solo = way.solo or any(way.partition in piece.sent_s for piece in mine)
        for piece in mine:
            piece.sent_s.pop(way.partition, None)
        return all(piece.portion is not None for piece in mine)

    def shrink(self) -> None:
        """Drops the content of what was sent."""
        for piece in self.pieces:
            if piece.due == piece.sent_s.keys():
                piece.portion = None



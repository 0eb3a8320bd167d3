"""One stream of an agent: where it goes on, and what was sent of it and not acknowledged.

    CLOSED ──parent──▶ SYNCING ──SYNCED──▶ OPEN ──NACK, silence, new history──▶ SYNCING
       ▲                  │ refused           │
       └──────────────────┴── revision gone ──┘

An OPEN stream is *at the frontier* when the driver folds new lines into it (`base`), else behind it, and catches up by
reading again. `head` is the cut behind its last piece, `acked` the root's `next` as far as it is known.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from agent.stream_events import Portion
from srt.frame_messages import LIVE, Span, StreamId, SyncAnswer
from srt.frames import WholeFrame

PIECES_MAX = 3
"""Pieces of a stream that may be unacknowledged."""


class State(Enum):
    CLOSED = "closed"
    SYNCING = "syncing"
    OPEN = "open"


@dataclass
class Piece:
    """The aggregate of (start, end]."""

    start: int
    end: int
    watermark_us: int | None
    portion: Portion | None
    """None: dropped for want of memory; it can be folded again."""
    number: int
    """Of the frame that carries it."""
    durable: bool
    """The cut at its end is: before that it must not be sent (A1)."""
    sent_s: float | None = None

    def frame(self, stream: StreamId, solo: bool, history: int) -> WholeFrame | None:
        if self.portion is None:
            return None
        span = Span(stream, self.start, self.end, self.watermark_us, self.portion.counters)
        return WholeFrame(self.number, solo, (span,), self.portion.panes, self.portion.runs, history)


@dataclass
class Stream:
    """Pure state; `agent/streams.py` moves it."""

    id: StreamId
    state: State = State.CLOSED
    nonce: int = 0
    asked_s: float = float("-inf")
    """When its last SYNC left, or may be tried again."""
    heard_s: float = float("-inf")
    """When something of it was last acknowledged."""
    acked: int = -1
    head: int = -1
    end: int = -1
    """Where a history lane ends."""
    base: int | None = None
    """The cut at which the driver's trees for it began; None: there are none."""
    folding: int | None = None
    """The token of a `Fold`."""
    solo: bool = False
    watermark_us: int | None = None
    """Of the last piece."""
    pieces: deque[Piece] = field(default_factory=deque)

    @property
    def live(self) -> bool:
        return self.id.lane == LIVE

    @property
    def finished(self) -> bool:
        return self.end >= 0 and self.head >= self.end

    @property
    def has_room(self) -> bool:
        return len(self.pieces) < PIECES_MAX

    def add(self, piece: Piece) -> None:
        """Queues the piece that follows."""
        if piece.start != self.head:
            raise AssertionError(f"a piece from {piece.start} behind one that ends at {self.head}")
        self.pieces.append(piece)
        self.head = piece.end
        if piece.watermark_us is not None:
            self.watermark_us = piece.watermark_us

    def to_send(self) -> list[Piece]:
        """Pieces that were not sent and may be, in order: none before the one ahead of it."""
        ready = []
        for piece in self.pieces:
            if not piece.durable:
                break
            if piece.sent_s is None:
                ready.append(piece)
        return ready

    def acknowledged(self, number: int, now_s: float) -> None:
        """One of its pieces is committed, and so are all before it."""
        while True:
            piece = self.pieces.popleft()
            self.acked = piece.end
            if piece.number == number:
                break
        self.heard_s, self.solo = now_s, False

    def silent_since(self) -> float | None:
        """Since when an answer is due; None: nothing is on its way."""
        sent = [piece.sent_s for piece in self.pieces if piece.sent_s is not None]
        return max(min(sent), self.heard_s) if sent else None

    def opened(self, answer: SyncAnswer, now_s: float) -> None:
        """The root's answer is the truth (A2): go on there, with the pieces there are if they do."""
        self.state, self.acked, self.end, self.heard_s = State.OPEN, answer.next, answer.end, now_s
        while self.pieces and self.pieces[0].end <= answer.next and self.pieces[0].start != answer.next:
            self.pieces.popleft()
        first = self.pieces[0] if self.pieces else None
        if first is None and self.head == answer.next:
            return
        if first is None or first.start != answer.next or any(piece.portion is None for piece in self.pieces):
            self.restart(answer.next)
        for piece in self.pieces:
            piece.sent_s = None

    def restart(self, at: int) -> None:
        """Forgets its pieces; it will be read again from there."""
        self.pieces.clear()
        self.head, self.base, self.folding, self.watermark_us = at, None, None, None

    def again(self) -> bool:
        """Everything is to be sent once more, to another parent (A3). False: some of it must be folded first."""
        sent = any(piece.sent_s is not None for piece in self.pieces)
        self.solo = self.solo or sent
        for piece in self.pieces:
            piece.sent_s = None
        return all(piece.portion is not None for piece in self.pieces)

    def shrink(self) -> None:
        """Drops the content of what was sent."""
        for piece in self.pieces:
            if piece.sent_s is not None:
                piece.portion = None

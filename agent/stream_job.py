"""One job as an agent sees it: its plan book, its time, its streams, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.journal import ORIGIN, STRIDE, Journal
from agent.journal_format import Cut
from agent.stream import Stream
from agent.stream_events import FoldSpec
from job.plan_book import NEVER_US, PlanBook, feed_plan, row_plan
from job.watermark import AHEAD_MAX_US, SourceWatermark, Timing
from srt.automaton import Ref
from srt.frame_messages import StreamId, SyncRequest


@dataclass
class Job:
    """One job's tree, as this agent sees it."""

    key: bytes
    of_source: Callable[[str, bytes], bool]
    """Whether a file, by its identity, belongs to a source."""
    parent: Ref | None = None
    book: PlanBook = field(default_factory=PlanBook)
    history: int = -1
    horizon_us: int = -NEVER_US
    draining: bool = False
    drained_from: int | None = None
    """The first `Advance` that was asked for after that was known."""
    clock_ahead_us: int = 0
    announced_us: int | None = None
    emit_at_s: float = 0.0
    marks: SourceWatermark = field(default_factory=lambda: SourceWatermark(Timing()))
    timing: Timing | None = None
    streams: dict[StreamId, Stream] = field(default_factory=dict)
    asking: list[SyncRequest] = field(default_factory=list)
    emit_s: float = 0.5
    refused: dict[int, tuple[str, float]] = field(default_factory=dict)
    """Feeds that this agent cannot run: why, and when that was last said."""

    def reads(self, file: bytes) -> bool:
        """Whether lines of the file go into the job. O(revisions)."""
        return any(self.of_source(row_plan(known.plan).source, file) for known in self.book.revisions)

    def stream_of(self, number: int) -> Stream | None:
        """The stream that waits for what becomes of a piece; None: nobody does any more. O(streams)."""
        for stream in self.streams.values():
            if any(piece.number == number for piece in stream.pieces):
                return stream
        return None

    def proposal(self, stream: Stream, journal: Journal) -> tuple[int, int]:
        """A7: the greatest cut before everything the revision wants."""
        revisions = self.book.fed_by(stream.id.revision)
        if not stream.live or not revisions:
            return max(stream.head, ORIGIN), -1  # the root knows where; the wire takes no number below
        newest = journal.durable.peekitem()[0]
        endless = not revisions[0].slide_us
        if endless and not revisions[0].split:
            return newest, -1
        first = self.book.panes(stream.id.revision)[0]
        reach_us = revisions[0].read_us if endless else max(first, self.horizon_us)
        start = journal.greatest_before(reach_us).number
        split = revisions[0].split and newest > start
        return start, newest if split else -1

    def spec(self, stream: Stream, frontier: int, deliver: bool = True) -> FoldSpec:
        """How a stream is folded; `frontier` is the number of the newest cut."""
        feed = stream.id.revision
        first, end = self.book.panes(feed)
        closed = -NEVER_US if self.horizon_us >= NEVER_US else self.horizon_us
        plan = feed_plan(self.book.fed_by(feed)[0])
        fresh = stream.base == frontier
        return FoldSpec((self.key, stream.id), plan, first, end, closed, deliver, fresh)

    def old_mark(self, cut: Cut, wall_us: int) -> int | None:
        """The watermark at an old cut: the least of the greatest times of its unfinished files. Idle files hold it back
        there; the frontier is not far. Where an old range was cut again nothing is known: files may not have been begun."""
        times = [at.latest_us for name, at in cut.files.items() if not at.finished and self.reads(name)]
        if self.timing is None or cut.number % STRIDE or not times or None in times:
            return None
        clock_us = wall_us + self.clock_ahead_us
        return (
            min([time for time in times if time is not None] + [clock_us + AHEAD_MAX_US])
            - self.timing.delay_us
        )

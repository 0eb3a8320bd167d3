"""One job as an agent sees it: its plan book, its time, its streams, and what follows from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.journal import ORIGIN, STRIDE, Journal
from agent.journal_format import Cut
from agent.stream import Stream, Way
from agent.stream_events import FoldSpec
from job.plan import Plan
from job.plan_book import ALWAYS, NEVER_US, PlanBook, feed_plan, row_plan
from job.watermark import AHEAD_MAX_US, SourceWatermark, Timing
from srt.automaton import NEVER, Instant, Ref
from srt.frame_messages import LIVE, StreamId, SyncRequest


def next_tick(now_s: float, every_s: float) -> float:
    """The next multiple: so that the jobs of an agent with the same emit share their cuts."""
    return max((now_s // every_s + 1) * every_s, now_s + every_s / 1000)


@dataclass
class Job:
    """One job's tree, as this agent sees it."""

    key: bytes
    of_source: Callable[[str, bytes], bool]
    """Whether a file, by its identity, belongs to a source."""
    parents: dict[int, Ref | None] = field(default_factory=dict)
    """The vertex to which messages go, in the tree of each partition."""
    trees: int = 1
    """So many partitions have the streams with the most."""
    book: PlanBook = field(default_factory=PlanBook)
    history: int = -1
    taken: tuple[int, int] | None = None
    """History and version of the book, once it was looked at with the sources there are."""
    horizon_us: int = -NEVER_US
    draining: bool = False
    drained_from: int | None = None
    """The first `Advance` that was asked for after that was known."""
    clock_base_us: int | None = None
    """The root's clock less this node's monotonic one: the root tells it seldom, and a wall clock here may be set meanwhile.
    None: it was never told."""
    announced_us: int | None = None
    emit_at_s: float = 0.0
    marks: SourceWatermark = field(default_factory=lambda: SourceWatermark(Timing()))
    timing: Timing | None = None
    streams: dict[StreamId, Stream] = field(default_factory=dict)
    asking: defaultdict[int, list[SyncRequest]] = field(default_factory=lambda: defaultdict(list))
    """By partition."""
    emit_s: float = 0.5
    refused: dict[int, tuple[str, float]] = field(default_factory=dict)
    """Feeds that this agent cannot run: why, and when that was last said."""
    _specs: dict[StreamId, tuple[PlanBook, tuple[Any, ...], FoldSpec]] = field(default_factory=dict)
    """The last of each stream, with what it was made of."""

    def parent(self, way: Way) -> Ref | None:
        return self.parents.get(way.partition)

    def reads(self, file: bytes) -> bool:
        """Whether lines of the file go into the job. O(revisions)."""
        return any(self.of_source(row_plan(known.plan).source, file) for known in self.book.revisions)

    def clock_us(self, now: Instant) -> int:
        """The root's clock."""
        return now.wall_us if self.clock_base_us is None else self.clock_base_us + int(now.s * 1e6)

    def take_book(
        self, book: PlanBook, journal: Journal, now_s: float, can_run: Callable[[Plan], str | None]
    ) -> None:
        """Streams for its feeds, and for no others; `can_run` says which plans cannot be run here."""
        self.book = book
        newest = book.revisions[-1] if book.revisions else None
        if newest is not None:
            self.emit_s = newest.settings.emit_us / 1e6
        if newest is not None and newest.timing != self.timing:
            self.timing = newest.timing
            self.marks = SourceWatermark(newest.timing)
            for name, at in journal.newest.files.items():
                if at.latest_us is not None and self.reads(name):
                    self.marks.lines(name, at.latest_us, int(now_s * 1e6))
                    if at.finished:  # it holds nobody back, but this is no source that never had a line
                        self.marks.closed(name)
        for stream, known in list(self.streams.items()):
            # After a forced recovery a revision of the same number may be another one.
            if stream.revision not in book.feeds or len(known.ways) != book.partitions(stream.revision):
                del self.streams[stream]
                self._specs.pop(stream, None)
        self.refused = {feed: why for feed, why in self.refused.items() if feed in book.feeds}
        for feed in book.feeds:
            problem = can_run(row_plan(book.fed_by(feed)[0].plan))
            stream = StreamId(feed, journal.journal_id, LIVE)
            if problem is not None:
                self.refused.setdefault(feed, (problem, -NEVER))
            elif stream not in self.streams:
                self.streams[stream] = Stream(stream, book.partitions(feed), journal.newest.number)
        self.trees = max((len(stream.ways) for stream in self.streams.values()), default=1)

    def came(self, heard: Mapping[bytes, int], closed: Iterable[bytes], now_us: int) -> None:
        """Files had lines, the latest of that time; others have been read to their end."""
        for name, latest_us in heard.items():
            if self.reads(name):
                self.marks.lines(name, latest_us, now_us)
        for name in closed:
            self.marks.closed(name)

    def refusals(self, now_s: float, every_s: float) -> list[tuple[int, str]]:
        """Which feeds the root is to be told about now, and why each cannot run; after that they have been said."""
        due = [
            (feed, problem)
            for feed, (problem, said_s) in self.refused.items()
            if self.parents.get(0) is not None and now_s >= said_s + every_s
        ]
        self.refused |= {feed: (problem, now_s) for feed, problem in due}
        return due

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

    def spec(self, stream: Stream, frontier: int, deliver: bool = True, new: bool = False) -> FoldSpec:
        """How a stream is folded; `frontier` is the number of the newest cut. `new`: lines that nobody has read. Of others
        the streams of plans that are closed by now may have counted those before this plan."""
        fresh = stream.base == frontier
        given = (self.horizon_us, deliver, new, fresh, len(stream.ways))
        known = self._specs.get(stream.id)
        if known is not None and known[0] is self.book and known[1] == given:
            return known[2]  # asked for at each emit: it is made once for many
        feed = stream.id.revision
        first, end = self.book.panes(feed)
        closed = -NEVER_US if self.horizon_us >= NEVER_US else self.horizon_us
        plan, over = feed_plan(self.book.fed_by(feed)[0]), self.book.over_us() if new else ALWAYS
        made = FoldSpec((self.key, stream.id), plan, first, end, closed, over, deliver, fresh, len(stream.ways))
        self._specs[stream.id] = self.book, given, made
        return made

    def old_mark(self, cut: Cut, now: Instant) -> int | None:
        """The watermark at an old cut: the least of the greatest times of its unfinished files. Idle files hold it back
        there; the frontier is not far. Where an old range was cut again nothing is known: files may not have been begun."""
        times = [at.latest_us for name, at in cut.files.items() if not at.finished and self.reads(name)]
        if self.timing is None or cut.number % STRIDE or not times or None in times:
            return None
        bound_us = self.clock_us(now) + AHEAD_MAX_US
        return min([time for time in times if time is not None] + [bound_us]) - self.timing.delay_us

"""An agent on real files under a clock that the test moves, and a root that keeps what it is sent: for tests of the logs.

The root is the least there can be: it registers streams, takes every piece that starts at its `next`, and merges the
content. Messages are lost at the rate `loss`. The journal is stored at once, in memory that outlives the agent.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

from agent.journal import Journal, JournalOptions
from agent.log_id import of_source
from agent.log_reader import FILES_MAX, LogReader
from agent.sources import Source, Sources
from agent.stream_events import (
    Advance,
    Fold,
    Folded,
    JobGone,
    JobHeard,
    JobParent,
    JobTold,
    JobUp,
    Release,
    Shrink,
    Trouble,
)
from agent.stream_options import StreamsOptions
from agent.streams import Streams
from cbt.budget import Budget
from cbt.memory import Memory
from cbt.options import Options
from job.plan import Plan
from job.plan_book import ALWAYS, PlanBook
from job.row_phase import RowPhase
from job.settings import Settings
from srt.automaton import WAKE, Instant, Ref, Stored, Write, WriteAt
from srt.content import Content
from srt.frame_messages import (
    LIVE,
    Ack,
    Counters,
    Frame,
    News,
    StreamId,
    Sync,
    SyncAnswer,
    Synced,
)
from srt.frames import Assemblies
from tests.sim.cut_truth import canonical

UP = Ref(b"u" * 16, "up", 1)
CLOCK_US = 1_893_456_000_000_000
"""2030: no line of the tests is from the future."""
ID = b"\x07" * 16
PATIENT = Settings(delay_us=0, idle_us=3600 * 1_000_000, lateness_us=0)
"""No file is idle, and nothing is late."""


class Committed:
    """One stream at the root."""

    def __init__(self, start: int) -> None:
        self.next = self.start = start
        self.watermark_us: int | None = None
        self.counters = Counters()
        self.content = Content(Budget(), Options())


class SmallRoot:
    """The root of one job."""

    def __init__(self, key: bytes, plan: Plan, start_us: int = 0, settings: Settings = PATIENT) -> None:
        self.key = key
        self.book = PlanBook()
        self.horizon_us = ALWAYS
        self.streams: dict[StreamId, Committed] = {}
        self.answers: deque[Any] = deque()
        self.refused: list[str] = []
        self._assemblies = Assemblies(1 << 30, 1 << 30, 1)
        self.change(plan, start_us, settings)

    def change(self, plan: Plan, start_us: int, settings: Settings = PATIENT) -> None:
        revision = self.book.revised(start_us, plan, settings, own_feed=True)
        self.book = self.book.add(revision, ALWAYS)

    def news(self, clock_us: int, draining: bool = False) -> News:
        return News(1, 1, self.book.version, self.book, self.horizon_us, draining, clock_us, None)

    def take(self, message: Any) -> None:
        if isinstance(message, Sync):
            answers = []
            for one in message.requests:
                known = self.streams.setdefault(one.stream, Committed(one.start))
                answers.append(SyncAnswer(one.stream, one.nonce, known.next, known.start, -1, False))
            self.answers.append(Synced(tuple(answers)))
        elif isinstance(message, Frame):
            whole = self._assemblies.take(UP, message)
            if whole is not None:
                self._frame(whole)
        else:
            self.refused.append(message.reason)

    def _frame(self, whole: Any) -> None:
        (span,) = whole.spans
        stream = self.streams[span.stream]
        if span.start != stream.next and span.end > stream.next:
            return  # it comes again, once the agent has asked
        if span.start == stream.next:
            stream.next = span.end
            stream.counters += span.counters
            if span.watermark_us is not None:
                stream.watermark_us = max(span.watermark_us, stream.watermark_us or span.watermark_us)
            stream.content.merge(stream.content.staged(whole.panes, whole.runs, 1 << 30))
        self.answers.append(Ack((whole.number,)))

    def stream(self, revision: int = 1) -> Committed:
        return self.streams[StreamId(revision, ID, LIVE)]


class SmallAgent:
    """Streams and reader, driven step by step."""

    def __init__(
        self,
        folder: Path,
        sources: Iterable[Source],
        roots: Iterable[SmallRoot],
        *,
        memory: Memory | None = None,
        journal: bytearray | None = None,
        seed: int = 0,
        loss: float = 0.0,
        files_max: int = FILES_MAX,
        **options: Any,
    ) -> None:
        journal_options = JournalOptions()
        self.data = journal if journal is not None else bytearray(journal_options.file_bytes)
        self._files_max = files_max
        self.rng, self.loss = random.Random(seed), loss
        self.sources = Sources(sources)
        self.roots = {root.key: root for root in roots}
        self.now = 1000.0
        self.troubles: list[str] = []
        self.shrinks = 0
        self.released: Release | None = None
        self.folds: deque[Generator[float, None, Folded]] = deque()
        self.folded = self.advanced = 0
        self._folder, self._memory = folder, memory
        self._options = StreamsOptions(**{"settle_s": 0.0, **options})
        self.boot()

    def boot(self) -> None:
        """A start of the process."""
        journal = Journal(bytes(self.data), ID, JournalOptions())
        start = None if journal.newest.number == 0 else journal.newest.files
        self.streams = Streams(
            "web1",
            journal,
            random.Random(self.rng.getrandbits(60)),
            self.sources.can_run,
            self._options,
            of_source,
        )
        self.reader = LogReader(
            self.sources,
            start,
            self._memory or Memory(),
            str(self._folder / "logs"),
            ID,
            hints=False,
            clock=lambda: self.now,
            wall_us=lambda: self.wall_us,
            files_max=self._files_max,
        )
        self.folds.clear()
        self.give(self.reader.begin())
        for root in self.roots.values():
            self.tell(root)
            self.give(JobParent(root.key, UP))

    def tell(self, root: SmallRoot) -> None:
        self.give(JobTold(root.key, root.news(self.wall_us)))

    def reload(self, sources: Iterable[Source]) -> None:
        """Other sources in the same process, while nothing is read again."""
        assert not self.folds
        self.sources = Sources(sources)
        self.reader.change(self.sources)
        self.reader.begin()

    def crash(self) -> None:
        """The process is gone, with everything in memory."""
        self.reader.abandon()

    @property
    def wall_us(self) -> int:
        return CLOCK_US + int(self.now * 1e6)

    def give(self, event: Any) -> None:
        waiting = [event]
        while waiting:
            for effect in self.streams.handle(waiting.pop(0), Instant(self.now, self.wall_us)):
                if isinstance(effect, JobUp):
                    if self.rng.random() >= self.loss:
                        self.roots[effect.job].take(effect.message)
                elif isinstance(effect, Write):
                    for change in effect.changes:
                        assert isinstance(change, WriteAt)
                        self.data[change.offset : change.offset + len(change.data)] = change.data
                    waiting.append(Stored(effect.token))
                elif isinstance(effect, Advance):
                    self.advanced += 1
                    waiting.append(self.reader.advance(effect))
                elif isinstance(effect, Fold):
                    self.folds.append(self.reader.folding(effect))
                elif isinstance(effect, Release):
                    self.released = effect
                    self.reader.release(effect)
                elif isinstance(effect, Trouble):
                    self.troubles.append(effect.problem)

    def step(self, seconds: float = 0.25) -> None:
        """Time goes on, and everybody does what there is to do."""
        self.now += seconds
        self.reader.idle()
        for root in self.roots.values():
            while root.answers:
                answer = root.answers.popleft()
                if self.rng.random() >= self.loss:
                    self.give(JobHeard(root.key, answer))
        for _ in range(len(self.folds)):
            steps = self.folds.popleft()
            for rest_s in steps_of(steps):
                if isinstance(rest_s, Folded):
                    self.folded += 1
                    self.give(rest_s)
                elif rest_s:
                    self.folds.append(steps)
                    break
        if self.streams.wake_at <= self.now:
            self.give(WAKE)
        self.troubles += self.reader.take_troubles()
        if self.reader.wants_shrink:
            self.reader.wants_shrink = False
            self.shrinks += 1
            self.give(Shrink())

    def settle(self, seconds: float = 30.0) -> None:
        """Until everything there is has been committed; messages are not lost meanwhile."""
        loss, self.loss = self.loss, 0.0
        quiet = 0
        for _ in range(int(seconds / 0.25) + 400):
            before = (
                self.reader.figures(),
                [one.next for root in self.roots.values() for one in root.streams.values()],
            )
            self.step()
            after = (
                self.reader.figures(),
                [one.next for root in self.roots.values() for one in root.streams.values()],
            )
            calm = (
                before[1] == after[1]
                and not self.folds
                and all(
                    stream.head == self.streams.journal.newest.number
                    and all(piece.start == piece.end for piece in stream.pieces)  # a watermark, no more
                    for job in self.streams.jobs.values()
                    for stream in job.streams.values()
                )
                and not any(file.lag_bytes for source in after[0] for file in source.files)
            )
            quiet = quiet + 1 if calm else 0
            if quiet >= seconds / 0.25:
                break
        else:
            raise AssertionError("it does not come to rest")
        self.loss = loss

    def stop_job(self, key: bytes) -> None:
        self.give(JobGone(key))
        del self.roots[key]


def steps_of(steps: Generator[float, None, Folded]) -> Generator[float | Folded, None, None]:
    while True:
        try:
            yield next(steps)
        except StopIteration as done:
            yield done.value
            return


def content_of(stream: Committed) -> dict[int, dict[int, bytes]]:
    """The groups of each pane, in one canonical form."""
    return {
        start: {number: data for number, tree in tables.items() if (data := canonical(tree))}
        for (_, start), tables in stream.content.tables.items()
    }


def truth_of(
    plan: Plan, source: Source, texts: Iterable[bytes]
) -> tuple[dict[int, dict[int, bytes]], Counters]:
    """What one fold of whole logs gives."""
    from agent.pipeline import SourcePipeline

    phase = RowPhase(plan)
    pipeline = SourcePipeline(source.format, [phase], timed=source.timed)
    for text in texts:
        pipeline.next_file()
        pipeline.feed(text, 0, len(text))
    panes = {
        start: {
            number: data
            for number, tree in enumerate([state.groups, *state.pairs])
            if (data := canonical(tree))
        }
        for start, state in phase.store.panes.items()
    }
    counts = pipeline.counts
    rejected = sum(counts.rejected.values())
    rows = sum(phase.pane_rows.values())
    return panes, Counters(counts.parsed + rejected, rows, phase.filtered, phase.outside, rejected)

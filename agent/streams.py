"""The agent's core: cuts its logs, sends the pieces of all jobs, opens streams and re-reads what the root asks for.

Reading is done by the driver (`agent/stream_events.py`); the journal is a value of this core. Rule names (A1 to A9) are
those of docs/PROTOCOL.md.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent.errors import JournalFull, OptionsError
from agent.journal import ORIGIN, Journal
from agent.journal_format import Cut
from agent.stream import Piece, State, Stream
from agent.stream_events import (
    Advance,
    Advanced,
    Fold,
    Folded,
    JobGone,
    JobHeard,
    JobParent,
    JobTold,
    JobUp,
    Portion,
    Release,
    Shrink,
    Started,
    StreamKey,
    Trouble,
)
from agent.stream_job import Job
from job.plan import Plan
from job.plan_book import NEVER_US, PlanBook, row_plan
from job.watermark import SourceWatermark
from srt.automaton import NEVER, Instant, Ref, Stored, StoreFailed
from srt.frame_messages import (
    HISTORY,
    LIVE,
    REASON_MAX,
    Ack,
    Nack,
    News,
    Refused,
    StreamId,
    Sync,
    SyncAnswer,
    Synced,
    SyncRequest,
    messages,
)
from srt.frames import messages_of

MIB = 1 << 20


@dataclass(frozen=True)
class StreamsOptions:
    """Of all streams of an agent. Raises OptionsError naming everything that is wrong."""

    advance_bytes_max: int = 64 * MIB
    fold_bytes_max: int = 64 * MIB
    folds_max: int = 2
    """Ranges that are read again at a time."""
    silence_s: float = 3.0
    """Without an answer for so long a stream is opened again (A2)."""
    settle_s: float = 60.0
    """After a start nothing is let go for so long, as jobs may not have been heard of."""
    retry_s: float = 1.0
    """Before a write that failed, or a cut for which there was no room, is tried again."""

    def __post_init__(self) -> None:
        wrong = [f"{name} must be positive" for name in _POSITIVE if getattr(self, name) <= 0]
        if self.settle_s < 0:
            wrong.append("settle_s must not be negative")
        if wrong:
            raise OptionsError("; ".join(wrong))


_POSITIVE = ("advance_bytes_max", "fold_bytes_max", "folds_max", "silence_s", "retry_s")


class Streams:
    """All streams of one agent."""

    def __init__(
        self,
        name: str,
        journal: Journal,
        rng: random.Random,
        can_run: Callable[[Plan], str | None],
        options: StreamsOptions = StreamsOptions(),
        of_source: Callable[[str, bytes], bool] = lambda _source, _file: True,
    ) -> None:
        """`can_run` says why a plan cannot be run here; None: it can. `of_source` says whether a file, by its identity,
        belongs to a source: only those tell a job's time."""
        self.name, self.journal, self.options = name, journal, options
        self.jobs: dict[bytes, Job] = {}
        self.released: Cut | None = None
        """The cut up to which logs may be let go."""
        self._rng, self._can_run, self._of_source = rng, can_run, of_source
        self._instance = rng.getrandbits(62)
        self._ready = False
        """The write of the start is stored, and the logs are known."""
        self._started: Started | None = None
        self._booted = False
        self._begun_s = 0.0
        self._number = 0
        self._token = 0
        self._advance: Advance | None = None
        self._more = False
        self._advance_at_s = 0.0
        """Not before."""
        self._stalled_until_s = 0.0
        self._complete_us = 0
        self._complete_token = 0
        """Of the last `Advance` that read to the end of all logs."""
        """When everything there was had been read, the last time."""
        self._unread = False
        """A file is known of which no line was read yet, and there are more lines to read."""
        self._folds: dict[int, tuple[StreamKey, int, int, bool]] = {}
        """By token: stream, start, target, and whether its range was lost in part."""
        self._retries: dict[int, float] = {}
        self._out: list[Any] = []
        self._now = Instant(0.0, 0)

    # events

    @property
    def wake_at(self) -> float:
        times = [*self._retries.values(), NEVER]
        if not self._ready:
            return min(times)
        if self._advance is None and self.jobs and not self._somebody_joins():
            times.append(self._advance_due_s)
        if self._stalled_until_s > self._now.s:
            times.append(self._stalled_until_s)
        for job in self.jobs.values():
            if job.parent is None:
                continue
            for stream in job.streams.values():
                times.append(self._due_s(stream))
        return min(times)

    def handle(self, event: Any, now: Instant) -> list[Any]:
        self._now, self._out = now, []
        if isinstance(event, Started):
            self._start(event)
        elif isinstance(event, Stored):
            self._stored(event.token)
        elif isinstance(event, StoreFailed):
            self._retries[event.token] = now.s + self.options.retry_s
        elif isinstance(event, Advanced):
            self._advanced(event)
        elif isinstance(event, Folded):
            self._folded(event)
        elif isinstance(event, Shrink):
            for job in self.jobs.values():
                for stream in job.streams.values():
                    stream.shrink()
        else:
            self._job_event(event)
        self._step()
        return self._out

    def _job_event(self, event: Any) -> None:
        if isinstance(event, JobTold):
            self._told(self._job(event.job), event.news)
        elif isinstance(event, JobParent):
            self._attach(self._job(event.job), event.parent)
        elif isinstance(event, JobHeard) and event.job in self.jobs:
            self._heard(self.jobs[event.job], event.message)
        elif isinstance(event, JobGone):
            self.jobs.pop(event.job, None)

    def _job(self, key: bytes) -> Job:
        return self.jobs.setdefault(key, Job(key, self._of_source))

    # the start and the journal

    def _start(self, event: Started) -> None:
        self._started, self._begun_s = event, self._now.s
        self._out.append(self.journal.start())

    def _stored(self, token: int) -> None:
        number = self.journal.stored(token)
        if not self._booted:
            self._booted = True  # the write of the start is the first
            if self.journal.newest.number == ORIGIN and self._started is not None:
                _, write = self.journal.cut(self._started.files, None)
                self._out.append(write)
            else:
                self._ready = True
            return
        self._ready = True
        if number is not None:
            for job in self.jobs.values():
                for stream in job.streams.values():
                    for piece in stream.pieces:
                        piece.durable = piece.durable or piece.end == number

    def _retry_writes(self) -> None:
        for token in [token for token, at in self._retries.items() if at <= self._now.s]:
            del self._retries[token]
            self._out.append(self.journal.failed(token))

    # what the tree says

    def _told(self, job: Job, news: News) -> None:
        job.clock_ahead_us = news.clock_us - self._now.wall_us
        job.draining = job.draining or news.draining
        if news.book is not None and (news.history, news.book.version) >= (job.history, job.book.version):
            self._take_book(job, news.book)
        # Only what rests on a book that is known here is taken: a horizon may belong to windows never heard of.
        if news.version == job.book.version:
            job.horizon_us = (
                max(job.horizon_us, news.horizon_us) if news.history == job.history else news.horizon_us
            )
        if news.watermark_us is not None:
            job.announced_us = max(news.watermark_us, job.announced_us or news.watermark_us)
        if news.history > job.history:
            job.history = news.history
            for stream in job.streams.values():
                # What is not committed may have been folded under a book that is lost, too.
                stream.restart(stream.head)
                self._ask(job, stream)
        if job.drained_from is None and job.draining:
            job.drained_from = self._token + 1
        self._say_refused(job)

    def _take_book(self, job: Job, book: PlanBook) -> None:
        job.book = book
        newest = book.revisions[-1] if book.revisions else None
        if newest is not None:
            job.emit_s = newest.settings.emit_us / 1e6
        if newest is not None and newest.timing != job.timing:
            job.timing = newest.timing
            job.marks = SourceWatermark(newest.timing)
            for name, at in self.journal.newest.files.items():
                if at.latest_us is not None and job.reads(name):
                    job.marks.lines(name, at.latest_us, int(self._now.s * 1e6))
                    if at.finished:  # it holds nobody back, but this is no source that never had a line
                        job.marks.closed(name)
        for stream in [stream for stream in job.streams if stream.revision not in book.feeds]:
            del job.streams[stream]
        job.refused = {feed: why for feed, why in job.refused.items() if feed in book.feeds}
        for feed in book.feeds:
            problem = self._can_run(row_plan(book.fed_by(feed)[0].plan))
            stream = StreamId(feed, self.journal.journal_id, LIVE)
            if problem is not None:
                job.refused.setdefault(feed, (problem, -NEVER))
            elif stream not in job.streams:
                job.streams[stream] = Stream(stream)

    def _say_refused(self, job: Job) -> None:
        """The root is told again and again, as any message may be lost, until the revision is gone."""
        for feed, (problem, said_s) in job.refused.items():
            if job.parent is not None and self._now.s >= said_s + self.options.silence_s:
                job.refused[feed] = (problem, self._now.s)
                self._out.append(JobUp(job.key, Refused(feed, self.journal.journal_id, problem[:REASON_MAX])))

    def _attach(self, job: Job, parent: Ref | None) -> None:
        """A3: unacknowledged pieces are sent again, unchanged and in order; all goes alone if there were any."""
        if parent == job.parent:
            return
        job.parent = parent
        job.refused = {feed: (problem, -NEVER) for feed, (problem, _) in job.refused.items()}
        for stream in job.streams.values():
            if stream.state is State.SYNCING:
                stream.state, stream.asked_s = State.CLOSED, -NEVER
            elif not stream.again():
                self._ask(job, stream)

    def _heard(self, job: Job, message: Any) -> None:
        if isinstance(message, Ack):
            for number in message.numbers:
                stream = job.stream_of(number)
                if stream is not None:
                    stream.acknowledged(number, self._now.s)
        elif isinstance(message, Nack):
            for number in message.numbers:
                stream = job.stream_of(number)
                if stream is not None:
                    self._ask(job, stream)
        elif isinstance(message, Synced):
            for answer in message.answers:
                self._synced(job, answer)

    # opening streams

    def _due_s(self, stream: Stream) -> float:
        """When a stream must be opened, or opened again."""
        if stream.state is State.CLOSED:
            return stream.asked_s
        if stream.state is State.SYNCING:
            return stream.asked_s + self.options.silence_s
        since_s = stream.silent_since()
        return NEVER if since_s is None else since_s + self.options.silence_s

    def _ask(self, job: Job, stream: Stream) -> None:
        """A2: asks where the stream goes on; nothing of it is sent until the answer is there."""
        if not self._ready or job.parent is None:
            stream.state, stream.asked_s = State.CLOSED, -NEVER
            return
        stream.state, stream.asked_s, stream.nonce = State.SYNCING, self._now.s, self._rng.getrandbits(62)
        start, split = job.proposal(stream, self.journal)
        job.asking.append(
            SyncRequest(stream.id, start, split, stream.nonce, self.journal.boot, self._instance, self.name)
        )

    def _synced(self, job: Job, answer: SyncAnswer) -> None:
        stream = job.streams.get(answer.stream)
        if stream is None or stream.state is not State.SYNCING or stream.nonce != answer.nonce:
            return
        if answer.problem:
            self._out.append(Trouble(answer.problem))
            stream.state, stream.asked_s = State.CLOSED, self._now.s + self.options.silence_s
            return
        if answer.next > self.journal.durable.peekitem()[0]:
            self._out.append(
                Trouble(
                    f"the journal has lost cuts up to {answer.next}; remove it, and a new agent reads on from here"
                )
            )
            stream.state, stream.asked_s = State.CLOSED, self._now.s + self.options.silence_s
            return
        stream.opened(answer, self._now.s)
        past = StreamId(answer.stream.revision, answer.stream.agent, HISTORY)
        if answer.split and stream.live and past not in job.streams:
            job.streams[past] = Stream(past)

    # what to do next

    def _step(self) -> None:
        if not self._ready:
            self._retry_writes()
            return
        self._retry_writes()
        for job in self.jobs.values():
            for stream in list(job.streams.values()):
                if job.parent is not None and self._now.s >= self._due_s(stream):
                    self._ask(job, stream)
                if stream.state is State.OPEN:
                    self._send(job, stream)
            if job.asking:
                self._out += [JobUp(job.key, sync) for sync in messages(Sync, job.asking)]
                job.asking = []
        for job in self.jobs.values():
            for stream in job.streams.values():
                self._catch_up(job, stream)
        self._ask_to_advance()
        self._let_go()

    def _send(self, job: Job, stream: Stream) -> None:
        if job.parent is None:
            return
        for piece in stream.to_send():
            frame = piece.frame(stream.id, stream.solo, job.history)
            if frame is None:
                self._ask(job, stream)
                return
            piece.sent_s = self._now.s
            self._out += [JobUp(job.key, part) for part in messages_of(frame)]

    def _catch_up(self, job: Job, stream: Stream) -> None:
        """Reads a range again for a stream that is behind the frontier."""
        behind = stream.state is State.OPEN and stream.base != stream.head and not stream.finished
        if (
            not behind
            or stream.folding is not None
            or not stream.has_room
            or len(self._folds) >= self.options.folds_max
        ):
            return
        if stream.pieces and not stream.pieces[-1].durable:
            return  # where to go on is known once that cut is durable
        start, lost = self._known(stream.head)
        target = self.journal.next_target(start.number, self.options.fold_bytes_max)
        if target is not None and 0 <= stream.end < target.number:
            target = self.journal.durable.get(stream.end, target)
        if target is None:
            return
        self._token += 1
        stream.folding = self._token
        self._folds[self._token] = ((job.key, stream.id), start.number, target.number, lost)
        self._out.append(
            Fold(
                self._token,
                job.spec(stream, self.journal.newest.number),
                start.files,
                target.files,
                self.options.fold_bytes_max,
            )
        )

    def _known(self, number: int) -> tuple[Cut, bool]:
        """The cut of that number, or the next one if it was let go (after a forced recovery): what lies between is lost."""
        found = self.journal.durable.get(number)
        if found is not None:
            return found, False
        following = next(self.journal.durable.irange(number))
        return self.journal.durable[following], True

    def _folded(self, event: Folded) -> None:
        key, start, target, lost = self._folds.pop(event.token)
        job = self.jobs.get(key[0])
        stream = None if job is None else job.streams.get(key[1])
        if job is None or stream is None or stream.folding != event.token:
            return
        stream.folding = None
        portion, end = event.portion, target
        if lost:
            counters = portion.counters
            portion = portion._replace(counters=counters + type(counters)(lost_bytes=1))
        if event.reached is not None:
            if self.journal.is_cut_between(start, target):
                return  # for another stream, meanwhile; that one will do
            try:
                cut, write = self.journal.cut_between(start, target, event.reached, event.latest_us)
            except JournalFull:
                self._let_go(thin=True)
                self._stalled_until_s = self._now.s + self.options.retry_s
                return
            self._out.append(write)
            end, mark = cut.number, self._old_mark(job, cut)
        elif target == self.journal.newest.number:
            mark = self._mark(job)
        else:
            mark = self._old_mark(job, self.journal.durable[target])
        if stream.state is not State.CLOSED:
            self._queue(stream, end, mark, portion)

    def _queue(self, stream: Stream, end: int, mark: int | None, portion: Portion) -> None:
        self._number += 1
        durable = end in self.journal.durable
        stream.add(Piece(stream.head, end, mark, portion, self._number, durable))

    # the frontier

    @property
    def _advance_due_s(self) -> float:
        """When to read on: at the emit of a job, or at once if there is more than the last time took."""
        soonest_s = min([job.emit_at_s for job in self.jobs.values()], default=NEVER)
        return max(self._advance_at_s, -NEVER if self._more else soonest_s)

    def _ask_to_advance(self) -> None:
        """A8: reads on only while some stream can send what is read."""
        if self._advance is not None or self._now.s < self._advance_due_s:
            return
        if self._somebody_joins():
            return
        frontier = self.journal.newest
        specs = []
        for job in self.jobs.values():
            due = self._more or self._now.s >= job.emit_at_s
            if due:
                job.emit_at_s = _next_tick(self._now.s, job.emit_s)
            for stream in job.streams.values():
                if self._joins(stream, frontier.number):
                    specs.append(job.spec(stream, frontier.number, due and stream.has_room))
        self._advance_at_s = self._now.s + self.options.retry_s if self._more else self._now.s
        if any(spec.deliver for spec in specs):
            self._token += 1
            ahead_us = max(self.jobs[spec.key[0]].clock_ahead_us for spec in specs)
            self._advance = Advance(
                self._token,
                frontier.files,
                tuple(specs),
                self.options.advance_bytes_max,
                self._now.wall_us + ahead_us,
            )
            self._out.append(self._advance)

    def _somebody_joins(self) -> bool:
        """Whether a stream is about to reach the frontier, which waits for it."""
        newest = self.journal.newest.number
        return any(target == newest and key[1].lane == LIVE for key, _, target, _ in self._folds.values())

    def _joins(self, stream: Stream, frontier: int) -> bool:
        if stream.state is not State.OPEN or not stream.live:
            stream.base = None
            return False
        if stream.watermark_us == NEVER_US:  # drained: what comes now is after the end
            stream.base = stream.head
            return False
        if stream.head == frontier:
            stream.base = frontier
        return stream.base is not None and stream.base == stream.head

    def _advanced(self, event: Advanced) -> None:
        asked, self._advance = self._advance, None
        if asked is None or asked.token != event.token:
            return
        cut = self._cut(asked, event)
        self._more = event.more
        if event.more:
            self._advance_at_s = self._now.s
        for spec in asked.specs:
            job = self.jobs.get(spec.key[0])
            stream = None if job is None else job.streams.get(spec.key[1])
            if job is None or stream is None or stream.base is None or stream.base != stream.head:
                continue
            if cut is None or spec.key in event.overfull:
                stream.base = None
            elif spec.deliver:
                self._deliver(job, stream, cut, event.portions.get(spec.key, Portion()))

    def _cut(self, asked: Advance, event: Advanced) -> Cut | None:
        """The cut at the frontier; None: there was no room for it, and what was read will be read again."""
        released = {} if self.released is None else self.released.files
        files = {
            name: at
            for name, at in {**asked.start, **event.files}.items()
            if not (name in event.gone and name in released and released[name].finished)
        }
        cut: Cut = self.journal.newest
        if files != dict(cut.files):
            try:
                cut, write = self.journal.cut(files, max(event.heard.values(), default=None))
            except JournalFull as problem:
                self._let_go(thin=True)
                self._out.append(Trouble(str(problem)))
                self._advance_at_s = self._now.s + self.options.retry_s
                return None
            self._out.append(write)
        now_us = int(self._now.s * 1e6)
        if not event.more:
            self._complete_us, self._complete_token = now_us, asked.token
        self._unread = event.more and any(at.latest_us is None and not at.finished for at in files.values())
        for job in self.jobs.values():
            for name, latest_us in event.heard.items():
                if job.reads(name):
                    job.marks.lines(name, latest_us, now_us)
            for name, at in event.files.items():
                if at.finished:
                    job.marks.closed(name)
        return cut

    def _deliver(self, job: Job, stream: Stream, cut: Cut, portion: Portion) -> None:
        mark = self._mark(job)
        newer = mark is not None and (stream.watermark_us is None or mark > stream.watermark_us)
        if stream.head == cut.number and not (newer and not stream.pieces):
            return
        self._queue(stream, cut.number, mark, portion)
        stream.base = cut.number

    # watermarks

    def _mark(self, job: Job) -> int | None:
        """The watermark at the frontier (A6)."""
        if job.drained_from is not None and self._complete_token >= job.drained_from and not self._more:
            return NEVER_US
        if self._unread:
            return None
        if job.announced_us is not None:
            job.marks.announced(job.announced_us)
        # A file is idle when nothing came, not when nothing was read: time stands still until all is read.
        return job.marks.value_us(self._complete_us, self._now.wall_us + job.clock_ahead_us)

    def _old_mark(self, job: Job, cut: Cut) -> int | None:
        return job.old_mark(cut, self._now.wall_us)

    # letting go

    def _let_go(self, thin: bool = False) -> None:
        """A7: forgets cuts and logs that no stream and no later plan can ask for."""
        every = [stream for job in self.jobs.values() for stream in job.streams.values()]
        known = every and all(stream.acked >= 0 for stream in every)
        if not known or self._now.s < self._begun_s + self.options.settle_s:
            return
        horizon_us = min(job.horizon_us for job in self.jobs.values())
        floor = min(self.journal.greatest_before(horizon_us).number, *(stream.acked for stream in every))
        crowded = len(self.journal.kept) > self.journal.options.index_max
        if floor not in self.journal.durable or not (
            thin or crowded or self.released is None or floor > self.released.number
        ):
            return
        needed = {stream.acked for stream in every} | {stream.end for stream in every}
        needed |= {cut for stream in every for piece in stream.pieces for cut in (piece.start, piece.end)}
        needed |= {cut for _, start, target, _ in self._folds.values() for cut in (start, target)}
        self.journal.thin(needed, floor)
        if self.released is None or floor > self.released.number:
            self.released = self.journal.durable[floor]
            self._out.append(Release(self.released.files))


def _next_tick(now_s: float, every_s: float) -> float:
    """The next multiple: so that the jobs of an agent with the same emit share their cuts."""
    return max((now_s // every_s + 1) * every_s, now_s + every_s / 1000)

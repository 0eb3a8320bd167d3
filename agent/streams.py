"""The agent's core: cuts its logs, sends the pieces of all jobs, opens streams and re-reads what the root asks for.

Reading is done by the driver (`agent/stream_events.py`); the journal is a value of this core. Rule names (A1 to A9) are
those of docs/PROTOCOL.md.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from agent.errors import JournalError, JournalFull
from agent.folds import Folds, FoldUnderWay
from agent.journal import ORIGIN, Journal
from agent.journal_format import Cut
from agent.stream import State, Stream, Way
from agent.stream_events import (
    Advance,
    Advanced,
    Fold,
    Folded,
    JobGone,
    JobHeard,
    JobParent,
    JobTold,
    JobTrees,
    JobUp,
    Portion,
    Release,
    Shrink,
    SourcesChanged,
    Started,
    Trouble,
)
from agent.stream_job import Job, next_tick
from agent.stream_options import StreamsOptions
from job.plan import Plan
from job.plan_book import ALWAYS, NEVER_US, PlanBook
from srt.automaton import NEVER, Instant, Ref, Stored, StoreFailed, Wake
from srt.due_times import DueTimes
from srt.frame_messages import (
    REASON_MAX,
    Ack,
    Nack,
    News,
    Refused,
    Sync,
    SyncAnswer,
    Synced,
    SyncRequest,
    messages,
)
from srt.frames import messages_of

_OF_JOB = JobTold | JobParent | JobHeard | JobGone
_OF_SOME = Stored | Advanced | Folded
"""They change something for few jobs, if for any: with many jobs that have nothing new most of the time went here."""


class Streams:
    """All streams of one agent."""

    def __init__(
        self,
        name: str,
        journal: Journal,
        rng: random.Random,
        can_run: Callable[[Plan], str | None],
        options: StreamsOptions = StreamsOptions(),  # noqa: B008 - frozen
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
        self._found = ORIGIN
        """The newest cut of an earlier process."""
        self._number = 0
        self._token = 0
        self._advance: Advance | None = None
        self._more = False
        """There is more to read at once."""
        self._streams_full = False
        """No stream had room for what is read when they were looked at."""
        self._advance_at_s = 0.0
        """Not before, for want of room in the journal, unless cuts are let go."""
        self._stalled_until_s = 0.0
        """Nothing is folded before, for the same want; 0: there is room."""
        self._complete_us = 0
        """When everything there was had been read, the last time."""
        self._complete_token = 0
        """Of the last `Advance` that read to the end of all logs."""
        self._unread = False
        """A file is known of which no line was read yet, and there are more lines to read."""
        self._folds = Folds(options.folds_max)
        self._retries: dict[int, float] = {}
        self._due = DueTimes[bytes]()
        """When streams of each job must be opened, or opened again."""
        self._touched: dict[bytes, None] = {}
        """Jobs that the event at hand may let go on."""
        self._behind: dict[bytes, None] = {}
        """Jobs with streams that are not at the frontier: a new cut, or a read that is over, may let them go on."""
        self._undurable: dict[bytes, None] = {}
        """Jobs with pieces whose last cut is not stored yet."""
        self._freed = True
        """Something happened since A7 was looked at that may let it forget more."""
        self._emit_at_s = NEVER
        """The soonest of all jobs, or before it."""
        self._out: list[Any] = []
        self._now = Instant(0.0, 0)

    # events

    @property
    def wake_at(self) -> float:
        times = [*self._retries.values(), NEVER]
        if not self._ready:
            return min(times)
        if self._advance is None and self.jobs and not self._folds.join(self.journal.newest.number):
            times.append(self._advance_due_s)
        if self._stalled_until_s:
            times.append(self._stalled_until_s)
        return min(*times, self._due.first)

    def handle(self, event: Any, now: Instant) -> list[Any]:
        """O(streams of the jobs that the event changes something for); at each emit a look at all streams, without more."""
        self._now, self._out = now, []
        of_all = not isinstance(event, _OF_JOB | _OF_SOME | Wake)
        if isinstance(event, Wake) and 0.0 < self._stalled_until_s <= now.s:
            self._stalled_until_s, of_all = 0.0, True
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
        elif isinstance(event, SourcesChanged):
            for job in self.jobs.values():
                job.taken = None
        else:
            self._job_event(event)
        self._touched |= dict.fromkeys(self.jobs if of_all else self._due.take(now.s))
        if isinstance(event, _OF_SOME):
            self._touched |= self._behind
        self._step()
        if self._freed and self._ready and (of_all or isinstance(event, _OF_SOME) or self._journal_full):
            self._let_go()
        self._settle()
        return self._out

    def _settle(self) -> None:
        """When the jobs of this event have to be looked at again."""
        for key in self._touched:
            job = self.jobs.get(key)
            times = [
                stream.due_s(way, self.options.silence_s)
                for stream in ([] if job is None else job.streams.values())
                for way in stream.ways
                if job is not None and job.parent(way) is not None
            ]
            self._due.set(key, min(times, default=NEVER))
            if job is not None and any(stream.is_behind for stream in job.streams.values()):
                self._behind[key] = None
            else:
                self._behind.pop(key, None)
        self._touched.clear()

    def _job_event(self, event: Any) -> None:
        if isinstance(event, _OF_JOB):
            self._touched[event.job] = None
        if isinstance(event, JobTold):
            self._told(self._job(event.job), event.news)
        elif isinstance(event, JobParent):
            self._attach(self._job(event.job), event.parent, event.partition)
        elif isinstance(event, JobHeard) and event.job in self.jobs:
            self._heard(self.jobs[event.job], event.message, event.partition)
        elif isinstance(event, JobGone):
            self.jobs.pop(event.job, None)
            self._undurable.pop(event.job, None)
            self._freed = True

    def _job(self, key: bytes) -> Job:
        job = self.jobs.get(key)
        if job is None:
            job = self.jobs[key] = Job(key, self._of_source)
            self._emit_at_s = min(self._emit_at_s, job.emit_at_s)
        return job

    # the start and the journal

    def _start(self, event: Started) -> None:
        self._started, self._begun_s, self._found = event, self._now.s, self.journal.newest.number
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
        self._freed = True
        if number is not None:
            for key in list(self._undurable):
                streams = self.jobs[key].streams.values()
                if [stream for stream in streams if stream.stored(number)]:
                    self._touched[key] = None
                if all(stream.is_durable for stream in streams):
                    del self._undurable[key]

    def _retry_writes(self) -> None:
        for token in [token for token, at in self._retries.items() if at <= self._now.s]:
            del self._retries[token]
            self._out.append(self.journal.failed(token))

    # what the tree says

    def _told(self, job: Job, news: News) -> None:
        job.clock_base_us = news.clock_us - int(self._now.s * 1e6)
        job.draining = job.draining or news.draining
        if news.book is not None:
            heard = (news.history, news.book.version)
            if heard >= (job.history, job.book.version) and heard != job.taken:
                self._take_book(job, news.book)
                job.taken = heard
        # Only what rests on a book that is known here is taken: a horizon may belong to windows never heard of.
        if news.version == job.book.version:
            horizon_us = (
                max(job.horizon_us, news.horizon_us) if news.history == job.history else news.horizon_us
            )
            self._freed = self._freed or horizon_us != job.horizon_us
            job.horizon_us = horizon_us
        if news.watermark_us is not None:
            job.announced_us = max(news.watermark_us, job.announced_us or news.watermark_us)
        if news.history > job.history:
            job.history = news.history
            for stream in job.streams.values():
                # What is not committed may have been folded under a book that is lost, too.
                stream.forget()
                for way in stream.ways:
                    self._ask(job, stream, way)
        if job.drained_from is None and job.draining:
            job.drained_from = self._token + 1
        self._say_refused(job)

    def _take_book(self, job: Job, book: PlanBook) -> None:
        trees = job.trees
        job.take_book(book, self.journal, self._now.s, self._can_run)
        self._freed = True
        if job.trees != trees:
            self._out.append(JobTrees(job.key, job.trees))

    def _say_refused(self, job: Job) -> None:
        """The root is told again and again, as any message may be lost, until the revision is gone."""
        for feed, problem in job.refusals(self._now.s, self.options.silence_s):
            self._out.append(JobUp(job.key, Refused(feed, self.journal.journal_id, problem[:REASON_MAX])))

    def _attach(self, job: Job, parent: Ref | None, partition: int) -> None:
        """A3: unacknowledged pieces are sent again, unchanged and in order; all goes alone if there were any."""
        if parent == job.parents.get(partition):
            return
        job.parents[partition] = parent
        if partition == 0:
            job.refused = {feed: (problem, -NEVER) for feed, (problem, _) in job.refused.items()}
        for stream in job.streams.values():
            for way in stream.ways[partition : partition + 1]:
                if way.state is State.SYNCING:
                    way.state, way.asked_s = State.CLOSED, -NEVER
                elif not stream.again(way):
                    self._ask(job, stream, way)

    def _heard(self, job: Job, message: Any, partition: int) -> None:
        if isinstance(message, Synced):
            for answer in message.answers:
                self._synced(job, answer)
        elif isinstance(message, Ack | Nack):
            for number in message.numbers:
                stream = job.stream_of(number)
                if stream is None or partition >= len(stream.ways):
                    continue
                way = stream.ways[partition]
                if isinstance(message, Ack):
                    stream.acknowledged(way, number, self._now.s)
                    self._freed = True
                else:
                    self._ask(job, stream, way)

    # opening streams

    def _ask(self, job: Job, stream: Stream, way: Way) -> None:
        """A2: asks where a way goes on; nothing of the stream is sent until the answer is there."""
        if not self._ready or job.parent(way) is None:
            way.state, way.asked_s = State.CLOSED, -NEVER
            return
        way.state, way.asked_s, way.nonce = State.SYNCING, self._now.s, self._rng.getrandbits(62)
        if stream.offer is None:
            stream.offer = job.proposal(stream, self.journal)
        start, split = stream.offer
        job.asking[way.partition].append(
            SyncRequest(way.id, start, split, way.nonce, self.journal.boot, self._instance, self.name)
        )

    def _synced(self, job: Job, answer: SyncAnswer) -> None:
        stream = job.streams.get(answer.stream.of(0))
        way = None if stream is None else stream.way(answer.stream.partition)
        if stream is None or way is None or way.state is not State.SYNCING or way.nonce != answer.nonce:
            return
        problem = answer.problem
        if not problem and answer.next > self.journal.durable.peekitem()[0]:
            problem = f"the journal has lost cuts up to {answer.next}; remove it, and a new agent reads on from here"
        if problem:
            self._out.append(Trouble(problem))
            way.state, way.asked_s = State.CLOSED, self._now.s + self.options.silence_s
            return
        # An answer that an acknowledgement has overtaken is old, unless history is another one.
        following = max(answer.next, way.acked)
        # After a forced recovery the cut may have been let go: what lies between it and the next is lost.
        resume = next(self.journal.durable.irange(following))
        stream.opened(way, following, resume, answer.end, self._now.s)
        self._freed = True
        past = stream.id.history
        if answer.split and stream.live and past not in job.streams:
            job.streams[past] = Stream(past, len(stream.ways), self.journal.newest.number)

    # what to do next

    def _step(self) -> None:
        self._retry_writes()
        if not self._ready:
            return
        jobs = [self.jobs[key] for key in self._touched if key in self.jobs]
        if self._streams_full and any(stream.has_room for job in jobs for stream in job.streams.values()):
            self._streams_full = False
        for job in jobs:
            for stream in list(job.streams.values()):
                for way in stream.ways:
                    if job.parent(way) is not None and self._now.s >= stream.due_s(way, self.options.silence_s):
                        self._ask(job, stream, way)
                if stream.is_open:
                    self._send(job, stream)
            for partition, requests in job.asking.items():
                self._out += [JobUp(job.key, sync, partition) for sync in messages(Sync, requests)]
            job.asking.clear()
        for job in jobs:
            for stream in job.streams.values():
                self._catch_up(job, stream)
        self._ask_to_advance()

    def _send(self, job: Job, stream: Stream) -> None:
        """Of a stream all of whose ways are open, what waits."""
        for way in stream.ways:
            for piece in stream.to_send(way) if job.parent(way) is not None else ():
                frame = piece.frame(way, job.history)
                if frame is None:
                    self._ask(job, stream, way)
                    break
                piece.sent_s[way.partition] = self._now.s
                self._out += [JobUp(job.key, part, way.partition) for part in messages_of(frame)]

    def _catch_up(self, job: Job, stream: Stream) -> None:
        """Reads a range again for a stream that is behind the frontier."""
        if (
            not stream.is_behind
            or stream.folding is not None
            or not stream.has_room
            or not self._folds.may_begin(stream.live)
            or self._now.s < self._stalled_until_s
        ):
            return
        if stream.pieces and not stream.pieces[-1].durable:
            return  # where to go on is known once that cut is durable
        start = self.journal.durable.get(stream.head)
        if start is None:  # let go while nobody needed it: the way on is asked for anew
            for way in stream.ways:
                way.state, way.asked_s = State.CLOSED, -NEVER
            return
        target = self.journal.next_target(start.number, self.options.fold_bytes_max)
        if target is None:
            return
        stop = min([stop for stop in stream.stops if stop > start.number], default=target.number)
        if stop < target.number:
            target = self.journal.durable.get(stop, target)
        self._token += 1
        stream.folding = self._token
        joins = stream.live and self.journal.distance(start.number, target.number) <= self.options.join_bytes_max
        fold = FoldUnderWay((job.key, stream.id), start.number, target.number, joins)
        self._folds.begin(self._token, fold)
        self._out.append(
            Fold(
                self._token,
                job.spec(stream, self.journal.newest.number),
                start.files,
                target.files,
                self.options.fold_bytes_max,
            )
        )

    def _folded(self, event: Folded) -> None:
        key, start, target, _ = self._folds.end(event.token)
        job = self.jobs.get(key[0])
        stream = None if job is None else job.streams.get(key[1])
        if job is None or stream is None or stream.folding != event.token:
            return
        stream.folding = None
        self._touched[job.key] = None
        portion, end = event.portion, target
        if event.reached is not None:
            if self.journal.is_cut_between(start, target):
                return  # for another stream, meanwhile; that one will do
            try:
                cut, write = self.journal.cut_between(start, target, event.reached, event.latest_us)
            except JournalFull:
                self._stalled_until_s = self._now.s + self.options.retry_s
                self._let_go()
                return
            self._out.append(write)
            end, mark = cut.number, self._old_mark(job, cut)
        elif target == self.journal.newest.number:
            mark = self._mark(job)
        else:
            mark = self._old_mark(job, self.journal.durable[target])
        if all(way.state is not State.CLOSED for way in stream.ways):
            self._queue(job, stream, end, mark, portion)

    def _queue(self, job: Job, stream: Stream, end: int, mark: int | None, portion: Portion) -> None:
        self._number += 1
        durable = end in self.journal.durable
        stream.add(end, mark, portion, self._number, durable)
        self._touched[job.key] = None
        if not durable:
            self._undurable[job.key] = None

    # the frontier

    @property
    def _advance_due_s(self) -> float:
        """When to read on: at the emit of a job, or at once if there is more than the last time took."""
        return max(self._advance_at_s, -NEVER if self._more and not self._streams_full else self._emit_at_s)

    def _ask_to_advance(self) -> None:
        """A8: reads on only while some stream can send what is read."""
        if self._advance is not None or self._now.s < self._advance_due_s:
            return
        if self._folds.join(self.journal.newest.number):
            return
        frontier = self.journal.newest
        specs = []
        for job in self.jobs.values():
            due = self._more or self._now.s >= job.emit_at_s
            if due:
                job.emit_at_s = next_tick(self._now.s, job.emit_s)
            for stream in job.streams.values():
                if self._joins(stream, frontier.number):
                    specs.append(job.spec(stream, frontier.number, due and stream.has_room, new=True))
        self._emit_at_s = min([job.emit_at_s for job in self.jobs.values()], default=NEVER)
        self._streams_full = not any(spec.deliver for spec in specs)
        if not self._streams_full:
            self._token += 1
            clock_us = max(self.jobs[spec.key[0]].clock_us(self._now) for spec in specs)
            most = self.options.advance_bytes_max
            self._advance = Advance(self._token, frontier.files, tuple(specs), most, clock_us)
            self._out.append(self._advance)

    def _joins(self, stream: Stream, frontier: int) -> bool:
        if not stream.is_open or not stream.live:
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
        for spec in asked.specs:
            job = self.jobs.get(spec.key[0])
            stream = None if job is None else job.streams.get(spec.key[1])
            if job is None or stream is None or stream.base is None or stream.base != stream.head:
                continue
            if cut is None or spec.key in event.overfull:
                stream.base = None
                self._touched[job.key] = None
            elif spec.deliver:
                self._deliver(job, stream, cut, event.portions.get(spec.key, Portion()))

    def _cut(self, asked: Advance, event: Advanced) -> Cut | None:
        """The cut at the frontier; None: there was no room for it, and what was read will be read again."""
        released = {} if self.released is None else self.released.files
        files = {
            name: at
            for name, at in {**asked.start, **event.files}.items()
            if not (name in event.gone and name in released and released[name].offset >= at.offset)
        }
        cut: Cut = self.journal.newest
        if files != dict(cut.files):
            try:
                cut, write = self.journal.cut(files, max(event.heard.values(), default=None))
            except JournalError as problem:
                self._advance_at_s = self._now.s + self.options.retry_s
                self._let_go()
                self._out.append(Trouble(str(problem)))
                return None
            self._out.append(write)
        now_us = int(self._now.s * 1e6)
        if not event.more:
            self._complete_us, self._complete_token = now_us, asked.token
        self._unread = event.more and any(at.latest_us is None and not at.finished for at in files.values())
        before = {name for name, at in asked.start.items() if at.finished}
        closed = [name for name, at in event.files.items() if at.finished and name not in before]
        for job in self.jobs.values() if event.heard or closed else ():
            job.came(event.heard, closed, now_us)
        return cut

    def _deliver(self, job: Job, stream: Stream, cut: Cut, portion: Portion) -> None:
        mark = self._mark(job)
        newer = mark is not None and (stream.watermark_us is None or mark > stream.watermark_us)
        if stream.head == cut.number and not (newer and not stream.pieces):
            return
        self._queue(job, stream, cut.number, mark, portion)
        stream.base = cut.number

    # watermarks

    def _mark(self, job: Job) -> int | None:
        """The watermark at the frontier (A6). ALWAYS: all there is was read, and nothing of it tells a time."""
        if job.drained_from is not None and self._complete_token >= job.drained_from and not self._more:
            return NEVER_US
        if self._unread:
            return None
        if job.announced_us is not None:
            job.marks.announced(job.announced_us)
        # A file is idle when nothing came, not when nothing was read: time stands still until all is read.
        known_us = job.marks.value_us(self._complete_us, job.clock_us(self._now))
        return ALWAYS if known_us is None and self._complete_token and not self._more else known_us

    def _old_mark(self, job: Job, cut: Cut) -> int | None:
        return job.old_mark(cut, self._now)

    # letting go

    @property
    def _journal_full(self) -> bool:
        """It refused a cut a moment ago, and has let none go since."""
        return self._now.s < max(self._advance_at_s, self._stalled_until_s)

    def _let_go(self) -> None:
        """A7: forgets cuts and logs that no stream and no later plan can ask for. Where a stream goes on that nobody has
        answered yet is one of the cuts there were when it began, or one that it has offered."""
        every = [stream for job in self.jobs.values() for stream in job.streams.values()]
        settled = self._now.s >= self._begun_s + self.options.settle_s
        self._freed = not settled
        unknown = [stream for stream in every if stream.acked < 0]
        guarded = max([ORIGIN if settled else self._found, *(stream.began for stream in unknown)])
        floor = ORIGIN
        if settled and every and not unknown:
            horizon_us = min(job.horizon_us for job in self.jobs.values())
            floor = min(self.journal.greatest_before(horizon_us).number, *(stream.acked for stream in every))
        released = ORIGIN if self.released is None else self.released.number
        full = self._journal_full
        if floor not in self.journal.durable or not (full or self.journal.crowded(guarded) or floor > released):
            return
        needed = {cut for stream in every for cut in stream.needed}
        needed |= self._folds.cuts
        if self.journal.thin(needed, floor, guarded) and full:
            self._advance_at_s = min(self._advance_at_s, self._now.s)
            self._stalled_until_s = min(self._stalled_until_s, self._now.s)
        if floor > released:
            self.released = self.journal.durable[floor]
            self._out.append(Release(self.released.files))

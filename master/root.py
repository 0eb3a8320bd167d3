"""What the leader of a job's group does: judges frames, commits them, decides what is final, changes plans.

Only what is committed leaves it (R2). It keeps nothing durable of its own: the log is given to it by `master/commit_group`
and it proposes entries to append. Rule names are those of docs/PROTOCOL.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from cbt.budget import Budget
from cbt.options import Options as TreeOptions
from job.derived import Derived
from job.errors import JobError
from job.panes import StateShape
from job.plan import Plan
from job.plan_book import ALWAYS, BookFull, PlanBook, PlanBookError, Revision, row_plan
from job.settings import Settings
from master.committed import Committed
from master.entries import (
    Delivered,
    DerivedEntry,
    Drain,
    Era,
    Forget,
    FrameEntry,
    Ingest,
    Part,
    PlanEntry,
    PlanText,
    Reg,
    Remove,
    Stop,
    decode_entry,
)
from master.finality import Finality, FinalityOptions
from master.group_commit import Tail, Verdict
from master.group_events import Committed as LogCommitted
from master.group_events import Following, Leading, Propose
from srt.automaton import Instant, Received, Ref, Send, Wake
from srt.content import Content
from srt.errors import ContentError
from srt.frame_messages import (
    Ack,
    Frame,
    Nack,
    News,
    Refused,
    Sync,
    SyncAnswer,
    SyncRequest,
)
from srt.frames import Assemblies, WholeFrame

MIB = 1 << 20
BUSY = "busy"


class ChangePlan(NamedTuple):
    """Event: a user wants another plan. `start_us` None: as soon as no line that was read is before it."""

    token: int
    plan: Plan
    start_us: int | None = None
    settings: Settings = Settings()
    text: PlanText = PlanText()
    read_us: int = ALWAYS
    """With an endless window and `since`: what was logged from about then on counts, too."""


class ChangeDerived(NamedTuple):
    """Event: a user wants a derived job, or other settings for it. Answered by a `PlanAnswer`."""

    token: int
    derived: Derived
    settings: Settings = Settings()
    text: PlanText = PlanText()


class AppendIngests(NamedTuple):
    """Event: windows that were computed elsewhere, judged; one group commit."""

    entries: tuple[Ingest, ...]


class ForgetAgent(NamedTuple):
    """Event: an agent is not expected back."""

    agent: bytes


class DrainJob(NamedTuple):
    """Event: all sources are to be read to their end as of now, and all windows become final."""


class HaltJob(NamedTuple):
    """Event: nothing is taken any more."""


class NoteDelivery(NamedTuple):
    """Event: the webhook has got the results up to an index."""

    upto: int


class DropJob(NamedTuple):
    """Event: nothing of the job shall be left."""


class PlanAnswer(NamedTuple):
    """Effect: what became of a `ChangePlan`: a committed revision, or a problem. kind: `invalid`, or `busy`: it may be asked
    again."""

    token: int
    revision: int
    problem: str = ""
    kind: str = ""


class PlanFailed(NamedTuple):
    """Effect: an agent cannot run the plan of a revision; it is rolled back if there is an older one."""

    revision: int
    agent: str
    reason: str


class Spread(NamedTuple):
    """Effect: the tree multicasts this at once; those who miss it get it in the next PONG."""

    news: News


@dataclass(frozen=True)
class RootOptions:
    frame_bytes_max: int = 128 * MIB
    """Of a frame as it travels: twice what vertices make them of."""
    senders_max: int = 4096
    lead_us: int = 1_000_000
    """A change without a time of its own begins so much behind the latest event time known."""
    finality: FinalityOptions = field(default_factory=FinalityOptions)


@dataclass
class RootCounters:
    accepted: int = 0
    duplicates: int = 0
    refused: int = 0
    unsound: int = 0


class Root:
    """The judge of one job, on every member of its group; it acts while it leads."""

    def __init__(
        self,
        ref: Ref,
        budget: Budget,
        options: RootOptions = RootOptions(),
        tree_options: TreeOptions = TreeOptions(),  # noqa: B008 - frozen
        committed: Committed | None = None,
    ) -> None:
        """`committed`: the state of a snapshot; None: the log begins."""
        self.ref, self.options, self.counters = ref, options, RootCounters()
        self.committed = committed or Committed(budget, tree_options)
        self.epoch = self.history = 0
        self.leading = False
        self._budget, self._tree_options = budget, tree_options
        self._tail = self._new_tail()
        self._finality = Finality(self.committed, options.finality)
        self._begun = Assemblies(options.frame_bytes_max, options.frame_bytes_max, options.senders_max)
        self._instances: dict[bytes, tuple[int, int]] = {}
        self._wanted: ChangePlan | None = None
        self._changing: tuple[int, int] | None = None
        """(revision, token) of the PLAN on its way; token -1: a rollback."""
        self.problems: dict[int, str] = {}
        """Why an agent cannot run a revision, by its number; of the last one that was refused."""
        self._unfit: set[Plan] = set()
        """Plans that some agent could not run."""
        self._announced_at = -1
        self._announced_us: int | None = None
        self._kinds: dict[int, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {}

    def _new_tail(self) -> Tail:
        return Tail(self.committed, self._budget, self._tree_options)

    @property
    def wake_at(self) -> float:
        return self._finality.wake_at if self.leading else float("inf")

    def handle(self, event: Any, now: Instant) -> list[Any]:
        effects = self._handle(event, now)
        if self.leading:
            self._tail.open.entries += self._finality.due(now)
            if self._tail.may_ship:
                self._tail.close(self._finality.foreseen(self._tail.foreseen(), now))
                effects.append(Propose(self._tail.ship()))
        return effects

    def _handle(self, event: Any, now: Instant) -> list[Any]:
        if isinstance(event, LogCommitted):
            return self._apply(event, now)
        if isinstance(event, Leading):
            return self._lead(event, now)
        if isinstance(event, Following):
            return self._follow()
        if not self.leading or isinstance(event, Wake):
            return []
        if isinstance(event, Received):
            return self._receive(event.sender, event.message, now)
        if isinstance(event, ChangePlan):
            return self._want(event, now)
        if isinstance(event, ChangeDerived):
            return self._derive(event, now)
        if isinstance(event, AppendIngests):
            self._tail.open.entries += event.entries
        if isinstance(event, ForgetAgent) and self.committed.roster.get(event.agent):
            self._tail.open.entries.append(Forget(event.agent))
        if isinstance(event, DrainJob) and not self.committed.draining:
            self._tail.open.entries.append(Drain(now.wall_us))
        if isinstance(event, HaltJob) and not self.committed.stopped:
            self._tail.open.entries.append(Stop(now.wall_us))
        if isinstance(event, NoteDelivery) and event.upto > self.committed.delivered:
            self._tail.open.entries.append(Delivered(event.upto))
        if isinstance(event, DropJob) and not self.committed.removed:
            self._tail.open.entries.append(Remove(now.wall_us))
        return []

    @property
    def changing(self) -> bool:
        """A change of the plan is on its way, or waits."""
        return self._changing is not None or self._wanted is not None

    @property
    def ingesting(self) -> bool:
        """Windows that were computed elsewhere are on their way into the log."""
        return self._tail.has(Ingest)

    def hold_windows(self, held: bool) -> None:
        """Publishes nothing while that is so."""
        self._finality.hold(held)

    # the log

    def _apply(self, event: LogCommitted, now: Instant) -> list[Any]:
        state = self.committed
        before = (state.book.version, state.draining, state.counts.void)
        effects: list[Any] = [*state.apply(event.at, event.data)]
        self._finality.applied(now.s)
        if not self.leading:
            return effects
        if state.counts.void > before[2] and isinstance(decode_entry(event.data), FrameEntry | Reg | Part):
            return effects + self._start_over(now)
        if self._tail.committed_one(event.data):
            effects += self._tail.settled()
            self._finality.settled(self._tail.open.entries)
            effects += self._plan_settled(now)
        if (state.book.version, state.draining) != before[:2]:
            effects.append(Spread(self.news(now)))
        return effects

    def _start_over(self, now: Instant) -> list[Any]:
        """An entry of ours was void though it was judged by the tail: nothing of the tail can be trusted."""
        effects = self._tail.refused() + self._follow()
        self.leading = True
        self._finality.lead(now.s)
        return effects

    def _lead(self, event: Leading, now: Instant) -> list[Any]:
        self._follow()
        self.leading, self.epoch, self.history = True, event.epoch, event.lineage.number
        self._finality.lead(now.s)
        state = self.committed
        if state.history not in (0, self.history):
            self._tail.open.entries.append(Era(self.history))
        return []

    def _follow(self) -> list[Any]:
        """Forgets what was on its way: it may be in the log or not, and nobody was told."""
        effects: list[Any] = []
        if self._changing is not None and self._changing[1] >= 0:
            effects.append(
                PlanAnswer(
                    self._changing[1], 0, "the leader changed; look whether the revision is there", BUSY
                )
            )
        if self._wanted is not None and self._wanted.token >= 0:
            effects.append(PlanAnswer(self._wanted.token, 0, "the leader changed; ask again", BUSY))
        self.leading = False
        self._tail = self._new_tail()
        self._begun.clear()
        self._instances.clear()
        self._kinds.clear()
        self._wanted = self._changing = None
        return effects

    def news(self, now: Instant, known_version: int = -1, known_history: int = -1) -> News:
        """What a PONG tells a child that has the book of `known_version`, read under `known_history`."""
        state = self.committed
        fresh = known_version != state.book.version or known_history != self.history
        return News(
            self.epoch,
            self.history,
            state.book.version,
            state.book if fresh else None,
            state.plan_horizon_us,
            state.draining,
            now.wall_us,
            self._announced(),
        )

    def _announced(self) -> int | None:
        """How far the slowest is of those agents that had lines: for sources that never had one. Their own marks do not
        count, or they would wait for themselves. O(roster), once per entry."""
        state = self.committed
        if self._announced_at != state.index:
            self._announced_at = state.index
            feed = state.book.feeds[-1] if state.book.feeds else 0
            marks = [
                state.agent_reach(feed, agent)
                for agent, on in state.roster.items()
                if on and state.has_lines(feed, agent)
            ]
            self._announced_us = min([mark for mark in marks if mark is not None], default=None)
        return self._announced_us

    # messages

    def _receive(self, sender: Ref, message: Any, now: Instant) -> list[Any]:
        if isinstance(message, Frame):
            return self._part(sender, message)
        if isinstance(message, Sync):
            return self._sync(sender, message)
        if isinstance(message, Refused):
            return self._refused(message, now)
        return []

    def _part(self, sender: Ref, part: Frame) -> list[Any]:
        frame = self._begun.take(sender, part)
        if frame is not None:
            return self._frame(sender, frame)
        if not part.last:
            return []
        self.counters.unsound += 1  # some of it did not arrive, or it is not sound
        return [Send(sender, Nack((part.number,)))]

    def _frame(self, sender: Ref, frame: WholeFrame) -> list[Any]:
        taken = frame.history == self.history and not self.committed.stopped
        verdict = self._tail.judge(frame.spans) if taken else Verdict.REFUSE
        if verdict is Verdict.DUPLICATE:
            return self._duplicate(sender, frame.number)
        content = self._sound(frame) if verdict is Verdict.ACCEPT else None
        if content is None:
            self.counters.refused += 1
            return [Send(sender, Nack((frame.number,)))]
        self.counters.accepted += 1
        self._tail.accept(sender, frame.number, frame.spans, content)
        return []

    def _duplicate(self, sender: Ref, number: int) -> list[Any]:
        """All of it is in the log; the ACK waits for what it rests on."""
        self.counters.duplicates += 1
        group = self._tail.newest
        if group is None:
            return [Send(sender, Ack((number,)))]
        group.acks.append((sender, number))
        return []

    def _sound(self, frame: WholeFrame) -> Content | None:
        """The content of a frame, if its runs are those of the plans and can be merged with what is there."""
        try:
            content = self._tail.open.content.staged(frame.panes, frame.runs, self.options.frame_bytes_max)
        except ContentError:
            content = None
        if content is not None and all(
            self._of_plan(key[0], tables) for key, tables in content.tables.items()
        ):
            return content
        self.counters.unsound += 1
        return None

    def _of_plan(self, feed: int, tables: dict[int, Any]) -> bool:
        kinds = self._kinds.get(feed)
        if kinds is None:
            revisions = self.committed.book.fed_by(feed)
            if not revisions:
                return False
            shape = StateShape(row_plan(revisions[0].plan))
            kinds = [(tuple(shape.key_kinds), tuple(shape.state_kinds))]
            kinds += [(tuple(pair), ()) for pair in shape.pair_kinds]
            self._kinds[feed] = kinds
        return all(
            number < len(kinds) and (tree.key_kinds, tree.state_kinds) == kinds[number]
            for number, tree in tables.items()
        )

    # streams

    def _sync(self, sender: Ref, message: Sync) -> list[Any]:
        group = self._tail.open
        for request in message.requests:
            group.answers.append((sender, self._open(request)))
        if group or self._tail.sent is not None:
            if not group and self._tail.sent is not None:
                self._tail.sent.answers += group.answers
                group.answers = []
            return []
        effects = group.replies()
        group.answers = []
        return effects

    def _open(self, request: SyncRequest) -> SyncAnswer:
        """Registers a stream, or tells where it is (R3)."""
        stream = request.stream
        problem = "the job is stopped" if self.committed.stopped else self._other_user(request)
        if not problem and stream.revision not in self.committed.book.feeds:
            problem = f"revision {stream.revision} is closed"
        partitions = self.committed.book.partitions(stream.revision)
        if not problem and stream.partition >= partitions:
            problem = f"revision {stream.revision} has {partitions} partitions, none of number {stream.partition}"
        state = None if problem else self._tail.stream(stream)
        if state is None and not problem:
            if not stream.is_live:
                problem = "there is no history lane"
            else:
                self._tail.register(
                    Reg(stream.revision, stream.agent, request.name[:255], request.start, request.split)
                )
                state = self._tail.stream(stream)
        if state is None:
            return SyncAnswer(stream, request.nonce, 0, 0, -1, False, problem)
        split = self._tail.stream(stream.history) is not None
        return SyncAnswer(stream, request.nonce, state.next, state.start, state.end, split)

    def _other_user(self, request: SyncRequest) -> str:
        """Refuses the older of two starts of one agent, and the second of two at once: a copied data directory."""
        known = self._instances.get(request.stream.agent)
        mine = (request.boot, request.instance)
        if known is None or mine[0] > known[0]:
            self._instances[request.stream.agent] = mine
            return ""
        if mine == known:
            return ""
        name = self.committed.names.get(request.stream.agent, "?")
        return f"{name} and {request.name} use one journal: was a data directory copied? Remove the journal of one"

    # plans

    def _want(self, change: ChangePlan, now: Instant) -> list[Any]:
        """C5: only the last of the changes that wait is wanted."""
        effects: list[Any] = []
        if self._wanted is not None and self._wanted.token >= 0:
            effects.append(
                PlanAnswer(self._wanted.token, 0, "another change came before this one could begin", BUSY)
            )
        self._wanted = change
        return effects + self._try_change(now)

    def _try_change(self, now: Instant) -> list[Any]:
        if self._wanted is None or self._changing is not None:
            return []
        change, book = self._wanted, self.committed.book
        start = self._start(change)
        try:
            revision = book.revised(start, change.plan, change.settings, read_us=change.read_us)
            book.add(revision, self.committed.plan_horizon_us)
        except BookFull:
            return []
        except (PlanBookError, JobError) as problem:
            self._wanted = None
            return [PlanAnswer(change.token, 0, str(problem), "invalid")] if change.token >= 0 else []
        self._wanted = None
        self._append_plan(revision, change.token, change.text, now)
        return []

    def _derive(self, change: ChangeDerived, now: Instant) -> list[Any]:
        known = self.committed.derived
        if self._changing is not None or self.committed.book.revisions:
            return [PlanAnswer(change.token, 0, "another change is on its way; ask again", BUSY)]
        number = known[-1].number + 1 if known else 1
        self._changing = (number, change.token)
        made = msgspec.structs.replace(change.text, made_us=now.wall_us)
        self._tail.open.entries.append(
            DerivedEntry(number, change.derived, change.settings, made, self.history)
        )
        return []

    def _append_plan(
        self, revision: Revision, token: int, text: PlanText, now: Instant, failed: int = 0, problem: str = ""
    ) -> None:
        self._changing = (revision.number, token)
        made = msgspec.structs.replace(text, made_us=now.wall_us)
        self._tail.open.entries.append(PlanEntry(revision, made, self.history, failed, problem))

    def _start(self, change: ChangePlan) -> int:
        book = self.committed.book
        if change.start_us is not None:
            return change.start_us
        if not book.revisions or row_plan(change.plan).window is None:
            return ALWAYS
        marks = [
            state.watermark_us for state in self.committed.streams.values() if state.watermark_us is not None
        ]
        last = book.revisions[-1]
        wanted = max(
            [*(mark + last.settings.delay_us + self.options.lead_us for mark in marks), last.start_us]
        )
        return book.next_boundary(max(wanted, self.committed.horizon_us, -(1 << 61)), change.plan)

    def _plan_settled(self, now: Instant) -> list[Any]:
        """A group is committed: answers whoever waited for a revision in it, and goes on with the next."""
        effects: list[Any] = []
        waits = any(isinstance(one, PlanEntry | DerivedEntry) for one in self._tail.open.entries)
        if self._changing is not None and not waits:
            revision, token = self._changing
            self._changing = None
            there = self.committed.has_revision(revision)
            if token >= 0:
                problem = "" if there else "the windows it was to own were closed meanwhile"
                effects.append(PlanAnswer(token, revision, problem, "" if there else BUSY))
        return effects + self._try_change(now)

    def _refused(self, message: Refused, now: Instant) -> list[Any]:
        """An agent cannot run a plan: its windows go back to the text before it, as a revision of their own (C3). What came
        later begins once more behind it."""
        book = self.committed.book
        owning = [one for one in book.fed_by(message.revision) if book.end_us(one.number) > one.start_us]
        if not owning:
            return []
        failed, last = owning[0], book.revisions[-1]
        name = self.committed.names.get(message.agent, message.agent.hex())
        reason = message.reason[:1000]
        effects: list[Any] = [PlanFailed(message.revision, name, reason)]
        self.problems = {failed.number: f"{name}: {reason}"}
        self._unfit |= {one.plan for one in owning}
        before = [*self.committed.past, *(one for one in book.revisions if one.number < failed.number)]
        old = next((one for one in reversed(before) if one.plan not in self._unfit), None)
        if self._changing is not None or old is None:
            return effects
        at = max(failed.start_us, self.committed.horizon_us)
        start = at if at == failed.start_us else book.next_boundary(at, old.plan)
        revision = book.revised(start, old.plan, old.settings, own_feed=True)
        texts = self.committed.texts
        if _takes(book, revision, self.committed.plan_horizon_us):
            text = texts.get(old.number, PlanText())
            self._append_plan(revision, -1, text, now, failed.number, f"{name}: {reason}")
            if self._wanted is None and last.plan not in self._unfit:
                later, text = max(last.start_us, start), texts.get(last.number, PlanText())
                self._wanted = ChangePlan(-1, last.plan, later, last.settings, text)
        return effects


def _takes(book: PlanBook, revision: Revision, horizon_us: int) -> bool:
    try:
        book.add(revision, horizon_us)
    except PlanBookError:
        return False
    return True

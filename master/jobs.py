"""The life of one job at its leader: what users ask of it, and what they are answered. Pure.

What the job *shall be* and what it *is* are both in its log: entries say what is wanted, the state that follows from them
says how far that has come. A leader that comes later goes on from there. Requests wait until what they asked for is
committed; if the lead is lost before, they are answered `busy`.

    wanted    running              stopped                   removed
    is        starting ─▶ running ─▶ draining ─▶ stopped ─▶ removed
                          ▲     │       drained, all final
                          └─────┴ changing: a plan waits or is not committed yet
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from job.plan import Plan
from job.plan_book import ALWAYS, NEVER_US, Revision, row_plan
from job.settings import JobSpec
from master.committed import Committed
from master.entries import DerivedEntry, PlanText
from master.ingests import Ingests
from master.job_events import ResultsRead
from master.job_rates import RateMeter
from master.requests import (
    Answer,
    Ask,
    ChangeJob,
    DescribeJob,
    ForgetAgent,
    IngestWindows,
    JobView,
    NoteDelivered,
    Rates,
    RecoverJob,
    Refusal,
    RemoveJob,
    RevisionView,
    StopJob,
    SubmitJob,
)
from master.root import ChangeDerived, ChangePlan, DrainJob, DropJob, HaltJob, NoteDelivery, PlanAnswer, Root
from master.root import ForgetAgent as ForgetAtRoot
from master.service import JobNotice
from srt.automaton import Instant, Ref

STARTING, RUNNING, CHANGING = "starting", "running", "changing"
DRAINING, STOPPED, REMOVED = "draining", "stopped", "removed"
WAITING_MAX = 1024
WAITS_SHOWN = 16
PATIENCE_S = 30.0
"""A request that waits longer is answered `busy`."""


def state_of(state: Committed, changing: bool = False) -> str:
    if state.removed:
        return REMOVED
    if state.stopped:
        return STOPPED
    if state.draining:
        return DRAINING
    if not state.exists:
        return STARTING
    return CHANGING if changing else RUNNING


def wanted_of(state: Committed) -> str:
    if state.removed:
        return REMOVED
    return STOPPED if state.stopped or state.draining else RUNNING


def spec_of(state: Committed) -> JobSpec:
    """The job as its user wanted it last. Raises IndexError while it is starting."""
    if state.derived:
        one = state.derived[-1]
        return JobSpec(one.text.name, "", one.settings, derived=one.derived)
    last = state.book.revisions[-1]
    text = state.texts.get(last.number, PlanText())
    return JobSpec(text.name, text.sql, last.settings, text.parameters)


def notice_of(state: Committed) -> JobNotice:
    """Raises IndexError while it is starting."""
    spec = spec_of(state)
    shown = REMOVED if state.removed else STOPPED if state.stopped else RUNNING
    source = "" if state.derived else row_plan(state.book.revisions[-1].plan).source
    trees = state.book.trees
    return JobNotice(spec.name, source, shown, state.revision, state.created_us, state.changed_us, trees)


def view_of(
    state: Committed, root: Root, master: Ref, group: Sequence[Ref], rates: Rates | None
) -> JobView:
    book = state.book
    feed = book.feeds[-1] if book.feeds else 0
    agents = [agent for agent, on in state.roster.items() if on]
    marks = [state.agent_reach(feed, agent) for agent in agents]
    behind = tuple(state.names.get(agent, "") for agent in agents if state.agent_mark(feed, agent) is None)
    waits_for = _slow(state, agents, marks)
    open_ones = {revision.number for revision in book.revisions}
    revisions = [_derived(one) for one in state.derived]
    revisions += [
        _revision(state, root, one, one.number in open_ones) for one in (*state.past, *book.revisions)
    ]
    return JobView(
        spec_of(state).name if state.exists else "",
        state_of(state, root.changing),
        wanted_of(state),
        state.revision,
        tuple(revisions),
        state.created_us,
        master,
        tuple(group),
        state.coverage(len(agents), behind, feed),
        state.reach(feed),
        None if state.horizon_us == ALWAYS else state.horizon_us,
        state.windows.unsettled_count,
        state.editions,
        state.published,
        state.delivered,
        None if state.boundary_us in (ALWAYS, NEVER_US) else state.boundary_us,
        state.derived[-1].derived if state.derived else None,
        waits_for,
        rates,
    )


def _slow(state: Committed, agents: Sequence[bytes], marks: Sequence[int | None]) -> tuple[tuple[str, int], ...]:
    """As `JobView.waits_for`. O(roster)."""
    known = [mark for mark in marks if mark is not None]
    if not known or state.stopped:
        return ()
    settings = state.settings
    usual_us = settings.delay_us + settings.idle_us + settings.emit_us
    least_us = max(known) - max(settings.deadline_us, usual_us)
    slow = [(mark, agent) for agent, mark in zip(agents, marks, strict=True) if mark is not None and mark < least_us]
    return tuple((state.names.get(agent, ""), mark) for mark, agent in sorted(slow)[:WAITS_SHOWN])


def _derived(one: DerivedEntry) -> RevisionView:
    return RevisionView(one.number, "", one.settings.shown(), None, None, one.text.made_us, "open")


def _revision(state: Committed, root: Root, revision: Revision, is_open: bool) -> RevisionView:
    text = state.texts.get(revision.number, PlanText())
    problem = state.problems.get(revision.number) or root.problems.get(revision.number, "")
    return RevisionView(
        revision.number,
        text.sql,
        revision.settings.shown(),
        revision.plan,
        None if revision.start_us == ALWAYS else revision.start_us,
        text.made_us,
        "failed" if problem else "open" if is_open else "closed",
        problem,
        text.parameters,
    )


class _Waiting(NamedTuple):
    token: int
    since_s: float
    is_done: Callable[[], bool]


class Desk:
    """Takes the requests for one job while this node leads it. Methods return answers and events for the root."""

    def __init__(
        self,
        root: Root,
        master: Ref,
        group: Callable[[], Sequence[Ref]],
        is_grown: Callable[[], bool],
        is_stored: Callable[[int], bool],
    ) -> None:
        """`group` are the members, `is_grown` whether they are all that are wanted, `is_stored` whether all results up to an
        index are in the store here."""
        self.root, self._master, self._group, self._is_grown = root, master, group, is_grown
        self._waiting: list[_Waiting] = []
        self._changes: deque[tuple[Ask, float]] = deque()
        """Wait until the change before them is settled: which revision they meet is known then."""
        self._submitted: SubmitJob | None = None
        self._sent: dict[int, str] = {}
        """Changes that the root has, by its token."""
        self._ingests = Ingests(root, is_stored)
        self._meter = RateMeter()

    @property
    def busy(self) -> bool:
        """Somebody waits: it should be looked at when time passes."""
        return bool(self._waiting or self._changes or self._sent or self._ingests.busy)

    # asking

    def ask(self, ask: Ask, now: Instant) -> list[Any]:
        request, state = ask.request, self.root.committed
        if len(self._waiting) + len(self._changes) >= WAITING_MAX:
            return [Answer(ask.token, Refusal("busy", f"{WAITING_MAX} requests wait for this job"))]
        is_at = state_of(state)
        if isinstance(request, SubmitJob):
            return self._submit(ask, request, now)
        if is_at in (STARTING, REMOVED) and not isinstance(request, RemoveJob):
            return [Answer(ask.token, Refusal("unknown", "there is no such job"))]
        if isinstance(request, DescribeJob | RecoverJob):  # it leads: that is what was asked for
            return [Answer(ask.token, self.view(now))]
        if isinstance(request, ChangeJob):
            self._changes.append((ask, now.s))
            return self._go_on(now)
        if isinstance(request, StopJob):
            wanted = [DrainJob()] if request.drain else [HaltJob()]
            return self._want(ask, wanted, lambda: state.stopped or (request.drain and state.draining), now)
        if isinstance(request, RemoveJob):
            return self._want(ask, [DropJob()], lambda: state.removed, now)
        if isinstance(request, ForgetAgent):
            return self._forget(ask, request, now)
        if isinstance(request, IngestWindows):
            return self._ingests.ask(ask, now)
        if isinstance(request, NoteDelivered):
            upto = request.upto
            return self._want(ask, [NoteDelivery(upto)], lambda: state.delivered >= upto, now)
        return [Answer(ask.token, Refusal("invalid", f"{type(request).__name__} is no request for a job"))]

    def read(self, event: ResultsRead, now: Instant) -> list[Any]:
        """The store has answered."""
        return self._ingests.read(event, now)

    def view(self, now: Instant) -> JobView:
        state = self.root.committed
        return view_of(state, self.root, self._master, self._group(), self._meter.rates(state, now.s))

    def _want(self, ask: Ask, events: list[Any], is_done: Callable[[], bool], now: Instant) -> list[Any]:
        self._waiting.append(_Waiting(ask.token, now.s, is_done))
        return [*self.settle(now)] if is_done() else events

    def _forget(self, ask: Ask, request: ForgetAgent, now: Instant) -> list[Any]:
        state = self.root.committed
        ids = [agent for agent, name in state.names.items() if name == request.name]
        if not ids:
            problem = f"no agent named {request.name!r} took part in this job"
            return [Answer(ask.token, Refusal("unknown", problem, "agent"))]
        return self._want(
            ask,
            [ForgetAtRoot(agent) for agent in ids],
            lambda: state.stopped or not any(state.roster.get(agent) for agent in ids),  # stopped, it waits for nobody
            now,
        )

    # submitting and changing

    def _submit(self, ask: Ask, request: SubmitJob, now: Instant) -> list[Any]:
        state = self.root.committed
        if state.removed:
            return [Answer(ask.token, Refusal("busy", "a job of that name is being removed"))]
        known = spec_of(state) if state.exists else self._submitted and self._submitted.spec
        if known and known != request.spec:
            return [Answer(ask.token, Refusal("exists", "there is another job of that name"))]
        self._waiting.append(
            _Waiting(ask.token, now.s, lambda: state.exists and self._is_grown())
        )
        if known:
            return self.settle(now)
        self._submitted = request
        spec = request.spec
        self._sent[ask.token] = "submit"
        if request.plan is None:
            return [_change_derived(ask.token, spec)]
        start, read_us = _beginning(request.plan, now.wall_us - spec.settings.since_us)
        return [ChangePlan(ask.token, request.plan, start, spec.settings, _text(spec), read_us)]

    def _go_on(self, now: Instant) -> list[Any]:
        """Gives the root the next change that waits, if the one before it is settled; one that does not care which revision
        it replaces does not wait, and the root takes the last of those."""
        out: list[Any] = []
        while self._changes:
            ask, _ = self._changes[0]
            if ask.request.expected_revision and self.root.changing:
                break
            self._changes.popleft()
            out += self._change(ask, now)
            if any(isinstance(one, ChangePlan | ChangeDerived) for one in out):
                break  # the root has to take it before the next is looked at
        return out

    def _change(self, ask: Ask, now: Instant) -> list[Any]:
        request: ChangeJob = ask.request
        state = self.root.committed
        refusal = self._refusal(request)
        if refusal is not None:
            return [Answer(ask.token, refusal)]
        if request.spec == spec_of(state) and request.start_us is None and not self.root.changing:
            return [Answer(ask.token, self.view(now))]
        self._sent[ask.token] = "change"
        if request.plan is None:
            return [_change_derived(ask.token, request.spec)]
        last = state.book.revisions[-1]
        text, settings = _text(request.spec), request.spec.settings
        return [ChangePlan(ask.token, request.plan, request.start_us, settings, text, last.read_us)]

    def _refusal(self, request: ChangeJob) -> Refusal | None:
        state = self.root.committed
        if state.removed:
            return Refusal("unknown", "the job was removed")
        if state_of(state) in (DRAINING, STOPPED):
            return Refusal("invalid", "the job is stopped; remove it and submit it again", "state")
        known = spec_of(state)
        if request.expected_revision and request.expected_revision != state.revision:
            detail = f"revision {state.revision} is the current one, not {request.expected_revision}"
            return Refusal("stale", detail)
        if request.spec.name != known.name:
            return Refusal("invalid", "the name of a job cannot change", "name")
        if request.spec.derived != known.derived:
            what = "what a derived job consists of cannot change; make another job"
            return Refusal("invalid", what if known.derived else "the job is no derived one", "derived")
        if request.plan is not None:
            old, new = row_plan(state.book.revisions[-1].plan).source, row_plan(request.plan).source
            if old != new:
                return Refusal("invalid", f"the job reads {old}; make another job to read {new}", "sql")
        return None

    # what comes of it

    def planned(self, answer: PlanAnswer, now: Instant) -> list[Any]:
        """The root says what became of a change."""
        what = self._sent.pop(answer.token, "")
        out: list[Any] = []
        if answer.problem:
            self._waiting = [one for one in self._waiting if one.token != answer.token]
            if what:
                out.append(Answer(answer.token, Refusal(answer.kind or "busy", answer.problem)))
            if what == "submit":
                self._submitted = None
        elif what == "change":
            out.append(Answer(answer.token, self.view(now)))
        return out + self._go_on(now)

    def settle(self, now: Instant) -> list[Any]:
        """Something was committed, or time has passed: answers whose wish is fulfilled, or who waited too long."""
        self._meter.note(self.root.committed, now.s)
        out: list[Any] = []
        view: JobView | None = None
        rest = []
        for one in self._waiting:
            if one.is_done():
                view = view or self.view(now)
                out.append(Answer(one.token, view))
                self._sent.pop(one.token, None)
            elif now.s >= one.since_s + PATIENCE_S:
                out.append(Answer(one.token, Refusal("busy", "it is not done yet; ask again")))
                self._sent.pop(one.token, None)
            else:
                rest.append(one)
        self._waiting = rest
        while self._changes and now.s >= self._changes[0][1] + PATIENCE_S:
            out.append(Answer(self._changes.popleft()[0].token, Refusal("busy", "another change waits")))
        return out + self._go_on(now) + self._ingests.go_on(now)

    def lost(self) -> list[Any]:
        """The lead is lost: what waits may come to be or not."""
        tokens = (
            {one.token for one in self._waiting} | {ask.token for ask, _ in self._changes} | self._sent.keys()
        ) | set(self._ingests.lost())
        self._waiting, self._sent, self._submitted = [], {}, None
        self._changes.clear()
        return [
            Answer(token, Refusal("busy", "another node leads the job now; ask again"))
            for token in sorted(tokens)
        ]


def _change_derived(token: int, spec: JobSpec) -> ChangeDerived:
    assert spec.derived is not None, "a job without a plan is a derived one"
    return ChangeDerived(token, spec.derived, spec.settings, _text(spec))


def _text(spec: JobSpec) -> PlanText:
    return PlanText(spec.name, spec.sql, spec.parameters)


def _beginning(plan: Plan, from_us: int) -> tuple[int, int]:
    """The E of a new job, a start of a window, and for an endless one from when on it reads."""
    window = row_plan(plan).window
    if window is None:
        return ALWAYS, from_us
    return from_us // window.slide_us * window.slide_us, ALWAYS

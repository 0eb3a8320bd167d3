"""Nodes of the simulation of cuts: the real cores, with pings in the place of srt/reducer_tree.

Agents hang below vertices, vertices below others or the root. A node that has not heard from its parent for a lease tells
the world, which gives it another one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from agent.journal import Journal, JournalOptions
from agent.stream_events import JobHeard, JobParent, JobTold, JobTrees, JobUp
from agent.stream_options import StreamsOptions
from agent.streams import Streams
from cbt.budget import Budget
from cbt.options import Options
from job.plan import Plan
from job.plan_book import PlanBook
from master.group_events import Committed as LogCommitted
from master.group_events import Propose
from master.group_messages import Lineage
from master.root import Root, RootOptions, Spread
from srt.automaton import NEVER, WAKE, Instant, Received, Ref, Send, Stored, StoreFailed, Wake
from srt.frame_messages import Ack, Nack, News, Synced
from srt.reducer import ChildrenChanged, ParentChanged, Reducer, ReducerOptions
from tests.sim.single_log import SingleLog

JOBS = (b"j" * 16, b"k" * 16)
SECOND = "b."
"""How the addresses of the second job's nodes begin."""
LEASE_S = 1.0


def job_of(address: str) -> int:
    """Which job a vertex or a master belongs to."""
    return int(address.startswith(SECOND))


class Ping(NamedTuple):
    version: int
    history: int


class Pong(NamedTuple):
    news: News


class Parted(NamedTuple):
    """A message in the tree of a further partition. Here it has the same parents and children as the first."""

    partition: int
    message: Any


def parted(partition: int, message: Any) -> Any:
    return Parted(partition, message) if partition else message


def unparted(message: Any) -> tuple[int, Any]:
    return message if isinstance(message, Parted) else (0, message)


def tagged(ref: Ref, partition: int) -> Ref:
    """A peer of a root, of which there is one per tree."""
    return Ref(ref.id, f"{ref.address}#{partition}", ref.boot) if partition else ref


def untagged(ref: Ref) -> tuple[Ref, int]:
    address, _, partition = ref.address.partition("#")
    return Ref(ref.id, address, ref.boot), int(partition or 0)


class SetParent(NamedTuple):
    parent: Ref


class NeedParent(NamedTuple):
    """Effect: the parent is silent."""

    job: int


class Node:
    """What all nodes do: ping the parent, know the children by their pings."""

    def __init__(self, ref: Ref, job: int) -> None:
        self.ref, self.job = ref, job
        self.parent: Ref | None = None
        self.news: News | None = None
        self._heard_s = -NEVER
        self._ping_at_s = 0.0
        self._asked = False
        self._children: dict[Ref, float] = {}

    @property
    def core_wake_at(self) -> float:
        return NEVER

    @property
    def wake_at(self) -> float:
        return min(self._ping_at_s, self.core_wake_at)

    def handle(self, event: Any, now: Instant) -> list[Any]:
        if isinstance(event, Wake):
            effects = self._tick(now) if now.s >= self._ping_at_s else []
            return effects + (self.core(WAKE, now) if now.s >= self.core_wake_at else [])
        if isinstance(event, SetParent):
            self._asked, self._heard_s = False, now.s
            self.parent = event.parent
            return [*self.attached(now), Send(self.parent, self._ping())]
        if isinstance(event, Received) and isinstance(event.message, Ping):
            return self._pinged(event.sender, event.message, now)
        if isinstance(event, Received) and isinstance(event.message, Pong):
            if event.sender == self.parent:
                self._heard_s = now.s
            return self._learn(event.message.news, now)
        return self.core(event, now)

    def _ping(self) -> Ping:
        return Ping(-1, -1) if self.news is None else Ping(self.news.version, self.news.history)

    def _tick(self, now: Instant) -> list[Any]:
        self._ping_at_s = now.s + LEASE_S / 3
        if self.parent is not None and now.s > self._heard_s + LEASE_S:
            self.parent = None
            effects = self.attached(now)
        else:
            effects = []
        if self.parent is None:
            return [*effects, NeedParent(self.job)]
        return [*effects, Send(self.parent, self._ping())]

    def _learn(self, news: News, now: Instant) -> list[Any]:
        """Keeps the book that is known; news of an older leader say nothing."""
        old = self.news
        if old is not None:
            if (news.history, news.epoch, news.version) < (old.history, old.epoch, old.version):
                return []
            if news.book is None:
                if news.version != old.version or news.history != old.history:
                    return []
                news = News(*[getattr(news, name) for name in news.__struct_fields__])
                news = _with_book(news, old.book)
        elif news.book is None:
            return []
        self.news = news
        fresh = old is None or (news.history, news.version) != (old.history, old.version)
        return self.told(news, now) + (self.spread() if fresh else [])

    def spread(self) -> list[Any]:
        """What is new goes down at once; who misses it hears of it in the next PONG."""
        return [] if self.news is None else [Send(child, Pong(self.news)) for child in sorted(self._children)]

    def _pinged(self, sender: Ref, ping: Ping, now: Instant) -> list[Any]:
        before = set(self._children)
        self._children[sender] = now.s
        self._children = {child: at for child, at in self._children.items() if at > now.s - LEASE_S}
        effects = self.children(frozenset(self._children), now) if set(self._children) != before else []
        news = self.current_news(ping, now)
        return effects if news is None else [*effects, Send(sender, Pong(news))]

    def current_news(self, ping: Ping, now: Instant) -> News | None:
        if self.parent is None or self.news is None:
            return None  # cut off: children should look elsewhere
        known = (ping.version, ping.history) == (self.news.version, self.news.history)
        return _with_book(self.news, None) if known else self.news

    # what differs

    def core(self, event: Any, now: Instant) -> list[Any]:
        raise NotImplementedError

    def attached(self, now: Instant) -> list[Any]:
        return []

    def told(self, news: News, now: Instant) -> list[Any]:
        return []

    def children(self, children: frozenset[Ref], now: Instant) -> list[Any]:
        return []


def _with_book(news: News, book: PlanBook | None) -> News:
    return News(
        news.epoch,
        news.history,
        news.version,
        book,
        news.horizon_us,
        news.draining,
        news.clock_us,
        news.watermark_us,
    )


class AgentPlace(Node):
    """An agent's place in the tree of one job."""

    def __init__(self, ref: Ref, job: int, streams: Streams) -> None:
        super().__init__(ref, job)
        self.key, self.streams = JOBS[job], streams
        self.trees = 1

    def core(self, event: Any, now: Instant) -> list[Any]:
        if isinstance(event, Received):
            partition, message = unparted(event.message)
            if isinstance(message, Ack | Nack | Synced):
                return self.streams.handle(JobHeard(self.key, message, partition), now)
        return []

    def attached(self, now: Instant) -> list[Any]:
        effects = []
        for partition in range(self.trees):
            effects += self.streams.handle(JobParent(self.key, self.parent, partition), now)
        return effects

    def told(self, news: News, now: Instant) -> list[Any]:
        effects = self.streams.handle(JobTold(self.key, news), now)
        for told in [effect for effect in effects if isinstance(effect, JobTrees)]:
            self.trees = told.trees
            effects += self.attached(now)
        return effects


class AgentNode:
    """An agent; its driver is the world."""

    def __init__(
        self,
        ref: Ref,
        jobs: int,
        data: bytes,
        fresh_id: bytes,
        can_run: Callable[[Plan], str | None],
        rng: random.Random,
        options: StreamsOptions,
    ) -> None:
        self.ref = ref
        self.checked: set[int] = set()
        """Cuts that the world has looked at."""
        journal = Journal(data, fresh_id, JournalOptions.tiny())
        self.streams = Streams(ref.address, journal, rng, can_run, options)
        self.places = [AgentPlace(ref, job, self.streams) for job in range(jobs)]

    @property
    def wake_at(self) -> float:
        return min(self.streams.wake_at, *(place.wake_at for place in self.places))

    def handle(self, event: Any, now: Instant) -> list[Any]:
        if isinstance(event, Received):
            effects = self.places[job_of(event.sender.address)].handle(event, now)
        elif isinstance(event, SetParent):
            effects = self.places[job_of(event.parent.address)].handle(event, now)
        elif isinstance(event, Wake):
            due = [place for place in self.places if place.wake_at <= now.s]
            effects = [effect for place in due for effect in place.handle(event, now)]
            effects += self.streams.handle(event, now) if self.streams.wake_at <= now.s else []
        else:
            effects = self.streams.handle(event, now)
        return [out for effect in effects for out in self._out(effect)]

    def _out(self, effect: Any) -> list[Any]:
        if not isinstance(effect, JobUp):
            return [effect]
        parent = self.places[JOBS.index(effect.job)].parent
        return [] if parent is None else [Send(parent, parted(effect.partition, effect.message))]


class VertexNode(Node):
    """An inner vertex."""

    def __init__(self, ref: Ref, options: ReducerOptions) -> None:
        super().__init__(ref, job_of(ref.address))
        self.vertices = VerticesHere(ref, Budget(), options)

    @property
    def core_wake_at(self) -> float:
        return self.vertices.wake_at

    def core(self, event: Any, now: Instant) -> list[Any]:
        return self.vertices.handle(event, now)

    def attached(self, now: Instant) -> list[Any]:
        return self.vertices.handle(ParentChanged(self.parent), now)

    def children(self, children: frozenset[Ref], now: Instant) -> list[Any]:
        return self.vertices.handle(ChildrenChanged(children), now)


class VerticesHere:
    """The vertices of a node in the trees of a job: one per partition, made when something comes for it."""

    def __init__(self, ref: Ref, budget: Budget, options: ReducerOptions) -> None:
        self._ref, self._budget, self._options = ref, budget, options
        self._parent, self._children = ParentChanged(None), ChildrenChanged(frozenset())
        self.reducers = {0: self._made()}

    def _made(self) -> Reducer:
        return Reducer(self._ref, self._budget, self._options, Options.tiny())

    @property
    def wake_at(self) -> float:
        return min(reducer.wake_at for reducer in self.reducers.values())

    def check(self) -> None:
        for reducer in self.reducers.values():
            reducer.check()

    def handle(self, event: Any, now: Instant) -> list[Any]:
        if isinstance(event, Received):
            partition, message = unparted(event.message)
            return self._one(partition, Received(event.sender, message), now)
        if isinstance(event, ParentChanged):
            self._parent = event
        if isinstance(event, ChildrenChanged):
            self._children = event
        due = [
            partition
            for partition, reducer in self.reducers.items()
            if not isinstance(event, Wake) or reducer.wake_at <= now.s
        ]
        return [effect for partition in due for effect in self._one(partition, event, now)]

    def _one(self, partition: int, event: Any, now: Instant) -> list[Any]:
        effects: list[Any] = []
        reducer = self.reducers.get(partition)
        if reducer is None:
            reducer = self.reducers[partition] = self._made()
            effects += reducer.handle(self._parent, now) + reducer.handle(self._children, now)
        effects += reducer.handle(event, now)
        return [
            Send(effect.to, parted(partition, effect.message)) if isinstance(effect, Send) else effect
            for effect in effects
        ]


Watcher = Callable[["MasterNode", Lineage, LogCommitted, list[Any]], None]
"""Called after each entry that a master applied: of which log it is, and what followed."""


class MasterNode(Node):
    """Where a root may be."""

    root: Root

    @property
    def lineage(self) -> Lineage:
        """Of its log."""
        raise NotImplementedError

    @property
    def leads(self) -> bool:
        return self.root.leading

    @property
    def rank(self) -> tuple[Any, ...]:
        """The greater of two that lead is the one that others obey."""
        return (self.root.history, self.root.epoch)


class RootNode(MasterNode):
    """A group of one, on `single_log`."""

    def __init__(
        self,
        ref: Ref,
        log: SingleLog,
        options: RootOptions,
        committed: Watcher,
    ) -> None:
        super().__init__(ref, job_of(ref.address))
        self._committed = committed
        budget = Budget()
        self.log = log
        state, self._replay = log.recover(budget)
        self.root = Root(ref, budget, options, Options.tiny(), state)
        self._ping_at_s = 0.0

    @property
    def lineage(self) -> Lineage:
        return Lineage(self.log.history, b"")

    @property
    def core_wake_at(self) -> float:
        return self.root.wake_at

    def _tick(self, now: Instant) -> list[Any]:
        self._ping_at_s = NEVER
        events, self._replay = self._replay, []
        return [effect for event in events for effect in self.core(event, now)]

    def core(self, event: Any, now: Instant) -> list[Any]:
        if isinstance(event, Stored):
            events: list[Any] = list(self.log.stored(event.token))
        elif isinstance(event, StoreFailed):
            return [self.log.failed(event.token)]
        else:
            events = [event]
        effects: list[Any] = []
        for one in events:
            if isinstance(one, Received):
                partition, message = unparted(one.message)
                one = Received(tagged(one.sender, partition), message)
            done = self.root.handle(one, now)
            if isinstance(one, LogCommitted):
                self._committed(self, self.lineage, one, done)
            effects += done
        effects += self.log.maybe_snapshot(self.root.committed) if self.root.leading else []
        return [out for effect in effects for out in self._out(effect)]

    def _out(self, effect: Any) -> list[Any]:
        if isinstance(effect, Propose):
            return [self.log.append(effect)]
        if isinstance(effect, Spread):
            self.news = effect.news
            return self.spread()
        if isinstance(effect, Send):
            to, partition = untagged(effect.to)
            return [Send(to, parted(partition, effect.message))]
        return [effect]

    def current_news(self, ping: Ping, now: Instant) -> News | None:
        return self.root.news(now, ping.version, ping.history) if self.root.leading else None

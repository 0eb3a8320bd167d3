"""Nodes of the simulation of cuts: the real cores, with pings in the place of srt/reducer_tree.

Agents hang below vertices, vertices below others or the root. A node that has not heard from its parent for a lease tells
the world, which gives it another one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from agent.journal import Journal, JournalOptions
from agent.stream_events import JobHeard, JobParent, JobTold, JobUp
from agent.streams import Streams, StreamsOptions
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

    def core(self, event: Any, now: Instant) -> list[Any]:
        if isinstance(event, Received) and isinstance(event.message, Ack | Nack | Synced):
            return self.streams.handle(JobHeard(self.key, event.message), now)
        return []

    def attached(self, now: Instant) -> list[Any]:
        return self.streams.handle(JobParent(self.key, self.parent), now)

    def told(self, news: News, now: Instant) -> list[Any]:
        return self.streams.handle(JobTold(self.key, news), now)


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
        return [] if parent is None else [Send(parent, effect.message)]


class VertexNode(Node):
    """An inner vertex."""

    def __init__(self, ref: Ref, options: ReducerOptions) -> None:
        super().__init__(ref, job_of(ref.address))
        self.reducer = Reducer(ref, Budget(), options, Options.tiny())

    @property
    def core_wake_at(self) -> float:
        return self.reducer.wake_at

    def core(self, event: Any, now: Instant) -> list[Any]:
        return self.reducer.handle(event, now)

    def attached(self, now: Instant) -> list[Any]:
        return self.reducer.handle(ParentChanged(self.parent), now)

    def children(self, children: frozenset[Ref], now: Instant) -> list[Any]:
        return self.reducer.handle(ChildrenChanged(children), now)


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
        return [effect]

    def current_news(self, ping: Ping, now: Instant) -> News | None:
        return self.root.news(now, ping.version, ping.history) if self.root.leading else None

"""A machine of a job's commit group in the simulation of cuts: the real masters of a node, and the vertex beside them.

The ring and the tree that the masters look at are those of the simulation: it says who should be a member, and all whose
pings are answered are children.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import msgspec

from cbt.budget import Budget
from cbt.options import Options
from master.commit_group import Role
from master.group_events import Committed as LogCommitted
from master.group_events import Recover
from master.group_messages import GROUP_MESSAGES, Lineage
from master.masters import FoundJob, Masters, MastersOptions, NewsHere, OfJob, ToRoot
from master.options import GroupOptions
from master.root import Root, RootOptions
from srt.automaton import WAKE, Instant, PeerLost, Received, Ref, Send, Stored, StoreFailed, Wake
from srt.frame_messages import Ack, Frame, Nack, News, Refused, Sync, Synced
from srt.reducer import ChildrenChanged, ParentChanged, Reducer, ReducerOptions
from srt.tree_events import Serve, StopServing
from srt.vertices import AtRoot, ForVertex
from tests.sim.cut_nodes import JOBS, MasterNode, Ping, Watcher, _with_book, job_of

MEMBERS = 3
LOG_ENTRIES_MAX = 24
_News = msgspec.msgpack.Decoder(News)


class Neighbours:
    """The ring, as far as masters ask it."""

    def __init__(self) -> None:
        self.wanted: list[Ref] = []

    def neighbours(self, key: bytes, count: int) -> list[Ref]:
        return self.wanted[:count]


class Serving:
    """The trees, as far as masters ask them."""

    def __init__(self) -> None:
        self.root = False

    def serves(self, key: bytes) -> bool:
        return self.root


class WatchedMasters(Masters):
    """Tells of each entry that is applied."""

    node: GroupNode
    watcher: Watcher

    def _to_root(self, key: bytes, event: Any) -> None:
        before = len(self._out)
        super()._to_root(key, event)
        if isinstance(event, LogCommitted):
            done = [one.effect for one in self._out[before:] if isinstance(one, OfJob)]
            self.watcher(self.node, self.node.lineage, event, done)


class GroupNode(MasterNode):
    """A member of a group, or one that may become one."""

    def __init__(
        self,
        ref: Ref,
        stored: Mapping[bytes, bytes],
        rng: random.Random,
        options: RootOptions,
        reducer: ReducerOptions,
        neighbours: Neighbours,
        watcher: Watcher,
        first: bool,
    ) -> None:
        super().__init__(ref, job_of(ref.address))
        self.key = JOBS[self.job]
        self.tree = Serving()
        budget, sizes = Budget(), Options.tiny()
        group = GroupOptions(append_bytes_max=4096, flight_bytes_max=16384, part_bytes=512)
        self.masters = WatchedMasters(
            ref,
            neighbours,  # type: ignore[arg-type]
            self.tree,  # type: ignore[arg-type]
            budget,
            rng,
            stored,
            MastersOptions(MEMBERS, 0.1, 0.5, LOG_ENTRIES_MAX, group, options),
            sizes,
        )
        self.masters.node, self.masters.watcher = self, watcher
        self.reducer = Reducer(ref, budget, reducer, sizes)
        self._first = first
        self._neighbours = neighbours

    @property
    def root(self) -> Root:  # type: ignore[override]
        return self.masters.root(self.key)

    @property
    def member(self) -> bool:
        """Whether it knows of the group at all."""
        return self.key in self.masters._masters

    @property
    def well(self) -> bool:
        """Whether nothing of its log has rotted, as far as it knows."""
        return not self.member or not self.masters.group(self.key).log.meta.damaged

    @property
    def log_entries(self) -> int:
        return len(self.masters.group(self.key).log.entries)

    @property
    def is_member(self) -> bool:
        """Whether it is one of the members of the group, by its own log."""
        return self.member and self.masters.group(self.key).role is not Role.OUTSIDER

    @property
    def lineage(self) -> Lineage:
        return self.masters.group(self.key).log.meta.lineage

    @property
    def leads(self) -> bool:
        return self.tree.root and self.masters.leads(self.key)

    @property
    def rank(self) -> tuple[Any, ...]:
        group = self.masters.group(self.key)
        return (group.log.meta.lineage, group.epoch)

    @property
    def core_wake_at(self) -> float:
        return min(self.masters.wake_at, self.reducer.wake_at)

    def _tick(self, now: Instant) -> list[Any]:
        self._ping_at_s = float("inf")
        if self._first and not self.member:
            return self._out(self.masters.handle(FoundJob(self.key), now), now)
        return []

    def core(self, event: Any, now: Instant) -> list[Any]:
        if isinstance(event, Wake):
            effects = self._out(self.masters.handle(WAKE, now), now) if self.masters.wake_at <= now.s else []
            return effects + self._out(self.reducer.handle(WAKE, now), now)
        if isinstance(event, Received) and isinstance(
            event.message, Frame | Sync | Refused | Ack | Nack | Synced
        ):
            return self._out(self.reducer.handle(event, now), now)
        if isinstance(event, Received) and isinstance(event.message, GROUP_MESSAGES):
            return self._out(self.masters.handle(event, now), now)
        if isinstance(event, Stored | StoreFailed):
            return self._out(self.masters.handle(event, now), now)
        if isinstance(event, PeerLost):
            return []
        if isinstance(event, Recover):
            self.masters._now, self.masters._out = now, []
            self.masters._from_group(self.key, self.masters.group(self.key).handle(event, now))
            return self._out(self.masters._out, now)
        return self._out(self.masters.handle(ToRoot(self.key, event), now), now)

    def _out(self, effects: list[Any], now: Instant) -> list[Any]:
        """What is left when masters and vertex have told each other everything."""
        waiting, out = list(effects), []
        while waiting:
            effect = waiting.pop(0)
            if isinstance(effect, ForVertex):
                waiting[:0] = self.reducer.handle(effect.event, now)
            elif isinstance(effect, Send) and effect.to == self.ref:
                waiting[:0] = self.masters.handle(AtRoot(self.key, effect.message), now)
            elif isinstance(effect, Serve | StopServing):
                self.tree.root = isinstance(effect, Serve)
                self.news = None
                parent = self.ref if self.tree.root else None
                waiting[:0] = self.reducer.handle(ParentChanged(parent), now)
            elif isinstance(effect, NewsHere):
                known, self.news = self.news, _News.decode(effect.news)
                if known is None or known.version != self.news.version:
                    out += self.spread()
            elif isinstance(effect, OfJob):
                out.append(effect.effect)
            else:
                out.append(effect)
        return out

    def children(self, children: frozenset[Ref], now: Instant) -> list[Any]:
        return self._out(self.reducer.handle(ChildrenChanged(children), now), now)

    def current_news(self, ping: Ping, now: Instant) -> News | None:
        if not self.leads or self.news is None:
            return None
        known = (ping.version, ping.history) == (self.news.version, self.news.history)
        return _with_book(self.news, None) if known else self.news

"""A machine of a commit group in the simulation of cuts: the real group, the root above it, the vertex beside it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import msgspec

from cbt.budget import Budget
from cbt.options import Options
from master.commit_group import CommitGroup
from master.group_events import Committed as LogCommitted
from master.group_events import Compact, Dismissed, Following, Leading, Propose, Recover, Restored, Role, Want
from master.group_messages import GROUP_MESSAGES, Lineage
from master.options import GroupOptions
from master.root import Root, RootOptions, Spread
from master.snapshots import restored, snapshot
from srt.automaton import WAKE, Instant, PeerLost, Received, Ref, Send, Stored, StoreFailed, Wake
from srt.frame_messages import Ack, Frame, Nack, News, Refused, Sync, Synced
from srt.reducer import ChildrenChanged, ParentChanged, ReducerOptions
from tests.sim.cut_nodes import (
    JOBS,
    MasterNode,
    Parted,
    Ping,
    VerticesHere,
    Watcher,
    job_of,
    parted,
    tagged,
    unparted,
    untagged,
)

LOG_ENTRIES_MAX = 24
WANT_S = 0.5
"""How often a member hears who is closest."""
_Parts = msgspec.msgpack.Decoder(list[bytes])


class Neighbours:
    """The ring, as far as masters ask it: who should be the members, the closest first."""

    def __init__(self) -> None:
        self.wanted: list[Ref] = []


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
        """`first`: it founds the group if it knows of none."""
        super().__init__(ref, job_of(ref.address))
        self.key = JOBS[self.job]
        sizes = GroupOptions(append_bytes_max=4096, flight_bytes_max=16384, part_bytes=512)
        self.group = CommitGroup.reopen(self.key, ref, stored, sizes, rng)
        if first and not stored:
            self.group = CommitGroup.create(self.key, ref, sizes, rng)
        self._options, self._budget = options, Budget()
        self._root = self._root_of(b"")
        self.vertices = VerticesHere(ref, self._budget, reducer)
        self._neighbours, self._watcher = neighbours, watcher
        self._leading = False

    def _root_of(self, state: bytes) -> Root:
        parts = _Parts.decode(state) if state else None
        committed = restored(parts, self._budget, Options.tiny()) if parts else None
        return Root(self.ref, self._budget, self._options, Options.tiny(), committed)

    @property
    def root(self) -> Root:  # type: ignore[override]
        return self._root

    @property
    def log_entries(self) -> int:
        return len(self.group.log.entries)

    @property
    def well(self) -> bool:
        """Whether nothing of its log has rotted, as far as it knows."""
        return not self.group.log.meta.damaged

    @property
    def is_member(self) -> bool:
        """Whether it is one of the members of the group, by its own log."""
        return self.group.role is not Role.OUTSIDER

    @property
    def lineage(self) -> Lineage:
        return self.group.log.meta.lineage

    @property
    def leads(self) -> bool:
        return self._leading

    @property
    def rank(self) -> tuple[Any, ...]:
        return (self.lineage, self.group.epoch)

    @property
    def core_wake_at(self) -> float:
        return min(self.group.wake_at, self.root.wake_at, self.vertices.wake_at)

    def _tick(self, now: Instant) -> list[Any]:
        self._ping_at_s = now.s + WANT_S
        return self._out(self.group.handle(Want(self._neighbours.wanted), now), now)

    def core(self, event: Any, now: Instant) -> list[Any]:
        if isinstance(event, Wake):
            effects: list[Any] = []
            for part in (self.group, self.root, self.vertices):
                if part.wake_at <= now.s:
                    effects += self._out(part.handle(WAKE, now), now)
            return effects
        message = event.message if isinstance(event, Received) else None
        if isinstance(message, Parted | Frame | Sync | Refused | Ack | Nack | Synced):
            return self._out(self.vertices.handle(event, now), now)
        if isinstance(message, GROUP_MESSAGES) or isinstance(
            event, Stored | StoreFailed | Recover | PeerLost
        ):
            return self._out(self.group.handle(event, now), now)
        return self._out(self.root.handle(event, now), now)

    def _out(self, effects: list[Any], now: Instant) -> list[Any]:
        """What is left when group, root and vertex have told each other everything."""
        waiting, out = list(effects), []
        while waiting:
            effect = waiting.pop(0)
            if isinstance(effect, Restored | Dismissed):
                self._root = self._root_of(effect.state if isinstance(effect, Restored) else b"")
            elif isinstance(effect, LogCommitted):
                done = self.root.handle(effect, now)
                self._watcher(self, self.lineage, effect, done)
                waiting[:0] = done
            elif isinstance(effect, Leading | Following):
                waiting[:0] = self._led(effect, now)
            elif isinstance(effect, Propose):
                waiting[:0] = self.group.handle(effect, now)
            elif isinstance(effect, Send) and effect.to.id == self.ref.id:
                waiting[:0] = self._here(effect, now)
            elif isinstance(effect, Spread):
                self.news = effect.news
                out += self.spread()
            else:
                out.append(effect)
        return [*out, *self._shortened(now)]

    def _led(self, effect: Leading | Following, now: Instant) -> list[Any]:
        self._leading = isinstance(effect, Leading)
        parent = self.ref if self._leading else None
        return [*self.root.handle(effect, now), *self.vertices.handle(ParentChanged(parent), now)]

    def _here(self, effect: Send, now: Instant) -> list[Any]:
        """Between the root and the vertices beside it."""
        partition, message = unparted(effect.message)
        if isinstance(message, Frame | Sync | Refused):
            return self.root.handle(Received(tagged(self.ref, partition), message), now)
        _, partition = untagged(effect.to)
        return self.vertices.handle(Received(self.ref, parted(partition, message)), now)

    def _shortened(self, now: Instant) -> list[Any]:
        log, state = self.group.log, self.root.committed
        if len(log.entries) <= LOG_ENTRIES_MAX or not log.stored >= state.index > log.first:
            return []
        encoded = msgspec.msgpack.encode(list(snapshot(state)))
        return self.group.handle(Compact(state.index, encoded), now)

    def children(self, children: frozenset[Ref], now: Instant) -> list[Any]:
        return self._out(self.vertices.handle(ChildrenChanged(children), now), now)

    def current_news(self, ping: Ping, now: Instant) -> News | None:
        return self.root.news(now, ping.version, ping.history) if self.leads else None

"""The masters of one node: for each job its commit group and, while that leads, the root of its tree. Pure.

A group that this node is a member of, or learns from, is here with the state that follows from its log. What concerns ring,
trees and vertices leaves as their events.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from cbt.budget import Budget
from cbt.options import Options as TreeSizes
from master.commit_group import CommitGroup
from master.group_events import Committed, Compact, Dismissed, Following, Leading, Propose, Restored, Want
from master.group_messages import Append, SnapshotPart
from master.options import GroupOptions
from master.root import Root, RootOptions, Spread
from master.snapshots import restored, snapshot
from srt.automaton import NEVER, WAKE, Instant, Received, Ref, Send, Stored, StoreFailed, Wake, Write
from srt.frame_messages import News
from srt.reducer_tree import ReducerTree
from srt.ring import MembersChanged, Ring
from srt.tree_events import Claim, ForwardTo, Multicast, Serve, SetContent, StopServing
from srt.vertices import AtRoot, ForVertex

KEY_BYTES = 16
_Parts = msgspec.msgpack.Decoder(list[bytes])
_encode = msgspec.msgpack.Encoder().encode


class MasterError(Exception):
    """Something asked of the masters that they cannot do. `str(error)` is fit to be shown."""


class FoundJob(NamedTuple):
    """Event: make a job. Its group begins here, alone, and grows to the nodes closest to the key. Once per job and fleet."""

    key: bytes


class ToRoot(NamedTuple):
    """Event: one of the root of a job (master/root.py); ignored where this node does not lead it."""

    key: bytes
    event: Any


class OfJob(NamedTuple):
    """Effect: what the root of a job tells the faces above."""

    key: bytes
    effect: Any


class NewsHere(NamedTuple):
    """Effect: what the tree carries down, for the agent of this node."""

    key: bytes
    news: bytes


@dataclass(frozen=True)
class MastersOptions:
    group_size: int = 3
    """Members of a job's commit group: the root and so many less one of its neighbours."""
    news_s: float = 0.25
    """How often the root's news go into the PONGs."""
    want_s: float = 1.0
    """How often the leader looks at the latest who should be in the group."""
    log_entries_max: int = 256
    """A log that is longer gives way to a snapshot."""
    group: GroupOptions = field(default_factory=GroupOptions)
    root: RootOptions = field(default_factory=RootOptions)


@dataclass
class _Master:
    group: CommitGroup
    root: Root
    leading: bool = False
    told: bytes = b""
    """The news that the tree carries."""
    told_version: int = 0
    tell_at: float = 0.0


class Masters:
    """All masters of one node. Reads `ring` and `trees`, changes neither."""

    def __init__(
        self,
        ref: Ref,
        ring: Ring,
        trees: ReducerTree,
        budget: Budget,
        rng: random.Random,
        stored: Mapping[bytes, bytes],
        options: MastersOptions,
        sizes: TreeSizes,
    ) -> None:
        """`stored` is what the store of groups holds. Raises GroupStoreError."""
        self.ref, self.options = ref, options
        self._ring, self._trees = ring, trees
        self._masters: dict[bytes, _Master] = {}
        self._budget, self._rng, self._sizes = budget, rng, sizes
        self._tokens: dict[int, tuple[bytes, int]] = {}
        """Writes on their way: the job and its own token, by the token given out."""
        self._token = self._cast = 0
        self._want_at = 0.0
        self._now = Instant(0.0, 0)
        self._out: list[Any] = []
        for key in sorted({name[:KEY_BYTES] for name in stored}):
            self._add(CommitGroup.reopen(key, ref, stored, options.group, rng))

    # the automaton

    @property
    def wake_at(self) -> float:
        times = [NEVER]
        for master in self._masters.values():
            times += [master.group.wake_at, master.root.wake_at]
            if master.leading:
                times += [master.tell_at, self._want_at]
        return min(times)

    def handle(self, event: Any, now: Instant) -> list[Any]:
        self._now, self._out = now, []
        if isinstance(event, Received):
            self._to_group(event.sender, event.message)
        elif isinstance(event, AtRoot):
            self._to_root(event.key, Received(self.ref, event.message))
        elif isinstance(event, ToRoot):
            self._to_root(event.key, event.event)
        elif isinstance(event, Wake):
            self._wake()
        elif isinstance(event, Stored | StoreFailed):
            self._stored(event)
        elif isinstance(event, Claim):
            self._claim(event.key)
        elif isinstance(event, MembersChanged):
            self._want_at = now.s
        elif isinstance(event, FoundJob):
            self._found(event.key)
        self._lead()
        return self._out

    def leads(self, key: bytes) -> bool:
        return key in self._masters and self._masters[key].leading

    def group(self, key: bytes) -> CommitGroup:
        """Raises KeyError where there is none."""
        return self._masters[key].group

    def root(self, key: bytes) -> Root:
        """Raises KeyError where there is none."""
        return self._masters[key].root

    def _wake(self) -> None:
        now = self._now
        for key, master in list(self._masters.items()):
            if master.group.wake_at <= now.s:
                self._from_group(key, master.group.handle(WAKE, now))
            if master.root.wake_at <= now.s:
                self._from_root(key, master.root.handle(WAKE, now))

    # groups

    def _add(self, group: CommitGroup) -> _Master:
        master = self._masters[group.log.key] = _Master(group, self._root_of(None))
        return master

    def _found(self, key: bytes) -> None:
        if key in self._masters:
            raise MasterError(f"job {key.hex()} is known here already")
        self._add(CommitGroup.create(key, self.ref, self.options.group, self._rng))

    def _root_of(self, state: bytes | None) -> Root:
        committed = restored(_Parts.decode(state), self._budget, self._sizes) if state else None
        return Root(self.ref, self._budget, self.options.root, self._sizes, committed)

    def _to_group(self, sender: Ref, message: Any) -> None:
        key = message.group
        master = self._masters.get(key)
        if master is None:
            if not isinstance(message, Append | SnapshotPart):
                return
            master = self._add(CommitGroup.join(key, self.ref, self.options.group, self._rng))
        self._from_group(key, master.group.handle(Received(sender, message), self._now))

    def _from_group(self, key: bytes, effects: Iterable[Any]) -> None:
        master = self._masters[key]
        for effect in effects:
            if isinstance(effect, Write):
                self._token += 1
                self._tokens[self._token] = key, effect.token
                self._out.append(Write(effect.store, effect.changes, self._token))
            elif isinstance(effect, Restored):
                master.root = self._root_of(effect.state)
            elif isinstance(effect, Committed):
                self._to_root(key, effect)
            elif isinstance(effect, Leading):
                master.leading, master.tell_at = True, self._now.s
                self._want_at = self._now.s
                self._to_root(key, effect)
                self._out.append(Serve(key))
            elif isinstance(effect, Following):
                master.leading, master.told = False, b""
                self._to_root(key, effect)
                self._out.append(StopServing(key))
            elif isinstance(effect, Dismissed):
                master.root = self._root_of(None)
            else:
                self._out.append(effect)

    def _stored(self, event: Stored | StoreFailed) -> None:
        key, token = self._tokens.pop(event.token)
        told = Stored(token) if isinstance(event, Stored) else StoreFailed(token, event.problem)
        if key in self._masters:
            self._from_group(key, self._masters[key].group.handle(told, self._now))

    def _claim(self, key: bytes) -> None:
        """Others look for the root here: the group says who it is."""
        master = self._masters.get(key)
        leader = None if master is None else master.group.leader
        if master is not None and master.leading:
            self._out.append(Serve(key))
        elif leader is not None and leader.id != self.ref.id:
            self._out.append(ForwardTo(key, leader))

    # roots

    def _to_root(self, key: bytes, event: Any) -> None:
        if key in self._masters:
            self._from_root(key, self._masters[key].root.handle(event, self._now))

    def _from_root(self, key: bytes, effects: Iterable[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._out.append(ForVertex(key, Received(self.ref, effect.message)))
            elif isinstance(effect, Propose):
                self._from_group(key, self._masters[key].group.handle(effect, self._now))
            elif isinstance(effect, Spread):
                self._spread(key, effect.news)
            else:
                self._out.append(OfJob(key, effect))

    def _spread(self, key: bytes, news: News) -> None:
        if self._trees.serves(key):
            self._cast += 1
            cast = self.ref.boot.to_bytes(8, "big") + self._cast.to_bytes(8, "big")
            payload = _encode(news)
            self._out += [Multicast(key, cast, payload), NewsHere(key, payload)]

    # what the leader of a job does now and then

    def _lead(self) -> None:
        """Says whom it wants in the group, what is new, and shortens the log."""
        now = self._now
        wanting = now.s >= self._want_at
        if wanting:
            self._want_at = now.s + self.options.want_s
        for key, master in list(self._masters.items()):
            if not master.leading:
                continue
            if wanting:
                wanted = self._ring.neighbours(key, self.options.group_size)
                self._from_group(key, master.group.handle(Want(wanted), now))
            log, index = master.group.log, master.root.committed.index
            whole = log.stored >= index > log.first and not master.root.committed.between
            if len(log.entries) > self.options.log_entries_max and whole:
                state = _encode(list(snapshot(master.root.committed)))
                self._from_group(key, master.group.handle(Compact(index, state), now))
            if now.s >= master.tell_at and self._trees.serves(key):
                master.tell_at = now.s + self.options.news_s
                self._tell(key, master)

    def _tell(self, key: bytes, master: _Master) -> None:
        news = _encode(master.root.news(self._now))
        if news != master.told:
            master.told = news
            master.told_version += 1
            version = (master.group.epoch << 32) + master.told_version
            self._out += [SetContent(key, version, news), NewsHere(key, news)]

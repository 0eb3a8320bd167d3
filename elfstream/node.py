"""A node of the fleet: the cores of ring, trees, reducers, agent and masters joined into one. Pure (docs/FLEET.md).

What one core tells another goes from here; what is left are messages to others, writes, and what the driver of the agent and
the faces above want to know.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from agent.stream_events import JobGone, JobHeard, JobParent, JobTold, JobUp
from agent.streams import Streams
from cbt.budget import Budget
from cbt.options import Options as TreeSizes
from master.commit_group import CommitGroup
from master.group_events import Committed, Compact, Dismissed, Following, Leading, Propose, Restored, Want
from master.group_messages import GROUP_MESSAGES, Append, SnapshotPart
from master.options import GroupOptions
from master.root import Root, RootOptions, Spread
from master.snapshots import restored, snapshot
from srt.automaton import (
    NEVER,
    WAKE,
    Instant,
    PeerLost,
    Received,
    Ref,
    Send,
    Stored,
    StoreFailed,
    Wake,
    Write,
)
from srt.frame_messages import ForJob, News, Up
from srt.reducer import ChildrenChanged, ParentChanged, Reducer, ReducerOptions
from srt.reducer_tree import ReducerTree
from srt.ring import LeaveRing, MembersChanged, Ring, RingActive
from srt.ring_messages import RING_MESSAGES
from srt.tree_events import (
    BecameRoot,
    CastDelivered,
    ChildJoined,
    ChildLost,
    Claim,
    ContentChanged,
    ForwardTo,
    Multicast,
    Serve,
    SetContent,
    StopServing,
    Subscribe,
    Unsubscribe,
)
from srt.tree_events import ParentChanged as TreeParent
from srt.tree_messages import TREE_MESSAGES

KEY_BYTES = 16
_News = msgspec.msgpack.Decoder(News)
_Parts = msgspec.msgpack.Decoder(list[bytes])
_encode = msgspec.msgpack.Encoder().encode


class NodeError(Exception):
    """Something asked of a node that it cannot do. `str(error)` is fit to be shown."""


# Events from the driver and the faces above.


class FoundJob(NamedTuple):
    """Make a job: its group begins here, alone, and grows to the nodes closest to the key. Once per job in a fleet."""

    key: bytes


class JoinJob(NamedTuple):
    """The local agent reads for this job from now on."""

    key: bytes


class LeaveJob(NamedTuple):
    key: bytes


class ToRoot(NamedTuple):
    """An event for the root of a job; ignored where this node does not lead it (`NodeCore.leads`)."""

    key: bytes
    event: Any


class OfJob(NamedTuple):
    """Effect: what the root of a job tells the faces above."""

    key: bytes
    effect: Any


@dataclass(frozen=True)
class NodeOptions:
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
    reducer: ReducerOptions = field(default_factory=ReducerOptions)


@dataclass
class _Master:
    """A group this node is a member of, or learns of, and the state that follows from its log."""

    group: CommitGroup
    root: Root
    leading: bool = False
    told: bytes = b""
    """The news that the tree carries."""
    told_version: int = 0
    tell_at: float = 0.0


class NodeCore:
    """One node. `agent` is None for a worker."""

    def __init__(
        self,
        ring: Ring,
        trees: ReducerTree,
        agent: Streams | None,
        budget: Budget,
        rng: random.Random,
        stored: Mapping[bytes, bytes],
        options: NodeOptions = NodeOptions(),
        tree_sizes: TreeSizes = TreeSizes(),  # noqa: B008 - frozen
    ) -> None:
        """`stored` is what the store of groups holds. All trees of the node share `budget`. Raises GroupStoreError."""
        self.ref, self.ring, self.trees, self.agent = ring.ref, ring, trees, agent
        self.options = options
        self.reducers: dict[bytes, Reducer] = {}
        self.masters: dict[bytes, _Master] = {}
        self._budget, self._rng, self._sizes = budget, rng, tree_sizes
        self._tokens: dict[int, tuple[bytes, int]] = {}
        """Writes on their way, by the token given to the driver: the job (empty: the agent) and its own token."""
        self._token = self._cast = 0
        self._want_at = 0.0
        self._now = Instant(0.0, 0)
        self._out: list[Any] = []
        for key in sorted({name[:KEY_BYTES] for name in stored}):
            self._add_master(CommitGroup.reopen(key, self.ref, stored, options.group, rng))

    # the automaton

    @property
    def wake_at(self) -> float:
        times = [self.ring.wake_at, self.trees.wake_at, *(one.wake_at for one in self.reducers.values())]
        for master in self.masters.values():
            times += [master.group.wake_at, master.root.wake_at]
            if master.leading:
                times += [master.tell_at, self._want_at]
        return min([*times, NEVER if self.agent is None else self.agent.wake_at])

    def handle(self, event: Any, now: Instant) -> list[Any]:
        self._now, self._out = now, []
        if isinstance(event, Received):
            self._received(event.sender, event.message)
        elif isinstance(event, Wake):
            self._wake()
        elif isinstance(event, Stored | StoreFailed):
            self._stored(event)
        elif isinstance(event, PeerLost | LeaveRing):
            self._from_ring(self.ring.handle(event, now))
        elif isinstance(event, FoundJob):
            if event.key in self.masters:
                raise NodeError(f"job {event.key.hex()} is known here already")
            self._add_master(CommitGroup.create(event.key, self.ref, self.options.group, self._rng))
        elif isinstance(event, JoinJob | LeaveJob):
            self._join_or_leave(event)
        elif isinstance(event, ToRoot):
            if event.key in self.masters:
                self._from_root(event.key, self.masters[event.key].root.handle(event.event, now))
        elif self.agent is not None:
            self._from_agent(self.agent.handle(event, now))
        self._lead()
        return self._out

    def leads(self, key: bytes) -> bool:
        return key in self.masters and self.masters[key].leading

    def _received(self, sender: Ref, message: Any) -> None:
        now = self._now
        if isinstance(message, RING_MESSAGES):
            self._from_ring(self.ring.handle(Received(sender, message), now))
        elif isinstance(message, TREE_MESSAGES):
            self._from_trees(self.trees.handle(Received(sender, message), now))
        elif isinstance(message, ForJob):
            self._to_reducer(message.key, Received(sender, message.body))
        elif isinstance(message, GROUP_MESSAGES):
            self._to_group(sender, message)

    def _wake(self) -> None:
        now = self._now
        if self.ring.wake_at <= now.s:
            self._from_ring(self.ring.handle(WAKE, now))
        if self.trees.wake_at <= now.s:
            self._from_trees(self.trees.handle(WAKE, now))
        for key, reducer in list(self.reducers.items()):
            if reducer.wake_at <= now.s:
                self._from_reducer(key, reducer.handle(WAKE, now))
        for key, master in list(self.masters.items()):
            if master.group.wake_at <= now.s:
                self._from_group(key, master.group.handle(WAKE, now))
            if master.root.wake_at <= now.s:
                self._from_root(key, master.root.handle(WAKE, now))
        if self.agent is not None and self.agent.wake_at <= now.s:
            self._from_agent(self.agent.handle(WAKE, now))

    # the store

    def _write(self, owner: bytes, write: Write) -> None:
        self._token += 1
        self._tokens[self._token] = owner, write.token
        self._out.append(Write(write.store, write.changes, self._token))

    def _stored(self, event: Stored | StoreFailed) -> None:
        owner, token = self._tokens.pop(event.token)
        told = Stored(token) if isinstance(event, Stored) else StoreFailed(token, event.problem)
        if not owner:
            assert self.agent is not None
            self._from_agent(self.agent.handle(told, self._now))
        elif owner in self.masters:
            self._from_group(owner, self.masters[owner].group.handle(told, self._now))

    # ring and trees

    def _from_ring(self, effects: Iterable[Any]) -> None:
        for effect in effects:
            if isinstance(effect, MembersChanged | RingActive):
                self._from_trees(self.trees.handle(effect, self._now))
                self._want_at = self._now.s
            else:
                self._out.append(effect)

    def _from_trees(self, effects: Iterable[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Claim):
                self._claim(effect.key)
            elif isinstance(effect, TreeParent):
                self._to_reducer(effect.key, ParentChanged(effect.parent))
            elif isinstance(effect, BecameRoot):
                self._to_reducer(effect.key, ParentChanged(self.ref))
            elif isinstance(effect, ChildJoined | ChildLost):
                self._children(effect.key)
            elif isinstance(effect, ContentChanged):
                self._tell_agent(effect.key, effect.content)
            elif isinstance(effect, CastDelivered):
                self._tell_agent(effect.key, effect.payload)
            else:
                self._out.append(effect)

    def _claim(self, key: bytes) -> None:
        """Others look for the root here: the group says who it is."""
        master = self.masters.get(key)
        if master is None:
            return
        leader = master.group.leader
        if master.leading:
            self._from_trees(self.trees.handle(Serve(key), self._now))
        elif leader is not None and leader.id != self.ref.id:
            self._from_trees(self.trees.handle(ForwardTo(key, leader), self._now))

    def _children(self, key: bytes) -> None:
        children = set(self.trees.children(key))
        if self.agent is not None and key in self.agent.jobs:
            children.add(self.ref)
        self._to_reducer(key, ChildrenChanged(frozenset(children)))

    # reducers and the agent

    def _to_reducer(self, key: bytes, event: Any) -> None:
        reducer = self.reducers.get(key)
        if reducer is None:
            reducer = Reducer(self.ref, self._budget, self.options.reducer, self._sizes)
            self.reducers[key] = reducer
            parent = self.ref if self.trees.serves(key) else self.trees.parent(key)
            self._from_reducer(key, reducer.handle(ParentChanged(parent), self._now))
        self._from_reducer(key, reducer.handle(event, self._now))

    def _from_reducer(self, key: bytes, effects: Iterable[Any]) -> None:
        for effect in effects:
            if not isinstance(effect, Send):
                self._out.append(effect)
            elif effect.to != self.ref:
                self._out.append(Send(effect.to, ForJob(key, effect.message)))
            elif isinstance(effect.message, Up):
                self._to_root(key, effect.message)
            elif self.agent is not None:
                self._from_agent(self.agent.handle(JobHeard(key, effect.message), self._now))

    def _join_or_leave(self, event: JoinJob | LeaveJob) -> None:
        if self.agent is None:
            raise NodeError("a worker reads no logs, so it takes no part in a job as an agent")
        key = event.key
        if isinstance(event, JoinJob):
            self._from_trees(self.trees.handle(Subscribe(key), self._now))
            self._from_agent(self.agent.handle(JobParent(key, self.ref), self._now))
        else:
            self._from_trees(self.trees.handle(Unsubscribe(key), self._now))
            self._from_agent(self.agent.handle(JobGone(key), self._now))
        self._children(key)

    def _tell_agent(self, key: bytes, news: bytes) -> None:
        if news and self.agent is not None and key in self.agent.jobs:  # a new root has none at first
            self._from_agent(self.agent.handle(JobTold(key, _News.decode(news)), self._now))

    def _from_agent(self, effects: Iterable[Any]) -> None:
        for effect in effects:
            if isinstance(effect, JobUp):
                self._to_reducer(effect.job, Received(self.ref, effect.message))
            elif isinstance(effect, Write):
                self._write(b"", effect)
            else:
                self._out.append(effect)

    # masters

    def _add_master(self, group: CommitGroup) -> _Master:
        master = _Master(group, self._root_of(None))
        self.masters[group.log.key] = master
        return master

    def _root_of(self, state: bytes | None) -> Root:
        committed = restored(_Parts.decode(state), self._budget, self._sizes) if state else None
        return Root(self.ref, self._budget, self.options.root, self._sizes, committed)

    def _to_group(self, sender: Ref, message: Any) -> None:
        master = self.masters.get(message.group)
        if master is None:
            if not isinstance(message, Append | SnapshotPart):
                return
            group = CommitGroup.join(message.group, self.ref, self.options.group, self._rng)
            master = self._add_master(group)
        self._from_group(message.group, master.group.handle(Received(sender, message), self._now))

    def _from_group(self, key: bytes, effects: Iterable[Any]) -> None:
        master = self.masters[key]
        for effect in effects:
            if isinstance(effect, Write):
                self._write(key, effect)
            elif isinstance(effect, Restored):
                master.root = self._root_of(effect.state)
            elif isinstance(effect, Committed):
                self._from_root(key, master.root.handle(effect, self._now))
            elif isinstance(effect, Leading):
                master.leading, master.tell_at = True, self._now.s
                self._want_at = self._now.s
                self._from_root(key, master.root.handle(effect, self._now))
                self._from_trees(self.trees.handle(Serve(key), self._now))
            elif isinstance(effect, Following):
                self._step_down(key, effect)
            elif isinstance(effect, Dismissed):
                master.root = self._root_of(None)
            else:
                self._out.append(effect)

    def _step_down(self, key: bytes, effect: Following) -> None:
        master = self.masters[key]
        master.leading, master.told = False, b""
        self._from_root(key, master.root.handle(effect, self._now))
        if self.trees.serves(key):
            self._from_trees(self.trees.handle(StopServing(key), self._now))
            self._to_reducer(key, ParentChanged(None))

    def _to_root(self, key: bytes, message: Any) -> None:
        if key in self.masters:
            root = self.masters[key].root
            self._from_root(key, root.handle(Received(self.ref, message), self._now))

    def _from_root(self, key: bytes, effects: Iterable[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._to_reducer(key, Received(self.ref, effect.message))
            elif isinstance(effect, Propose):
                self._from_group(key, self.masters[key].group.handle(effect, self._now))
            elif isinstance(effect, Spread):
                self._spread(key, effect.news)
            else:
                self._out.append(OfJob(key, effect))

    def _spread(self, key: bytes, news: News) -> None:
        if self.trees.serves(key):
            self._cast += 1
            cast = self.ref.boot.to_bytes(8, "big") + self._cast.to_bytes(8, "big")
            self._from_trees(self.trees.handle(Multicast(key, cast, _encode(news)), self._now))
            self._tell_agent(key, _encode(news))

    def _lead(self) -> None:
        """What the leader of a job does now and then: says whom it wants, what is new, and shortens the log."""
        now = self._now
        wanting = now.s >= self._want_at
        if wanting:
            self._want_at = now.s + self.options.want_s
        for key, master in list(self.masters.items()):
            if not master.leading:
                continue
            if wanting:
                wanted = self.ring.neighbours(key, self.options.group_size)
                self._from_group(key, master.group.handle(Want(wanted), now))
            log = master.group.log
            if (
                len(log.entries) > self.options.log_entries_max
                and log.stored >= master.root.committed.index > log.first
            ):
                state = _encode(list(snapshot(master.root.committed)))
                self._from_group(key, master.group.handle(Compact(master.root.committed.index, state), now))
            if now.s >= master.tell_at and self.trees.serves(key):
                master.tell_at = now.s + self.options.news_s
                self._tell(key, master)

    def _tell(self, key: bytes, master: _Master) -> None:
        news = _encode(master.root.news(self._now))
        if news != master.told:
            master.told = news
            master.told_version += 1
            version = (master.group.epoch << 32) + master.told_version
            self._from_trees(self.trees.handle(SetContent(key, version, news), self._now))
            self._tell_agent(key, news)

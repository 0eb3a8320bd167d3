"""A node of the fleet: the cores of ring, trees, vertices, agent and masters joined into one. Pure (docs/FLEET.md).

A switchboard: what one core tells another goes from here, by the type of the effect; what no core here takes are messages
to others, writes, and what the driver of the agent and the faces above want to know.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from agent.journal import STORE as JOURNAL
from agent.stream_events import JobGone, JobHeard, JobParent, JobTold, JobTrees, JobUp, SourcesChanged
from agent.streams import Streams
from cbt.budget import Budget
from cbt.options import Options as TreeSizes
from elfstream.notice_board import About, HaveSources, JoinJob, LeaveJob, NoticeBoard
from elfstream.notices import DIRECTORY
from master.group_messages import GROUP_MESSAGES
from master.job_events import Announce, Finished, JobRemovedElsewhere, NewsHere, Overload, ResultsRead
from master.masters import Masters
from master.mastership import MastersOptions
from master.requests import (
    Answer,
    Ask,
    DescribeNode,
    DescribeVertex,
    FindMaster,
    MasterAt,
    NodeView,
    Refusal,
    VertexView,
)
from srt.automaton import NEVER, WAKE, Instant, PeerLost, Received, Send, Stored, StoreFailed, Wake, Write
from srt.directory import STORE as DIRECTORY_STORE
from srt.directory_messages import DIRECTORY_MESSAGES
from srt.frame_messages import ForJob, News
from srt.links import Busy, Room
from srt.master_routing import Answered, AnswerMaster, Asked, AskMaster, MasterRouting
from srt.options import DirectoryOptions
from srt.reducer import ChildrenChanged, ParentChanged, ReducerOptions
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
from srt.tree_messages import MASTER_MESSAGES, TREE_MESSAGES, Kind
from srt.vertices import AtRoot, ForChildHere, ForVertex, Vertices

NEIGHBOURS_SHOWN = 24
_News = msgspec.msgpack.Decoder(News)


class NodeError(Exception):
    """Something asked of a node that it cannot do. `str(error)` is fit to be shown."""


@dataclass(frozen=True)
class NodeOptions:
    masters: MastersOptions = field(default_factory=MastersOptions)
    reducer: ReducerOptions = field(default_factory=ReducerOptions)
    directory: DirectoryOptions = DIRECTORY
    about: About = field(default_factory=About)


class HandedOver(NamedTuple):
    """Effect, once after `LeaveRing`: other nodes lead every job, and this one is a member for none, unless it is alone."""


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
        sizes: TreeSizes = TreeSizes(),  # noqa: B008 - frozen
        directory: Mapping[bytes, bytes] | None = None,
    ) -> None:
        """`stored` is what the store of groups holds, `directory` what that of the directory does. All trees of the node
        share `budget`. Raises GroupStoreError."""
        self.ref, self.ring, self.trees, self.agent = ring.ref, ring, trees, agent
        self.vertices = Vertices(ring.ref, trees, budget, options.reducer, sizes)
        self.masters = Masters(ring.ref, ring, trees, budget, rng, stored, options.masters, sizes)
        self.unsound_news = 0
        """What trees carried down that cannot be read."""
        self.board = NoticeBoard(ring, trees.kind, rng, directory or {}, options.about, options.directory)
        self.routing = MasterRouting(ring, trees, self.masters.leader)
        self._kind, self._budget = trees.kind, budget
        self._tokens: dict[int, tuple[str, int]] = {}
        """Writes on their way, by the token given to the driver: the store and the token of its owner."""
        self._token = 0
        self._finding: dict[int, Ask | Claim] = {}
        self._finds = 0
        self._leaving = False
        self._now = Instant(0.0, 0)
        self._out: list[Any] = []
        self._routes: dict[type, Callable[[Any], None]] = self._table()

    def _table(self) -> dict[type, Callable[[Any], None]]:
        """Which effect of one core is for which other."""
        return {
            MembersChanged: self._members,
            RingActive: self._active,
            **dict.fromkeys((Serve, ForwardTo, Multicast, SetContent), self._to_trees),
            StopServing: self._stop_serving,
            Claim: self._claimed,
            AtRoot: self._to_masters,
            ForVertex: self._to_vertices,
            TreeParent: lambda told: self._to_vertices(ForVertex(told.key, ParentChanged(told.parent))),
            BecameRoot: lambda told: self._to_vertices(ForVertex(told.key, ParentChanged(self.ref))),
            ChildJoined: lambda told: self._children(told.key),
            ChildLost: lambda told: self._children(told.key),
            ContentChanged: lambda told: self._tell_agent(told.key, told.content),
            CastDelivered: lambda told: self._tell_agent(told.key, told.payload),
            NewsHere: lambda told: self._tell_agent(told.key, told.news),
            ForChildHere: self._for_agent,
            JobUp: self._from_agent,
            JobTrees: lambda told: self._join_trees(told.job, told.trees),
            Announce: self._to_board,
            JobRemovedElsewhere: self._to_masters,
            JoinJob: lambda told: self._join_trees(told.key, 1),
            LeaveJob: lambda told: self._leave(told.key),
            Write: self._write,
            Send: self._send,
            Asked: self._asked,
            Answered: self._found_master,
        }

    # the automaton

    @property
    def wake_at(self) -> float:
        agent_at = NEVER if self.agent is None else self.agent.wake_at
        cores = (self.ring, self.trees, self.vertices, self.masters, self.routing, self.board)
        return min(agent_at, *(core.wake_at for core in cores))

    def handle(self, event: Any, now: Instant) -> list[Any]:
        self._now, self._out = now, []
        if isinstance(event, Received):
            self._received(event)
        elif isinstance(event, Wake):
            self._wake()
        elif isinstance(event, Stored | StoreFailed):
            self._stored(event)
        elif isinstance(event, PeerLost):
            self._route(self.ring.handle(event, now))
            self._to_vertices(event)
            self._to_masters(event)
        elif isinstance(event, LeaveRing):
            self._to_board(event)
            self._route(self.ring.handle(event, now))
            self._members(MembersChanged((), (self.ref,)))
            self._leaving = True
        elif isinstance(event, Ask):
            self._ask(event)
        elif isinstance(event, Finished | ResultsRead | JobRemovedElsewhere | Overload):
            self._to_masters(event)
        elif isinstance(event, Busy | Room):
            self._to_vertices(event)
        elif isinstance(event, HaveSources):
            if self.agent is None and event.sources:
                raise NodeError("a worker reads no logs, so it has no sources")
            self._to_board(event)
            self._to_agent(SourcesChanged())
        else:
            self._to_agent(event)
        if self._leaving and not self.masters.needed:
            self._leaving = False
            self._out.append(HandedOver())
        return self._out

    def leads(self, key: bytes) -> bool:
        return self.masters.leads(key)

    def _received(self, event: Received) -> None:
        if isinstance(event.message, RING_MESSAGES):
            self._route(self.ring.handle(event, self._now))
        elif isinstance(event.message, TREE_MESSAGES):
            self._to_trees(event)
        elif isinstance(event.message, ForJob):
            self._to_vertices(event)
        elif isinstance(event.message, GROUP_MESSAGES):
            self._to_masters(event)
        elif isinstance(event.message, MASTER_MESSAGES):
            self._route(self.routing.handle(event, self._now))
        elif isinstance(event.message, DIRECTORY_MESSAGES):
            self._to_board(event)

    def _wake(self) -> None:
        for core in (self.ring, self.trees, self.vertices, self.masters, self.routing, self.agent, self.board):
            if core is not None and core.wake_at <= self._now.s:
                self._route(core.handle(WAKE, self._now))

    # from core to core

    def _route(self, effects: Iterable[Any]) -> None:
        for effect in effects:
            take = self._routes.get(type(effect))
            if take is None:
                self._out.append(effect)
            else:
                take(effect)

    def _send(self, effect: Send) -> None:
        """What a core sends to this very node needs no network."""
        if effect.to == self.ref:
            self._received(Received(self.ref, effect.message))
        else:
            self._out.append(effect)

    def _to_trees(self, event: Any) -> None:
        self._route(self.trees.handle(event, self._now))

    def _to_vertices(self, event: Any) -> None:
        self._route(self.vertices.handle(event, self._now))

    def _to_masters(self, event: Any) -> None:
        self._route(self.masters.handle(event, self._now))

    def _to_board(self, event: Any) -> None:
        self._route(self.board.handle(event, self._now))

    def _to_agent(self, event: Any) -> None:
        if self.agent is not None:
            self._route(self.agent.handle(event, self._now))

    def _active(self, event: RingActive) -> None:
        self._to_trees(event)
        self._to_board(event)

    def _members(self, event: MembersChanged) -> None:
        self._to_trees(event)
        self._to_masters(event)

    def _stop_serving(self, event: StopServing) -> None:
        if self.trees.serves(event.key):
            self._to_trees(event)
            self._to_vertices(ForVertex(event.key, ParentChanged(None)))

    def _children(self, key: bytes) -> None:
        children = set(self.trees.children(key))
        if self.board.trees.is_mine(key):
            children.add(self.ref)
        self._to_vertices(ForVertex(key, ChildrenChanged(frozenset(children))))

    def _leave(self, key: bytes) -> None:
        self._to_agent(JobGone(key))
        self._join_trees(key, 0)

    def _join_trees(self, job: bytes, count: int) -> None:
        """The agent takes part in the first `count` trees of a job."""
        fresh, over = self.board.trees.join(job, count)
        for partition, tree in fresh:
            self._to_trees(Subscribe(tree))
            self._to_agent(JobParent(job, self.ref, partition))
            self._tell_agent(tree, self.trees.content(tree))  # nobody tells once more what this node knows
            self._children(tree)
        for tree in over:
            self._to_trees(Unsubscribe(tree))
            self._children(tree)

    def _from_agent(self, up: JobUp) -> None:
        trees = self.board.trees.joined.get(up.job, ())
        if up.partition < len(trees):
            self._to_vertices(ForVertex(trees[up.partition], Received(self.ref, up.message)))

    def _for_agent(self, told: ForChildHere) -> None:
        job, partition = self.board.trees.place(told.key)
        self._to_agent(JobHeard(job, told.message, partition))

    def _claimed(self, claim: Claim) -> None:
        """Of the tree of a further partition the job's leader is the root, wherever that is."""
        job, partition = self.board.trees.place(claim.key)
        leader = self.masters.leader(job, self._now.s)
        if not partition:
            self._to_masters(claim)
        elif leader is not None:
            if leader != self.ref:  # else it is, or will be, the root by itself
                self._to_trees(ForwardTo(claim.key, leader))
        elif claim not in self._finding.values():
            self._find(job, claim)

    def _tell_agent(self, key: bytes, news: bytes) -> None:
        if not news or self.agent is None or key not in self.agent.jobs:
            return  # a new root has none at first
        try:
            told = _News.decode(news)
        except msgspec.DecodeError:
            self.unsound_news += 1
        else:
            self._to_agent(JobTold(key, told))

    # requests

    def _ask(self, ask: Ask) -> None:
        request = ask.request
        if isinstance(request, FindMaster):
            self._find(ask.key, ask)
        elif isinstance(request, DescribeVertex):
            self._out.append(Answer(ask.token, self._vertex_view(ask.key)))
        elif isinstance(request, DescribeNode):
            self._out.append(Answer(ask.token, self._node_view()))
        else:
            self._to_masters(ask)

    def _find(self, key: bytes, whom: Ask | Claim) -> None:
        number, self._finds = self._finds, self._finds + 1
        self._finding[number] = whom
        self._route(self.routing.handle(AskMaster(key, number, b""), self._now))

    def _asked(self, asked: Asked) -> None:
        """Another node looks for the master, which is here."""
        answer = AnswerMaster(asked.origin, asked.request, b"here")
        self._route(self.routing.handle(answer, self._now))

    def _found_master(self, found: Answered) -> None:
        """Whoever answered is the master, or the node at which there would be one."""
        ask = self._finding.pop(found.request)
        if isinstance(ask, Claim):
            if found.sender is not None and found.payload is not None:
                self._to_trees(ForwardTo(ask.key, found.sender))
            return
        if found.sender is not None:
            self._out.append(Answer(ask.token, MasterAt(found.sender, found.payload is not None)))
        else:
            why = self.masters.standing(ask.key, self._now.s)
            self._out.append(Answer(ask.token, why or Refusal("busy", f"the master was not found: {found.problem}")))

    def _vertex_view(self, key: bytes) -> VertexView | Refusal:
        vertex, reducer = self.trees.vertices.get(key), self.vertices.reducers.get(key)
        if vertex is None:
            return Refusal("unknown", "this node has no place in the job's tree")
        children = tuple(self.trees.children(key))
        role = "root" if self.trees.serves(key) else "inner" if children else "leaf"
        counters = (0, 0) if reducer is None else (reducer.counters.frames_in, reducer.counters.frames_out)
        return VertexView(self.ref, role, self.trees.parent(key), children, vertex.agents, *counters)

    def _node_view(self) -> NodeView:
        neighbours = [ref for ref in self.ring.neighbours(self.ref.id, NEIGHBOURS_SHOWN) if ref != self.ref]
        budget = self._budget
        return NodeView(
            self.ref,
            "agent" if self._kind == Kind.AGENT else "worker",
            tuple(neighbours),
            tuple(key.hex() for key in self.masters.led),
            budget.used_bytes,
            budget.options.memory_max or 0,
        )

    # the stores

    def _write(self, write: Write) -> None:
        self._token += 1
        self._tokens[self._token] = write.store, write.token
        self._out.append(write._replace(token=self._token))

    def _stored(self, event: Stored | StoreFailed) -> None:
        store, token = self._tokens.pop(event.token)
        told = Stored(token) if isinstance(event, Stored) else StoreFailed(token, event.problem)
        if store == JOURNAL:
            self._to_agent(told)
        elif store == DIRECTORY_STORE:
            self._to_board(told)
        else:
            self._to_masters(told)

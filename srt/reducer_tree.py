"""Reducer trees: one per job, over one ring. Scribe (Castro et al. 2002) with leases, a cap on children and path vectors.

A join goes one hop at a time towards the key; whoever gets it becomes the parent and, if it is not in the tree yet, joins
itself. docs/RING.md says how the parts act together.
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

from srt.automaton import NEVER, Instant, Received, Ref, Send, Wake
from srt.join_places import declined_to, pushed_down_to
from srt.multicast import Casts
from srt.options import TreeOptions
from srt.ring import MembersChanged, Ring, RingActive, RingState
from srt.tree_events import (
    BecameRoot,
    ChildJoined,
    ChildLost,
    Claim,
    ContentChanged,
    ForwardTo,
    Multicast,
    ParentChanged,
    Refused,
    Serve,
    SetContent,
    StopServing,
    Subscribe,
    Unsubscribe,
)
from srt.tree_messages import (
    DEPTH_MAX,
    ITEMS_MAX,
    Kind,
    PingItem,
    PongItem,
    TreeCast,
    TreeCastAck,
    TreeDropped,
    TreeJoin,
    TreeLeave,
    TreePing,
    TreePong,
    TreeRedirect,
)
from srt.vertex import Child, Vertex, VertexState

PONG_BYTES_MAX = 1 << 20
"""Contents in one PONG; more go into the next message."""
NEWS_S = 0.05
"""Changed counts of agents are gathered for so long before they go up."""
EAGER_JOINS, JOIN_PATIENCE_MAX = 2, 3
"""After so many joins without an answer the waits double, so many times: nodes that have too much to do would get a further
join each third of a lease, from each child of each tree that has lost its root."""


class ReducerTree:
    """The vertices of one node. State: a `Vertex` per tree it takes part in."""

    def __init__(
        self, ring: Ring, kind: Kind, rng: random.Random, options: TreeOptions | None = None
    ) -> None:
        self.ring = ring
        self.ref = ring.ref
        self.kind = kind
        self.options = options or TreeOptions()
        self.vertices: dict[bytes, Vertex] = {}
        self.counts: dict[str, int] = {}
        """What came from outside and was ignored, by reason."""
        self._rng = rng
        self._period_s = self.options.lease_s / 3
        self._tick_at = 0.0
        self._due_at = self._news_at = NEVER
        self._news: dict[bytes, None] = {}
        """Trees of which the agents below may have changed since the parent was told."""
        self._out: list[Any] = []
        self._casts = Casts(self.options, self._send, self._out.append)

    # what others ask

    @property
    def wake_at(self) -> float:
        return min(self._tick_at, self._due_at, self._news_at, self._casts.wake_at)

    def parent(self, key: bytes) -> Ref | None:
        vertex = self.vertices.get(key)
        return None if vertex is None else vertex.parent

    def children(self, key: bytes) -> list[Ref]:
        vertex = self.vertices.get(key)
        return [] if vertex is None else [child.ref for child in vertex.children.values()]

    def serves(self, key: bytes) -> bool:
        vertex = self.vertices.get(key)
        return vertex is not None and vertex.state is VertexState.SERVING

    def content(self, key: bytes) -> bytes:
        """What the root set, as far as it is known here; empty if nothing is."""
        vertex = self.vertices.get(key)
        return b"" if vertex is None else vertex.content

    # events

    def handle(self, event: Any, now: Instant) -> list[Any]:
        """The ring's effects `MembersChanged` and `RingActive` are events here."""
        handler = _EVENTS.get(type(event))
        if isinstance(event, Received):
            handler = _MESSAGES.get(type(event.message))
            if handler is None:
                self._count("unknown message")
            else:
                handler(self, event.sender, event.message, now.s)
        elif handler is not None:
            handler(self, event, now.s)
        else:
            raise TypeError(f"no event of a reducer tree: {event!r}")
        if self._news and self._news_at == NEVER:
            self._news_at = now.s + NEWS_S
        out = list(self._out)
        self._out.clear()
        return out

    def _on_subscribe(self, event: Subscribe, now_s: float) -> None:
        vertex = self._vertex(event.key, now_s)
        if vertex is None:
            self._out.append(Refused(event, f"this node takes part in trees_max = {self.options.trees_max} trees"))
        else:
            vertex.wanted = True
            self._news[event.key] = None

    def _on_unsubscribe(self, event: Unsubscribe, now_s: float) -> None:
        vertex = self.vertices.get(event.key)
        if vertex is not None:
            vertex.wanted = False
            if not self._dissolve(vertex):
                self._news[event.key] = None

    def _on_serve(self, event: Serve, now_s: float) -> None:
        vertex = self._vertex(event.key, now_s, joining=False)
        if vertex is None:
            self._out.append(Refused(event, f"this node takes part in trees_max = {self.options.trees_max} trees"))
            return
        if vertex.state is VertexState.SERVING:
            return
        if vertex.parent is not None:
            self._send(vertex.parent, TreeLeave([event.key]))
            self._set_parent(vertex, None)
        vertex.move("serve")
        vertex.target = vertex.forward = None
        vertex.due = NEVER
        vertex.path, vertex.rooted = (), True
        self._out.append(BecameRoot(event.key))
        self._tell_children(vertex, content=False)

    def _on_forward(self, event: ForwardTo, now_s: float) -> None:
        vertex = self.vertices.get(event.key)
        if vertex is not None and vertex.state is VertexState.CLAIMING and event.leader != self.ref:
            vertex.move("forward")
            vertex.forward = event.leader
            self._seek(vertex, now_s)

    def _on_stop(self, event: StopServing, now_s: float) -> None:
        vertex = self.vertices.get(event.key)
        if vertex is not None and vertex.state is VertexState.SERVING:
            vertex.move("stop")
            vertex.rooted, vertex.rooted_s = False, now_s
            self._casts.end_of_root(vertex)
            if self.ring.state is RingState.LEFT:
                self._retire(vertex)
            if not self._dissolve(vertex):
                self._seek(vertex, now_s)

    def _on_content(self, event: SetContent, now_s: float) -> None:
        vertex = self.vertices.get(event.key)
        if vertex is None or vertex.state is not VertexState.SERVING:
            self._out.append(Refused(event, "this node is not the root"))
        elif vertex.version != event.version:
            vertex.version, vertex.content = event.version, event.content
            self._tell_children(vertex)

    def _on_multicast(self, event: Multicast, now_s: float) -> None:
        vertex = self.vertices.get(event.key)
        if vertex is None or vertex.state is not VertexState.SERVING:
            self._out.append(Refused(event, "this node is not the root"))
        else:
            self._casts.begin(vertex, event.cast, event.payload, now_s)

    def _on_members(self, _: MembersChanged | RingActive, now_s: float) -> None:
        for vertex in list(self.vertices.values()):
            if self.ring.state is RingState.LEFT:
                self._retire(vertex)
                self._dissolve(vertex)  # or its parent would send the children back
            elif vertex.state is VertexState.ATTACHED and vertex.forward is None:
                if self.ring.is_closest(vertex.key):
                    self._leave_parent(vertex, now_s)
            elif vertex.state is VertexState.CLAIMING and not self.ring.is_closest(vertex.key):
                vertex.move("not closest")
                self._seek(vertex, now_s)
            elif vertex.state is VertexState.JOINING and vertex.target is None:
                self._seek(vertex, now_s)

    # looking for a parent

    def _seek(self, vertex: Vertex, now_s: float) -> None:
        """Sends the join one hop on, or claims to be the closest."""
        vertex.target, vertex.redirects = None, 0
        vertex.declined, vertex.pushed = 0, False
        if not self.ring.active:
            self._wait(vertex, now_s)
            return
        target = vertex.forward or self.ring.next_hop(vertex.key, vertex.avoiding)
        if target is not None:
            self._ask(vertex, target, now_s)
        elif self.ring.is_closest(vertex.key):
            vertex.move("closest")
            vertex.avoiding.clear()
            self._out.append(Claim(vertex.key))
            vertex.due = now_s + self.options.lease_s
            self._due_at = min(self._due_at, vertex.due)
        else:
            vertex.avoiding.clear()
            self._wait(vertex, now_s)

    def _ask(self, vertex: Vertex, target: Ref, now_s: float) -> None:
        vertex.target, vertex.told = target, vertex.agents
        join = TreeJoin(vertex.key, self.kind, vertex.agents, vertex.declined, vertex.pushed)
        self._send(target, join)
        waits = 1 << min(max(0, vertex.unanswered - EAGER_JOINS), JOIN_PATIENCE_MAX)
        vertex.due = now_s + waits * self._period_s
        self._due_at = min(self._due_at, vertex.due)

    def _wait(self, vertex: Vertex, now_s: float) -> None:
        vertex.due = now_s + self._period_s * (0.5 + self._rng.random())
        self._due_at = min(self._due_at, vertex.due)

    def _avoid(self, vertex: Vertex, ref: Ref, now_s: float) -> None:
        vertex.forward = None
        vertex.avoiding = [*vertex.avoiding[-7:], ref]
        vertex.target = None
        self._wait(vertex, now_s)

    def _on_join(self, sender: Ref, message: TreeJoin, now_s: float) -> None:
        key = message.key
        vertex = self.vertices.get(key)
        if sender.id == self.ref.id or self.ring.state in (RingState.JOINING, RingState.LEFT):
            return
        if vertex is None or sender.id not in vertex.children:
            onward = declined_to(
                self.ring, self.kind, vertex, sender, message, self.options.declines_max, self._rng
            )
            if onward is not None:
                self._send(sender, TreeRedirect(key, onward, message.declined + 1, False))
                return
        vertex = vertex or self._vertex(key, now_s)
        if vertex is None:
            self._count("too many trees")
            self._send(sender, TreeDropped([key]))
            return
        if vertex.state is VertexState.ATTACHED and sender.id in vertex.path:
            # The sender was above and looks for the root here: the path is broken, and it goes the other way round.
            self._leave_parent(vertex, now_s)
        child = vertex.children.get(sender.id)
        if child is None and len(vertex.children) >= self.options.children_max:
            agents = [child for child in vertex.children.values() if child.kind is Kind.AGENT]
            if message.kind is not Kind.WORKER or not agents:
                below = pushed_down_to(
                    self.ring, vertex, sender, message, now_s - 2 * self._period_s, self._rng
                )
                self._send(sender, TreeRedirect(key, below, message.declined, True))
                return
            self._send_away(vertex, min(agents, key=lambda child: child.agents))  # a worker takes its place
        if child is not None and child.ref != sender:
            self._lose_child(vertex, child)
            child = None
        if child is None:
            self._out.append(ChildJoined(key, sender))
        vertex.children[sender.id] = Child(sender, message.kind, message.agents, now_s)
        self._news[key] = None
        self._send(sender, TreePong([self._pong_item(vertex, 0)]))

    def _on_redirect(self, sender: Ref, message: TreeRedirect, now_s: float) -> None:
        vertex = self.vertices.get(message.key)
        if vertex is None or vertex.state is not VertexState.JOINING or vertex.target != sender:
            return
        vertex.redirects += 1
        to = message.to
        if (
            vertex.redirects > self.options.redirects_max
            or to.id == self.ref.id
            or to.id in vertex.children
            or to in vertex.avoiding
        ):
            # With few places left the way may lead through a node that was avoided for a reason that is over.
            vertex.target = None
            vertex.avoiding.clear()
            self._wait(vertex, now_s)
            return
        vertex.declined, vertex.pushed = message.declined, message.pushed
        self._ask(vertex, to, now_s)

    def _on_dropped(self, sender: Ref, message: TreeDropped, now_s: float) -> None:
        for key in message.keys:
            vertex = self.vertices.get(key)
            if vertex is None:
                continue
            if vertex.parent == sender:
                self._lose_parent(vertex, now_s)
            elif vertex.state is VertexState.JOINING and vertex.target == sender:
                self._avoid(vertex, sender, now_s)

    # leases

    def _on_ping(self, sender: Ref, message: TreePing, now_s: float) -> None:
        items: list[PongItem] = []
        dropped: list[bytes] = []
        size = 0
        for ping in message.items:
            vertex = self.vertices.get(ping.key)
            child = None if vertex is None else vertex.children.get(sender.id)
            if vertex is None or child is None or child.ref != sender:
                dropped.append(ping.key)
                continue
            if child.agents != ping.agents:
                child.agents = ping.agents
                self._news[ping.key] = None
            child.heard_s = now_s
            item = self._pong_item(vertex, ping.version)
            size += len(item.content or b"")
            if items and size > PONG_BYTES_MAX:
                self._send(sender, TreePong(items))
                items, size = [], len(item.content or b"")
            items.append(item)
        if items:
            self._send(sender, TreePong(items))
        if dropped:
            self._send(sender, TreeDropped(dropped))

    def _pong_item(self, vertex: Vertex, has: int) -> PongItem:
        content = None if vertex.version == has else vertex.content
        path = vertex.path_down(self.ref.id)
        return PongItem(vertex.key, path, vertex.rooted, vertex.version, content)

    def _on_pong(self, sender: Ref, message: TreePong, now_s: float) -> None:
        strange = []
        for item in message.items:
            vertex = self.vertices.get(item.key)
            joining = vertex is not None and vertex.state is VertexState.JOINING and vertex.target == sender
            if vertex is None or not (joining or vertex.parent == sender):
                strange.append(item.key)
            elif self.ref.id in item.path or len(item.path) >= DEPTH_MAX - 1:
                self._count("cycle")
                strange.append(item.key)
                if not joining:
                    self._lose_parent(vertex, now_s, seek=False)
                self._avoid(vertex, sender, now_s)
            else:
                if joining:
                    self._attach(vertex, sender, now_s)
                self._refresh(vertex, item, now_s)
        if strange:
            self._send(sender, TreeLeave(strange))

    def _attach(self, vertex: Vertex, parent: Ref, now_s: float) -> None:
        vertex.move("accepted")
        vertex.target, vertex.due = None, NEVER
        vertex.unanswered = 0
        vertex.avoiding.clear()
        vertex.rooted_s = now_s
        self._news[vertex.key] = None
        self._set_parent(vertex, parent)

    def _refresh(self, vertex: Vertex, item: PongItem, now_s: float) -> None:
        vertex.parent_heard_s = now_s
        path = tuple(item.path)
        changed = path != vertex.path or item.rooted != vertex.rooted
        vertex.path, vertex.rooted = path, item.rooted
        if item.rooted:
            vertex.rooted_s = now_s
        if item.content is not None and item.version != vertex.version:
            vertex.version, vertex.content = item.version, item.content
            if vertex.wanted:
                self._out.append(ContentChanged(vertex.key, item.version, item.content))
            self._tell_children(vertex)
        elif changed:
            self._tell_children(vertex, content=False)

    def _tell_children(self, vertex: Vertex, content: bool = True) -> None:
        """News go down at once; what gets lost comes with the next PONG."""
        if vertex.children:
            pong = TreePong([self._pong_item(vertex, 0 if content else vertex.version)])
            for child in vertex.children.values():
                self._send(child.ref, pong)

    def _on_leave(self, sender: Ref, message: TreeLeave, now_s: float) -> None:
        for key in message.keys:
            vertex = self.vertices.get(key)
            child = None if vertex is None else vertex.children.get(sender.id)
            if vertex is not None and child is not None and child.ref == sender:
                self._lose_child(vertex, child)
                self._dissolve(vertex)

    def _lose_child(self, vertex: Vertex, child: Child) -> None:
        del vertex.children[child.ref.id]
        self._news[vertex.key] = None
        self._casts.child_gone(vertex, child.ref.id)
        self._out.append(ChildLost(vertex.key, child.ref))

    def _send_away(self, vertex: Vertex, child: Child) -> None:
        self._lose_child(vertex, child)
        self._send(child.ref, TreeDropped([vertex.key]))

    def _retire(self, vertex: Vertex) -> None:
        """Who has left the ring has children only as long as it is the root: until another leads the job."""
        for child in list(vertex.children.values()) if vertex.state is not VertexState.SERVING else ():
            self._send_away(vertex, child)

    def _leave_parent(self, vertex: Vertex, now_s: float, seek: bool = True) -> None:
        assert vertex.parent is not None
        self._send(vertex.parent, TreeLeave([vertex.key]))
        self._lose_parent(vertex, now_s, seek)

    def _lose_parent(self, vertex: Vertex, now_s: float, seek: bool = True) -> None:
        vertex.move("parent lost")
        vertex.forward = None
        vertex.path, vertex.rooted = (), False
        self._set_parent(vertex, None)
        if seek:
            self._seek(vertex, now_s)

    def _set_parent(self, vertex: Vertex, parent: Ref | None) -> None:
        vertex.parent = parent
        self._out.append(ParentChanged(vertex.key, parent))

    # casts

    def _on_cast(self, sender: Ref, message: TreeCast, now_s: float) -> None:
        vertex = self.vertices.get(message.key)
        if vertex is not None and vertex.parent == sender:
            self._casts.on_cast(vertex, sender, message, now_s)

    def _on_cast_ack(self, sender: Ref, message: TreeCastAck, now_s: float) -> None:
        vertex = self.vertices.get(message.key)
        if vertex is not None:
            self._casts.on_ack(vertex, sender, message, now_s)

    # time

    def _wake(self, _: Wake, now_s: float) -> None:
        # What a node has not done because it was stopped, nobody else is to blame for.
        if self._tick_at > 0.0 and now_s - self.wake_at > self._period_s:
            for vertex in self.vertices.values():
                vertex.parent_heard_s = vertex.rooted_s = now_s
                for child in vertex.children.values():
                    child.heard_s = now_s
        if now_s >= self._due_at:
            self._retry(now_s)
        if now_s >= self._news_at:
            self._tell_parents()
        if self._tick_at == 0.0:
            self._tick_at = now_s + self._period_s * self._rng.random()  # not all nodes at once
        elif now_s >= self._tick_at:
            self._tick(now_s)
            self._tick_at = now_s + self._period_s
        self._casts.wake(self.vertices, now_s)

    def _retry(self, now_s: float) -> None:
        for vertex in [vertex for vertex in self.vertices.values() if vertex.due <= now_s]:
            if vertex.state is VertexState.CLAIMING:
                self._out.append(Claim(vertex.key))
                vertex.due = now_s + self.options.lease_s
            elif vertex.state is VertexState.JOINING:
                if vertex.target is not None:
                    # No answer: the ring finds out why, the join goes another way at once.
                    self._suspect(vertex.target, now_s)
                    self._avoid(vertex, vertex.target, now_s)
                    vertex.unanswered += 1
                self._seek(vertex, now_s)
        self._due_at = min((vertex.due for vertex in self.vertices.values()), default=NEVER)

    def _tick(self, now_s: float) -> None:
        """Every third of a lease: PING all parents, give up who was silent."""
        pings: dict[Ref, list[PingItem]] = defaultdict(list)
        silent: set[Ref] = set()
        for vertex in list(self.vertices.values()):
            for child in list(vertex.children.values()):
                if now_s - child.heard_s > self.options.child_lease_s:
                    self._lose_child(vertex, child)
            if self._dissolve(vertex) or vertex.parent is None:
                continue
            parent = vertex.parent
            if now_s - vertex.parent_heard_s > self.options.lease_s:
                silent.add(parent)
                self._lose_parent(vertex, now_s, seek=False)
                self._avoid(vertex, parent, now_s)
                self._seek(vertex, now_s)
            elif now_s - vertex.rooted_s > self.options.orphan_s:
                self._leave_parent(vertex, now_s, seek=False)
                self._avoid(vertex, parent, now_s)
            else:
                pings[parent].append(self._ping_item(vertex))
        for parent in silent:
            self._suspect(parent, now_s)
        self._ping(pings)

    def _tell_parents(self) -> None:
        """Changed counts of agents go up at once; with the PINGs alone each level would take a third of a lease."""
        pings: dict[Ref, list[PingItem]] = defaultdict(list)
        for key in self._news:
            vertex = self.vertices.get(key)
            if vertex is not None and vertex.parent is not None and vertex.agents != vertex.told:
                pings[vertex.parent].append(self._ping_item(vertex))
        self._news.clear()
        self._news_at = NEVER
        self._ping(pings)

    def _ping_item(self, vertex: Vertex) -> PingItem:
        vertex.told = vertex.agents
        return PingItem(vertex.key, vertex.told, vertex.version)

    def _ping(self, pings: dict[Ref, list[PingItem]]) -> None:
        for parent, items in pings.items():
            for start in range(0, len(items), ITEMS_MAX):
                self._send(parent, TreePing(items[start : start + ITEMS_MAX]))

    # small things

    def _vertex(self, key: bytes, now_s: float, joining: bool = True) -> Vertex | None:
        """The vertex, made if need be; None when there are too many."""
        vertex = self.vertices.get(key)
        if vertex is None and len(self.vertices) < self.options.trees_max:
            vertex = self.vertices[key] = Vertex(key, rooted_s=now_s)
            if joining:
                self._wait_turn(vertex, now_s)
        return vertex

    def _wait_turn(self, vertex: Vertex, now_s: float) -> None:
        """The join goes out when the event that made the vertex has been handled."""
        vertex.due = now_s
        self._due_at = min(self._due_at, now_s)

    def _dissolve(self, vertex: Vertex) -> bool:
        """Removes a vertex that nobody needs."""
        if vertex.needed:
            return False
        del self.vertices[vertex.key]
        self._casts.forget(vertex.key)
        if vertex.parent is not None:
            self._send(vertex.parent, TreeLeave([vertex.key]))
            self._set_parent(vertex, None)
        return True

    def _suspect(self, ref: Ref, now_s: float) -> None:
        self._out.extend(self.ring.suspect(ref, Instant(now_s, 0)))

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def _send(self, to: Ref, message: Any) -> None:
        self._out.append(Send(to, message))


_EVENTS: dict[type, Any] = {
    Wake: ReducerTree._wake,
    Subscribe: ReducerTree._on_subscribe,
    Unsubscribe: ReducerTree._on_unsubscribe,
    Serve: ReducerTree._on_serve,
    ForwardTo: ReducerTree._on_forward,
    StopServing: ReducerTree._on_stop,
    SetContent: ReducerTree._on_content,
    Multicast: ReducerTree._on_multicast,
    MembersChanged: ReducerTree._on_members,
    RingActive: ReducerTree._on_members,
}
_MESSAGES: dict[type, Any] = {
    TreeJoin: ReducerTree._on_join,
    TreeRedirect: ReducerTree._on_redirect,
    TreePing: ReducerTree._on_ping,
    TreePong: ReducerTree._on_pong,
    TreeDropped: ReducerTree._on_dropped,
    TreeLeave: ReducerTree._on_leave,
    TreeCast: ReducerTree._on_cast,
    TreeCastAck: ReducerTree._on_cast_ack,
}

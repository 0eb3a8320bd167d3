"""A simulated fleet of ring nodes with reducer trees, a simple master above, and what must be true of whole trees."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

from elfstream.simulated.network import Network
from elfstream.simulated.world import Process
from srt.automaton import Instant, PeerLost, Received, Ref, Wake
from srt.master_routing import AnswerMaster, Asked, AskMaster, MasterRouting
from srt.options import RingOptions, TreeOptions
from srt.reducer_tree import ReducerTree
from srt.ring import LeaveRing, MembersChanged, Ring, RingActive
from srt.ring_messages import RING_MESSAGES
from srt.tree_check import check_vertices
from srt.tree_events import Claim, ForwardTo, Serve, StopServing, Subscribe
from srt.tree_messages import MASTER_MESSAGES, Kind
from srt.vertex import Vertex, VertexState
from tests.sim.fleet_of_rings import RingFleet, closest_of


class TreeNode:
    """The ring and the trees of a node, and a master that leads where this node is the closest, or where it is told to."""

    def __init__(self, ring: Ring, kind: Kind, rng: random.Random, options: TreeOptions, leaders: dict[bytes, str]) -> None:
        self.ring = ring
        self.trees = ReducerTree(ring, kind, rng, options)
        self.masters = MasterRouting(ring, self.trees)
        self.ref = ring.ref
        self.leaders = leaders
        """Per key the address that leads although it need not be the closest."""
        self.lookup: Any = None

    @property
    def wake_at(self) -> float:
        return min(self.ring.wake_at, self.trees.wake_at, self.masters.wake_at)

    def handle(self, event: Any, now: Instant) -> list[Any]:
        if isinstance(event, Received):
            kind = type(event.message)
            core = self.masters if kind in MASTER_MESSAGES else self.ring if kind in RING_MESSAGES else self.trees
            return self._pass_on(core.handle(event, now), now)
        if isinstance(event, AskMaster | AnswerMaster):
            return self.masters.handle(event, now)
        out = []
        if type(event).__module__ != "srt.tree_events":
            out += self.ring.handle(event, now)
        if not isinstance(event, LeaveRing | PeerLost):
            out += self.trees.handle(event, now)
        if isinstance(event, Wake):
            out += self.masters.handle(event, now)
        return self._pass_on(out, now)

    def _pass_on(self, effects: list[Any], now: Instant) -> list[Any]:
        out = []
        for effect in effects:
            out.append(effect)
            if isinstance(effect, MembersChanged | RingActive):
                out += self._pass_on(self.trees.handle(effect, now), now)
                out += self._abdicate(now)
            elif isinstance(effect, Asked):
                out += self.masters.handle(AnswerMaster(effect.origin, effect.request, b"re: " + effect.payload), now)
            elif isinstance(effect, Claim):
                out += self._pass_on(self._answer(effect.key, now), now)
        return out

    def _answer(self, key: bytes, now: Instant) -> list[Any]:
        leader = self.leaders.get(key)
        if leader is None or leader == self.ref.address:
            return self.trees.handle(Serve(key), now)
        ref = self.lookup(leader)
        return [] if ref is None else self.trees.handle(ForwardTo(key, ref), now)

    def _abdicate(self, now: Instant) -> list[Any]:
        out = []
        for key in [key for key, v in self.trees.vertices.items() if v.state is VertexState.SERVING]:
            if key not in self.leaders and not self.ring.is_closest(key):
                out += self._pass_on(self.trees.handle(StopServing(key), now), now)
        return out


class TreeFleet(RingFleet):
    """`workers`: every which node is a worker, 0 for none."""

    def __init__(
        self,
        seed: int,
        options: RingOptions | None = None,
        network: Network | None = None,
        trees: TreeOptions | None = None,
        workers: int = 0,
    ) -> None:
        super().__init__(seed, options, network, seeds=3, core=self._node)
        self.tree_options = trees or TreeOptions()
        self.workers = workers
        self.leaders: dict[bytes, str] = {}
        self.wanted: dict[str, set[bytes]] = defaultdict(set)
        """Per address the trees its agent takes part in, at every boot."""
        self.told: list[tuple[str, Any]] = []
        self.checks.append(lambda process: check_vertices(node_of(process).trees))
        self.world.observers.append(lambda process, effect: self.told.append((process.address, effect)))

    def role(self, address: str) -> Kind:
        return Kind.WORKER if self.workers and int(address[1:]) % self.workers == 0 else Kind.AGENT

    def _node(self, ring: Ring, rng: random.Random) -> TreeNode:
        node = TreeNode(ring, self.role(ring.ref.address), rng, self.tree_options, self.leaders)
        node.lookup = self._ref_of
        process = self.world.processes[ring.ref.address]
        for key in sorted(self.wanted[process.address]):
            self.world.after(0.0, lambda key=key: self.world.give(process, Subscribe(key)))
        return node

    def subscribe(self, keys: list[bytes], addresses: list[str]) -> None:
        for address in addresses:
            for key in keys:
                self.wanted[address].add(key)
                self.world.give(self.world.processes[address], Subscribe(key))

    def agents(self) -> list[str]:
        """Addresses of all agents, up or down."""
        return [address for address in self.world.processes if self.role(address) is Kind.AGENT]

    def _ref_of(self, address: str) -> Ref | None:
        core = self.world.processes[address].core
        return None if core is None else core.ref

    def nodes(self) -> list[TreeNode]:
        return [node_of(process) for process in self.live()]

    def give(self, node: TreeNode, event: Any) -> None:
        self.world.give(self.world.processes[node.ref.address], event)

    def root(self, key: bytes) -> TreeNode:
        (root,) = [node for node in self.nodes() if node.trees.serves(key)]
        return root

    def wait_for_trees(self, keys: list[bytes], within_s: float) -> float:
        """Runs until all trees are right; the seconds it took."""
        start = self.world.now
        wrong: list[str] = ["not looked at"]
        while self.world.now - start < within_s:
            wrong = wrong_trees(self, keys)
            if not wrong:
                return self.world.now - start
            self.world.run(self.world.now + 0.1)
        raise AssertionError(
            f"seed {self.world.seed}: after {within_s} s: {wrong[:4]}\n" + "\n".join(self.world.story)
        )


def node_of(process: Process) -> TreeNode:
    core = process.core
    assert isinstance(core, TreeNode)
    return core


def wrong_trees(fleet: TreeFleet, keys: list[bytes]) -> list[str]:
    """One root, the closest or the appointed; every vertex hangs on it, as its parent knows; nobody is there for nothing."""
    trees: dict[bytes, dict[Ref, Vertex]] = {key: {} for key in keys}
    nodes = fleet.nodes()
    for node in nodes:
        for key, vertex in node.trees.vertices.items():
            if key in trees:
                trees[key][node.ref] = vertex
    order = sorted(node.ref.number for node in nodes)
    return [text for key, tree in trees.items() if tree for text in _wrong_tree(fleet, key, tree, order)]


def _wrong_tree(fleet: TreeFleet, key: bytes, tree: dict[Ref, Vertex], order: list[int]) -> list[str]:
    roots = [ref for ref, vertex in tree.items() if vertex.state is VertexState.SERVING]
    if len(roots) != 1:
        return [f"{key.hex()[:8]} has {len(roots)} roots: {[ref.address for ref in roots]}"]
    wrong = []
    if fleet.leaders.get(key, roots[0].address) != roots[0].address:
        wrong.append(f"{roots[0].address} is root instead of {fleet.leaders[key]}")
    if key not in fleet.leaders and roots[0].number != closest_of(order, key):
        wrong.append(f"root {roots[0].address} is not the closest")
    for ref, vertex in tree.items():
        at, way = ref, 0
        while (parent := tree[at].parent) is not None and parent in tree and way < 70:
            if at.id not in tree[parent].children:
                wrong.append(f"{at.address} is not a child of {parent.address}")
            at, way = parent, way + 1
        if at != roots[0]:
            wrong.append(f"{ref.address} hangs on {at.address}, {tree[at].state.value}")
        for child in vertex.children.values():
            if child.ref not in tree or tree[child.ref].parent != ref:
                wrong.append(f"{ref.address} believes in the child {child.ref.address}")
        if not vertex.needed:
            wrong.append(f"{ref.address} is needed by nobody")
    if not wrong and tree[roots[0]].agents != sum(vertex.wanted for vertex in tree.values()):
        wrong.append("the root counts agents wrongly")
    return wrong

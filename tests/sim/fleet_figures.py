"""The figures of a fleet with many jobs, taken in virtual time; tests hold them to bounds, the benchmark prints them."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from dataclasses import dataclass

from elfstream.simulated.network import Network
from srt.ids import ID_BYTES, job_key, key_of, number_of
from srt.tree_events import CastDelivered, CastEnded, Multicast
from tests.sim.fleet_of_rings import closest_of, ring_of
from tests.sim.fleet_of_trees import TreeFleet

LATENCY_S = 0.02


@dataclass
class Figures:
    """Times in virtual seconds."""

    nodes: int
    jobs: int
    hops_max: int
    hops_allowed: int
    hops_mean: float
    build_s: float
    """All agents join one tree, and some each of the others, at once."""
    children_max: int
    depth_max: int
    masters_max: int
    """Jobs rooted at the node that has most."""
    masters_max_hashed: float
    """The same for random ids, mean of 20 draws."""
    cast_s: float
    """A multicast until the last agent has it, at links of 20 ms."""
    cast_acknowledged_s: float
    """Until the root knows that all have it."""
    newcomer_s: float
    """A closer newcomer, from its start until it is root of a tree that is right again."""
    joined_s: float
    """100 nodes, or a tenth, start at once."""
    repaired_s: float
    """5 % die at once: until all leaf sets are right."""
    trees_repaired_s: float
    """Until all trees are right as well, roots replaced, counted from the same moment."""


def take_figures(size: int, jobs: int, agents_per_job: int, seed: int = 1) -> Figures:
    fleet = TreeFleet(seed, network=Network(latency_s=LATENCY_S, jitter_s=0.001))
    fleet.world.checks.clear()
    fleet.world.hints = False
    rng = random.Random(seed)
    fleet.grow(size, every_s=0.02)
    fleet.world.run(fleet.world.now + 5)
    hops = _hops(fleet, rng)
    everyone = job_key("everyone")
    keys = [job_key(f"job {index}") for index in range(jobs - 1)]
    fleet.subscribe([everyone], fleet.agents())
    for key in keys:
        fleet.subscribe([key], rng.sample(fleet.agents(), agents_per_job))
    keys.append(everyone)
    build_s = fleet.wait_for_trees(keys, 20.0)
    nodes = fleet.nodes()
    vertices = [vertex for node in nodes for vertex in node.trees.vertices.values()]
    masters = Counter(node.ref for node in nodes for key in keys if node.trees.serves(key))
    cast_s, acknowledged_s = _cast(fleet, everyone)
    figures = Figures(
        nodes=size,
        jobs=jobs,
        hops_max=max(hops),
        hops_allowed=math.ceil(math.log(size, 16)) + 1,
        hops_mean=statistics.mean(hops),
        build_s=build_s,
        children_max=max(len(vertex.children) for vertex in vertices),
        depth_max=max(len(vertex.path) for vertex in vertices),
        masters_max=max(masters.values()),
        masters_max_hashed=_masters_hashed(size, keys, rng),
        cast_s=cast_s,
        cast_acknowledged_s=acknowledged_s,
        newcomer_s=_newcomer(fleet, keys),
        joined_s=0.0,
        repaired_s=0.0,
        trees_repaired_s=0.0,
    )
    fleet.add(min(100, size // 10))
    figures.joined_s = fleet.settle(10.0)
    fleet.wait_for_trees(keys, 10.0)
    died = fleet.world.now
    for process in rng.sample(fleet.live(), size // 20):
        fleet.world.crash(process)
    figures.repaired_s = fleet.settle(10.0)
    fleet.wait_for_trees(keys, 10.0)
    figures.trees_repaired_s = fleet.world.now - died
    return figures


def _hops(fleet: TreeFleet, rng: random.Random) -> list[int]:
    rings, found = fleet.rings(), []
    order = sorted(ring.number for ring in rings)
    for _ in range(1000):
        key = rng.randbytes(ID_BYTES)
        way = fleet.route(rng.choice(rings), key)
        assert way[-1].number == closest_of(order, key)
        found.append(len(way) - 1)
    return found


def _cast(fleet: TreeFleet, key: bytes) -> tuple[float, float]:
    fleet.told.clear()
    start, last = fleet.world.now, [0.0]
    fleet.world.observers.append(
        lambda _, effect: last.append(fleet.world.now) if isinstance(effect, CastDelivered) else None
    )
    fleet.give(fleet.root(key), Multicast(key, b"figures", b"a plan" * 500))

    def ended() -> list[CastEnded]:
        return [effect for _, effect in fleet.told if isinstance(effect, CastEnded)]

    fleet.world.run(start + 10, enough=lambda: bool(ended()))
    fleet.world.observers.pop()
    assert ended()[0].acknowledged == ended()[0].agents == len(last) - 1 == len(fleet.agents())
    return last[-1] - start, fleet.world.now - start


def _newcomer(fleet: TreeFleet, keys: list[bytes]) -> float:
    """Ten nodes, one after the other, each right beside the key of a job; the longest time."""
    longest = 0.0
    for key in keys[:10]:
        address = f"n{len(fleet.ids)}"
        fleet.ids[address] = key_of(number_of(key) ^ 1)
        process = fleet.world.spawn(address, fleet._start)
        longest = max(longest, fleet.wait_for_trees(keys, 10.0))
        assert ring_of(process).is_closest(key)
        assert fleet.root(key).ref.address == address
    return longest


def _masters_hashed(size: int, keys: list[bytes], rng: random.Random) -> float:
    most = []
    for _ in range(20):
        order = sorted(rng.getrandbits(128) for _ in range(size))
        most.append(max(Counter(closest_of(order, key) for key in keys).values()))
    return statistics.mean(most)

"""Reducer trees in the simulator: building, the cap, workers, deaths, takeover of the root, multicast, random faults."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from elfstream.simulated.network import Network
from srt.ids import job_key, nearness, number_of
from srt.options import RingOptions, TreeOptions
from srt.ring import RingState
from srt.tree_events import (
    CastDelivered,
    CastEnded,
    ContentChanged,
    Multicast,
    ParentChanged,
    Serve,
    SetContent,
    StopServing,
    Unsubscribe,
)
from srt.tree_messages import Kind
from tests.sim.faults import Faults
from tests.sim.fleet_of_rings import closest_of
from tests.sim.fleet_of_trees import TreeFleet

KEY = job_key("top-urls")
TREES_HEALED_S = 10.0
"""After the ring is right the trees are within this."""


def lan() -> Network:
    return Network(latency_s=0.02, jitter_s=0.002)


def built(size: int, seed: int = 1, keys: list[bytes] | None = None, **options: Any) -> TreeFleet:
    fleet = TreeFleet(seed, network=lan(), **options)
    fleet.grow(size, every_s=0.02)
    fleet.subscribe(keys or [KEY], fleet.agents())
    fleet.wait_for_trees(keys or [KEY], 10.0)
    return fleet


def multicast(fleet: TreeFleet, cast: bytes, within_s: float = 10.0) -> tuple[CastEnded, int, float]:
    """(what the root says, agents that got it, seconds it took)."""
    fleet.told.clear()
    start = fleet.world.now

    def ended() -> list[CastEnded]:
        return [effect for _, effect in fleet.told if isinstance(effect, CastEnded)]

    fleet.give(fleet.root(KEY), Multicast(KEY, cast, b"a plan" * 100))
    fleet.world.run(start + within_s, enough=lambda: bool(ended()))
    delivered = [address for address, effect in fleet.told if isinstance(effect, CastDelivered)]
    assert len(delivered) == len(set(delivered)), "delivered twice"
    (end,) = ended()
    return end, len(delivered), fleet.world.now - start


def test_joins_build_a_tree_under_the_cap() -> None:
    fleet = built(70)
    root = fleet.root(KEY)
    assert root.ref.number == closest_of(sorted(node.ref.number for node in fleet.nodes()), KEY)
    assert root.trees.vertices[KEY].agents == 70
    assert max(len(node.trees.children(KEY)) for node in fleet.nodes()) <= 16


def test_the_root_soon_knows_how_many_agents_there_are() -> None:
    """Each level would add a third of a lease if counts went up with the next PING."""
    fleet = built(40, trees=TreeOptions.tiny())
    deepest = max(fleet.nodes(), key=lambda node: len(node.trees.vertices[KEY].path))
    depth = len(deepest.trees.vertices[KEY].path)
    root = fleet.root(KEY).trees.vertices[KEY]
    spent_s = 0.0
    for _ in range(3):
        start = fleet.world.now
        fleet.give(deepest, Unsubscribe(KEY))
        fleet.world.run(start + 5.0, enough=lambda: root.agents == 39)
        spent_s += fleet.world.now - start
        fleet.subscribe([KEY], [deepest.ref.address])
        fleet.world.run(fleet.world.now + 5.0, enough=lambda: root.agents == 40)
        fleet.world.run(fleet.world.now + 0.37)
    assert depth >= 5
    assert spent_s <= 3 * 0.075 * depth  # a hop and NEWS_S a level


def test_a_full_vertex_sends_nobody_to_a_child_that_missed_its_ping() -> None:
    fleet = TreeFleet(1, network=lan())
    fleet.grow(40, every_s=0.02)
    order = sorted(fleet.nodes(), key=lambda node: nearness(number_of(KEY), node.ref.number))
    fleet.subscribe([KEY], [node.ref.address for node in order[:17]])
    fleet.wait_for_trees([KEY], 10.0)
    root = fleet.root(KEY)
    children = root.trees.children(KEY)
    assert len(children) == 16
    for child in children[1:]:
        fleet.world.crash(fleet.world.processes[child.address])
    fleet.world.run(fleet.world.now + 1.1)
    assert len(root.trees.children(KEY)) == 16, "the dead have their leases"
    joiners = [node for node in order[17:] if node.ring.next_hop(KEY) == root.ref][:8]
    assert joiners
    fleet.subscribe([KEY], [node.ref.address for node in joiners])
    fleet.world.run(fleet.world.now + 0.15)
    assert {node.trees.parent(KEY) for node in joiners} == {children[0]}


def test_two_children_make_a_deep_tree() -> None:
    fleet = built(40, trees=TreeOptions.tiny())
    assert max(len(node.trees.children(KEY)) for node in fleet.nodes()) == 2


def test_workers_carry_the_inner_vertices() -> None:
    fleet = built(80, workers=4)
    inner = Counter(
        node.trees.kind for node in fleet.nodes() if node.trees.children(KEY) and not node.trees.serves(KEY)
    )
    assert inner[Kind.WORKER] >= 4
    assert inner[Kind.AGENT] < inner[Kind.WORKER], "agents carry them only where the joins found no worker in time"


def test_nobody_stays_for_nothing() -> None:
    fleet = built(60, workers=4)
    for address in fleet.agents():
        fleet.world.give(fleet.world.processes[address], Unsubscribe(KEY))
    fleet.world.run(fleet.world.now + 3)
    fleet.give(fleet.root(KEY), StopServing(KEY))
    fleet.world.run(fleet.world.now + 1)
    assert [node.ref.address for node in fleet.nodes() if KEY in node.trees.vertices] == []


def test_children_of_a_dead_vertex_join_again() -> None:
    fleet = built(60)
    inner = [n for n in fleet.nodes() if n.trees.children(KEY) and not n.trees.serves(KEY)]
    fleet.world.crash(fleet.world.processes[inner[0].ref.address])
    assert fleet.wait_for_trees([KEY], 10.0) <= 3.0


def test_the_next_closest_follows_a_dead_root() -> None:
    fleet = built(60)
    fleet.world.crash(fleet.world.processes[fleet.root(KEY).ref.address])
    assert fleet.wait_for_trees([KEY], 10.0) <= 3.5


def test_a_closer_newcomer_becomes_the_candidate() -> None:
    fleet = built(50)
    root = fleet.root(KEY)
    fleet.ids[f"n{len(fleet.ids)}"] = KEY
    process = fleet.world.spawn(f"n{len(fleet.ids) - 1}", fleet._start)
    took = fleet.wait_for_trees([KEY], 10.0)
    assert fleet.root(KEY).ref.address == process.address != root.ref.address
    assert took < 1.0


def test_the_leader_of_the_group_is_root_although_another_is_closer() -> None:
    fleet = TreeFleet(3, network=lan())
    fleet.grow(40, every_s=0.02)
    closest = closest_of(sorted(node.ref.number for node in fleet.nodes()), KEY)
    leader = next(node for node in fleet.nodes() if node.ref.number != closest)
    fleet.leaders[KEY] = leader.ref.address
    fleet.subscribe([KEY], fleet.agents())
    fleet.give(leader, Serve(KEY))
    fleet.wait_for_trees([KEY], 8.0)
    assert fleet.root(KEY) is leader
    assert leader.trees.vertices[KEY].agents == 40


def test_content_comes_down_unchanged() -> None:
    fleet = built(60)
    fleet.told.clear()
    fleet.give(fleet.root(KEY), SetContent(KEY, 7, b"book"))
    fleet.world.run(fleet.world.now + 1.5)
    got = {address: effect for address, effect in fleet.told if isinstance(effect, ContentChanged)}
    assert set(got.values()) == {ContentChanged(KEY, 7, b"book")}
    assert len(got) == 59, "all but the root, who said it"


def test_a_quiet_tree_stays_as_it_is() -> None:
    fleet = built(60)
    fleet.told.clear()
    fleet.world.run(fleet.world.now + 10)
    assert [effect for _, effect in fleet.told if isinstance(effect, ParentChanged)] == []


def test_a_multicast_counts_every_agent_once() -> None:
    fleet = built(80, workers=5)
    end, delivered, took = multicast(fleet, b"1")
    assert (end.acknowledged, end.agents, delivered) == (64, 64, 64)
    assert took < 0.4


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_multicast_over_a_bad_network_is_repeated_for_those_who_missed_it(seed: int) -> None:
    fleet = built(60, seed=seed)
    fleet.world.network.loss = 0.03
    fleet.world.network.duplication = 0.1
    end, delivered, took = multicast(fleet, b"1")
    assert delivered == 60
    assert 20 <= end.acknowledged <= 60, "a count that is lost near the root takes those below with it"
    assert took > 0.5, "without loss this test says nothing"


@pytest.mark.parametrize("seed", range(4))
def test_a_multicast_while_vertices_die_never_counts_too_many(seed: int) -> None:
    fleet = built(60, seed=seed, trees=TreeOptions(children_max=3))
    inner = [n for n in fleet.nodes() if n.trees.children(KEY) and not n.trees.serves(KEY)]
    for index, node in enumerate(inner[:6]):
        process = fleet.world.processes[node.ref.address]
        fleet.world.after(0.03 * index, lambda process=process: fleet.world.crash(process))
    root = fleet.root(KEY)
    fleet.told.clear()
    fleet.world.after(0.01, lambda: fleet.give(root, Multicast(KEY, b"c", b"x")))
    fleet.world.run(fleet.world.now + 8)
    (end,) = [effect for _, effect in fleet.told if isinstance(effect, CastEnded)]
    delivered = {address for address, effect in fleet.told if isinstance(effect, CastDelivered)}
    assert end.acknowledged == 54, "those that live, each once"
    assert {node.ref.address for node in fleet.nodes()} <= delivered


def test_many_trees_cost_one_ping_per_pair() -> None:
    keys = [job_key(f"job {index}") for index in range(40)]
    fleet = built(8, keys=keys)
    start, sent = fleet.world.now, fleet.world.network.sent
    fleet.world.run(start + 3)
    each_second = (fleet.world.network.sent - sent) / 3
    assert each_second < 500, "a ping and a pong for each of 280 edges would be 1,680"


@pytest.mark.parametrize("seed", range(16))
def test_trees_heal_after_random_faults(seed: int) -> None:
    heal_random_faults(seed)


def heal_random_faults(seed: int) -> None:
    tiny = seed % 2
    fleet = TreeFleet(
        seed,
        RingOptions.tiny() if tiny else None,
        Network(latency_s=0.01),
        TreeOptions.tiny() if tiny else None,
        workers=(0, 3)[seed // 2 % 2],
    )
    keys = [job_key("a"), job_key("b")]
    fleet.world.hints = seed % 3 != 0
    fleet.grow(8 + seed % 20, every_s=0.02)
    fleet.subscribe(keys, fleet.agents())
    faults = Faults(fleet.world, seed)
    faults.run(6)
    faults.mend()
    fleet.settle(30.0)
    assert all(node.ring.state is RingState.ACTIVE for node in fleet.nodes())
    fleet.wait_for_trees(keys, TREES_HEALED_S)


@pytest.mark.stress
def test_trees_heal_after_random_faults_for_long() -> None:
    for seed in range(1000, 1500):
        heal_random_faults(seed)

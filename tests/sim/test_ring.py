"""The ring in the simulator: joins, deaths, partitions, random faults; and the figures of a middling fleet."""

from __future__ import annotations

import math
import random

import pytest

from elfstream.simulated.network import Network
from srt.automaton import WAKE, Instant, Received, Ref, Send
from srt.ids import distance
from srt.options import RingOptions
from srt.ring import Ring, RingState
from srt.ring_messages import LeafReply, LeafRequest, Ping
from tests.sim.faults import Faults
from tests.sim.fleet_of_rings import RingFleet, closest_of, ring_of

HEALED_S = 30.0
"""After the last fault the ring is right again within this: a quarantine and some exchanges of leaf sets."""


def lan() -> Network:
    return Network(latency_s=0.02, jitter_s=0.002)


def check_routes(fleet: RingFleet, count: int) -> int:
    """Routes between random nodes and keys end at the closest node; the most hops."""
    rings = fleet.rings()
    order = sorted(ring.number for ring in rings)
    rng = random.Random(count)
    most = 0
    for _ in range(count):
        key = rng.randbytes(16)
        way = fleet.route(rng.choice(rings), key)
        assert way[-1].number == closest_of(order, key)
        assert sum(ring.is_closest(key) for ring in [*rings[:50], way[-1]] if ring is not way[-1]) == 0
        assert way[-1].is_closest(key)
        most = max(most, len(way) - 1)
    return most


def test_a_lone_node_founds_a_ring() -> None:
    fleet = RingFleet(1, seeds=1)
    fleet.add()
    fleet.settle(1.0)
    (ring,) = fleet.rings()
    assert ring.next_hop(bytes(16)) is None
    assert ring.is_closest(bytes(16))
    assert ring.neighbours(bytes(16), 3) == [ring.ref]


def test_seeds_that_start_together_make_one_ring() -> None:
    fleet = RingFleet(2, seeds=5)
    fleet.add(5)
    fleet.settle(20.0)


SEEDS = {
    "two that join each other": {"n0": ["n1"], "n1": ["n0"]},
    "a circle": {"n0": ["n1"], "n1": ["n2"], "n2": ["n3"], "n3": ["n0"]},
    "a chain to two that join each other": {"n0": ["n1"], "n1": ["n2"], "n2": ["n3"], "n3": ["n2"]},
    "some know all, some one": {"n0": ["n0", "n1", "n2"], "n1": ["n0", "n2"], "n2": ["n1"], "n3": ["n2"]},
}


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("which", SEEDS)
def test_nodes_that_have_only_each_other_begin(which: str, number: int) -> None:
    fleet = RingFleet(number)
    fleet.seeds_of = SEEDS[which]
    fleet.add(len(fleet.seeds_of))
    assert fleet.settle(20.0) < 12.0


@pytest.mark.parametrize("number", range(6))
def test_a_fleet_that_starts_at_once_founds_one_ring(number: int) -> None:
    fleet = RingFleet(number, network=lan(), seeds=3)
    fleet.add(20)
    assert fleet.settle(20.0) < 3.5
    founders = [ring for ring in fleet.rings() if "join hops" not in ring.counts]
    assert len(founders) == 1


def test_a_node_without_a_reachable_seed_waits_for_one() -> None:
    fleet = RingFleet(3, seeds=1)
    (seed,) = fleet.add()
    fleet.world.crash(seed)
    (late,) = fleet.add()
    fleet.world.run(20.0)
    assert ring_of(late).state is RingState.JOINING
    assert not ring_of(late).is_closest(bytes(16))
    fleet.world.boot(seed)
    fleet.settle(5.0)


def test_many_join_at_once() -> None:
    fleet = RingFleet(4, network=lan())
    fleet.grow(30)
    fleet.add(100)
    assert fleet.settle(10.0) < 3.0
    check_routes(fleet, 200)


def test_never_two_answer_for_a_key_while_nodes_join() -> None:
    """Consistent joining: without failures no two active nodes are closest at any time."""
    fleet = RingFleet(5, RingOptions.tiny(), network=lan())
    fleet.grow(6)
    keys = [random.Random(index).randbytes(16) for index in range(40)]

    def one_answers(_: object) -> None:
        rings = fleet.rings()
        for key in keys:
            answering = [ring.ref.address for ring in rings if ring.is_closest(key)]
            assert len(answering) <= 1, f"{answering} answer for {key.hex()}\n" + "\n".join(fleet.world.story)

    fleet.world.checks.append(one_answers)
    for _ in range(6):
        fleet.add(4)
        fleet.world.run(fleet.world.now + 0.1)
    fleet.settle(10.0)


def test_leaving_is_noticed_at_once() -> None:
    fleet = RingFleet(6, network=lan())
    fleet.grow(60)
    for process in fleet.rng.sample(fleet.live(), 5):
        fleet.leave(process)
    assert fleet.settle(5.0) < 0.8, "a graceful leave must not wait for leases"
    check_routes(fleet, 100)


def test_a_row_of_dead_neighbours_is_found_like_one() -> None:
    fleet = RingFleet(7, network=lan())
    fleet.world.hints = False
    fleet.grow(80)
    order = sorted(fleet.live(), key=lambda process: ring_of(process).number)
    for process in order[20:26]:
        fleet.world.crash(process)
    assert fleet.settle(10.0) < 4.0


def test_a_restarted_node_replaces_its_former_boot() -> None:
    fleet = RingFleet(8)
    fleet.grow(30)
    process = fleet.live()[17]
    fleet.world.crash(process)
    fleet.world.boot(process)
    assert fleet.settle(5.0) < 2.0
    assert ring_of(process).ref.boot == 2


def test_halves_of_a_cut_ring_find_each_other() -> None:
    fleet = RingFleet(9, network=lan())
    fleet.grow(60)
    addresses = sorted(fleet.world.processes)
    one = set(fleet.rng.sample(addresses, 30))
    fleet.world.network.partition(one, set(addresses) - one)
    fleet.world.run(fleet.world.now + 60)
    for side in (one, set(addresses) - one):
        known = {ref.address for ring in fleet.rings() if ring.ref.address in side for ref in ring.leaf}
        assert known <= side, "each half goes on by itself"
    fleet.world.network.heal()
    fleet.settle(HEALED_S)
    check_routes(fleet, 100)


def test_gossip_does_not_bring_back_the_dead() -> None:
    fleet = RingFleet(10, RingOptions.tiny(), network=lan())
    fleet.grow(12)
    dead = fleet.live()[5]
    ref = ring_of(dead).ref
    fleet.world.crash(dead)
    fleet.settle(10.0)
    hearer = min(fleet.rings(), key=lambda ring: distance(ring.number, ref.number))
    sender = next(ring.ref for ring in fleet.rings() if ring is not hearer)
    process = fleet.world.processes[hearer.ref.address]
    before = fleet.world.network.sent
    fleet.world.give(process, Received(sender, LeafReply([ref], 0)))
    assert fleet.world.network.sent == before, "a node in quarantine is not even asked"
    fleet.world.give(process, Received(sender, LeafReply([Ref(ref.id, ref.address, ref.boot + 1)], 0)))
    assert fleet.world.network.sent == before + 1, "another boot of it may be alive"


def test_one_that_was_stopped_does_not_bury_its_neighbours() -> None:
    fleet = RingFleet(11)
    fleet.grow(30)
    process = fleet.live()[3]
    fleet.world.pause(process, 30.0)
    fleet.world.run(fleet.world.now + 32)
    assert ring_of(process).counts.get("dead", 0) == 0
    fleet.settle(HEALED_S)


@pytest.mark.parametrize("seed", range(24))
def test_random_faults_heal(seed: int) -> None:
    heal_random_faults(seed)


def heal_random_faults(seed: int) -> float:
    fleet = RingFleet(seed, RingOptions.tiny() if seed % 2 else None, Network(latency_s=0.01), seeds=3)
    fleet.world.hints = seed % 3 != 0
    fleet.grow(8 + seed % 30, every_s=0.02)
    faults = Faults(fleet.world, seed)
    faults.run(6)
    faults.mend()
    took = fleet.settle(HEALED_S)
    check_routes(fleet, 20)
    return took


def test_a_failing_seed_replays_its_trace() -> None:
    stories = []
    for _ in range(2):
        fleet = RingFleet(12, RingOptions.tiny(), Network(latency_s=0.01), seeds=3)
        fleet.grow(10)
        Faults(fleet.world, 12).run(4)
        stories.append(list(fleet.world.story))
    assert stories[0] == stories[1]
    assert len(stories[0]) > 100


def test_what_comes_from_outside_is_bounded_and_counted() -> None:
    me, other = Ref(bytes(16), "me:1", 1), Ref(bytes(15) + b"\1", "other:1", 2)
    ring = Ring(me, [], random.Random(1))
    ring.handle(WAKE, Instant(0.0, 0))
    assert ring.active
    now = Instant(0.1, 0)
    (reply, _) = ring.handle(Received(other, LeafRequest(0)), now)
    assert reply == Send(other, LeafReply([], 0))
    ring.handle(Received(Ref(other.id, "other:1", 1), Ping()), now)
    ring.handle(Received(Ref(me.id, "thief:1", 9), Ping()), now)
    ring.handle(Received(other, "not a message"), now)
    assert ring.counts == {
        "message of an older boot": 1,
        "own id used by another": 1,
        "unknown message": 1,
    }


def fleet_of(size: int, seed: int = 1) -> RingFleet:
    fleet = RingFleet(seed, network=lan())
    fleet.world.checks.clear()
    fleet.world.hints = False
    fleet.grow(size, every_s=0.02)
    fleet.world.run(fleet.world.now + 5)
    return fleet


def five_percent_lost(size: int) -> None:
    """Hops, 100 joins at once, 5 % lost at once."""
    fleet = fleet_of(size)
    assert check_routes(fleet, 1000) <= math.ceil(math.log(size, 16)) + 1
    fleet.add(100)
    assert fleet.settle(5.0) < 2.0
    for process in fleet.rng.sample(fleet.live(), len(fleet.live()) // 20):
        fleet.world.crash(process)
    assert fleet.settle(10.0) <= 3.0
    check_routes(fleet, 500)


def test_a_fleet_of_300() -> None:
    five_percent_lost(300)


@pytest.mark.stress
def test_a_fleet_of_1280() -> None:
    five_percent_lost(1280)


@pytest.mark.stress
def test_random_faults_heal_for_long() -> None:
    for seed in range(1000, 2000):
        heal_random_faults(seed)

"""Messages from master to master, over the ring."""

from __future__ import annotations

from elfstream.simulated.network import Network
from srt.ids import job_key
from srt.master_routing import PENDING_MAX, Answered, Asked, AskMaster
from srt.tree_events import Serve
from tests.sim.fleet_of_rings import closest_of
from tests.sim.fleet_of_trees import TreeFleet

KEY = job_key("top-urls")


def fleet_of(size: int) -> TreeFleet:
    fleet = TreeFleet(1, network=Network(latency_s=0.02))
    fleet.grow(size, every_s=0.02)
    return fleet


def ask(fleet: TreeFleet, key: bytes, within_s: float) -> list[Answered]:
    fleet.told.clear()
    fleet.give(fleet.nodes()[3], AskMaster(key, 7, b"how many?"))
    fleet.world.run(fleet.world.now + within_s)
    return [effect for _, effect in fleet.told if isinstance(effect, Answered)]


def test_a_request_finds_the_master_and_its_answer_comes_back() -> None:
    fleet = fleet_of(60)
    fleet.subscribe([KEY], fleet.agents()[:10])
    fleet.wait_for_trees([KEY], 10.0)
    (answer,) = ask(fleet, KEY, 0.5)
    assert (answer.request, answer.payload, answer.problem) == (7, b"re: how many?", "")


def test_the_closest_node_passes_it_on_to_the_leader() -> None:
    fleet = fleet_of(30)
    closest = closest_of(sorted(node.ref.number for node in fleet.nodes()), KEY)
    leader = next(node for node in fleet.nodes() if node.ref.number != closest)
    fleet.leaders[KEY] = leader.ref.address
    fleet.give(leader, Serve(KEY))
    fleet.subscribe([KEY], fleet.agents())
    fleet.wait_for_trees([KEY], 10.0)
    (answer,) = ask(fleet, KEY, 0.5)
    assert answer == Answered(7, b"re: how many?", sender=leader.ref)
    assert [address for address, effect in fleet.told if isinstance(effect, Asked)] == [leader.ref.address]


def test_no_such_job_is_an_answer_too() -> None:
    fleet = fleet_of(30)
    (answer,) = ask(fleet, job_key("nobody's"), 0.5)
    nobody = job_key("nobody's")
    closest = closest_of(sorted(node.ref.number for node in fleet.nodes()), nobody)
    assert (answer.payload, answer.problem) == (None, "no master for that key")
    assert answer.sender is not None
    assert answer.sender.number == closest  # there it would be


def test_a_lost_request_is_sent_again_and_then_given_up() -> None:
    fleet = fleet_of(30)
    fleet.subscribe([KEY], fleet.agents())
    fleet.wait_for_trees([KEY], 10.0)
    asker = fleet.nodes()[3].ref.address
    others = set(fleet.world.processes) - {asker}
    fleet.world.network.partition({asker}, others)
    fleet.world.after(0.9, fleet.world.network.heal)
    assert [one.payload for one in ask(fleet, KEY, 1.5)] == [b"re: how many?"]
    fleet.world.network.partition({asker}, others)
    (answer,) = ask(fleet, KEY, 4.0)
    assert answer.payload is None


def test_requests_are_bounded() -> None:
    fleet = fleet_of(10)
    fleet.world.network.loss = 1.0
    node = fleet.nodes()[0]
    keys = [job_key(str(index)) for index in range(2 * PENDING_MAX)]
    far = [key for key in keys if node.ring.next_hop(key) is not None]
    fleet.told.clear()
    for index, key in enumerate(far[: PENDING_MAX + 1]):
        fleet.give(node, AskMaster(key, index, b""))
    (refused,) = [effect for _, effect in fleet.told if isinstance(effect, Answered)]
    assert refused == Answered(PENDING_MAX, None, "1024 requests are waiting for an answer already")

"""Whole nodes: whatever crashes, what readers see on every member is what one query over the logs answers."""

from __future__ import annotations

import pytest

from master.requests import JobView, StopJob
from tests.sim.linked_world import LinkedWorld
from tests.sim.node_fleet import WRITE_S, NodeFleet


def simulate(seed: int, faults: int, linked: bool = False) -> NodeFleet:
    fleet = NodeFleet(seed, linked=linked)
    fleet.explained(lambda: run(fleet, faults))
    return fleet


def run(fleet: NodeFleet, faults: int) -> None:
    world = fleet.world
    fleet.submit()
    for _ in range(faults):
        world.at(fleet.begun_s + 1.0 + fleet.rng.random() * 10.0, fleet.fault)
    fleet.settle()
    fleet.run(WRITE_S + 10.0)
    view = fleet.asked(StopJob(drain=True))
    assert isinstance(view, JobView)
    assert view.wanted == "stopped"
    fleet.until_right(40.0)


@pytest.mark.parametrize("seed", range(3))
def test_a_quiet_fleet_answers_exactly(seed: int) -> None:
    fleet = simulate(seed, 0)
    assert len({place.start_us for _, _, place in fleet.seen}) >= 3


@pytest.mark.parametrize("seed", range(3))
def test_a_job_that_says_it_stopped_has_stored_its_last_results(seed: int) -> None:
    fleet = NodeFleet(seed)
    for name in fleet.here():
        fleet.machine(name).finish_s = 0.3

    def run() -> None:
        fleet.submit()
        fleet.settle()
        fleet.until_stopped()  # each answer on the way is looked at

    fleet.explained(run)


@pytest.mark.parametrize("seed", range(10, 18))
def test_answers_are_exact_whatever_crashes(seed: int) -> None:
    simulate(seed, 5)


@pytest.mark.parametrize("seed", range(30, 36))
def test_answers_are_exact_over_links_with_credits(seed: int) -> None:
    fleet = simulate(seed, 0 if seed < 32 else 5, linked=True)
    assert isinstance(fleet.world, LinkedWorld)
    assert fleet.world.counts.busy
    assert fleet.world.counts.unsound == 0

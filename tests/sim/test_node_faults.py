"""Whole nodes under faults of every kind: results equal the fold of the logs, to the bit, and all is final soon after."""

from __future__ import annotations

import pytest

from agent.streams import Streams
from job.plan_book import NEVER_US
from master.requests import RemoveJob, SubmitJob
from tests.sim.cut_job import PLANS
from tests.sim.fleet_of_nodes import NodeFleet, simulate
from tests.sim.job_watch import Broken
from tests.sim.node_faults import KINDS, Shape, shape_of

SEEDS = 50
FOUND = {
    18: "a member whose snapshot could not be stored, as its disk was full, never stored it later",
    126: "an agent cut off while the job was drained said that it had read all its logs",
}
"""Seeds that found something, as the cores and the draws of that day made them."""


@pytest.mark.parametrize("first", range(0, SEEDS, 5))
def test_results_are_exact_whatever_happens(first: int) -> None:
    for seed in range(first, first + 5):
        simulate(seed, shape_of(seed))


@pytest.mark.parametrize("seed", FOUND)
def test_seeds_that_found_something(seed: int) -> None:
    simulate(seed, shape_of(seed))


@pytest.mark.parametrize("kind", sorted(set(KINDS)))
def test_each_kind_of_fault_alone(kind: str) -> None:
    simulate(7, shape_of(7, faults=4, kinds=(kind,), plan_changes=1))


def test_a_whole_fleet_restarts_with_several_jobs() -> None:
    """Jobs and agents find each other again from what the disks hold."""
    fleet = simulate(3, Shape(jobs=3, faults=2, kinds=("everything",), faults_until_s=6.0))
    assert all(process.boot >= 2 for process in fleet.world.processes.values())


def test_a_fleet_changes_its_members_and_plans() -> None:
    fleet = simulate(5, Shape(newcomers=3, leavers=2, plan_changes=3, late=True))
    assert len(fleet.gone) == 2
    assert len(fleet.watches[fleet.keys[0]].revisions) >= 2


def test_a_job_whose_notice_was_lost_everywhere_comes_back() -> None:
    """Its master tells it again."""
    fleet = NodeFleet(1, Shape())
    for process in fleet.world.processes.values():
        fleet.world.crash(process)
        process.disks["directory"].durable.clear()  # type: ignore[union-attr]
    for process in fleet.world.processes.values():
        fleet.world.boot(process)
    assert not any(fleet.core(name).board.jobs() for name in fleet.here())  # type: ignore[union-attr]
    fleet.wait(fleet.known, 30.0, "known again")


@pytest.mark.parametrize("seed", range(4))
def test_a_job_removed_behind_a_partition_is_gone_everywhere(seed: int) -> None:
    """Whoever was cut off hears of it when it is back; the name may be used again."""
    fleet = NodeFleet(seed, Shape())
    world, (key,) = fleet.world, fleet.keys
    names = fleet.here()
    leader = fleet.leader_of(key)
    away = set(fleet.rng.sample([name for name in names if name != leader], 2))
    world.network.partition(away, set(names) - away)
    world.run(world.now + 3.0)
    fleet.ask(key, RemoveJob())
    world.run(world.now + 4.0)
    world.network.heal()

    def gone() -> bool:
        cores = [core for name in names if (core := fleet.core(name))]
        return not any(
            core.board.jobs() or core.leads(key) or (core.agent is not None and key in core.agent.jobs)
            for core in cores
        )

    fleet.wait(gone, 30.0, "gone")
    fleet.ask(key, SubmitJob(fleet.spec(key, PLANS[1]), PLANS[1]))
    fleet.wait(fleet.known, 30.0, "made again")


def test_the_simulation_notices_a_wrong_watermark() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Streams, "_mark", lambda self, job: NEVER_US)
        with pytest.raises(Broken):
            simulate(0, Shape())


def test_the_simulation_notices_lines_that_are_not_read() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.sim.cut_logs.Logs.between", lambda logs, start, end: ([], 0))
        with pytest.raises(Broken):
            simulate(0, Shape())


@pytest.mark.stress
@pytest.mark.parametrize("first", range(1000, 2000, 50))
def test_a_thousand_seeds(first: int) -> None:
    for seed in range(first, first + 50):
        simulate(seed, shape_of(seed))

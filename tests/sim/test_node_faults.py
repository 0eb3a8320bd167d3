"""Whole nodes under faults of every kind: results equal the fold of the logs, to the bit, and all is final soon after."""

from __future__ import annotations

import pytest

from agent.errors import JournalError
from agent.streams import Streams
from elfstream.node import HandedOver
from job.plan_book import NEVER_US
from master.requests import RemoveJob, SubmitJob
from srt.ids import job_key
from srt.reducer_tree import ReducerTree
from srt.ring import LeaveRing
from tests.sim.cut_job import PLANS
from tests.sim.fleet_of_nodes import NodeFleet, simulate
from tests.sim.job_watch import Broken
from tests.sim.node_faults import KINDS, Shape, shape_of
from tests.sim.node_mutants import MUTANTS

SEEDS = 50
LED_S = 0.1
HANDED_OVER_S = 2.0
FOUND = {
    18: "a member whose snapshot could not be stored, as its disk was full, never stored it later",
    1142: "the only member of a group left for good while others still learnt the log",
    1877: "after a start of all nodes a leader whose ring knew few of them yet removed the other members, and was lost",
    5091: "entries that were lost on their way were not sent again, as the shared signs of life kept their leader",
    8181: "who came back was a member again before it could vote; with another disk lost nobody led",
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


@pytest.mark.parametrize("seed", range(4))
def test_no_group_shrinks_while_a_whole_fleet_starts_again(seed: int) -> None:
    """A leader may know of few nodes then: the others are coming back, and the log is theirs, too."""
    fleet = NodeFleet(seed, Shape())
    world, (key,) = fleet.world, fleet.keys
    fleet.wait(fleet.known, 30.0, "known")
    world.run(world.now + 3.0)
    processes = list(world.processes.values())
    for process in processes:
        world.crash(process)
    fewest = []

    def look(_process: object, _event: object) -> None:
        leader = fleet.leader_of(key)
        core = None if leader is None else fleet.core(leader)
        if core is not None:
            fewest.append(len(core.masters.group(key).log.members))

    world.handled.append(look)
    for process in fleet.rng.sample(processes, len(processes)):
        world.boot(process)
        world.run(world.now + fleet.rng.random() * 0.5)
    fleet.wait(fleet.known, 30.0, "known again")
    assert min(fewest) >= 3


@pytest.mark.parametrize("seed", range(3))
def test_who_leaves_hands_over_first(seed: int) -> None:
    """Another leads at once, with every agent below it: nobody waits for a lease to end."""
    fleet = NodeFleet(seed, Shape(write_s=30.0))
    world, (key,) = fleet.world, fleet.keys
    fleet.wait(fleet.known, 30.0, "known")
    world.run(world.now + 5.0)
    leader = fleet.leader_of(key)
    handed: list[str] = []
    world.observers.append(
        lambda process, effect: handed.append(process.address) if isinstance(effect, HandedOver) else None
    )
    core = fleet.core(leader)
    assert core is not None
    world.give(world.processes[leader], LeaveRing())
    world.run(world.now + LED_S)
    following = fleet.leader_of(key)
    assert following not in (None, leader)
    agents = [fleet.core(name) for name in fleet.agents if name != leader]
    for agent in agents:
        assert agent is not None
        assert agent.trees.vertices[key].path[:1] == (job_key(following),)
    world.run(world.now + HANDED_OVER_S)
    assert handed == [leader]
    assert not core.masters.needed


@pytest.mark.parametrize("seed", range(2))
def test_who_leaves_sends_its_children_to_another_parent(seed: int) -> None:
    """Also where it is not the root: nobody waits until its process has ended."""
    fleet = NodeFleet(seed, Shape(agents=20, write_s=30.0))  # more than one vertex takes
    world, (key,) = fleet.world, fleet.keys
    fleet.wait(fleet.known, 30.0, "known")
    world.run(world.now + 3.0)

    def trees(name: str) -> ReducerTree:
        core = fleet.core(name)
        assert core is not None
        return core.trees

    inner = [name for name in fleet.here() if name != fleet.leader_of(key) and trees(name).children(key)]
    left = trees(inner[0])
    children = [child.address for child in left.children(key)]
    world.give(world.processes[inner[0]], LeaveRing())
    world.run(world.now + LED_S)
    assert not left.children(key)
    for child in children:
        parent = trees(child).vertices[key].parent
        assert parent is not None
        assert parent.address != inner[0]


def test_a_whole_fleet_that_leaves_at_once_waits_for_nobody() -> None:
    fleet = NodeFleet(1, Shape())
    fleet.wait(fleet.known, 30.0, "known")
    handed: list[str] = []
    fleet.world.observers.append(
        lambda process, effect: handed.append(process.address) if isinstance(effect, HandedOver) else None
    )
    for process in fleet.world.processes.values():
        fleet.world.give(process, LeaveRing())
    fleet.world.run(fleet.world.now + HANDED_OVER_S)
    assert sorted(handed) == sorted(fleet.here())


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


@pytest.mark.parametrize("rule", MUTANTS)
def test_each_look_at_what_happens_can_fail(rule: str) -> None:
    """And says what it is that does not hold."""
    mutant = MUTANTS[rule]
    with pytest.MonkeyPatch.context() as patch:
        mutant.off(patch)
        with pytest.raises((AssertionError, JournalError), match=f"^{mutant.told}"):
            simulate(mutant.found, shape_of(mutant.found, **dict(mutant.changes)))


@pytest.mark.stress
@pytest.mark.parametrize("first", range(1000, 2000, 50))
def test_a_thousand_seeds(first: int) -> None:
    for seed in range(first, first + 50):
        simulate(seed, shape_of(seed))

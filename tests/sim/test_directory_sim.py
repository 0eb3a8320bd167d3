"""Directories of a whole fleet: the same everywhere soon after faults end, whatever was told, lost or restarted."""

from __future__ import annotations

import random

import pytest

from elfstream.simulated.network import Network
from srt.options import DirectoryOptions, RingOptions
from tests.sim.directory_figures import take_directory_figures
from tests.sim.faults import Faults
from tests.sim.fleet_of_directories import DirectoryFleet, job, node_of, soft

CONVERGED_S = 40.0


@pytest.mark.parametrize("seed", range(12))
def test_all_maps_become_equal_after_faults(seed: int) -> None:
    """Many tell the same entries with all sorts of versions; jobs survive crashes of whoever told them."""
    rng = random.Random(seed)
    fleet = DirectoryFleet(seed, ring=RingOptions.tiny() if seed % 2 else None)
    fleet.grow(16)
    for process in fleet.live():
        process.clock_ahead_us = rng.randint(-3_000_000, 3_000_000)
    world, telling = fleet.world, [True]

    def tell() -> None:
        fleet.tell(
            rng.choice(list(world.processes.values())),
            job(rng.randrange(30), (rng.randrange(5), rng.randrange(3)), bytes([rng.randrange(3)])),
        )
        if telling:
            world.after(rng.random(), tell)

    tell()
    for process in fleet.live():
        process.full = rng.random() < 0.1
    faults = Faults(world, seed)
    faults.run(8)
    for process in world.processes.values():
        process.full = False
    faults.mend()
    telling.clear()
    fleet.settle(40.0)
    final = [job(number, (9, number), b"last") for number in range(5)]
    for entry in final:
        fleet.tell(rng.choice(fleet.live()), entry)
    fleet.converge(CONVERGED_S)
    maps = fleet.maps()
    assert len(maps) == 16
    assert all(maps[0][entry.name] == entry for entry in final)
    assert len(maps[0]) > 10


def test_a_fleet_that_restarts_whole_knows_its_jobs_and_tombstones() -> None:
    fleet = DirectoryFleet(1)
    fleet.grow(12)
    for number in range(20):
        fleet.tell(fleet.rng.choice(fleet.live()), job(number))
    removed = job(3, (1, 2**62), b"removed")
    fleet.tell(fleet.live()[0], removed)
    fleet.converge(10.0)
    known = fleet.maps()[0]
    for process in fleet.live():
        fleet.world.crash(process)
    for process in fleet.world.processes.values():
        fleet.world.boot(process)
    assert all(one == known for one in fleet.maps())
    fleet.tell(fleet.live()[5], job(3, (1, 7)))
    fleet.world.run(fleet.world.now + 30.0)
    assert fleet.knowing(removed) == 12


def test_what_a_partition_missed_is_told_when_it_ends() -> None:
    fleet = DirectoryFleet(2)
    fleet.grow(20)
    names = [process.address for process in fleet.live()]
    fleet.world.network.partition(set(names[:10]), set(names[10:]))
    fleet.world.run(fleet.world.now + 5.0)
    one, other = job(1, (2, 1), b"removed"), job(2)
    fleet.tell(fleet.live()[0], one)
    fleet.tell(fleet.live()[-1], job(1, (1, 1), b"running"))
    fleet.tell(fleet.live()[-1], other)
    fleet.world.run(fleet.world.now + 5.0)
    assert fleet.knowing(one) == fleet.knowing(other) == 10
    fleet.world.network.heal()
    fleet.settle(30.0)
    assert fleet.converge(10.0) < 10.0
    assert fleet.knowing(one) == fleet.knowing(other) == 20


def test_soft_state_ends_everywhere_though_clocks_differ() -> None:
    fleet = DirectoryFleet(3)
    fleet.grow(12)
    for process in fleet.live():
        process.clock_ahead_us = fleet.rng.randint(-5_000_000, 5_000_000)
    told, gone = fleet.live()[:2]
    fleet.tell(gone, soft(gone.address, 1, 20.0, fleet.world.now))
    for number in range(1, 8):
        fleet.tell(told, soft(told.address, number, 20.0, fleet.world.now))
        fleet.world.run(fleet.world.now + 5.0)
    assert all(len(one) == 1 for one in fleet.maps()), "one node tells on, the other is gone"
    before = sum(node_of(process).sent for process in fleet.live())
    fleet.world.run(fleet.world.now + 60.0)
    assert all(len(one) == 0 for one in fleet.maps())
    rate = (sum(node_of(process).sent for process in fleet.live()) - before) / 12 / 60
    assert rate < 2.0, "what ended on one clock and not on another is not told to and fro"


def test_full_maps_do_not_talk_without_end() -> None:
    """More than fits was told in several places, so nodes hold different parts of it: comparisons go on at their pace."""
    fleet = DirectoryFleet(4, options=DirectoryOptions.tiny())
    fleet.grow(8)
    for number in range(40):
        fleet.tell(fleet.rng.choice(fleet.live()), job(number))
    fleet.world.run(fleet.world.now + 10.0)
    before = sum(node_of(process).sent for process in fleet.live())
    fleet.world.run(fleet.world.now + 20.0)
    rate = (sum(node_of(process).sent for process in fleet.live()) - before) / 8 / 20
    assert all(len(one) == DirectoryOptions.tiny().kind_entries_max for one in fleet.maps())
    assert rate < 6.0


@pytest.mark.parametrize(("nodes", "jobs"), [(100, 60), pytest.param(1280, 1000, marks=pytest.mark.stress)])
def test_a_change_is_known_soon_and_idling_is_cheap(nodes: int, jobs: int) -> None:
    figures = take_directory_figures(nodes, jobs)
    assert figures.quiet.all_worst_s <= 0.5
    assert figures.lossy.most_worst_s <= 0.5
    assert figures.lossy.all_worst_s <= 12.0
    assert figures.quiet.messages <= 5.0
    assert figures.bare_messages <= 0.5
    assert figures.idle_messages <= 6.0
    assert figures.idle_bytes <= 30.0 * 1024
    assert figures.newcomer_s <= 4.0


def test_networks_that_lose_a_fifth_still_converge() -> None:
    fleet = DirectoryFleet(5, Network(loss=0.0))
    fleet.grow(16)
    fleet.world.network.loss = 0.2
    for number in range(60):
        fleet.tell(fleet.rng.choice(fleet.live()), job(number))
        fleet.world.run(fleet.world.now + 0.2)
    assert fleet.converge(CONVERGED_S) < CONVERGED_S

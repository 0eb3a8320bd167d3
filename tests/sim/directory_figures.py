"""The figures of the directory, taken in virtual time; tests hold them to bounds, the benchmark prints them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from elfstream.simulated.network import Network
from elfstream.simulated.world import Process
from tests.sim.fleet_of_directories import DirectoryFleet, job, node_of, soft

LATENCY_S = 0.02
TOLD_S = 30.0
"""How often a node tells of itself; the entry lives three times as long."""
CHANGES = 5
_STEP_S = 0.01


@dataclass(frozen=True)
class Spread:
    """Virtual seconds from telling an entry until so many nodes know it: median and worst of the changes."""

    most_s: float
    """99 % of the nodes."""
    most_worst_s: float
    all_s: float
    all_worst_s: float
    messages: float
    """Rumours per node, for one change."""


@dataclass(frozen=True)
class DirectoryFigures:
    nodes: int
    jobs: int
    quiet: Spread
    lossy: Spread
    """5 % of all messages are lost."""
    idle_messages: float
    """Per node and second, when only nodes tell of themselves."""
    idle_bytes: float
    bare_messages: float
    """When nobody tells anything."""
    bare_bytes: float
    newcomer_s: float
    """From the start of a node until it has the whole map."""


def take_directory_figures(size: int, jobs: int, seed: int = 1) -> DirectoryFigures:
    fleet = DirectoryFleet(seed, Network(latency_s=LATENCY_S, jitter_s=0.001))
    fleet.world.checks.clear()
    fleet.grow(size, every_s=0.02)
    for number in range(jobs):
        fleet.tell(fleet.rng.choice(fleet.live()), job(number))
        fleet.world.run(fleet.world.now + 0.01)
    fleet.converge(60.0)
    quiet = _spread(fleet, jobs)
    fleet.world.network.loss = 0.05
    lossy = _spread(fleet, jobs + CHANGES)
    fleet.world.network.heal()
    fleet.converge(60.0)
    bare = _traffic(fleet, 10.0)
    newcomer_s = _newcomer(fleet)
    for process in fleet.live():
        fleet.world.after(fleet.rng.random() * TOLD_S, lambda process=process: _tell_on(fleet, process))
    fleet.world.run(fleet.world.now + TOLD_S)
    idle = _traffic(fleet, 10.0)
    return DirectoryFigures(size, jobs, quiet, lossy, *idle, *bare, newcomer_s)


def _spread(fleet: DirectoryFleet, first: int) -> Spread:
    most, every = [], []
    before = _rumours(fleet)
    nodes = len(fleet.live())
    for number in range(first, first + CHANGES):
        entry, start = job(number), fleet.world.now
        fleet.tell(fleet.rng.choice(fleet.live()), entry)
        for found, enough in ((most, 0.99 * nodes), (every, nodes)):
            while fleet.knowing(entry) < enough:
                fleet.world.run(fleet.world.now + _STEP_S)
            found.append(fleet.world.now - start)
        fleet.world.run(fleet.world.now + 1.0)
    messages = (_rumours(fleet) - before) / nodes / CHANGES
    return Spread(statistics.median(most), max(most), statistics.median(every), max(every), messages)


def _rumours(fleet: DirectoryFleet) -> int:
    return sum(node_of(process).directory.counts["Rumours"] for process in fleet.live())


def _traffic(fleet: DirectoryFleet, seconds: float) -> tuple[float, float]:
    """Messages and bytes that the directory of a node sends in a second."""
    nodes = [node_of(process) for process in fleet.live()]
    messages, size = sum(node.sent for node in nodes), sum(node.sent_bytes for node in nodes)
    fleet.world.run(fleet.world.now + seconds)
    return (
        (sum(node.sent for node in nodes) - messages) / len(nodes) / seconds,
        (sum(node.sent_bytes for node in nodes) - size) / len(nodes) / seconds,
    )


def _newcomer(fleet: DirectoryFleet) -> float:
    start, (process,) = fleet.world.now, fleet.add()
    whole = node_of(fleet.live()[0]).directory.entries()
    while node_of(process).directory.entries() != whole:
        fleet.world.run(fleet.world.now + _STEP_S)
    return fleet.world.now - start


def _tell_on(fleet: DirectoryFleet, process: Process) -> None:
    now = fleet.world.now
    fleet.tell(process, soft(process.address, int(now * 1e6), 3 * TOLD_S, now))
    fleet.world.after(TOLD_S, lambda: _tell_on(fleet, process))

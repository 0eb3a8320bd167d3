"""A simulated fleet of ring nodes, and what must be true of all of them together."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any

from elfstream.simulated.network import Network
from elfstream.simulated.world import Process, World
from srt.automaton import Core, Ref
from srt.ids import ID_BYTES, nearness, number_of
from srt.options import RingOptions
from srt.ring import LeaveRing, Ring
from srt.ring_check import check_ring


def ring_of(process: Process) -> Ring:
    core: Any = process.core
    return core if isinstance(core, Ring) else core.ring


class RingFleet:
    """Nodes with seeded random ids; the first ones are the seeds of all."""

    def __init__(
        self,
        seed: int,
        options: RingOptions | None = None,
        network: Network | None = None,
        seeds: int = 2,
        core: Callable[[Ring, random.Random], Core] | None = None,
    ) -> None:
        self.world = World(seed, network)
        self.options = options or RingOptions()
        self.rng = random.Random(seed)
        self.seeds = [f"n{index}" for index in range(seeds)]
        self.seeds_of: dict[str, list[str]] = {}
        """Of nodes that have others than the rest."""
        self.core = core
        self.ids: dict[str, bytes] = {}
        self.checks: list[Callable[[Process], None]] = [lambda process: check_ring(ring_of(process))]
        self.world.checks.append(self._check)

    def add(self, count: int = 1) -> list[Process]:
        added = []
        for _ in range(count):
            address = f"n{len(self.ids)}"
            self.ids[address] = self.rng.randbytes(ID_BYTES)
            added.append(self.world.spawn(address, self._start))
        return added

    def grow(self, count: int, every_s: float = 0.05, wait_s: float = 30.0) -> None:
        """Adds nodes one after the other and waits until all are active."""
        for _ in range(count):
            self.add()
            self.world.run(self.world.now + every_s)
        self.settle(wait_s)

    def settle(self, within_s: float) -> float:
        """Runs until the ring is right; the seconds it took. Fails with the story when it takes longer."""
        start = self.world.now
        while self.world.now - start < within_s:
            if not self.wrong():
                return self.world.now - start
            self.world.run(self.world.now + 0.1)
        wrong = self.wrong()
        assert not wrong, f"seed {self.world.seed}: after {within_s} s: {wrong[:3]}\n" + "\n".join(self.world.story)
        return within_s

    def live(self) -> list[Process]:
        return [process for process in self.world.processes.values() if process.core is not None]

    def rings(self) -> list[Ring]:
        return [ring_of(process) for process in self.live()]

    def leave(self, process: Process) -> None:
        self.world.give(process, LeaveRing())
        self.world.crash(process)

    def wrong(self) -> list[str]:
        """What is not as it has to be once everything has healed."""
        return wrong_rings(self.rings())

    def route(self, start: Ring, key: bytes) -> list[Ring]:
        """The nodes on the way to a key, if all is quiet; a dead hop is passed by, as by a sender without answer."""
        way, dead = [start], list[Ref]()
        while (following := way[-1].next_hop(key, dead)) is not None:
            process = self.world.processes[following.address]
            if process.core is None or process.core.ref != following:
                dead.append(following)
                continue
            way.append(ring_of(process))
            assert len(way) < 50, f"a loop: {[ring.ref.address for ring in way]}"
        return way

    def _check(self, process: Process) -> None:
        """After each step; in larger fleets after every 20th."""
        if len(self.ids) <= 40 or self.world.steps % 20 == 0:
            for check in self.checks:
                check(process)

    def role(self, address: str) -> int:
        return 0

    def _start(self, process: Process) -> Core:
        ref = Ref(self.ids[process.address], process.address, process.boot)
        rng = random.Random(f"{self.world.seed} {process.address} {process.boot}")
        ring = Ring(ref, self.seeds_of.get(process.address, self.seeds), rng, self.options, self.role(process.address))
        return ring if self.core is None else self.core(ring, rng)


def wrong_rings(rings: Iterable[Ring]) -> list[str]:
    """Each node is active and its leaf set holds just the nearest on both sides, in their present boots."""
    by_number = {ring.number: ring for ring in rings}
    order = sorted(by_number)
    wrong = []
    for index, number in enumerate(order):
        ring = by_number[number]
        half = ring.options.leaf_size // 2
        around = {order[(index + way) % len(order)] for way in range(-half, half + 1) if way}
        around.discard(number)
        held = {ref.number: ref for ref in ring.leaf}
        if not ring.active:
            wrong.append(f"{ring.ref.address} is {ring.state.value}")
        elif set(held) != around:
            missing = [by_number[other].ref.address for other in around - set(held)]
            extra = [held[other].address for other in set(held) - around]
            wrong.append(f"{ring.ref.address} misses {missing}, has {extra}")
        elif any(by_number[other].ref != ref for other, ref in held.items()):
            wrong.append(f"{ring.ref.address} has an old boot of a neighbour")
    return wrong


def closest_of(order: list[int], key: bytes) -> int:
    """The number closest to a key, of an ascending list."""
    place = number_of(key)
    index = bisect_left(order, place)
    return min((order[index % len(order)], order[index - 1]), key=lambda number: nearness(place, number))



"""Seeded faults for a world: what may go wrong in a fleet, mixed, for a while; then everything is mended."""

from __future__ import annotations

import random

from elfstream.simulated.world import Process, World


class Faults:
    """Draws faults from its own generator, so that a seed gives the same ones however the cores change."""

    def __init__(self, world: World, seed: int, restarts: bool = True) -> None:
        self.world = world
        self.rng = random.Random(f"faults {seed}")
        self.restarts = restarts

    def run(self, count: int, gap_s: float = 2.0) -> None:
        """Starts `count` faults, one every `gap_s` on average; each lasts some seconds."""
        for _ in range(count):
            fault = self.rng.choice(
                (self._crash, self._crash, self._pause, self._partition, self._one_way, self._bad_network)
            )
            fault()
            self.world.run(self.world.now + self.rng.expovariate(1 / gap_s))

    def mend(self) -> None:
        """The network is whole again and, if they may, all that is down starts."""
        self.world.network.heal()
        for process in self.world.processes.values():
            if process.core is None and self.restarts:
                self.world.boot(process)

    def _live(self) -> list[Process]:
        return [process for process in self.world.processes.values() if process.core is not None]

    def _crash(self) -> None:
        live = self._live()
        for process in self.rng.sample(live, min(len(live) - 2, self.rng.choice((1, 1, 1, 3)))):
            self.world.crash(process)
            if self.restarts:
                self.world.after(self.rng.uniform(0.1, 8.0), lambda process=process: self._boot(process))

    def _boot(self, process: Process) -> None:
        if process.core is None:
            self.world.boot(process)

    def _pause(self) -> None:
        self.world.pause(self.rng.choice(self._live()), self.rng.uniform(0.2, 6.0))

    def _split(self) -> tuple[set[str], set[str]]:
        addresses = sorted(self.world.processes)
        one = set(self.rng.sample(addresses, self.rng.randint(1, len(addresses) - 1)))
        return one, set(addresses) - one

    def _partition(self, both_ways: bool = True) -> None:
        one, other = self._split()
        self.world.network.partition(one, other, both_ways)
        self.world.after(self.rng.uniform(0.5, 12.0), self.world.network.cut.clear)

    def _one_way(self) -> None:
        self._partition(both_ways=False)

    def _bad_network(self) -> None:
        network = self.world.network
        network.loss, network.duplication, network.straying = (
            self.rng.choice((0.0, 0.02, 0.2)), self.rng.choice((0.0, 0.1)), self.rng.choice((0.0, 0.05)),
        )  # fmt: skip
        self.world.after(self.rng.uniform(1.0, 8.0), self._good_network)

    def _good_network(self) -> None:
        network = self.world.network
        network.loss = network.duplication = network.straying = 0.0

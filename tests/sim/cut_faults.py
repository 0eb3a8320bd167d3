"""What goes wrong in the simulation of cuts."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from master.committed import Committed
from master.root import ForgetAgent
from tests.sim.disk import FileDisk
from tests.sim.single_log import lose_tail
from tests.sim.world import Process, World


@dataclass(frozen=True)
class Shape:
    """What happens in a run; drawn from the seed by `Fleet`."""

    agents: int = 4
    write_s: float = 20.0
    """How long logs grow."""
    faults: int = 6
    faults_until_s: float = 16.0
    plan_changes: int = 2
    late: bool = True
    split: bool = False
    recover: bool = False
    """The root loses the end of its log for good."""
    forgetful: bool = False
    """Vertices keep few frames."""


def shape_of(seed: int, **changes: Any) -> Shape:
    """What happens under a seed."""
    rng = random.Random(seed * 7919 + 1)
    drawn: dict[str, Any] = {
        "faults": rng.randint(3, 10),
        "plan_changes": rng.randint(0, 3),
        "late": rng.random() < 0.5,
        "split": rng.random() < 0.3,
        "recover": rng.random() < 0.15,
        "forgetful": rng.random() < 0.35,
    }
    return Shape(**{**drawn, **changes})


class Faults:
    """The part of a fleet that breaks it."""

    world: World
    shape: Shape
    rng: random.Random
    root: Process
    histories: int
    ended_s: float | None

    @property
    def state(self) -> Committed | None:
        """That of a root which leads."""
        raise NotImplementedError

    def fault(self) -> None:
        rng, world = self.rng, self.world
        names = list(world.processes)
        process = world.processes[rng.choice(names)]
        kind = rng.choice(
            [
                "crash",
                "crash",
                "three",
                "pause",
                "pause",
                "partition",
                "one way",
                "network",
                "effects",
                "root",
                "forget",
                "full",
                "rot",
            ]
        )
        seconds = 0.2 + rng.random() * 3.0
        if kind in ("crash", "three"):
            for one in rng.sample(names, 3) if kind == "three" else [process.address]:
                self.down(world.processes[one], seconds)
        elif kind == "pause":
            if process.core is not None and process.paused_until <= world.now:
                world.pause(process, seconds)
        elif kind in ("partition", "one way"):
            some = set(rng.sample(names, rng.randint(1, 4)))
            world.network.partition(some, set(names) - some, kind == "partition")
            world.after(seconds, world.network.cut.clear)
        elif kind == "network":
            world.network.loss, world.network.duplication = 0.1 * rng.random(), 0.1 * rng.random()
            world.network.straying = 0.1 * rng.random()
            world.after(seconds, self.calm_network)
        elif kind == "root":
            self.root.crash_chance = 0.1
            world.after(seconds, lambda: setattr(self.root, "crash_chance", 0.0))
        elif kind == "effects":
            world.crash_chance = 0.01
            world.after(seconds, self.no_crashes)
        elif kind == "forget" and self.state is not None and not self.shape.late:
            agents = list(self.state.roster)
            if agents:
                world.give(self.root, ForgetAgent(rng.choice(agents)))
        elif kind == "full":
            process.full = True
            world.after(seconds, lambda: setattr(process, "full", False))
        elif kind == "rot" and process.address.startswith("agent"):
            disk = process.disks["journal"]
            assert isinstance(disk, FileDisk)
            disk.rot(rng, 0, len(disk.durable) // 2)
            self.down(process, 0.1)

    def down(self, process: Process, seconds: float) -> None:
        if process.core is not None:
            self.world.crash(process)
        self._boot_later(process, seconds)

    def _boot_later(self, process: Process, seconds: float) -> None:
        if (
            process.address == "root"
            and self.shape.recover
            and self.histories < 3
            and self.rng.random() < 0.7
        ):
            self.histories += 1
            lose_tail(process.disks["log"], self.rng.randint(0, 6))  # type: ignore[arg-type]
        self.world.after(seconds, lambda: self.world.boot(process) if process.core is None else None)

    def calm_network(self) -> None:
        network = self.world.network
        network.loss = network.duplication = network.straying = 0.0

    def no_crashes(self) -> None:
        self.world.crash_chance = self.root.crash_chance = 0.0

    def revive(self) -> None:
        """Whoever died by an effect comes back."""
        for process in self.world.processes.values():
            if process.core is None:
                self._boot_later(process, 0.2)
        if self.ended_s is None:
            self.world.after(0.5, self.revive)

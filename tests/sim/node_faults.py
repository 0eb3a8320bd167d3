"""What goes wrong around whole nodes, drawn from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from elfstream.simulated.disks import FileDisk, KeyValueDisk
from elfstream.simulated.world import Process, World

KINDS = (
    "crash", "crash", "leader", "three", "pause", "partition", "one way", "network", "effects", "full", "rot group",
    "rot journal", "clock", "everything",
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """What happens in a run."""

    agents: int = 3
    workers: int = 4
    jobs: int = 1
    write_s: float = 12.0
    """Logs grow for so long after all take part."""
    faults: int = 0
    faults_until_s: float = 10.0
    plan_changes: int = 0
    split: bool = False
    """The first plan has a history lane."""
    late: bool = False
    keeps_logs: bool = False
    """Else lines are deleted as soon as they may be."""
    skew_us: int = 0
    """Clocks differ by up to so much."""
    newcomers: int = 0
    """Nodes that join while the jobs run, agents among them."""
    leavers: int = 0
    """Nodes that go for good."""
    kinds: tuple[str, ...] = KINDS
    tight: bool = False
    """Vertices have room for little."""
    partitions: int = 1
    """Of the first plans; with more than one, changes of plan change them, too."""


def shape_of(seed: int, **changes: Any) -> Shape:
    """What happens under a seed."""
    rng = random.Random(seed * 7907 + 3)
    drawn: dict[str, Any] = {
        "jobs": rng.choice([1, 1, 2]),
        "faults": rng.randint(2, 7),
        "plan_changes": rng.choice([0, 1, 2, 3]),
        "split": rng.random() < 0.3,
        "late": rng.random() < 0.4,
        "skew_us": rng.choice([0, 0, 500_000, 2_000_000]),
        "newcomers": rng.choice([0, 0, 1, 2]),
        "leavers": rng.choice([0, 0, 1]),
        "tight": rng.random() < 0.3,
    }
    return Shape(**{**drawn, **changes})


class NodeFaults:
    """The part of a fleet of nodes that breaks it; each fault ends by itself, `calm` ends them all."""

    world: World
    shape: Shape
    rng: random.Random
    gone: set[str]
    """Who left for good."""

    def leader_of(self, key: bytes) -> str | None:
        """Who leads a job."""
        raise NotImplementedError

    @property
    def keys(self) -> list[bytes]:
        """Of all jobs."""
        raise NotImplementedError

    def here(self) -> list[str]:
        """The addresses of all nodes that did not leave for good."""
        return [name for name in self.world.processes if name not in self.gone]

    def fault(self) -> None:
        rng, world = self.rng, self.world
        names = self.here()
        process = world.processes[rng.choice(names)]
        kind = rng.choice(self.shape.kinds)
        seconds = 0.2 + rng.random() * (3.0 if rng.random() < 0.8 else 7.0)
        leader = self.leader_of(rng.choice(self.keys))
        world.story.steps.append((world.now, process.address, f"fault: {kind} for {seconds:.1f} s"))
        if kind == "leader" and leader is not None:
            self.down(world.processes[leader], seconds)
        elif kind in ("crash", "three"):
            for one in rng.sample(names, 3) if kind == "three" else [process.address]:
                self.down(world.processes[one], seconds)
        elif kind == "everything":
            for one in names:
                self.down(world.processes[one], 0.2 + rng.random())
        elif kind == "pause" and process.core is not None and process.paused_until <= world.now:
            world.pause(process, seconds)
        elif kind in ("partition", "one way"):
            some = set(rng.sample(names, rng.randint(1, len(names) - 1)))
            world.network.partition(some, set(names) - some, kind == "partition")
            world.after(seconds, world.network.cut.clear)
        elif kind == "network":
            network = world.network
            network.loss, network.duplication = 0.1 * rng.random(), 0.1 * rng.random()
            network.straying = 0.1 * rng.random()
            world.after(seconds, self.calm_network)
        elif kind == "effects":
            world.crash_chance = 0.003
            world.after(seconds, lambda: setattr(world, "crash_chance", 0.0))
        elif kind == "clock":
            process.clock_ahead_us += rng.randint(-2_000_000, 2_000_000)
        else:
            self._disk(kind, process, seconds)

    def _disk(self, kind: str, process: Process, seconds: float) -> None:
        if kind == "full":
            process.full = True
            self.world.after(seconds, lambda: setattr(process, "full", False))
        elif kind == "rot group" and not self._rotted:
            self._rotted = True
            disk = process.disks["groups"]
            assert isinstance(disk, KeyValueDisk)
            disk.rot(self.rng)
            self.down(process, 0.1)
        elif kind == "rot journal" and "journal" in process.disks:
            journal = process.disks["journal"]
            assert isinstance(journal, FileDisk)
            journal.rot(self.rng, 0, len(journal.durable) // 2)
            self.down(process, 0.1)

    _rotted = False
    """One rotten group store a run: rot on a majority loses what was acknowledged, and no protocol could help."""

    def down(self, process: Process, seconds: float) -> None:
        if process.core is not None:
            self.world.crash(process)
        self.world.after(seconds, lambda: self.up(process))

    def up(self, process: Process) -> None:
        if process.core is None and process.address not in self.gone:
            self.world.boot(process)

    def calm_network(self) -> None:
        network = self.world.network
        network.loss = network.duplication = network.straying = 0.0

    def revive(self) -> None:
        """Whoever died by an effect comes back."""
        for name in self.here():
            process = self.world.processes[name]
            if process.core is None:
                self.world.after(0.5 + self.rng.random(), lambda process=process: self.up(process))
        self.world.after(2.0, self.revive)

    def calm(self) -> None:
        self.world.network.heal()
        self.world.crash_chance = 0.0
        for name in self.here():
            process = self.world.processes[name]
            process.full = False
            self.up(process)

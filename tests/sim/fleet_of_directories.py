"""A simulated fleet of ring nodes that keep a directory."""

from __future__ import annotations

import random
from typing import Any

from elfstream.simulated.disks import KeyValueDisk
from elfstream.simulated.network import Network
from elfstream.simulated.world import WALL_START_US, Process
from srt.automaton import Instant, Received, Send, Stored, StoreFailed, Wake
from srt.directory import STORE, Directory, Tell
from srt.directory_messages import DIRECTORY_MESSAGES, Entry
from srt.options import DirectoryOptions, RingOptions
from srt.ring import Ring
from srt.wire import Wire
from tests.sim.fleet_of_rings import RingFleet

_WIRE = Wire(*DIRECTORY_MESSAGES)


class DirectoryNode:
    """The ring and the directory of a node; counts what the directory sends."""

    def __init__(self, ring: Ring, rng: random.Random, disk: KeyValueDisk, options: DirectoryOptions) -> None:
        self.ring, self.ref = ring, ring.ref
        self.directory = Directory(ring, rng, disk.durable, options)
        self.sent = self.sent_bytes = 0

    @property
    def wake_at(self) -> float:
        return min(self.ring.wake_at, self.directory.wake_at)

    def handle(self, event: Any, now: Instant) -> list[Any]:
        mine = isinstance(event, Tell | Stored | StoreFailed)
        if mine or (isinstance(event, Received) and isinstance(event.message, DIRECTORY_MESSAGES)):
            return self._counted(self.directory.handle(event, now))
        effects = self.ring.handle(event, now)
        if isinstance(event, Wake) and self.directory.wake_at <= now.s:
            effects += self._counted(self.directory.handle(event, now))
        return effects

    def _counted(self, effects: list[Any]) -> list[Any]:
        for effect in effects:
            if isinstance(effect, Send):
                self.sent += 1
                self.sent_bytes += len(_WIRE.encode(effect.message))
        return effects


class DirectoryFleet(RingFleet):
    """All keep job entries, which are kind 1, durable."""

    def __init__(
        self,
        seed: int,
        network: Network | None = None,
        options: DirectoryOptions | None = None,
        ring: RingOptions | None = None,
    ) -> None:
        super().__init__(seed, ring, network, seeds=3, core=self._node)
        self.directory_options = options or DirectoryOptions(durable_kinds=frozenset({1}))

    def _node(self, ring: Ring, rng: random.Random) -> DirectoryNode:
        process = self.world.processes[ring.ref.address]
        disk = process.disks.setdefault(STORE, KeyValueDisk())
        assert isinstance(disk, KeyValueDisk)
        return DirectoryNode(ring, rng, disk, self.directory_options)

    def tell(self, process: Process, entry: Entry) -> None:
        self.world.give(process, Tell(entry))

    def maps(self) -> list[dict[bytes, Entry]]:
        """What each node that is up holds."""
        return [node_of(process).directory.entries() for process in self.live()]

    def knowing(self, entry: Entry) -> int:
        return sum(
            node_of(process).directory.get(entry.kind, entry.key) == entry for process in self.live()
        )

    def converge(self, within_s: float) -> float:
        """Runs until all maps are equal; the seconds it took."""
        start = self.world.now
        while self.world.now - start < within_s:
            maps = self.maps()
            if all(one == maps[0] for one in maps):
                return self.world.now - start
            self.world.run(self.world.now + 0.1)
        raise AssertionError(
            f"seed {self.world.seed}: {len({len(one) for one in self.maps()})} sizes of maps after {within_s} s\n"
            + "\n".join(self.world.story)
        )


def node_of(process: Process) -> DirectoryNode:
    core = process.core
    assert isinstance(core, DirectoryNode)
    return core


def job(number: int, version: tuple[int, int] = (1, 1), value: bytes = b"j" * 60, until_us: int = 0) -> Entry:
    """An entry of kind 1, at a place of its own."""
    key = random.Random(f"job {number}").randbytes(16)
    return Entry(1, key, version, value, until_us)


def soft(address: str, number: int, lives_s: float, now: float) -> Entry:
    """An entry of kind 2 that ends unless it is told again: what a node says of itself."""
    key = random.Random(address).randbytes(16)
    return Entry(2, key, (1, number), b"n" * 90, WALL_START_US + int((now + lives_s) * 1e6))


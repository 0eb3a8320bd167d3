"""The simulator: processes around the real cores, in virtual time, with seeded faults.

One seed gives one run. `World.run` handles events in the order of their times; after each step it calls the checks. When
something raises, the last steps are in `World.story`.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from elfstream.simulated.core_inbox import CoreInbox
from elfstream.simulated.disks import FileDisk, KeyValueDisk
from elfstream.simulated.network import Network
from srt.automaton import (
    ANY_BOOT,
    NEVER,
    WAKE,
    Core,
    Instant,
    PeerLost,
    Received,
    Ref,
    Send,
    Stored,
    StoreFailed,
    Write,
)
from srt.wire import Wire

Disk = KeyValueDisk | FileDisk
WALL_START_US = 1_764_000_000_000_000
STEPS_TOLD = 200


@dataclass
class Process:
    """A machine of the simulated fleet; the core dies with a crash, the disks stay."""

    address: str
    start: Callable[[Process], Core]
    """Makes the core from what the disks hold; called at each boot."""
    disks: dict[str, Disk] = field(default_factory=dict)
    boot: int = 0
    core: Core | None = None
    paused_until: float = 0.0
    full: bool = False
    """Its stores of keys and values refuse every write; files were preallocated."""
    crash_chance: float = 0.0
    """As that of the world, for this process alone."""
    clock_ahead_us: int = 0
    service_s: float = 0.0
    """How long each event keeps it busy."""
    inbox: deque[Any] | CoreInbox = field(default_factory=deque)
    """A node's has an order of its own."""
    wake_at: float = NEVER


class Story:
    """The last steps of a world; their text is made when somebody reads it."""

    def __init__(self) -> None:
        self.steps: deque[tuple[float, str, Any]] = deque(maxlen=STEPS_TOLD)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[str]:
        return (f"{when:10.4f} {address}: {what}" for when, address, what in self.steps)


class World:
    """Processes, their network and their time."""

    def __init__(self, seed: int, network: Network | None = None, wall_start_us: int = WALL_START_US) -> None:
        """`wall_start_us` is what wall clocks show when the virtual time is 0."""
        self.seed, self.wall_start_us = seed, wall_start_us
        self.rng = random.Random(seed)
        self.network = network or Network()
        self.now = 0.0
        self.processes: dict[str, Process] = {}
        self.checks: list[Callable[[Process], None]] = []
        """Called with the process after each event that it handled."""
        self.observers: list[Callable[[Process, Any], None]] = []
        """Called with each effect that is for nobody here: what a core tells the world above it."""
        self.handled: list[Callable[[Process, Any], None]] = []
        """Called with each event that a process has handled, its effects carried out."""
        self.fsync_s = 0.002
        self.crash_chance = 0.0
        """The chance, per effect, that the process dies right before carrying it out."""
        self.hints = True
        """Whether senders learn by `PeerLost` that nobody answers at an address; hosts without power give no hint."""
        self.wire: Wire | None = None
        """What messages are written and read with on their way: one that its reader would refuse is an error here."""
        self.story = Story()
        self.steps = 0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    # processes

    def spawn(self, address: str, start: Callable[[Process], Core], **disks: Disk) -> Process:
        process = Process(address, start, disks)
        self.processes[address] = process
        self.boot(process)
        return process

    def boot(self, process: Process) -> None:
        """Starts a process that is down."""
        assert process.core is None, f"{process.address} is up"
        process.boot += 1
        process.core = process.start(process)
        self._tell(process, "boots")
        self._plan_wake(process)

    def crash(self, process: Process) -> None:
        """Kills a process; what its disks had not synced may be gone."""
        process.core = None
        process.inbox.clear()
        process.wake_at = NEVER
        process.paused_until = 0.0
        for disk in process.disks.values():
            disk.crash(self.rng)
        self._tell(process, "crashes")

    def pause(self, process: Process, seconds: float) -> None:
        """It handles nothing for a while, then everything at once, as a stopped virtual machine."""
        process.paused_until = self.now + seconds
        self._tell(process, f"pauses for {seconds:.1f} s")
        self.at(process.paused_until, lambda: self._drain(process))

    def instant(self, process: Process) -> Instant:
        return Instant(self.now, self.wall_us + process.clock_ahead_us)

    # time

    @property
    def wall_us(self) -> int:
        """What clocks show that are right."""
        return self.wall_start_us + int(self.now * 1e6)

    def at(self, when: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (max(when, self.now), next(self._order), action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self.at(self.now + seconds, action)

    def run(self, until: float, enough: Callable[[], bool] = lambda: False) -> None:
        """Goes on until the time has come or it is enough."""
        while self._queue and self._queue[0][0] <= until:
            self.now, _, action = heapq.heappop(self._queue)
            action()
            if enough():
                return
        self.now = max(self.now, until)

    # events and effects

    def give(self, process: Process, event: Any) -> None:
        """An event for a process, now; it is lost when the process is down."""
        if process.core is None:
            return
        process.inbox.append(event)
        self._drain(process)

    def _drain(self, process: Process) -> None:
        while process.inbox and process.core is not None and self.now >= process.paused_until:
            event = process.inbox.popleft()
            self.steps += 1
            self._tell(process, event)
            effects = process.core.handle(event, self.instant(process))
            for effect in effects:
                chance = max(self.crash_chance, process.crash_chance)
                if chance and self.rng.random() < chance:
                    self.crash(process)
                    break
                self._carry_out(process, effect)
            if process.core is not None:
                self._plan_wake(process)
                for check in self.checks:
                    check(process)
            for told in self.handled:
                told(process, event)
            if process.service_s and process.core is not None:
                process.paused_until = max(process.paused_until, self.now + process.service_s)
                self.at(process.paused_until, lambda: self._drain(process))

    def _carry_out(self, process: Process, effect: Any) -> None:
        if isinstance(effect, Send):
            self._send(process, effect)
        elif isinstance(effect, Write):
            self._write(process, effect)
        else:
            for observer in self.observers:
                observer(process, effect)

    def _send(self, process: Process, effect: Send) -> None:
        assert process.core is not None
        sender = process.core.ref
        if self.wire is not None:
            effect = Send(effect.to, self.wire.decode(self.wire.encode(effect.message)))
        for when in self.network.arrivals(process.address, effect.to.address, self.now, self.rng):
            self.at(when, lambda: self._arrive(sender, effect))

    def _arrive(self, sender: Ref, effect: Send) -> None:
        receiver = self.processes.get(effect.to.address)
        if receiver is not None and receiver.core is not None and effect.to.boot in (ANY_BOOT, receiver.boot):
            self.give(receiver, Received(sender, effect.message))
        elif self.hints:
            origin = self.processes[sender.address]
            if origin.boot == sender.boot:
                self.give(origin, PeerLost(effect.to))

    def _write(self, process: Process, effect: Write) -> None:
        if process.full and isinstance(process.disks[effect.store], KeyValueDisk):
            self.after(
                self.fsync_s, lambda: self.give(process, StoreFailed(effect.token, "no space left on device"))
            )
            return
        disk = process.disks[effect.store]
        disk.waiting.append(effect)
        if len(disk.waiting) == 1:
            self._sync(process, disk)

    def _sync(self, process: Process, disk: Disk) -> None:
        """One sync at a time; it takes all writes that wait when it begins, and one that is not lazy all that were lazy."""
        boot, count = process.boot, len(disk.waiting)
        lazy = [(one, one.lazy_made) for one in process.disks.values() if isinstance(one, KeyValueDisk)]

        def synced() -> None:
            if process.boot != boot or process.core is None:
                return
            stored = [disk.waiting[number] for number in range(count)]
            for _ in stored:
                disk.sync()
            if isinstance(disk, KeyValueDisk) and not all(write.lazy for write in stored):
                for one, made in lazy:
                    one.settle(made)
            if disk.waiting:
                self._sync(process, disk)
            for write in stored:
                self.give(process, Stored(write.token))

        self.after(self.fsync_s * (0.5 + self.rng.random()), synced)

    def _plan_wake(self, process: Process) -> None:
        assert process.core is not None
        when, boot = process.core.wake_at, process.boot
        if when == process.wake_at or when == NEVER:
            process.wake_at = when
            return
        process.wake_at = when

        def wake() -> None:
            if process.boot == boot and process.core is not None and process.wake_at == when:
                process.wake_at = NEVER
                if WAKE not in process.inbox:
                    self.give(process, WAKE)

        self.at(when, wake)

    def _tell(self, process: Process, what: Any) -> None:
        self.story.steps.append((self.now, process.address, what))

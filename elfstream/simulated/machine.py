"""One machine of a fleet in virtual time: what the daemon does around a core, without threads, sockets or a real clock.

Its disks are in memory, its logs are real files in a folder of its own, read by the reader of the daemon.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from agent.journal import STORE as JOURNAL
from agent.journal import JournalOptions
from agent.log_reader import LogReader
from agent.stream_events import Advance, Fold, Folded, Release, Shrink, Trouble
from cbt.memory import Memory
from elfstream.config.model import NodeConfig
from elfstream.node import NodeCore
from elfstream.node_parts import build, sources_of
from elfstream.simulated.disks import DurableStores, FileDisk, KeyValueDisk
from elfstream.simulated.world import Disk, Process, World
from master.commit_group import STORE as GROUPS
from master.finishing import finish
from master.job_events import Finish, JobErased, ReadResults, ResultsStored
from master.masters import OfJob
from master.requests import Answer
from master.result_store import STORE as RESULTS
from master.result_store import StoredResults, read_results
from srt.automaton import Ref
from srt.directory import STORE as DIRECTORY
from srt.directory import EntryChanged, EntryEnded
from srt.ids import job_key
from srt.links import Free, Hold
from srt.tree_events import CastEnded
from srt.tree_events import Refused as TreeRefused

WORK_S = 0.002
"""What the threads beside the core take for a piece of work."""
LOOK_S = 0.25
"""Least time between two looks at the names of logs."""
UNHEARD = (Hold, Free, ResultsStored, OfJob, JobErased, EntryChanged, EntryEnded, CastEnded)
"""Effects that need nothing here: the network has no queues that could fill up, and nobody waits for the rest."""


class Machine:
    """A node and what outlives its process. Raises FormatError, OptionsError."""

    def __init__(self, world: World, config: NodeConfig, seed: int) -> None:
        """`config` names the node, its address, the addresses to join, and for agents their sources."""
        self.world, self.config, self._seed = world, config, seed
        self.sources = sources_of(config)
        self.reader: LogReader | None = None
        self.troubles: list[str] = []
        """What the log of the node would say."""
        self.asked: dict[int, Callable[[Any], None]] = {}
        """By the token of a question: who gets the answer."""
        self.memory = Memory()
        disks: dict[str, Disk] = {name: KeyValueDisk() for name in (GROUPS, RESULTS, DIRECTORY)}
        if config.is_agent:
            disks[JOURNAL] = FileDisk(JournalOptions().file_bytes)
        self.process: Process
        world.spawn(str(config.listen), self._start, **disks)

    @property
    def core(self) -> NodeCore | None:
        """None: the node is down."""
        core = self.process.core
        assert core is None or isinstance(core, NodeCore)
        return core

    @property
    def results(self) -> StoredResults:
        return StoredResults(DurableStores(self.process.disks))

    def crash(self) -> None:
        self.world.crash(self.process)
        self._abandon()

    def close(self) -> None:
        """The end of the simulation."""
        self.process.core = None
        self._abandon()

    def _abandon(self) -> None:
        if self.reader is not None:
            self.reader.abandon()
            self.reader = None

    def _start(self, process: Process) -> NodeCore:
        self._abandon()
        self.process, address = process, process.address
        self.memory = Memory()
        parts = build(
            self.config,
            Ref(job_key(address), address, process.boot),
            DurableStores(process.disks),
            self.memory,
            random.Random(f"{self._seed} {address} {process.boot}"),
            self.sources,
            self.sources.can_run,
            lambda: self.world.instant(process),
        )
        self.reader = parts.reader
        for event in parts.first:
            self._after(WORK_S, partial(self.world.give, process, event))
        if parts.reader is not None:
            self._later(parts.reader.begin)
            self._look()
        return parts.core

    # effects

    def carry(self, effect: Any) -> None:
        """An effect that is neither a message nor a write."""
        if isinstance(effect, Advance):
            reader = self._reader
            self._later(lambda: reader.advance(effect))
        elif isinstance(effect, Fold):
            self._fold(self._reader.folding(effect))
        elif isinstance(effect, Release):
            self._reader.release(effect)
        elif isinstance(effect, Finish):
            self._later(lambda: finish(effect, self.memory))
        elif isinstance(effect, ReadResults):
            self._later(lambda: read_results(DurableStores(self.process.disks), effect))
        elif isinstance(effect, Answer):
            told = self.asked.pop(effect.token, None)
            if told is not None:
                told(effect.body)
        elif isinstance(effect, Trouble | TreeRefused):
            self.troubles.append(effect.problem)
        elif not isinstance(effect, UNHEARD):
            raise TypeError(f"nobody carries out {effect}")

    @property
    def _reader(self) -> LogReader:
        assert self.reader is not None, "only agents read logs"
        return self.reader

    def _later(self, work: Callable[[], Any], seconds: float = WORK_S) -> None:
        """What `work` gives is an event, some time later; a crash meanwhile loses it."""

        def done() -> None:
            event = work()
            if event is not None:
                self.world.give(self.process, event)
            self._report()

        self._after(seconds, done)

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        boot = self.process.boot
        self.world.after(seconds, lambda: action() if self._is(boot) else None)

    def _is(self, boot: int) -> bool:
        return self.process.boot == boot and self.process.core is not None

    def _fold(self, steps: Generator[float, None, Folded]) -> None:
        """Reads an old range, with the rests that it wants."""

        def step() -> Folded | None:
            rest_s = 0.0
            while rest_s == 0.0:
                try:
                    rest_s = next(steps)
                except StopIteration as done:
                    folded: Folded = done.value
                    return folded
            self._later(step, rest_s)
            return None

        self._later(step)

    def _look(self) -> None:
        """Keeps up with the names of logs, as the logs thread does between two asks."""

        def look() -> None:
            reader = self._reader
            if reader.due_s() <= 0:
                reader.idle()
            self._report()
            self._look()

        self._after(LOOK_S if self.reader is None else max(LOOK_S, self.reader.due_s()), look)

    def _report(self) -> None:
        if self.reader is None:
            return
        self.troubles += self.reader.take_troubles()
        if self.reader.wants_shrink:
            self.reader.wants_shrink = False
            self.world.give(self.process, Shrink())

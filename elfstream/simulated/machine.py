"""The simulated daemon: what a machine does around the core of a node, without threads, sockets or a real clock.

The core is put together as the daemon does it (elfstream/node_parts.py), what waits for it has the daemon's order. Disks are
in memory; logs are real files, read by the reader of the daemon, unless a subclass opens others (docs/FAULTS.md).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Protocol

from agent.journal import STORE as JOURNAL
from agent.journal_format import Positions
from agent.log_reader import LogReader
from agent.stream_events import Advance, Advanced, Fold, Folded, Release, Shrink, Started, Trouble
from cbt.memory import Memory
from cbt.options import Options
from elfstream.config.model import NodeConfig
from elfstream.node import HandedOver, NodeCore
from elfstream.node_parts import Bounds, build, sources_of
from elfstream.simulated.core_inbox import CoreInbox
from elfstream.simulated.disks import DurableStores, FileDisk, KeyValueDisk
from elfstream.simulated.world import Disk, Process, World
from job.plan import Plan
from master.commit_group import STORE as GROUPS
from master.finishing import finish
from master.job_events import Finish, JobErased, OfJob, ReadResults, ResultsStored
from master.requests import Answer
from master.result_store import STORE as RESULTS
from master.result_store import StoredResults, read_results
from srt.automaton import NEVER, Ref
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
UNHEARD = (Hold, Free, ResultsStored, OfJob, JobErased, EntryChanged, EntryEnded, CastEnded, HandedOver)
"""Effects that need nothing here: the network has no queues that could fill up, and nobody waits for the rest."""


class LogsHere(Protocol):
    """What a machine asks of its logs: `agent.log_reader.LogReader`, or a model of it."""

    wants_shrink: bool

    def begin(self) -> Started: ...
    def advance(self, ask: Advance) -> Advanced: ...
    def folding(self, ask: Fold) -> Generator[float, None, Folded]: ...
    def release(self, ask: Release) -> None: ...
    def due_s(self) -> float: ...
    def idle(self) -> None: ...
    def take_troubles(self) -> list[str]: ...
    def abandon(self) -> None: ...


class Machine:
    """A node and what outlives its process. Raises FormatError, OptionsError."""

    def __init__(
        self,
        world: World,
        config: NodeConfig,
        seed: int,
        bounds: Bounds = Bounds(),  # noqa: B008 - frozen
        trees: Options = Options(),  # noqa: B008 - frozen
    ) -> None:
        """`config` names the node, its address, the addresses to join, and for agents their sources; `trees` are
        the sizes of its trees."""
        self.world, self.config, self._seed = world, config, seed
        self.bounds, self._trees = bounds, trees
        self.sources = sources_of(config)
        self.reader: LogsHere | None = None
        self.troubles: list[str] = []
        """What the log of the node would say."""
        self.asked: dict[int, Callable[[Any], None]] = {}
        """By the token of a question: who gets the answer."""
        disks: dict[str, Disk] = {name: KeyValueDisk() for name in (GROUPS, RESULTS, DIRECTORY)}
        if config.is_agent:
            disks[JOURNAL] = FileDisk(bounds.journal.file_bytes)
        self.memory: Memory
        self.process: Process
        world.spawn(str(config.listen), self.start, **disks)

    # what simulations may have otherwise

    def open_logs(self, start: Positions | None, path: str, journal_id: bytes) -> LogsHere:
        """See `elfstream.node_parts.build`."""
        return LogReader(
            self.sources, start, self.memory, path, journal_id, hints=False,
            clock=lambda: self.world.now, wall_us=lambda: self.world.instant(self.process).wall_us,
        )  # fmt: skip

    def can_run(self, plan: Plan) -> str | None:
        """Why it cannot be run here."""
        return self.sources.can_run(plan)

    def work_s(self, effect: Any) -> float:
        """How long the threads beside the core take for what an effect asks."""
        return WORK_S

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

    def start(self, process: Process) -> NodeCore:
        """Called at each boot."""
        self._abandon()
        self.process, address = process, process.address
        process.inbox = CoreInbox(lambda: self.world.now)
        self.memory = Memory(options=self._trees)
        parts = build(
            self.config,
            Ref(job_key(address), address, process.boot),
            DurableStores(process.disks),
            self.memory,
            random.Random(f"{self._seed} {address} {process.boot}"),
            self.sources,
            self.can_run,
            self.open_logs,
            self.bounds,
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
            self._later(lambda: reader.advance(effect), self.work_s(effect))
        elif isinstance(effect, Fold):
            self._fold(self._reader.folding(effect), self.work_s(effect))
        elif isinstance(effect, Release):
            self._reader.release(effect)
        elif isinstance(effect, Finish):
            self._later(lambda: finish(effect, self.memory), self.work_s(effect))
        elif isinstance(effect, ReadResults):
            disks = DurableStores(self.process.disks)
            self._later(lambda: read_results(disks, effect), self.work_s(effect))
        elif isinstance(effect, Answer):
            told = self.asked.pop(effect.token, None)
            if told is not None:
                told(effect.body)
        elif isinstance(effect, Trouble | TreeRefused):
            self.troubles.append(effect.problem)
        elif not isinstance(effect, UNHEARD):
            raise TypeError(f"nobody carries out {effect}")

    @property
    def _reader(self) -> LogsHere:
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

    def _fold(self, steps: Generator[float, None, Folded], seconds: float) -> None:
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

        self._later(step, seconds)

    def _look(self) -> None:
        """Keeps up with the names of logs, as the logs thread does between two asks."""
        reader = self._reader

        def look() -> None:
            if reader.due_s() <= 0:
                reader.idle()
            self._report()
            self._look()

        if reader.due_s() < NEVER:
            self._after(max(LOOK_S, reader.due_s()), look)

    def _report(self) -> None:
        if self.reader is None:
            return
        self.troubles += self.reader.take_troubles()
        if self.reader.wants_shrink:
            self.reader.wants_shrink = False
            self.world.give(self.process, Shrink())

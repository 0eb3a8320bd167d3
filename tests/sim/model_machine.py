"""A simulated daemon with small bounds and model logs, whose offsets are lines: limits are met soon, nothing is parsed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from agent.journal import ORIGIN, Journal, JournalOptions
from agent.journal import STORE as JOURNAL
from agent.journal_format import Positions
from agent.log_id import source_tag
from agent.stream_events import Fold, Folded, Release, Started
from agent.stream_options import StreamsOptions
from cbt.options import Options
from elfstream.config.model import NodeConfig, SourceConfig
from elfstream.node import NodeCore, NodeOptions
from elfstream.node_parts import Bounds
from elfstream.simulated.disks import FileDisk
from elfstream.simulated.machine import WORK_S, LogsHere, Machine
from elfstream.simulated.world import Process, World
from job.plan import Plan
from master.finality import FinalityOptions
from master.job_events import Finish
from master.mastership import MastersOptions
from master.results import ResultsOptions
from master.root import RootOptions
from srt.automaton import NEVER
from srt.reducer import ReducerOptions
from tests.sim.cut_logs import Driver, Line, LogFile, Logs
from tests.sim.cut_truth import Broken
from tests.sim.job_watch import Cuts
from tests.sim.log_watch import Applied, listen

SOURCE = SourceConfig(("/model/access.log",), "access", "combined")
"""What agents say that they have."""
WORK_JITTER_S = 0.02
LOG_ENTRIES_MAX = 16
TREE_LINES_MAX = 60
"""What an agent has memory for, per stream that cannot send."""


def bounds_of(reducer: ReducerOptions = ReducerOptions(forget_after_s=10.0)) -> Bounds:  # noqa: B008 - frozen
    """Those of a small node with such vertices."""
    masters = MastersOptions(
        log_entries_max=LOG_ENTRIES_MAX,
        root=RootOptions(finality=FinalityOptions(grace_s=3.0)),
        results=ResultsOptions(part_bytes=300),
    )
    streams = StreamsOptions(advance_bytes_max=25, fold_bytes_max=20, settle_s=2.0)
    return Bounds(NodeOptions(masters, reducer), JournalOptions.tiny(), streams)


class ModelReader(Driver):
    """The driver of model logs, as a machine has it."""

    wants_shrink = keep = False

    def begin(self) -> Started:
        return Started({})

    def folding(self, ask: Fold) -> Generator[float, None, Folded]:
        yield 0.0
        return self.fold(ask)

    def release(self, ask: Release) -> None:
        """Logs are deleted as soon as they may be, unless they are kept."""
        if not self.keep:
            self.logs.delete_before(ask.files)

    def due_s(self) -> float:
        return NEVER

    def idle(self) -> None:
        """Names do not change."""

    def take_troubles(self) -> list[str]:
        return []

    def abandon(self) -> None:
        """No file is open."""


class ModelMachine(Machine):
    """An agent has one log; it outlives crashes."""

    def __init__(
        self,
        world: World,
        config: NodeConfig,
        seed: int,
        bounds: Bounds,
        keeps_logs: bool,
        applied: Callable[[Applied], None],
    ) -> None:
        """`applied` is told what members of groups apply here."""
        self._applied = applied
        self.logs, self.cuts = Logs(), Cuts()
        self.ids: set[bytes] = set()
        """Of its journals: another one is another agent."""
        self.quiet = False
        """Nothing is written any more."""
        self.keeps_logs = keeps_logs
        self.unfit: Plan | None = None
        """A plan that it cannot run."""
        self.finish_s = WORK_S
        """How long it takes at least to make rows of a window."""
        self.log = LogFile()
        if config.is_agent:
            self.logs.files[source_tag(SOURCE.name) + config.name.encode()] = self.log
        super().__init__(world, config, seed, bounds, Options.tiny())

    def start(self, process: Process) -> NodeCore:
        core = super().start(process)
        listen(core.masters, self._applied)
        if core.agent is not None:
            self.ids.add(core.agent.journal.journal_id)
            self.cuts.look(core.agent.journal, afresh=True)
        return core

    def open_logs(self, start: Positions | None, path: str, journal_id: bytes) -> LogsHere:
        reader = ModelReader(self.logs, TREE_LINES_MAX)
        reader.keep = self.keeps_logs
        return reader

    def can_run(self, plan: Plan) -> str | None:
        return "no such field" if plan == self.unfit else super().can_run(plan)

    def work_s(self, effect: Any) -> float:
        least_s = self.finish_s if isinstance(effect, Finish) else WORK_S
        return least_s + self.world.rng.random() * WORK_JITTER_S

    @property
    def lines(self) -> list[Line]:
        return self.log.lines

    def read_at(self, agent: bytes, cut: int) -> Positions:
        """How far the log was read at a cut of one of its journals. Raises Broken: there never was such a cut."""
        if cut == ORIGIN:
            return {}
        if cut not in self.cuts.meaning:  # it died before anybody looked
            disk = self.process.disks[JOURNAL]
            assert isinstance(disk, FileDisk)
            self.cuts.look(Journal(bytes(disk.durable), agent, self.bounds.journal), True)
        if cut not in self.cuts.meaning:
            raise Broken(f"invariant 2: {cut} is no cut of {self.config.name}")
        return self.cuts.meaning[cut]

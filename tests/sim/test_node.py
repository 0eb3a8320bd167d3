"""Whole nodes: ring, trees, reducers, agents, commit groups and roots together, and the answers they give."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pytest

from agent.journal import Journal, JournalOptions
from agent.stream_events import Advance, Fold, Started
from agent.streams import Streams, StreamsOptions
from cbt.budget import Budget
from cbt.options import Options
from elfstream.node import NodeCore, NodeOptions
from elfstream.notice_board import HaveSources
from job.plan import Schema
from job.settings import Settings
from master.committed import WindowPublished
from master.entries import FINAL
from master.finality import FinalityOptions
from master.group_messages import Lineage
from master.job_events import Announce
from master.masters import FoundJob, MastersOptions, OfJob, ToRoot
from master.root import ChangePlan, DrainJob, PlanAnswer, RootOptions
from master.service import JobNotice
from srt.automaton import Instant, Ref
from srt.ids import job_key
from srt.options import LinkOptions
from srt.reducer import ReducerOptions
from srt.reducer_tree import ReducerTree
from srt.ring import Ring
from srt.tree_messages import Kind
from tests.plans import plan
from tests.sim.cut_fleet import canonical
from tests.sim.cut_logs import Driver, Line, LogFile, Logs, pane_states
from tests.sim.disk import FileDisk, KeyValueDisk
from tests.sim.linked_world import LinkedWorld
from tests.sim.network import Network
from tests.sim.world import WALL_START_US, Process, World

SECOND_US = 1_000_000
WINDOW_US = 4 * SECOND_US
KEY = job_key("hot")
PLAN = plan("window(time, '4 seconds')")
SETTINGS = Settings(
    deadline_us=3 * SECOND_US,
    delay_us=1 * SECOND_US,
    idle_us=5 * SECOND_US,
    lateness_us=12 * SECOND_US,
    expect=4,
)
WRITE_S = 16.0
SMALL_LINKS = LinkOptions(
    quantum_bytes=400, job_bytes_max=1200, queued_bytes_max=4000, jobs_max=4, credit_bytes=6000,
    job_credit_bytes=1500, control_bytes_max=64 << 10, stalled_s=0.5,
)  # fmt: skip
SMALL_VERTEX = ReducerOptions(
    forget_after_s=10.0, pending_max=8, frame_bytes_max=8000, burst_bytes=600, pending_bytes_max=20_000
)


@dataclass
class Machine:
    logs: Logs
    driver: Driver


class Node(NodeCore):
    """Takes what a master announces as an event, too."""

    def handle(self, event: Any, now: Instant) -> list[Any]:
        if not isinstance(event, Announce):
            return super().handle(event, now)
        self._now, self._out = now, []
        self._to_board(event)
        return self._out


class NodeFleet:
    """Some agents and workers around one job; the first worker is told to make it."""

    def __init__(self, seed: int, agents: int = 4, workers: int = 4, linked: bool = False) -> None:
        """`linked`: over links that are so slow, with queues so small, that jobs are busy and held."""
        self.seed, self.rng, self.linked = seed, random.Random(seed), linked
        self.world: World = World(seed, Network(0.001, 0.004))
        if linked:
            self.world = LinkedWorld(seed, Network(0.001, 0.004), 100_000, SMALL_LINKS)
        self.machines: dict[str, Machine] = {}
        self.seen: dict[int, list[tuple[tuple[Lineage, int], str, dict[int, bytes]]]] = defaultdict(list)
        self.answers: list[PlanAnswer] = []
        self.world.observers.append(self._effect)
        self.names = [f"w{n}" for n in range(workers)] + [f"a{n}" for n in range(agents)]
        for name in self.names:
            if name[0] == "a":
                logs = Logs()
                logs.files[name.encode()] = LogFile()
                self.machines[name] = Machine(logs, Driver(logs, 60))
            self.world.spawn(
                name,
                self._start,
                groups=KeyValueDisk(),
                directory=KeyValueDisk(),
                journal=FileDisk(JournalOptions.tiny().file_bytes),
            )

    def _start(self, process: Process) -> NodeCore:
        name = process.address
        rng = random.Random(f"{self.seed} {name} {process.boot}")
        ref = Ref(job_key(name), name, process.boot)
        is_agent = name in self.machines
        kind = Kind.AGENT if is_agent else Kind.WORKER
        ring = Ring(ref, self.names[:3], rng, role=kind)
        finality = FinalityOptions(grace_s=3.0)
        options = NodeOptions(
            masters=MastersOptions(log_entries_max=16, root=RootOptions(finality=finality)),
            reducer=SMALL_VERTEX if self.linked else ReducerOptions(forget_after_s=10.0),
        )
        agent = self._agent(process, rng) if is_agent else None
        groups = process.disks["groups"]
        assert isinstance(groups, KeyValueDisk)
        trees = ReducerTree(ring, kind, rng)
        notices = process.disks["directory"]
        assert isinstance(notices, KeyValueDisk)
        sizes = Options.tiny()
        core = Node(ring, trees, agent, Budget(), rng, groups.durable, options, sizes, notices.durable)
        if is_agent:
            self.machines[name].driver = Driver(self.machines[name].logs, 60)
            self.world.after(0.001, lambda: self.world.give(process, Started({})))
            self.world.after(0.002, lambda: self.world.give(process, HaveSources({PLAN.source: Schema({})})))
        return core

    def _agent(self, process: Process, rng: random.Random) -> Streams:
        disk = process.disks["journal"]
        assert isinstance(disk, FileDisk)
        journal = Journal(
            bytes(disk.durable), process.address.encode().ljust(16, b"#"), JournalOptions.tiny()
        )
        options = StreamsOptions(advance_bytes_max=25, fold_bytes_max=20, settle_s=2.0)
        return Streams(process.address, journal, rng, lambda _: None, options)

    # the world outside

    def _effect(self, process: Process, effect: Any) -> None:
        if isinstance(effect, Advance | Fold):
            self._read(process, effect)
        elif isinstance(effect, OfJob) and isinstance(effect.effect, WindowPublished):
            self._seen(process, effect.effect)
        elif isinstance(effect, OfJob) and isinstance(effect.effect, PlanAnswer):
            self.answers.append(effect.effect)

    def _read(self, process: Process, ask: Advance | Fold) -> None:
        machine, boot = self.machines[process.address], process.boot
        driver = machine.driver

        def answer() -> None:
            if process.boot == boot and process.core is not None:
                done = driver.advance(ask) if isinstance(ask, Advance) else driver.fold(ask)
                self.world.give(process, done)

        self.world.after(0.002 + self.rng.random() * 0.02, answer)

    def _seen(self, process: Process, window: WindowPublished) -> None:
        """One content for each (window, n); a recovered log, which lost entries for good, counts anew."""
        assert isinstance(process.core, NodeCore)
        lineage = process.core.masters.group(KEY).log.meta.lineage
        rows = {number: canonical(tree) for number, tree in window.tables.items()}
        shown = ((lineage, window.edition), window.status, rows)
        known = self.seen[window.start_us]
        for other in known:
            assert other[0] != shown[0] or other == shown, "two contents of one (window, n)"
        if shown not in known:
            known.append(shown)

    def core(self, name: str) -> NodeCore | None:
        core = self.world.processes[name].core
        assert core is None or isinstance(core, NodeCore)
        return core

    def leader(self) -> str | None:
        leading = [name for name in self.names if (core := self.core(name)) and core.leads(KEY)]
        return leading[0] if len(leading) == 1 else None

    def ask(self, event: Any) -> None:
        for name in self.names:
            self.world.give(self.world.processes[name], ToRoot(KEY, event))

    def write(self, name: str) -> None:
        if self.world.now < WRITE_S:
            time = WALL_START_US + int(self.world.now * 1e6) - int(self.rng.random() * 3e5)
            line = Line(
                time, f"/{self.rng.randrange(4)}", self.rng.choice([200, 404]), self.rng.randrange(1000)
            )
            self.machines[name].logs.files[name.encode()].lines.append(line)
            self.world.after(self.rng.random() * 0.2, lambda: self.write(name))

    def truth(self) -> dict[int, dict[int, bytes]]:
        lines = [line for machine in self.machines.values() for line in machine.logs.all_lines]
        states = pane_states(PLAN, lines)
        return {
            start: {number: canonical(tree) for number, tree in enumerate([state.groups, *state.pairs])}
            for start, state in states.items()
        }

    def finals(self) -> dict[int, dict[int, bytes]]:
        last = {start: max(shown, key=lambda one: one[0]) for start, shown in self.seen.items()}
        return {start: rows for start, (_, status, rows) in last.items() if status == FINAL}

    # a run

    def run(self, faults: int) -> None:
        world = self.world
        world.run(3.0)
        world.give(world.processes["w0"], FoundJob(KEY))
        world.give(world.processes["w0"], Announce(KEY, JobNotice("hot", PLAN.source, "running", 1, 1, 1)))
        world.run(6.0, lambda: self.leader() is not None and world.now > 5.0)
        start = (WALL_START_US // WINDOW_US - 1) * WINDOW_US
        self.ask(ChangePlan(1, PLAN, start, SETTINGS))
        for name in self.machines:
            world.at(world.now + 0.3, lambda name=name: self.write(name))
        for _ in range(faults):
            world.at(7.0 + self.rng.random() * 8.0, self.fault)
        world.run(WRITE_S + 3.0)
        world.network.heal()
        for process in world.processes.values():
            if process.core is None:
                world.boot(process)
        world.run(WRITE_S + 15.0)
        self.ask(DrainJob())
        world.run(WRITE_S + 40.0, lambda: self.finals() == self.truth())

    def fault(self) -> None:
        kind, process = self.rng.randrange(4), self.world.processes[self.rng.choice(self.names)]
        if kind <= 1 and process.core is not None:
            self.world.crash(process)
            boot = process.boot
            self.world.after(
                0.2 + self.rng.random() * 3,
                lambda: self.world.boot(process) if process.core is None and process.boot == boot else None,
            )
        elif kind == 2:
            self.world.pause(process, self.rng.random() * 3)
        else:
            self.world.network.loss = self.world.network.duplication = 0.05
            self.world.after(self.rng.random() * 3, self.world.network.heal)


def simulate(seed: int, faults: int, linked: bool = False) -> NodeFleet:
    fleet = NodeFleet(seed, linked=linked)
    try:
        fleet.run(faults)
        assert fleet.finals() == fleet.truth(), (
            f"leader {fleet.leader()}, {len(fleet.finals())} of {len(fleet.truth())}"
        )
    except BaseException as problem:
        problem.add_note(f"seed {seed}, {faults} faults; the last steps:\n" + "\n".join(fleet.world.story))
        raise
    return fleet


@pytest.mark.parametrize("seed", range(3))
def test_a_quiet_fleet_answers_exactly(seed: int) -> None:
    fleet = simulate(seed, 0)
    assert len(fleet.truth()) >= 3


@pytest.mark.parametrize("seed", range(10, 18))
def test_answers_are_exact_whatever_crashes(seed: int) -> None:
    simulate(seed, 5)


@pytest.mark.parametrize("seed", range(30, 36))
def test_answers_are_exact_over_links_with_credits(seed: int) -> None:
    fleet = simulate(seed, 0 if seed < 32 else 5, linked=True)
    assert isinstance(fleet.world, LinkedWorld)
    assert fleet.world.counts.busy
    assert fleet.world.counts.unsound == 0

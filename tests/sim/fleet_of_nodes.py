"""A simulated fleet of whole nodes, agents and workers, around some jobs: logs that grow, users, faults, invariants."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from agent.journal import Journal, JournalOptions
from agent.stream_events import Advance, Fold, Started
from agent.streams import Streams, StreamsOptions
from cbt.budget import Budget
from cbt.memory import Memory
from cbt.options import Options
from elfstream.fleet_wire import fleet_wire
from elfstream.node import NodeCore, NodeOptions
from elfstream.notice_board import HaveSources
from elfstream.simulated.disks import DurableStores, FileDisk, KeyValueDisk
from elfstream.simulated.network import Network
from elfstream.simulated.world import WALL_START_US, Process, World
from job.plan import Plan
from job.settings import JobSpec, Settings
from master.finality import FinalityOptions
from master.finishing import finish
from master.job_events import Finish, ReadResults
from master.mastership import MastersOptions
from master.requests import (
    Answer,
    Ask,
    ChangeJob,
    FindMaster,
    ForgetAgent,
    MasterAt,
    Refusal,
    StopJob,
    SubmitJob,
)
from master.result_store import read_results
from master.root import RootOptions
from srt.automaton import Ref
from srt.directory import STORE as DIRECTORY_STORE
from srt.frame_messages import StreamId
from srt.ids import job_key
from srt.options import RingOptions
from srt.reducer import ReducerOptions
from srt.reducer_tree import ReducerTree
from srt.ring import LeaveRing, Ring
from srt.tree_messages import Kind
from tests.plans import SCHEMA, plan
from tests.sim.cut_job import PLANS, UNFIT
from tests.sim.cut_logs import Driver, Line, LogFile, Logs
from tests.sim.cut_truth import Broken
from tests.sim.job_watch import Cuts, JobWatch, check_content
from tests.sim.node_faults import NodeFaults, Shape

SECOND_US = 1_000_000
SOURCE = "access"
NAMES = ("hot", "errors", "slow")
FIRST_PLAN = plan("window(time, '4 seconds')")
FINAL_S = 40.0
"""Everything that ended is final so soon after the faults did, and drained in as much again."""


KNOWN_S = 15.0
"""All nodes know all jobs so soon after the faults ended, and all agents take part."""


@dataclass
class Machine:
    """An agent's machine: its logs outlive its crashes."""

    logs: Logs
    driver: Driver
    cuts: Cuts = field(default_factory=Cuts)
    ids: set[bytes] = field(default_factory=set)
    quiet: bool = False
    """Nothing is written any more."""


class NodeFleet(NodeFaults):
    """One seed, one run."""

    def __init__(self, seed: int, shape: Shape) -> None:
        self.seed, self.shape, self.rng = seed, shape, random.Random(seed)
        self.world = World(seed, Network(0.001, 0.004))
        self.world.wire = fleet_wire()
        self.machines: dict[str, Machine] = {}
        self.gone: set[str] = set()
        self.jobs = {job_key(name): name for name in NAMES[: shape.jobs]}
        self.watches = {key: JobWatch(key, self.all_lines) for key in self.jobs}
        self.answers: list[Any] = []
        self._asked: dict[int, Callable[[Any], None]] = {}
        self._texts: dict[Plan, str] = {}
        """What users wrote; every plan has a text of its own."""
        self.settings = Settings(
            deadline_us=3 * SECOND_US,
            delay_us=1 * SECOND_US,
            idle_us=5 * SECOND_US,
            lateness_us=12 * SECOND_US,
            expect=shape.agents,
        )
        self._token = 0
        self.world.observers.append(self._effect)
        self.world.checks.append(self._check)
        self.until_s = self.begin()
        """Logs grow until then."""

    # nodes

    def spawn(self, name: str) -> Process:
        disks: dict[str, Any] = {
            name: KeyValueDisk() for name in ("groups", "results", DIRECTORY_STORE)
        }
        if name[0] == "a":
            logs = Logs()
            logs.files[name.encode()] = LogFile()
            self.machines[name] = Machine(logs, Driver(logs, 60))
            disks["journal"] = FileDisk(JournalOptions.tiny().file_bytes)
        process = self.world.spawn(name, self._start, **disks)
        process.clock_ahead_us = self.rng.randint(-self.shape.skew_us, self.shape.skew_us)
        return process

    def _start(self, process: Process) -> NodeCore:
        name = process.address
        rng = random.Random(f"{self.seed} {name} {process.boot}")
        kind = Kind.AGENT if name in self.machines else Kind.WORKER
        ring = Ring(Ref(job_key(name), name, process.boot), ("w0", "w1", "a0"), rng, role=kind)
        finality = FinalityOptions(grace_s=3.0)
        options = NodeOptions(
            masters=MastersOptions(log_entries_max=16, root=RootOptions(finality=finality)),
            reducer=ReducerOptions(forget_after_s=10.0),
        )
        agent = self._agent(process, rng) if kind is Kind.AGENT else None
        groups, directory = process.disks["groups"], process.disks[DIRECTORY_STORE]
        assert isinstance(groups, KeyValueDisk)
        assert isinstance(directory, KeyValueDisk)
        trees = ReducerTree(ring, kind, rng)
        core = NodeCore(
            ring, trees, agent, Budget(), rng, groups.durable, options, Options.tiny(), directory.durable
        )
        if agent is not None:
            self.machines[name].driver = Driver(self.machines[name].logs, 60)
            self.machines[name].ids.add(agent.journal.journal_id)
            self.world.after(0.001, lambda: self.world.give(process, Started({})))
            self.world.after(0.002, lambda: self.world.give(process, HaveSources({SOURCE: SCHEMA})))
        return core

    def _agent(self, process: Process, rng: random.Random) -> Streams:
        disk = process.disks["journal"]
        assert isinstance(disk, FileDisk)
        name = process.address
        journal = Journal(bytes(disk.durable), name.encode().ljust(16, b"#"), JournalOptions.tiny())
        self.machines[name].cuts.look({n: cut.files for n, cut in journal.durable.items()}, afresh=True)
        options = StreamsOptions(advance_bytes_max=25, fold_bytes_max=20, settle_s=2.0)
        return Streams(
            name,
            journal,
            rng,
            lambda wanted: "no such field" if wanted == UNFIT and name == "a0" else None,
            options,
        )

    def core(self, name: str) -> NodeCore | None:
        core = self.world.processes[name].core
        assert core is None or isinstance(core, NodeCore)
        return core

    @property
    def keys(self) -> list[bytes]:
        return list(self.jobs)

    def leader_of(self, key: bytes) -> str | None:
        """The leader of the greatest epoch, if there are several for a moment."""
        leading = [
            (core.masters.group(key).log.meta.lineage, core.masters.group(key).epoch, name)
            for name in self.here()
            if (core := self.core(name)) and core.leads(key)
        ]
        return max(leading)[2] if leading else None

    def state_of(self, key: bytes) -> Any:
        """What the leader has committed."""
        leader = self.leader_of(key)
        core = None if leader is None else self.core(leader)
        return None if core is None else core.masters.root(key).committed

    # effects

    def _effect(self, process: Process, effect: Any) -> None:
        if isinstance(effect, Advance | Fold):
            self._read(process, effect)
        elif isinstance(effect, Finish):
            assert isinstance(process.core, NodeCore)
            masters = process.core.masters
            key = masters.asked_for(effect.token)
            self.watches[key].published(
                masters.group(key).log.meta.lineage, masters.root(key).committed, effect
            )
            self._later(process, lambda: finish(effect, Memory(Budget(), Options.tiny())))
        elif isinstance(effect, ReadResults):
            self._later(process, lambda: read_results(DurableStores(process.disks), effect))
        elif isinstance(effect, Answer):
            told = self._asked.pop(effect.token, None)
            if told is not None:
                told(effect.body)

    def _later(self, process: Process, work: Callable[[], Any]) -> None:
        """What threads beside the core do takes a while; a crash meanwhile loses it."""
        boot = process.boot

        def answer() -> None:
            if process.boot == boot and process.core is not None:
                self.world.give(process, work())

        self.world.after(0.002 + self.rng.random() * 0.02, answer)

    def _read(self, process: Process, ask: Advance | Fold) -> None:
        driver = self.machines[process.address].driver
        self._later(process, lambda: driver.advance(ask) if isinstance(ask, Advance) else driver.fold(ask))

    def _check(self, process: Process) -> None:
        core = process.core
        assert isinstance(core, NodeCore)
        if core.agent is not None:
            self.machines[process.address].cuts.look(
                {number: cut.files for number, cut in core.agent.journal.durable.items()}
            )
        for key, watch in self.watches.items():
            if core.leads(key):
                watch.follow(core.masters.group(key).log.meta.lineage, core.masters.root(key).committed)

    # what users do

    def _at(self, name: str, key: bytes, request: Any, done: Callable[[Any], None]) -> None:
        """Asks one node once."""
        self._token += 1
        self._asked[self._token] = done
        self.world.give(self.world.processes[name], Ask(self._token, key, request))

    def ask(self, key: bytes, request: Any) -> None:
        """As a face does: from any node to the master, again and again until there is an answer."""
        over: list[bool] = []

        def told(body: Any) -> None:
            if isinstance(body, MasterAt) and body.ref is not None and not over:
                self._at(body.ref.address, key, request, told)
            elif not over and not (isinstance(body, Refusal) and body.kind in ("busy", "elsewhere")):
                over.append(True)
                self.answers.append(body)

        def again() -> None:
            if not over:
                alive = [name for name in self.here() if self.core(name) is not None]
                if alive:
                    self._at(self.rng.choice(alive), key, FindMaster(), told)
                self.world.after(1.5, again)

        again()

    def spec(self, key: bytes, wanted: Plan, **changes: Any) -> JobSpec:
        text = self._texts.setdefault(wanted, f"plan {len(self._texts)}")
        return JobSpec(self.jobs[key], text, msgspec.structs.replace(self.settings, **changes))

    def change(self) -> None:
        """Another plan: ahead, in the past, one that an agent cannot run; sometimes two in a row or during a takeover."""
        key, rng = self.rng.choice(self.keys), self.rng
        state = self.state_of(key)
        if state is None or not state.book.revisions:
            return
        kind = rng.choice(["ahead", "ahead", "back", "unfit", "twice", "takeover"])
        for _ in range(2 if kind == "twice" else 1):
            wanted, start = UNFIT if kind == "unfit" else rng.choice(PLANS), None
            if kind == "back":
                last = max(state.book.revisions[-1].start_us, state.horizon_us)
                start = state.book.next_boundary(last, wanted)
            self.ask(key, ChangeJob(self.spec(key, wanted), wanted, 0, start))
        leader = self.leader_of(key)
        if kind == "takeover" and leader is not None:
            process = self.world.processes[leader]
            self.world.after(rng.random() * 0.1, lambda: self.down(process, 1.0 + rng.random()))

    def join_late(self) -> None:
        """A node that was not there when the jobs began; an agent begins to write when it is up."""
        name = f"{self.rng.choice('aw')}{len(self.world.processes) + 10}"
        self.spawn(name)
        if name[0] == "a":
            self.world.after(0.5, lambda: self._write_when_known(name))

    def _write_when_known(self, name: str) -> None:
        """Lines from before may be too late for windows that nobody knew to wait with."""
        if self.registered(name):
            self.write(name)
        else:
            self.world.after(0.2, lambda: self._write_when_known(name))

    def leave_for_good(self) -> None:
        """A worker goes as it is told to; an agent writes no more and goes when all it wrote is committed."""
        going = {name for name, machine in self.machines.items() if machine.quiet}
        staying = [name for name in self.here() if name not in going | {"w0", "w1", "a0"}]
        if not staying:
            return
        name = self.rng.choice(staying)
        if name in self.machines:
            self.machines[name].quiet = True
            self.world.after(0.5, lambda: self._retire(name))
        else:
            self._go(name)

    def _retire(self, name: str) -> None:
        if not all(self._all_committed(key, name) for key in self.keys):
            self.world.after(0.5, lambda: self._retire(name))
            return
        self._go(name)
        self._forget(name)

    def _go(self, name: str) -> None:
        process = self.world.processes[name]
        self.world.give(process, LeaveRing())
        self.gone.add(name)
        if process.core is not None:
            self.world.crash(process)

    def _forget(self, name: str) -> None:
        """As an operator does, who looks whether it helped: a late frame puts an agent back on the roster (F4)."""
        for key in self.keys:
            state = self.state_of(key)
            if state is None or any(state.roster.get(agent) for agent in self.machines[name].ids):
                self.ask(key, ForgetAgent(name))
        self.world.after(2.0, lambda: self._forget(name))

    def _all_committed(self, key: bytes, name: str) -> bool:
        """Whether every stream that is open has all lines of an agent, and no further plan can ask for them again."""
        state, machine = self.state_of(key), self.machines[name]
        if state is None or self.world.now < self.until_s:
            return False
        streams = [(stream, known) for stream, known in state.streams.items() if stream.agent in machine.ids]
        ends = [known.next for stream, known in streams if stream.lane == 0]
        total = sum(1 for _ in machine.logs.all_lines)
        return bool(ends) and all(
            sum(at.offset for at in machine.cuts.meaning.get(end, {}).values()) == total for end in ends
        )

    # logs

    def all_lines(self) -> list[Line]:
        return [line for machine in self.machines.values() for line in machine.logs.all_lines]

    def write(self, name: str) -> None:
        machine, rng = self.machines[name], self.rng
        if self.world.now < self.until_s and not machine.quiet:
            late = rng.random() * 4.0 if self.shape.late and rng.random() < 0.1 else 0.0
            time = WALL_START_US + int((self.world.now - late - 0.3 * rng.random()) * 1e6)
            line = Line(time, f"/{rng.randrange(4)}", rng.choice([200, 404]), rng.randrange(1000))
            machine.logs.files[name.encode()].lines.append(line)
            self.world.after(rng.random() * 0.3, lambda: self.write(name))

    def committed_lines(self, stream: StreamId, start: int, end: int) -> list[Line]:
        for name, machine in self.machines.items():
            if stream.agent in machine.ids:
                if not {start, end} <= {0, *machine.cuts.meaning}:  # it died before anybody looked
                    disk = self.world.processes[name].disks["journal"]
                    assert isinstance(disk, FileDisk)
                    found = Journal(bytes(disk.durable), stream.agent, JournalOptions.tiny())
                    machine.cuts.look({number: cut.files for number, cut in found.durable.items()})
                meaning = {0: {}, **machine.cuts.meaning}
                if start not in meaning or end not in meaning:
                    raise Broken(f"invariant 2: {start} or {end} is no cut of {stream}")
                return machine.logs.truth(meaning[start], meaning[end])
        raise Broken(f"invariant 2: nobody is {stream.agent!r}")

    # a run

    def begin(self) -> float:
        """The fleet finds itself, the jobs are made and have their first plans, all agents begin to write and take part."""
        world, shape = self.world, self.shape
        self.until_s = 60.0
        self.spawn("w0")
        world.run(RingOptions().found_after_s + 0.1)
        for letter, count in (("w", shape.workers), ("a", shape.agents)):
            for number in range(1 if letter == "w" else 0, count):
                self.spawn(f"{letter}{number}")
        world.run(world.now + 0.5)
        for key in self.keys:
            since_us = 6 * SECOND_US if shape.split else 0
            self.ask(key, SubmitJob(self.spec(key, FIRST_PLAN, since_us=since_us), FIRST_PLAN))
        for name in list(self.machines):
            self.write(name)
        self.wait(self.known, KNOWN_S, "begun")
        return world.now + shape.write_s

    def now_us(self) -> int:
        return WALL_START_US + int(self.world.now * 1e6)

    def run(self) -> None:
        """Raises Broken, or whatever a core raised."""
        world, shape, rng, start = self.world, self.shape, self.rng, self.world.now
        world.after(1.0, self.revive)
        for count, action in (
            (shape.faults, self.fault),
            (shape.plan_changes, self.change),
            (shape.newcomers, self.join_late),
            (shape.leavers, self.leave_for_good),
        ):
            for _ in range(count):
                world.at(start + rng.random() * shape.faults_until_s, action)
        for second in range(0, int(shape.write_s) + 4, 2):
            world.at(start + second, self._check_contents)
        world.run(start + max(shape.write_s, shape.faults_until_s) + 2.0)
        self.calm()
        self.wait(self.known, KNOWN_S, "known to all")
        self.wait(self.final_so_far, FINAL_S, "final")
        for key in self.keys:
            self.ask(key, StopJob(drain=True))
        self.wait(self.drained, FINAL_S, "drained")
        self._check_contents()
        for watch in self.watches.values():
            watch.check_results()

    def wait(self, done: Any, within_s: float, what: str) -> None:
        """Looks twice a second."""
        end = self.world.now + within_s
        while not done():
            if self.world.now >= end:
                raise Broken(f"not {what} within {within_s} s: {self.stuck()}")
            self.world.run(self.world.now + 0.5)

    def stuck(self) -> str:
        return "; ".join(
            f"{name}: leader {self.leader_of(key)}, open {self.watches[key].open(1 << 62)[:3]}, "
            f"streams {getattr(self.state_of(key), 'streams', None)}"
            for key, name in self.jobs.items()
        )

    def final_so_far(self) -> bool:
        limit = WALL_START_US + int((self.until_s - 6.0) * 1e6)
        return all(
            watch.revisions and self.leader_of(key) and not watch.open(limit)
            for key, watch in self.watches.items()
        )

    def drained(self) -> bool:
        """Every window is final, and what came after is in its last edition."""
        return all(
            not watch.open(1 << 62) and self.leader_of(key) and self._is_shown(key)
            for key, watch in self.watches.items()
        )

    def _is_shown(self, key: bytes) -> bool:
        state = self.state_of(key)
        return state is not None and not any(window.changed for window in state.windows.values())

    def _check_contents(self) -> None:
        for key in self.keys:
            state = self.state_of(key)
            if state is not None:
                check_content(state, self.committed_lines)

    def known(self) -> bool:
        """Everybody knows all jobs, every agent that is there takes part in them and is on their rosters."""
        cores = [core for name in self.here() if (core := self.core(name))]
        return len(cores) == len(self.here()) and all(
            {notice.name for notice in core.board.jobs()} == set(self.jobs.values())
            and (core.agent is None or core.agent.jobs.keys() >= self.jobs.keys())
            for core in cores
        ) and all(self.registered(name) for name in self.here() if name in self.machines)

    def registered(self, name: str) -> bool:
        """Whether the agent is on the rosters of all jobs."""
        states = [self.state_of(key) for key in self.keys]
        ids = self.machines[name].ids
        return all(state is not None and any(state.roster.get(agent) for agent in ids) for state in states)


def simulate(seed: int, shape: Shape) -> NodeFleet:
    """Runs a seed; what fails carries the last steps."""
    fleet = NodeFleet(seed, shape)
    try:
        fleet.run()
    except BaseException as problem:
        told = list(fleet.world.story)[-30:]
        problem.add_note(f"seed {seed}, {shape}, {fleet.world.now:.1f} s; the last steps:\n" + "\n".join(told))
        raise
    return fleet

"""Whole nodes in the simulator: ring, trees, vertices, agents, groups, roots and results, and a face that asks them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
import zstandard

from agent.journal import Journal, JournalOptions
from agent.stream_events import Advance, Fold, Started
from agent.streams import Streams, StreamsOptions
from cbt.budget import Budget
from cbt.memory import Memory
from cbt.options import Options
from cython_ext.column import Column
from elfstream.embedded import run_rows
from elfstream.node import NodeCore, NodeOptions
from elfstream.notice_board import HaveSources
from elfstream.output import json_lines
from elfstream.result import Result
from elfstream.simulated.disks import DurableStores, FileDisk, KeyValueDisk
from elfstream.simulated.network import Network
from elfstream.simulated.world import WALL_START_US, Process, World
from job.plan import Plan, Schema
from job.settings import JobSpec, Settings
from master.entries import TENTATIVE
from master.finality import FinalityOptions
from master.finishing import finish
from master.job_events import Announce, Finish, ReadResults, ResultsStored
from master.mastership import MastersOptions
from master.requests import Answer, Ask, FindMaster, MasterAt, Place, Refusal, ResultRecord, SubmitJob
from master.result_store import StoredResults, read_results
from master.results import ResultsOptions
from master.root import RootOptions
from srt.automaton import Ref
from srt.ids import job_key
from srt.options import LinkOptions
from srt.reducer import ReducerOptions
from srt.reducer_tree import ReducerTree
from srt.ring import Ring
from srt.tree_messages import Kind
from tests.plans import plan
from tests.sim.cut_logs import KINDS, Driver, Line, LogFile, Logs
from tests.sim.linked_world import LinkedWorld

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
SPEC = JobSpec("hot", "first", SETTINGS)
WRITE_S = 16.0
SMALL_LINKS = LinkOptions(
    quantum_bytes=400, job_bytes_max=1200, queued_bytes_max=4000, jobs_max=4, credit_bytes=6000,
    job_credit_bytes=1500, control_bytes_max=64 << 10, stalled_s=0.5,
)  # fmt: skip
SMALL_VERTEX = ReducerOptions(
    forget_after_s=10.0, pending_max=8, frame_bytes_max=8000, burst_bytes=600, pending_bytes_max=20_000
)
Rows = list[list[Any]]


def rows_of(record: ResultRecord) -> Rows:
    rows: Rows = msgspec.json.decode(zstandard.decompress(record.packed))
    return rows


def one_shot(wanted: Plan, lines: Sequence[Line]) -> dict[int | None, Rows]:
    """What `elfstream query` answers over these lines, by the start of the window."""
    fields = {
        one.name: Column.from_list(int(KINDS[one.name]), [getattr(line, one.name) for line in lines])
        for one in wanted.fields
    }
    answer = run_rows(wanted, [(fields, len(lines))] if lines else [])
    found = {}
    for window in answer._windows:
        part = Result(answer.columns, [window], answer.stats, "", "")
        rows = map(msgspec.json.decode, json_lines(answer.columns, part))
        found[window.start_us] = [[row[column.name] for column in answer.columns] for row in rows]
    return found


@dataclass
class Machine:
    logs: Logs
    driver: Driver


def _kept(records: Sequence[ResultRecord]) -> list[ResultRecord]:
    """Without tentative ones that others took the place of: which of these a member has left is its own affair."""
    last = {(one.start_us, one.end_us): one.edition for one in records}
    return [one for one in records if one.status != TENTATIVE or last[one.start_us, one.end_us] == one.edition]


class NodeFleet:
    """Some agents and workers around one job."""

    def __init__(self, seed: int, agents: int = 4, workers: int = 4, linked: bool = False) -> None:
        """`linked`: over links that are so slow, with queues so small, that jobs are busy and held."""
        self.seed, self.rng, self.linked = seed, random.Random(seed), linked
        self.world: World = World(seed, Network(0.001, 0.004))
        if linked:
            self.world = LinkedWorld(seed, Network(0.001, 0.004), 100_000, SMALL_LINKS)
        self.machines: dict[str, Machine] = {}
        self.plans: dict[str, Plan] = {"first": PLAN}
        """By the SQL that users gave."""
        self.spec, self.first_plan = SPEC, PLAN
        self.silence = (-1.0, -1.0)
        """When nobody writes, in seconds after the submission."""
        self.begun_s, self.first_us = 0.0, 0
        self.unfit: tuple[str, Plan] | None = None
        """An agent, and the plan that it cannot run."""
        self.seen: dict[Place, ResultRecord] = {}
        self.indexes: dict[str, int] = {}
        self.answers: list[Any] = []
        self.notices: list[Announce] = []
        self._asked: dict[int, Callable[[Any], None]] = {}
        self._token = 0
        self.world.observers.append(self._effect)
        self.names = [f"w{n}" for n in range(workers)] + [f"a{n}" for n in range(agents)]
        for name in self.names:
            self.spawn(name)

    def spawn(self, name: str) -> None:
        if name[0] == "a":
            logs = Logs()
            logs.files[name.encode()] = LogFile()
            self.machines[name] = Machine(logs, Driver(logs, 60))
        self.world.spawn(
            name,
            self._start,
            groups=KeyValueDisk(),
            results=KeyValueDisk(),
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
            masters=MastersOptions(
                log_entries_max=16,
                root=RootOptions(finality=finality),
                results=ResultsOptions(part_bytes=300),
            ),
            reducer=SMALL_VERTEX if self.linked else ReducerOptions(forget_after_s=10.0),
        )
        agent = self._agent(process, rng) if is_agent else None
        groups = process.disks["groups"]
        assert isinstance(groups, KeyValueDisk)
        trees = ReducerTree(ring, kind, rng)
        notices = process.disks["directory"]
        assert isinstance(notices, KeyValueDisk)
        sizes = Options.tiny()
        core = NodeCore(ring, trees, agent, Budget(), rng, groups.durable, options, sizes, notices.durable)
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
        return Streams(
            process.address, journal, rng, lambda wanted: self._cannot(process.address, wanted), options
        )

    def _cannot(self, name: str, wanted: Plan) -> str | None:
        return "no such field" if (name, wanted) == self.unfit else None

    # the world outside

    def _effect(self, process: Process, effect: Any) -> None:
        if isinstance(effect, Advance | Fold):
            self._read(process, effect)
        elif isinstance(effect, Finish):
            self._later(process, lambda: finish(effect, Memory(Budget(), Options.tiny())))
        elif isinstance(effect, ReadResults):
            self._later(process, lambda: read_results(DurableStores(process.disks), effect))
        elif isinstance(effect, ResultsStored):
            self._stored(process)
        elif isinstance(effect, Answer):
            told = self._asked.pop(effect.token, None)
            if told is not None:
                told(effect.body)

    def _later(self, process: Process, work: Callable[[], Any]) -> None:
        boot = process.boot

        def answer() -> None:
            if process.boot == boot and process.core is not None:
                self.world.give(process, work())

        self.world.after(0.002 + self.rng.random() * 0.02, answer)

    def _read(self, process: Process, ask: Advance | Fold) -> None:
        driver = self.machines[process.address].driver
        self._later(process, lambda: driver.advance(ask) if isinstance(ask, Advance) else driver.fold(ask))

    def reader(self, name: str) -> StoredResults:
        return StoredResults(DurableStores(self.world.processes[name].disks))

    def _stored(self, process: Process) -> None:
        """Whoever reads a member sees each (window, edition) once, in order, and the same on all members."""
        reader, known = self.reader(process.address), self.indexes.get(process.address, 0)
        for record in reader.since(KEY, known, 1000):
            assert record.index > known
            known = record.index
            assert self.seen.setdefault(record.place, record) == record, "two contents of one (window, n)"
        self.indexes[process.address] = known

    # asking

    def core(self, name: str) -> NodeCore | None:
        core = self.world.processes[name].core
        assert core is None or isinstance(core, NodeCore)
        return core

    def leader(self) -> str | None:
        leading = [name for name in self.names if (core := self.core(name)) and core.leads(KEY)]
        return leading[0] if len(leading) == 1 else None

    def at(self, name: str, request: Any, done: Callable[[Any], None]) -> None:
        """Asks one node once."""
        self._token += 1
        self._asked[self._token] = done
        self.world.give(self.world.processes[name], Ask(self._token, KEY, request))

    def ask(self, request: Any, done: Callable[[Any], None] | None = None) -> None:
        """As a face does: from any node to the master, again and again until there is an answer."""
        over: list[bool] = []
        answered = done or self.answers.append

        def told(body: Any) -> None:
            if isinstance(body, MasterAt) and body.ref is not None and not over:
                self.at(body.ref.address, request, told)
            elif not over and not (isinstance(body, Refusal) and body.kind in ("busy", "elsewhere")):
                over.append(True)
                answered(body)

        def again() -> None:
            if not over:
                alive = [name for name in self.names if self.core(name) is not None]
                self.at(self.rng.choice(alive), FindMaster(), told)
                self.world.after(1.5, again)

        again()

    def asked(self, request: Any, within_s: float = 30.0) -> Any:
        """The answer, after as much time as it takes."""
        answers: list[Any] = []
        self.ask(request, answers.append)
        self.world.run(self.world.now + within_s, lambda: bool(answers))
        assert answers, f"no answer to {type(request).__name__}"
        return answers[0]

    # logs

    def write(self, name: str) -> None:
        if self.world.now < self.begun_s + WRITE_S - 3.0:
            late_us = 3e5 if self.rng.random() < 0.95 else 4e6
            time = max(
                WALL_START_US + int(self.world.now * 1e6) - int(self.rng.random() * late_us), self.first_us
            )
            line = Line(
                time, f"/{self.rng.randrange(4)}", self.rng.choice([200, 404]), self.rng.randrange(1000)
            )
            if not self.silence[0] < self.world.now - self.begun_s < self.silence[1]:
                self.machines[name].logs.files[name.encode()].lines.append(line)
            self.world.after(self.rng.random() * 0.2, lambda: self.write(name))

    @property
    def lines(self) -> list[Line]:
        return [line for machine in self.machines.values() for line in machine.logs.all_lines]

    def window(self, start_us: int, end_us: int) -> list[Line]:
        return [line for line in self.lines if start_us <= line.time < end_us]

    # results

    def finals(self, name: str) -> dict[tuple[int | None, int | None], ResultRecord]:
        """The latest edition of each window as that node has it, if it is final."""
        records = self.reader(name).between(
            KEY, None, None, status=None, editions=False, after=None, limit=10_000
        )
        return {(one.start_us, one.end_us): one for one in records if one.status == "final"}

    def members(self) -> list[str]:
        leader = self.leader()
        core = None if leader is None else self.core(leader)
        return [] if core is None else [ref.address for ref in core.masters.group(KEY).log.members]

    def problem(self) -> str:
        """What is not as it must be at the end; empty: nothing."""
        truth = cache(lambda wanted: one_shot(wanted, self.lines))
        members = self.members()
        if len(members) < 3:
            return f"members {members}"
        for name in members:
            if self.reader(name).lacks(KEY) is not None:
                return f"{name} lacks results"
            found = self.finals(name)
            covered: set[int] = set()
            for (start, end), record in found.items():
                lines = self.window(start or 0, 1 << 62 if end is None else end)
                if rows_of(record) != truth(self.plan_of(record.plan)).get(start, []):
                    return f"{name} has other rows for the window at {start}, edition {record.edition}"
                covered |= {id(line) for line in lines}
            if len(covered) != len(self.lines):
                return f"{name}: {len(covered)} of {len(self.lines)} lines"
        histories = [_kept(self.reader(name).since(KEY, 0, 10_000)) for name in members]
        return "" if all(one == histories[0] for one in histories) else "members differ"

    def until_right(self, seconds: float) -> None:
        """Goes on until nothing is wrong any more."""
        until = self.world.now + seconds
        while self.world.now < until and self.problem():
            self.world.run(self.world.now + 1.0)
        assert self.problem() == ""

    def plan_of(self, revision: int) -> Plan:
        leader = self.leader()
        assert leader is not None
        core = self.core(leader)
        assert core is not None
        state = core.masters.root(KEY).committed
        known = [one for one in (*state.past, *state.book.revisions) if one.number == revision]
        return self.plans[state.texts[known[0].number].sql]

    # a run

    def submit(self) -> None:
        self.world.run(60.0, self._is_whole)
        view = self.asked(SubmitJob(self.spec, self.first_plan))
        assert (view.name, view.revision, view.wanted) == ("hot", 1, "running")
        assert len(view.group) == 3
        self.begun_s = self.world.now
        self.first_us = WALL_START_US + int(self.world.now * 1e6)
        for name in self.machines:
            self.world.at(self.world.now + 0.3, lambda name=name: self.write(name))

    def _is_whole(self) -> bool:
        """Whether all nodes have found each other: rings that began apart have become one."""
        cores = [self.core(name) for name in self.names]
        closest = [core.ring.neighbours(KEY, 3) for core in cores if core is not None and core.ring.active]
        return len(closest) == len(cores) and all(len(one) == 3 and one == closest[0] for one in closest)

    def run(self, until_s: float, enough: Callable[[], bool] = lambda: False) -> None:
        """Until so long after the submission."""
        self.world.run(self.begun_s + until_s, enough)

    def settle(self) -> None:
        """Faults end, and everything heals."""
        self.run(WRITE_S)
        self.world.network.heal()
        for process in self.world.processes.values():
            if process.core is None:
                self.world.boot(process)

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

    def explained(self, run: Callable[[], None]) -> None:
        """Runs; what goes wrong tells the seed and the last steps."""
        try:
            run()
        except BaseException as problem:
            problem.add_note(f"seed {self.seed}; the last steps:\n" + "\n".join(self.world.story))
            raise

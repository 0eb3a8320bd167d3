"""A fleet of small simulated daemons around some jobs: who leads, who asks, and what has to hold after each step."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.stream import PIECES_MAX
from agent.stream_job import Job
from elfstream.fleet_wire import fleet_wire
from elfstream.node import NodeCore
from elfstream.node_parts import Bounds
from elfstream.simulated.machines import Machines
from elfstream.simulated.network import Network
from elfstream.simulated.world import Process, World
from job.settings import Settings
from master.job_events import Finish, ResultsStored
from master.problems import problem_of_refusal
from master.requests import Answer, FindMaster, JobView, MasterAt, Place, Refusal, ResultRecord
from master.result_store import StoredResults
from srt.automaton import Received
from srt.directory_messages import DIRECTORY_MESSAGES
from srt.ids import job_key
from srt.ring_messages import RING_MESSAGES
from srt.tree_messages import MASTER_MESSAGES
from tests.sim.cut_logs import Line
from tests.sim.cut_truth import canonical
from tests.sim.job_watch import Broken, JobWatch
from tests.sim.log_watch import Applied, LogWatch
from tests.sim.model_machine import SOURCE, ModelMachine, bounds_of
from tests.sim.node_faults import NodeFaults, Shape

SECOND_US = 1_000_000
ASK_AGAIN_S = 1.5
ELSEWHERE = (*RING_MESSAGES, *DIRECTORY_MESSAGES, *MASTER_MESSAGES)
"""Messages that vertices and agents have nothing to do with."""
SETTINGS = Settings(
    deadline_us=3 * SECOND_US, delay_us=1 * SECOND_US, idle_us=5 * SECOND_US, lateness_us=12 * SECOND_US
)


class SmallNodes(NodeFaults):
    """Names that begin with an `a` are agents', all others workers'."""

    def __init__(
        self,
        seed: int,
        shape: Shape,
        seeds: tuple[str, ...],
        world: World | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        """`seeds` are the nodes that all others join through; what they speak over is the network of `world`."""
        self.seed, self.shape, self.rng = seed, shape, random.Random(seed)
        self.world = world or World(seed, Network(0.001, 0.004))
        self.world.wire = fleet_wire()
        bounds = bounds or bounds_of()
        self.machines = Machines(
            self.world, seed, Path("/model"), lambda *known: ModelMachine(*known, bounds, shape.keeps_logs, self._applied)
        )
        self.gone: set[str] = set()
        self.watches: dict[bytes, JobWatch] = {}
        """By job."""
        self.logs: dict[bytes, LogWatch] = defaultdict(self.log_watch)
        """By job."""
        self.seen: dict[tuple[bytes, Any, Place], ResultRecord] = {}
        """By job and lineage."""
        self.answers: list[Any] = []
        self._seeds = seeds
        self._read_to: dict[tuple[str, bytes], int] = {}
        self.world.observers.append(self._told)
        self.world.handled.append(self._check)

    # nodes

    def spawn(self, name: str) -> ModelMachine:
        sources = (SOURCE,) if name[0] == "a" else ()
        machine = self.machines.spawn(name, self._seeds, sources)
        assert isinstance(machine, ModelMachine)
        return machine

    def machine(self, name: str) -> ModelMachine:
        machine = self.machines.by_name[name]
        assert isinstance(machine, ModelMachine)
        return machine

    def core(self, name: str) -> NodeCore | None:
        """None: the node is down."""
        return self.machines.by_name[name].core

    def cores(self) -> list[NodeCore]:
        """Of all nodes that are up and did not leave for good."""
        return [core for name in self.here() if (core := self.core(name))]

    @property
    def agents(self) -> dict[str, ModelMachine]:
        """All there ever were."""
        return {name: self.machine(name) for name in self.machines.by_name if name[0] == "a"}

    def all_lines(self) -> list[Line]:
        return [line for machine in self.agents.values() for line in machine.lines]

    # jobs

    @property
    def keys(self) -> list[bytes]:
        return list(self.watches)

    def leader_of(self, key: bytes) -> str | None:
        """The leader of the greatest epoch, if there are several for a moment."""
        leading = [
            (core.masters.group(key).log.meta.lineage, core.masters.group(key).epoch, core.ref.address)
            for core in self.cores()
            if core.leads(key)
        ]
        return max(leading)[2] if leading else None

    def state_of(self, key: bytes) -> Any:
        """What the leader has committed."""
        leader = self.leader_of(key)
        core = None if leader is None else self.core(leader)
        return None if core is None else core.masters.root(key).committed

    def members_of(self, key: bytes) -> list[str]:
        """Of the job's group, as its leader has them."""
        leader = self.leader_of(key)
        core = None if leader is None else self.core(leader)
        return [] if core is None else [ref.address for ref in core.masters.group(key).log.members]

    def reader(self, name: str) -> StoredResults:
        """What is durable of the results on a node."""
        return self.machine(name).results

    # asking

    def at(self, name: str, key: bytes, request: Any, done: Callable[[Any], None]) -> None:
        """Asks one node once."""
        self.machines.put(self.machine(name), key, request, done)

    def ask_master(self, key: bytes, request: Any, done: Callable[[Any], None] | None = None) -> None:
        """As a face does: from any node to the master, again and again until there is an answer."""
        over: list[bool] = []
        answered = done or self.answers.append

        def told(body: Any) -> None:
            if isinstance(body, MasterAt) and body.ref is not None and not over:
                self.at(body.ref.address, key, request, told)
            elif not over and not (isinstance(body, Refusal) and problem_of_refusal(body).retry_s):
                over.append(True)
                answered(body)

        def again() -> None:
            if not over:
                alive = [core.ref.address for core in self.cores()]
                if alive:
                    self.at(self.rng.choice(alive), key, FindMaster(), told)
                self.world.after(ASK_AGAIN_S, again)

        again()

    # what has to hold after each step

    def log_watch(self) -> LogWatch:
        """Of a job's log; a subclass may know what the state has to say."""
        return LogWatch()

    def is_exact(self, key: bytes) -> bool:
        """Whether nothing of a job may be missing."""
        return True

    def _applied(self, entry: Applied) -> None:
        if self.logs[entry.key].applied(entry, self.is_exact(entry.key)) and entry.key in self.watches:
            self.watches[entry.key].follow(entry.lineage, entry.state)

    def _check(self, process: Process, event: Any) -> None:
        core = self.core(process.address)
        if core is None or (isinstance(event, Received) and isinstance(event.message, ELSEWHERE)):
            return
        for reducer in core.vertices.reducers.values():
            if not reducer.is_idle:
                reducer.check()
        if core.agent is not None:
            self.machine(process.address).cuts.look(core.agent.journal)
            for job in core.agent.jobs.values():
                self._check_job(job)

    def _check_job(self, job: Job) -> None:
        """Invariant 7 of the pieces; R2 and C4: what an agent was told is committed."""
        for stream in job.streams.values():
            if len(stream.pieces) > PIECES_MAX:
                raise Broken(f"invariant 7: {len(stream.pieces)} pieces of {stream.id} are not acknowledged")
        log = self.logs[job.key]
        if len(log.newest) == 1:  # what another lineage had committed may be lost
            log.check_told(job)

    def _told(self, process: Process, effect: Any) -> None:
        core = self.core(process.address)
        assert core is not None
        if isinstance(effect, Finish):
            key = core.masters.asked_for(effect.token)
            lineage = core.masters.group(key).log.meta.lineage
            tables = {number: canonical(tree) for number, tree in effect.tables.items()}
            self.logs[key].finished(lineage, effect, tables)
            self.watches[key].published(lineage, effect, tables)
        elif isinstance(effect, ResultsStored):
            self._stored(core, effect.key)
        elif isinstance(effect, Answer) and isinstance(effect.body, JobView):
            view = effect.body
            if view.state == "stopped" and not core.masters.results(job_key(view.name)).settled:
                raise Broken(f"{process.address} says stopped, and its last results are not stored")

    def _stored(self, core: NodeCore, key: bytes) -> None:
        """Whoever reads a member sees each (window, edition) once, in order, and the same on all members."""
        place, lineage = (core.ref.address, key), core.masters.group(key).log.meta.lineage
        known = self._read_to.get(place, 0)
        for record in self.reader(core.ref.address).since(key, known, 1000):
            if record.index <= known:
                raise Broken(f"invariant 3: {core.ref.address} shows {record} behind {known}")
            known = record.index
            if self.seen.setdefault((key, lineage, record.place), record) != record:
                raise Broken(f"invariant 3: readers saw two contents of {record.place}")
        self._read_to[place] = known

    # a run

    def explained(self, run: Callable[[], None]) -> None:
        """Runs; what goes wrong tells the seed and the last steps."""
        try:
            run()
        except BaseException as problem:
            told = "\n".join(list(self.world.story)[-40:])
            problem.add_note(f"seed {self.seed}, {self.shape}, {self.world.now:.1f} s; the last steps:\n{told}")
            raise

"""A whole fleet in one process under a clock that the test moves (docs/API.md, Testing a job)."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from elfstream.config.model import SourceConfig
from elfstream.fleet_wire import fleet_wire
from elfstream.simulated.fleet_job import FleetJob
from elfstream.simulated.fleet_nodes import FleetAgent, FleetNode
from elfstream.simulated.machines import Machines
from elfstream.simulated.network import Network
from elfstream.simulated.world import World
from job.times import micros_of, time_of

CLOCK = datetime(2026, 1, 1, tzinfo=UTC)
BEGIN_S = 20.0
"""Virtual seconds in which the nodes find each other, before the fleet is handed over."""
SETTLE_S = 30.0
SEEDS = 3
"""Nodes through which the others join."""


class Fleet:
    """Agents and workers with the cores, the reader of logs and the results of real nodes, in virtual time.

    >>> from elfstream.testing import Fleet
    >>> with Fleet(agents=2, format="combined") as fleet:
    ...     hits = fleet.submit("hits", "SELECT window(time, '10 seconds') AS w, count(*) AS n FROM access GROUP BY w")
    ...     line = '203.0.113.9 - - [01/Jan/2026:00:00:04 +0000] "GET / HTTP/1.1" 200 1 "-" "-"'
    ...     fleet.agents[0].write(line, line)
    ...     fleet.agents[1].write(line)
    ...     fleet.sleep(20)
    ...     [(result.status, result.rows[0].n) for result in hits.results()]
    [('final', 3)]
    """

    def __init__(
        self,
        agents: int = 1,
        workers: int = 0,
        format: str = "combined",
        *,
        sources: Mapping[str, str] | None = None,
        clock: datetime = CLOCK,
        seed: int = 0,
    ) -> None:
        """All agents have the same sources: one named `access` with that format, or those of `sources` (format by name).
        `clock` is what all clocks show at first (without a time zone: UTC). One `seed` gives one course of events.

        Takes about 40 ms of CPU for each node. Raises FormatError; ValueError for a fleet without agents."""
        if agents < 1 or workers < 0:
            raise ValueError(f"a fleet of {agents} agents and {workers} workers; there has to be an agent")
        folder = Path(tempfile.mkdtemp(prefix="elfstream-fleet-"))
        world = World(seed, wall_start_us=micros_of(clock) - int(BEGIN_S * 1e6))
        world.wire = fleet_wire()
        self._machines = Machines(world, seed, folder)
        self._finalizer = weakref.finalize(self, _remove, self._machines, folder)
        self._formats = dict(sources) if sources is not None else {"access": format}
        self.agents: list[FleetAgent] = []
        self.workers: list[FleetNode] = []
        try:
            names = [f"agent{number}" for number in range(agents)] + [f"worker{n}" for n in range(workers)]
            self._seeds = tuple(names[-SEEDS:])
            for _ in range(agents):
                self._spawn_agent()
            for _ in range(workers):
                self._spawn_worker()
            self._machines.run(BEGIN_S)
            self._settle()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it and removes its files. A fleet that nobody holds any more is closed by itself."""
        self._finalizer()

    # time

    @property
    def now(self) -> datetime:
        """What clocks show. In a line of a log: f"{fleet.now:%d/%b/%Y:%H:%M:%S %z}"."""
        return time_of(self._machines.world.wall_us)

    def sleep(self, seconds: float) -> None:
        """Lets time pass, and everything happen that happens meanwhile."""
        self._machines.run(seconds)

    # jobs

    def submit(
        self,
        name: str,
        sql: str,
        *,
        settings: Mapping[str, object] | None = None,
        parameters: Mapping[str, object] | None = None,
    ) -> FleetJob:
        """Makes a job, and waits until all agents that are up take part, some 100 ms; the same once more is no error.
        Raises ApiError as `elf.Client.submit` does."""
        job = self.job(name)
        job.submit({"sql": sql, "settings": dict(settings or {}), "parameters": dict(parameters or {})})
        return job

    def job(self, name: str) -> FleetJob:
        """The job of that name, whether it is there or not."""
        return FleetJob(self._machines, name)

    # nodes, and what happens to them

    @property
    def nodes(self) -> list[FleetNode]:
        return [*self.agents, *self.workers]

    def node(self, name: str) -> FleetNode:
        """By its name, such as `agent0`, `worker0` or `job.master`. Raises KeyError."""
        return {node.name: node for node in self.nodes}[name]

    def add_agent(self) -> FleetAgent:
        """Another agent, with the same sources; waits until all know it."""
        agent = self._spawn_agent()
        self._settle()
        return agent

    def add_worker(self) -> FleetNode:
        """Another worker; waits until all know it."""
        worker = self._spawn_worker()
        self._settle()
        return worker

    @property
    def network(self) -> Network:
        """Latency, loss and duplication of messages, to be changed at will."""
        return self._machines.network

    def cut_off(self, *nodes: FleetNode) -> None:
        """Nothing passes between these nodes and all others from now on; among themselves they speak as before."""
        away = {self._address(node) for node in nodes}
        rest = {self._address(node) for node in self.nodes} - away
        self.network.partition(away, rest)

    def heal(self) -> None:
        """All links work, and nothing is lost, doubled or astray from now on."""
        self.network.heal()

    @property
    def story(self) -> list[str]:
        """The last events, for people who wonder what happened."""
        return list(self._machines.world.story)

    # inside

    def _address(self, node: FleetNode) -> str:
        return self._machines.by_name[node.name].process.address

    def _spawn_agent(self) -> FleetAgent:
        name = f"agent{len(self.agents)}"
        logs = self._machines.logs_of(name)
        for folder in (logs, logs.parent / "state"):
            folder.mkdir(parents=True)
        for source in self._formats:
            (logs / f"{source}.log").touch()
        sources = tuple(
            SourceConfig((str(logs / f"{source}.log*"),), source, format, read_from="beginning")
            for source, format in self._formats.items()
        )
        agent = FleetAgent(self._machines, self._machines.spawn(name, self._seeds, sources))
        self.agents.append(agent)
        return agent

    def _spawn_worker(self) -> FleetNode:
        worker = FleetNode(self._machines, self._machines.spawn(f"worker{len(self.workers)}", self._seeds))
        self.workers.append(worker)
        return worker

    def _settle(self) -> None:
        """Until all nodes that can speak with each other know each other."""
        if not self._machines.wait(self._known, SETTLE_S):
            raise RuntimeError(f"the nodes do not find each other within {SETTLE_S:g} s: {self.story[-20:]}")

    def _known(self) -> bool:
        part = self._machines.main_part()
        names = {machine.config.name for machine in part}
        return all(
            (core := machine.core) is not None
            and core.ring.active
            and names <= {notice.name for notice in core.board.nodes()}
            and core.board.schemas().keys() >= self._formats.keys()
            for machine in part
        )


def _remove(machines: Machines, folder: Path) -> None:
    machines.close()
    shutil.rmtree(folder, ignore_errors=True)

"""All machines of a fleet in virtual time, and the questions of users to them, asked as faces and clients do."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from elfstream.client_errors import ApiError, UnreachableError
from elfstream.config.model import Address, NodeConfig, SourceConfig
from elfstream.simulated.machine import Machine
from elfstream.simulated.world import Process, World
from job.plan import Schema
from master.asking import PORT
from master.problems import Problem, problem_of_refusal
from master.requests import Ask, FindMaster, MasterAt, Refusal
from master.service import NodeNotice

PATIENCE_S = 15.0
"""As that of the client (elfstream/client.py)."""
ANSWER_S = 5.0
"""A node that says nothing for so long is not asked on."""
AGAIN_S = 0.25
STEP_S = 0.05
"""How often conditions are looked at that are not told."""


class Host(Address):
    """A machine by its name alone: here it has one node."""

    def __str__(self) -> str:
        return self.host


class Machines:
    """All machines of a world, by their names."""

    def __init__(
        self, world: World, seed: int, folder: Path, machine: Callable[[World, NodeConfig, int], Machine] = Machine
    ) -> None:
        """`folder` is where nodes and logs have their files; `machine` makes one."""
        self.world, self.network = world, world.network
        self.folder, self.seed = folder, seed
        self._machine = machine
        self.by_name: dict[str, Machine] = {}
        self._tokens = itertools.count(1)
        world.observers.append(self._carry)

    def spawn(self, name: str, join: tuple[str, ...], sources: tuple[SourceConfig, ...] = ()) -> Machine:
        """Starts a node. Raises FormatError."""
        listen = Host(name, PORT)
        config = NodeConfig(
            "", name, str(self.folder / name / "state"), listen=listen, advertise=listen, sources=sources,
            join=tuple(Host(seed, PORT) for seed in join),
        )  # fmt: skip
        machine = self.by_name[name] = self._machine(self.world, config, self.seed)
        return machine

    def close(self) -> None:
        for machine in self.by_name.values():
            machine.close()

    def _carry(self, process: Process, effect: Any) -> None:
        self.by_name[process.address].carry(effect)

    # who is there

    def up(self) -> list[Machine]:
        return [machine for machine in self.by_name.values() if machine.core is not None]

    def reachable(self) -> list[Machine]:
        """Those that are up, the ones with the fewest links cut first."""
        cuts = dict.fromkeys(self.by_name, 0)
        for pair in self.network.cut:
            for address in pair:
                cuts[address] += 1
        return sorted(self.up(), key=lambda machine: cuts[machine.process.address])

    def main_part(self) -> list[Machine]:
        """Those that are up and that the first of them can speak with."""
        found = self.reachable()
        return [machine for machine in found if not self._is_cut(found[0], machine)]

    def _is_cut(self, one: Machine, other: Machine) -> bool:
        ends = one.process.address, other.process.address
        return ends in self.network.cut or ends[::-1] in self.network.cut

    def notices(self) -> list[NodeNotice]:
        """The nodes, as one that is up knows them. Raises UnreachableError."""
        core = self._any().core
        assert core is not None
        return core.board.nodes()

    def schemas(self) -> dict[str, Schema]:
        """The sources that jobs may ask of, as one node that is up knows them. Raises UnreachableError."""
        core = self._any().core
        assert core is not None
        return core.board.schemas()

    def logs_of(self, name: str) -> Path:
        """Where the logs of a machine are."""
        return self.folder / name / "logs"

    def _any(self) -> Machine:
        found = self.reachable()
        if not found:
            raise UnreachableError("no node is up")
        return found[0]

    # time

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds)

    def wait(self, done: Callable[[], bool], seconds: float) -> bool:
        """Lets time pass until something is so; whether it became so in time."""
        end = self.world.now + seconds
        while not done():
            if self.world.now >= end:
                return False
            self.run(STEP_S)
        return True

    # questions

    def ask(self, key: bytes, request: Any) -> Any:
        """The answer of the job's master, found from any node. Raises ApiError, UnreachableError."""
        return self.at_master(key, lambda machine: self.ask_at(machine, key, request))

    def at_master(self, key: bytes, work: Callable[[Machine], Any]) -> Any:
        """`work` at the node that leads the job, or would; again while it is refused for the moment.

        Raises ApiError, UnreachableError."""
        end = self.world.now + PATIENCE_S
        for attempt in itertools.count():
            found = self.reachable()
            first = self._any() if not found else found[attempt % len(found)]
            try:
                return work(self._master(first, key))
            except Problem as problem:
                if not problem.retry_s or self.world.now >= end:
                    raise api_error(problem, first.config.name) from None
            self.run(AGAIN_S)
        raise AssertionError("counting ends")

    def _master(self, first: Machine, key: bytes) -> Machine:
        found: MasterAt = self.ask_at(first, key, FindMaster())
        if found.ref is None:
            raise Problem("no-master", "no node is known that could lead the job")
        machine = self.by_name[found.ref.address]
        if machine.core is None or self._is_cut(first, machine):
            raise Problem("unreachable", f"{machine.config.name} leads the job and cannot be reached")
        return machine

    def put(self, machine: Machine, key: bytes, request: Any, told: Callable[[Any], None]) -> int:
        """Asks one node, once: its token. Nobody is told when the node dies with the question."""
        token = next(self._tokens)
        machine.asked[token] = told
        self.world.give(machine.process, Ask(token, key, request))
        return token

    def ask_at(self, machine: Machine, key: bytes, request: Any) -> Any:
        """The answer of one node. Raises Problem."""
        answers = list[Any]()
        token = self.put(machine, key, request, answers.append)
        self.world.run(self.world.now + ANSWER_S, lambda: bool(answers))
        machine.asked.pop(token, None)
        if not answers:
            raise Problem("timeout", f"{machine.config.name} said nothing for {ANSWER_S:g} s")
        if isinstance(answers[0], Refusal):
            raise problem_of_refusal(answers[0])
        return answers[0]


def api_error(problem: Problem, node: str = "") -> ApiError:
    """What a client would raise."""
    return ApiError(problem.status, problem.document(node))

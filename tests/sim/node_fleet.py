"""One job over small nodes, its results read back on every member: they are what one query over the logs answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec
import zstandard

from cython_ext.column import Column
from elfstream.embedded import run_rows
from elfstream.output import json_lines
from elfstream.result import Result
from elfstream.simulated.network import Network
from job.plan import Plan
from job.settings import JobSpec
from master.entries import TENTATIVE
from master.requests import BACKFILL, DescribeJob, ResultRecord, StopJob, SubmitJob
from srt.ids import job_key
from srt.options import LinkOptions
from srt.reducer import ReducerOptions
from tests.plans import plan
from tests.sim import small_nodes
from tests.sim.cut_logs import KINDS, Line
from tests.sim.job_watch import JobWatch
from tests.sim.linked_world import LinkedWorld
from tests.sim.model_machine import bounds_of
from tests.sim.node_faults import Shape
from tests.sim.small_nodes import SECOND_US, SmallNodes

WINDOW_US = 4 * SECOND_US
KEY = job_key("hot")
PLAN = plan("window(time, '4 seconds')")
SETTINGS = msgspec.structs.replace(small_nodes.SETTINGS, expect=4)
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


def _kept(records: Sequence[ResultRecord]) -> list[ResultRecord]:
    """Without tentative ones that others took the place of: which of these a member has left is its own affair."""
    last = {(one.start_us, one.end_us): one.edition for one in records}
    return [one for one in records if one.status != TENTATIVE or last[one.start_us, one.end_us] == one.edition]


class NodeFleet(SmallNodes):
    """Some agents and workers around one job."""

    def __init__(self, seed: int, agents: int = 4, workers: int = 4, linked: bool = False) -> None:
        """`linked`: over links that are so slow, with queues so small, that jobs are busy and held."""
        names = [f"w{n}" for n in range(workers)] + [f"a{n}" for n in range(agents)]
        network, reducer = Network(0.001, 0.004), SMALL_VERTEX if linked else None
        super().__init__(
            seed,
            Shape(kinds=("crash", "crash", "pause", "network")),
            tuple(names[:3]),
            LinkedWorld(seed, network, 100_000, SMALL_LINKS) if linked else None,
            bounds_of(reducer) if reducer else None,
        )
        self.watches[KEY] = JobWatch(KEY, self.all_lines)
        self.plans: dict[str, Plan] = {"first": PLAN}
        """By the SQL that users gave."""
        self.spec, self.first_plan = SPEC, PLAN
        self.silence = (-1.0, -1.0)
        """When nobody writes, in seconds after the submission."""
        self.begun_s, self.first_us = 0.0, 0
        self.given: dict[tuple[int | None, int | None], Rows] = {}
        """Windows that were computed elsewhere, as they were given last."""
        for name in names:
            self.spawn(name)

    # the job

    def leader(self) -> str | None:
        return self.leader_of(KEY)

    def members(self) -> list[str]:
        return self.members_of(KEY)

    def ask(self, request: Any, done: Callable[[Any], None] | None = None) -> None:
        self.ask_master(KEY, request, done)

    def until_stopped(self) -> None:
        """Drains the job and looks until it says that it stopped."""
        self.asked(StopJob(drain=True))
        while (view := self.asked(DescribeJob())).state != "stopped":
            assert self.world.now < self.begun_s + 200.0, view
            self.world.run(self.world.now + 0.005)

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
            time = max(self.world.wall_us - int(self.rng.random() * late_us), self.first_us)
            line = Line(
                time, f"/{self.rng.randrange(4)}", self.rng.choice([200, 404]), self.rng.randrange(1000)
            )
            if not self.silence[0] < self.world.now - self.begun_s < self.silence[1]:
                self.machine(name).log.append(line, self.world.now)
            self.world.after(self.rng.random() * 0.2, lambda: self.write(name))

    def window(self, start_us: int, end_us: int) -> list[Line]:
        return [line for line in self.all_lines() if start_us <= line.time < end_us]

    # results

    def finals(self, name: str) -> dict[tuple[int | None, int | None], ResultRecord]:
        """The latest edition of each window as that node has it, if it is final."""
        records = self.reader(name).between(
            KEY, None, None, status=None, editions=False, after=None, limit=10_000
        )
        return {(one.start_us, one.end_us): one for one in records if one.status == "final"}

    def strays(self) -> list[str]:
        """Nodes that would send those who look for the master to another node than the one that leads."""
        leader, strays = self.leader(), []
        led_by = None if leader is None else self.core(leader)
        for core in self.cores():
            known = core.masters.leader(KEY, self.world.now)
            if known is not None and (led_by is None or known != led_by.ref):
                strays.append(core.ref.address)
        return strays

    def problem(self) -> str:
        """What is not as it must be at the end; empty: nothing."""
        truth = cache(lambda wanted: one_shot(wanted, self.all_lines()))
        members = self.members()
        if len(members) < 3:
            return f"members {members}"
        if strays := self.strays():
            return f"of who leads {strays} know something else"
        for name in members:
            if self.reader(name).lacks(KEY) is not None:
                return f"{name} lacks results"
            found = self.finals(name)
            covered: set[int] = set()
            there = {window: rows_of(record) for window, record in found.items() if record.origin == BACKFILL}
            if there != self.given:
                return f"{name} has {len(there)} windows that were given, or others than those {len(self.given)}"
            for (start, end), record in found.items():
                if record.origin == BACKFILL:
                    continue
                lines = self.window(start or 0, 1 << 62 if end is None else end)
                if rows_of(record) != truth(self.plan_of(record.plan)).get(start, []):
                    return f"{name} has other rows for the window at {start}, edition {record.edition}"
                covered |= {id(line) for line in lines}
            if len(covered) != len(self.all_lines()):
                return f"{name}: {len(covered)} of {len(self.all_lines())} lines"
        histories = [_kept(self.reader(name).since(KEY, 0, 10_000)) for name in members]
        return "" if all(one == histories[0] for one in histories) else "members differ"

    def until_right(self, seconds: float) -> None:
        """Goes on until nothing is wrong any more."""
        until = self.world.now + seconds
        while self.world.now < until and self.problem():
            self.world.run(self.world.now + 1.0)
        assert self.problem() == ""

    def plan_of(self, revision: int) -> Plan:
        state = self.state_of(KEY)
        known = [one for one in (*state.past, *state.book.revisions) if one.number == revision]
        return self.plans[state.texts[known[0].number].sql]

    # a run

    def submit(self) -> None:
        self.world.run(60.0, self._is_whole)
        view = self.asked(SubmitJob(self.spec, self.first_plan))
        assert (view.name, view.revision, view.wanted) == ("hot", 1, "running")
        assert len(view.group) == 3
        self.begun_s = self.world.now
        self.first_us = self.world.wall_us
        for name in self.agents:
            self.world.at(self.world.now + 0.3, lambda name=name: self.write(name))

    def _is_whole(self) -> bool:
        """Whether all nodes have found each other: rings that began apart have become one."""
        closest = [core.ring.neighbours(KEY, 3) for core in self.cores() if core.ring.active]
        return len(closest) == len(self.here()) and all(len(one) == 3 and one == closest[0] for one in closest)

    def run(self, until_s: float, enough: Callable[[], bool] = lambda: False) -> None:
        """Until so long after the submission."""
        self.world.run(self.begun_s + until_s, enough)

    def settle(self) -> None:
        """Faults end, and everything heals."""
        self.run(WRITE_S)
        self.calm()

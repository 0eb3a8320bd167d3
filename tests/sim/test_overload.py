"""Jobs are submitted faster than nodes can make them: those that run keep their leaders, and in the end all are made."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from elfstream.simulated.machine import Machine
from elfstream.testing import Fleet
from job.settings import JobSpec
from master.requests import Refusal, SubmitJob
from master.sql_compiler import compile_sql
from srt.ids import job_key

RUNNING, SUBMITTED = 12, 60
SERVICE_S = 0.004
"""What each event keeps a core busy for: some twenty times as long as here, and as much slower are the nodes."""
AGAIN_S = 2.0
"""As Retry-After says."""


class Flood:
    """Submits that all come within a second, and come again when they are refused, at any node first."""

    def __init__(self, fleet: Fleet, count: int) -> None:
        self.fleet, self.machines = fleet, fleet._machines
        self.world = self.machines.world
        self.refused = 0
        """As overloaded."""
        self.made: set[str] = set()
        nodes = self.machines.up()
        for number in range(count):
            name = f"further{number}"
            sql = f"SELECT count(*) AS n FROM access WHERE status = {number}"
            request = SubmitJob(JobSpec(name, sql), compile_sql(sql, self.machines.schemas(), {}))
            node = nodes[number % len(nodes)]
            self.world.after(number / count, partial(self.ask, node, name, request))

    def ask(self, node: Machine, name: str, request: SubmitJob) -> None:
        self.machines.put(
            node, job_key(name), request, lambda body: self.answered(node, name, request, body)
        )

    def answered(self, node: Machine, name: str, request: SubmitJob, body: Any) -> None:
        if not isinstance(body, Refusal):
            self.made.add(name)
            return
        assert body.kind in ("overloaded", "elsewhere", "busy"), body
        self.refused += body.kind == "overloaded"
        if body.kind == "elsewhere" and body.master is not None:
            master = self.machines.by_name[body.master.address]
            self.world.after(0.05, partial(self.ask, master, name, request))
        else:
            wait_s = AGAIN_S * self.world.rng.uniform(1.0, 1.5)
            self.world.after(wait_s, partial(self.ask, node, name, request))


class Seen:
    """What became of the jobs that ran before."""

    def __init__(self, flood: Flood, lost: set[str], seconds: float) -> None:
        self.flood, self.lost, self.seconds = flood, lost, seconds


def flooded(seconds: float) -> Seen:
    """Returns when all jobs are made, or the time is over."""
    with Fleet(agents=2, workers=1) as fleet:
        jobs = [fleet.submit(f"job{number}", "SELECT count(*) AS n FROM access") for number in range(RUNNING)]
        fleet.sleep(2)
        led = {job.name: (job.master, epoch(fleet, job.name)) for job in jobs}
        for machine in fleet._machines.up():
            machine.process.service_s = SERVICE_S
        fleet.sleep(2)
        flood, began = Flood(fleet, SUBMITTED), fleet.now
        lost: set[str] = set()
        while len(flood.made) < SUBMITTED and (fleet.now - began).total_seconds() < seconds:
            fleet.sleep(0.2)
            lost |= {name for name, (master, at) in led.items() if epoch(fleet, name) != at}
        return Seen(flood, lost, (fleet.now - began).total_seconds())


def epoch(fleet: Fleet, name: str) -> int:
    """The greatest that any node has promised: whoever stands for election counts on."""
    masters = [machine.core.masters for machine in fleet._machines.up() if machine.core is not None]
    return max(one.group(job_key(name)).epoch for one in masters)


@pytest.fixture(scope="module")
def seen() -> Seen:
    return flooded(300.0)


def test_no_job_that_runs_loses_its_leader(seen: Seen) -> None:
    assert seen.lost == set()


def test_jobs_are_refused_and_all_are_made_in_the_end(seen: Seen) -> None:
    assert seen.flood.refused > 0
    assert len(seen.flood.made) == SUBMITTED



STALLED = 100
"""Jobs of the fleet whose nodes stand still."""
SLOW_S = 0.008
STALL_S = 1.5
"""Longer than a lease."""


def led_after_stall(stopped: slice, dies: bool, seconds: float) -> tuple[int, float]:
    """How many of `STALLED` jobs have a leader in the end, and how long it took until all had one."""
    with Fleet(agents=2, workers=4) as fleet:
        for number in range(STALLED):
            fleet.submit(f"job{number}", f"SELECT count(*) AS n FROM access WHERE status = {number}")
        fleet.sleep(10)
        machines = fleet._machines
        for machine in machines.up():
            machine.process.service_s = SLOW_S
        fleet.sleep(5)
        for machine in machines.up()[stopped]:
            if dies:
                machine.crash()
            else:
                machines.world.pause(machine.process, STALL_S)
        machines.run(STALL_S + 0.5)
        keys = [job_key(f"job{number}") for number in range(STALLED)]

        def led() -> int:
            masters = [machine.core.masters for machine in machines.up() if machine.core is not None]
            return sum(any(one.leads(key) for one in masters) for key in keys)

        began_s = machines.world.now
        machines.wait(lambda: led() == STALLED, seconds)
        return led(), machines.world.now - began_s


@pytest.mark.parametrize(
    ("stopped", "dies"), [(slice(None), False), (slice(2, 3), False), (slice(2, 3), True)], ids=["all", "one", "dead"]
)
def test_slow_nodes_that_lost_many_leaders_at_once_elect_them_anew(stopped: slice, dies: bool) -> None:
    """Each question that was not answered in time was asked again, and the queues were never empty any more."""
    assert led_after_stall(stopped, dies, 40.0)[0] == STALLED


if __name__ == "__main__":
    found = flooded(300.0)
    print(f"refused {found.flood.refused}, made {len(found.flood.made)}, lost {len(found.lost)}, {found.seconds:.0f} s")

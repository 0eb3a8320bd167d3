"""A simulated fleet of whole nodes, agents and workers, around some jobs: logs that grow, users, faults, invariants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from agent.journal_format import Positions
from agent.stream_events import Release
from elfstream.simulated.world import WALL_START_US, Process
from job.plan import Plan
from job.settings import JobSpec
from master.requests import ChangeJob, ForgetAgent, StopJob, SubmitJob
from srt.frame_messages import StreamId
from srt.ids import job_key
from srt.options import RingOptions
from srt.reducer import ReducerOptions
from srt.ring import LeaveRing, RingState
from tests.plans import plan
from tests.sim.cut_job import PLANS, UNFIT
from tests.sim.cut_logs import Line, Logs
from tests.sim.job_watch import Broken, JobWatch, check_content, check_groups
from tests.sim.log_watch import LogWatch
from tests.sim.model_machine import LOG_ENTRIES_MAX, ModelMachine, bounds_of
from tests.sim.node_faults import Shape
from tests.sim.small_nodes import SECOND_US, SETTINGS, SmallNodes

PARTITIONS = (1, 2, 3, 7)
NAMES = ("hot", "errors", "slow")
FIRST_PLAN = plan("window(time, '4 seconds')")
FINAL_S = 40.0
"""Everything that ended is final so soon after the faults did, and drained in as much again."""


TIGHT = ReducerOptions(forget_after_s=10.0, pending_max=3, frame_bytes_max=2500, pending_bytes_max=7500)
"""Vertices that hold the trees of a few pieces."""
KNOWN_S = 15.0
"""All nodes know all jobs so soon after the faults ended, and all agents take part."""


class NodeFleet(SmallNodes):
    """One seed, one run."""

    def __init__(self, seed: int, shape: Shape, names: Sequence[str] = NAMES) -> None:
        """`names` are those of the jobs."""
        seeds = ("w0", "w1", "a0") if shape.workers > 1 else ("w0", "a0")
        super().__init__(seed, shape, seeds, bounds=bounds_of(TIGHT) if shape.tight else None)
        self.jobs = {job_key(name): name for name in names[: shape.jobs]}
        self.watches |= {key: JobWatch(key, self.all_lines) for key in self.jobs}
        self.exact = list(self.jobs)
        """Jobs of which nothing may be missing, whatever happens in the run."""
        self._texts: dict[Plan, str] = {}
        """What users wrote; every plan has a text of its own."""
        self.settings = msgspec.structs.replace(SETTINGS, expect=shape.agents, partitions=shape.partitions)
        self.until_s = self.begin()
        """Logs grow until then."""

    def spawn(self, name: str) -> ModelMachine:
        machine = super().spawn(name)
        machine.unfit = UNFIT if name == "a0" else None
        machine.process.clock_ahead_us = self.rng.randint(-self.shape.skew_us, self.shape.skew_us)
        return machine

    # what users do

    def ask(self, key: bytes, request: Any) -> None:
        self.ask_master(key, request)

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
            parts = {"partitions": rng.choice(PARTITIONS)} if self.shape.partitions > 1 else {}
            self.ask(key, ChangeJob(self.spec(key, wanted, **parts), wanted, 0, start))
        leader = self.leader_of(key)
        if kind == "takeover" and leader is not None:
            process = self.world.processes[leader]
            self.world.after(rng.random() * 0.1, lambda: self.down(process, 1.0 + rng.random()))

    def join_late(self) -> None:
        """A node that was not there when the jobs began; an agent begins to write when it is up."""
        name = f"{self.rng.choice('aw')}{len(self.machines.by_name) + 10}"
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
        going = {name for name, machine in self.agents.items() if machine.quiet}
        staying = [name for name in self.here() if name not in going | {"w0", "w1", "a0"}]
        if not staying:
            return
        name = self.rng.choice(staying)
        if name in self.agents:
            self.agents[name].quiet = True
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
        """Its process ends when others have what it had."""
        process, core = self.world.processes[name], self.core(name)
        if core is not None and core.ring.state is RingState.LEFT and not core.masters.needed:
            self.gone.add(name)
            self.world.crash(process)
            return
        if core is not None and core.ring.active:  # again, if it was started anew meanwhile
            self.world.give(process, LeaveRing())
        self.world.after(0.1, lambda: self._go(name))

    def _forget(self, name: str) -> None:
        """As an operator does, who looks whether it helped: a late frame puts an agent back on the roster (F4)."""
        for key in self.keys:
            state = self.state_of(key)
            if state is None or any(state.roster.get(agent) for agent in self.machine(name).ids):
                self.ask(key, ForgetAgent(name))
        self.world.after(2.0, lambda: self._forget(name))

    def _all_committed(self, key: bytes, name: str) -> bool:
        """Whether every stream that is open has all lines of an agent, and no further plan can ask for them again."""
        state, machine = self.state_of(key), self.machine(name)
        if state is None or self.world.now < self.until_s:
            return False
        streams = [(stream, known) for stream, known in state.streams.items() if stream.agent in machine.ids]
        ends = [known.next for stream, known in streams if stream.is_live]
        total = len(machine.lines)
        return bool(ends) and all(
            sum(at.offset for at in machine.cuts.meaning.get(end, {}).values()) == total for end in ends
        )

    # logs

    def write(self, name: str) -> None:
        machine, rng = self.machine(name), self.rng
        if self.world.now < self.until_s and not machine.quiet:
            late = rng.random() * 4.0 if self.shape.late and rng.random() < 0.1 else 0.0
            time = WALL_START_US + int((self.world.now - late - 0.3 * rng.random()) * 1e6)
            line = Line(time, f"/{rng.randrange(4)}", rng.choice([200, 404]), rng.randrange(1000))
            machine.log.append(line, self.world.now)
            self.world.after(rng.random() * 0.3, lambda: self.write(name))

    def committed_lines(self, stream: StreamId, start: int, end: int) -> list[Line]:
        logs, first = self.read_at(stream.agent, start)
        return logs.truth(first, self.read_at(stream.agent, end)[1])

    # what has to hold of the logs of jobs (`log_watch.Sources`)

    def log_watch(self) -> LogWatch:
        return LogWatch(self)

    def is_exact(self, key: bytes) -> bool:
        return key in self.exact

    def read_at(self, agent: bytes, cut: int) -> tuple[Logs, Positions]:
        for machine in self.agents.values():
            if agent in machine.ids:
                return machine.logs, machine.read_at(agent, cut)
        raise Broken(f"invariant 2: nobody is {agent!r}")

    def is_in_time(self) -> bool:
        return not self.shape.late

    def now_s(self) -> float:
        return self.world.now

    def _told(self, process: Process, effect: Any) -> None:
        super()._told(process, effect)
        if isinstance(effect, Release):
            self._released(self.machine(process.address), effect.files)

    def _released(self, machine: ModelMachine, before: Positions) -> None:
        """Invariant 6: what is let go of logs is committed in every stream, and no later plan may ask for it."""
        latest = max(
            (line.time for name, at in before.items() for line in machine.logs.files[name].lines[: at.offset]), default=0
        )
        for key in self.exact:
            fold = self.logs[key].fold
            if fold is None or not fold.book.revisions:
                continue
            if latest >= fold.horizon_us:
                raise Broken(f"invariant 6: lines up to {latest} were let go, and the horizon is {fold.horizon_us}")
            for stream, following in fold.needing(machine.ids):
                at = machine.read_at(stream.agent, following)
                if any(gone.offset > (at[name].offset if name in at else 0) for name, gone in before.items()):
                    raise Broken(f"invariant 6: lines behind {following} of {stream} were let go")

    def _check(self, process: Process, event: Any) -> None:
        super()._check(process, event)
        lost = self.machine(process.address).logs.lost_lines
        if lost and len(self.exact) == len(self.keys):
            raise Broken(f"invariant 6: {lost} lines of {process.address} were deleted and then asked for")

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
        for name in self.agents:
            self.write(name)
        self.wait(self.known, KNOWN_S, "begun")
        return world.now + shape.write_s

    def now_us(self) -> int:
        return WALL_START_US + int(self.world.now * 1e6)

    def run(self) -> None:
        """Raises Broken, or whatever a core raised."""
        self.play()
        for key in self.exact:
            self.watches[key].check_results()

    def play(self) -> None:
        """Until the jobs are drained."""
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
        world.run(start + max(shape.write_s, shape.faults_until_s) + 2.0)
        self.calm()
        self.wait(self.known, KNOWN_S, "known to all")
        self.wait(self.final_so_far, FINAL_S, "final")
        for key in self.keys:
            self.ask(key, StopJob(drain=True))
        self.wait(self.drained, FINAL_S, "drained")
        self.wait(self._logs_are_short, FINAL_S, "short of entries")
        self._check_contents()

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

    def _logs_are_short(self) -> bool:
        """Invariant 7: members let go of entries that their snapshots stand for."""
        members = [(key, self.core(name)) for key in self.keys for name in self.members_of(key)]
        return all(
            core is not None and len(core.masters.group(key).log.entries) <= LOG_ENTRIES_MAX + 8 for key, core in members
        )

    def _check_contents(self) -> None:
        for key in self.exact:
            state = self.state_of(key)
            if state is not None:
                check_content(state, self.committed_lines)
                check_groups(state, self.committed_lines)

    def known(self) -> bool:
        """Everybody knows all jobs, every agent that is there takes part in them and is on their rosters."""
        cores = self.cores()
        return len(cores) == len(self.here()) and all(
            {notice.name for notice in core.board.jobs()} == set(self.jobs.values())
            and (core.agent is None or core.agent.jobs.keys() >= self.jobs.keys())
            for core in cores
        ) and all(self.registered(name) for name in self.here() if name in self.agents)

    def registered(self, name: str) -> bool:
        """Whether the agent is on the rosters of all jobs."""
        states = [self.state_of(key) for key in self.keys]
        ids = self.machine(name).ids
        return all(state is not None and any(state.roster.get(agent) for agent in ids) for state in states)


def simulate(seed: int, shape: Shape) -> NodeFleet:
    """Runs a seed; what fails carries the last steps."""
    fleet = NodeFleet(seed, shape)
    fleet.explained(fleet.run)
    return fleet

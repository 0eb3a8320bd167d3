"""What goes wrong in the simulation of cuts."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from elfstream.simulated.disks import FileDisk, KeyValueDisk
from elfstream.simulated.world import Process, World
from master.group_events import Recover
from master.root import ForgetAgent
from srt.automaton import Received
from srt.frame_messages import Sync
from tests.sim.cut_job import PLANS, JobSide
from tests.sim.cut_masters import GroupNode
from tests.sim.cut_nodes import unparted
from tests.sim.single_log import lose_tail

MINUTE_US = 60_000_000


@dataclass(frozen=True)
class Shape:
    """What happens in a run; drawn from the seed by `shape_of`."""

    agents: int = 4
    write_s: float = 20.0
    """How long logs grow."""
    faults: int = 6
    faults_until_s: float = 16.0
    plan_changes: int = 2
    late: bool = True
    """Lines that are late, by less than the allowed lateness, and lines from the future."""
    future: float = 0.004
    """How many of those lines are from the future."""
    split: bool = False
    """History is read in a lane of its own."""
    recover: bool = False
    """Committed entries are lost for good, and somebody goes on without them."""
    forgetful: bool = False
    """Vertices keep few frames."""
    group: bool = False
    """A commit group of three of four machines; else a log of one member."""
    jobs: int = 1
    endless: bool = False
    """The last job has no window."""
    chunked: bool = False
    """Each run is a chunk of its own, and frames are cut small."""
    skewed: bool = False
    """Clocks differ, and jump by minutes."""
    clock_behind_s: float = 0.0
    """How far the clocks of the masters are behind."""
    slow: bool = False
    """The masters take longer for a message than the agents."""
    early: bool = False
    """There are lines before the job, and agents start one after the other: who comes too late finds windows closed."""
    quiet: bool = False
    """An agent without a line, and a file that is not written any more."""
    hopeless: bool = False
    """Lines that are later than the allowed lateness: only that they are counted is checked."""
    brief: bool = False
    """Windows are closed soon, so that the horizon moves; nobody is forgotten."""
    dying: bool = False
    """Masters crash again and again."""
    apart: bool = False
    """The leader is cut off from its group, and from nobody else, for ten seconds."""
    restless: bool = False
    """When an agent offers to begin with two lanes its leader may die with the answer, and then the agent."""
    rewritten: bool = False
    """Plans are lost with the end of the log while frames under them stray, and others take their number and their E."""
    absent: bool = False
    """The masters of the last job are away for eleven seconds, in which agents cut their logs more often than their journals
    have slots."""
    second_s: float = 0.05
    """When the second job is submitted."""
    partitions: int = 1
    """Of the first plan; with more than one, changes of plan change them, too."""


def shape_of(seed: int, **changes: Any) -> Shape:
    """What happens under a seed."""
    rng = random.Random(seed * 7919 + 1)
    drawn: dict[str, Any] = {
        "faults": rng.randint(3, 10),
        "plan_changes": rng.randint(0, 3),
        "late": rng.random() < 0.5,
        "split": rng.random() < 0.3,
        "recover": rng.random() < 0.15,
        "forgetful": rng.random() < 0.35,
        "group": rng.random() < 0.5,
        "jobs": 2 if rng.random() < 0.15 else 1,
        "endless": rng.random() < 0.2,
        "chunked": rng.random() < 0.3,
        "skewed": rng.random() < 0.3,
        "slow": rng.random() < 0.2,
        "early": rng.random() < 0.2,
        "quiet": rng.random() < 0.2,
        "hopeless": rng.random() < 0.05,
        "brief": rng.random() < 0.3,
        "dying": rng.random() < 0.1,
    }
    drawn["late"] = drawn["late"] or drawn["hopeless"]
    return Shape(**{**drawn, **changes})


class Faults:
    """The part of a fleet that breaks it."""

    world: World
    shape: Shape
    rng: random.Random
    jobs: list[JobSide]
    ended_s: float | None

    @property
    def chance(self) -> float:
        """That a master dies, per effect, when nothing special happens to it."""
        return 0.004 if self.shape.dying and self.ended_s is None else 0.0

    @property
    def masters(self) -> list[Process]:
        return [process for job in self.jobs for process in job.masters]

    def fault(self) -> None:
        rng, world = self.rng, self.world
        names = list(world.processes)
        process = world.processes[rng.choice(names)]
        kinds = ["crash", "crash", "three", "pause", "pause", "partition", "one way", "network", "effects"]
        kinds += ["root", "forget", "full", "rot", "slow"]
        if self.shape.group:
            kinds += ["members", "members", "rot master", "root", "apart", "apart"]
            kinds += ["recover"] * (2 * self.shape.recover)
        if self.shape.skewed:
            kinds += ["clock", "clock"]
        kind = rng.choice(kinds)
        seconds = 0.2 + rng.random() * 3.0
        if kind in ("crash", "three"):
            for one in rng.sample(names, 3) if kind == "three" else [process.address]:
                self.down(world.processes[one], seconds)
        elif kind == "pause":
            if process.core is not None and process.paused_until <= world.now:
                world.pause(process, seconds)
        elif kind in ("partition", "one way"):
            some = set(rng.sample(names, rng.randint(1, 4)))
            world.network.partition(some, set(names) - some, kind == "partition")
            world.after(seconds, world.network.cut.clear)
        elif kind == "network":
            world.network.loss, world.network.duplication = 0.1 * rng.random(), 0.1 * rng.random()
            world.network.straying = 0.1 * rng.random()
            world.after(seconds, self.calm_network)
        elif kind == "root":
            some_master = rng.choice(self.masters)
            some_master.crash_chance = 0.1
            world.after(seconds, lambda: setattr(some_master, "crash_chance", self.chance))
        elif kind == "effects":
            world.crash_chance = 0.01
            world.after(seconds, self.no_crashes)
        elif kind == "slow":
            process.service_s = 0.02 + rng.random() * 0.08
            world.after(seconds, lambda: setattr(process, "service_s", 0.0))
        elif kind == "full":
            process.full = True
            world.after(seconds, lambda: setattr(process, "full", False))
        else:
            self._special(kind, process, seconds)

    def _special(self, kind: str, process: Process, seconds: float) -> None:
        rng, job = self.rng, self.rng.choice(self.jobs)
        if kind == "forget" and job.state is not None and not (self.shape.late or self.shape.brief):
            agents = list(job.state.roster)
            if agents:
                job.ask(ForgetAgent(rng.choice(agents)))
        elif kind == "rot" and process.address.startswith("agent"):
            disk = process.disks["journal"]
            assert isinstance(disk, FileDisk)
            disk.rot(rng, 0, len(disk.durable) // 2)
            self.down(process, 0.1)
        elif kind == "rot master":
            self._rot_master(job, seconds)
        elif kind == "members":
            job.want(rng.sample([master.address for master in job.masters], 3))
        elif kind == "apart":
            self.cut_off_leader(job, seconds)
        elif kind == "recover":
            self._lose_majority(job)
        elif kind == "clock":
            is_master = process in self.masters
            jump = rng.randint(-5 * MINUTE_US, 0 if is_master and self.shape.late else 5 * MINUTE_US)
            skew = process.clock_ahead_us
            process.clock_ahead_us += jump
            self.world.after(seconds, lambda: setattr(process, "clock_ahead_us", skew))

    def _rot_master(self, job: JobSide, seconds: float) -> None:
        """One member, while the others are well: more would need an operator."""
        nodes = [process.core for process in job.masters]
        well = all(isinstance(node, GroupNode) and node.well for node in nodes)
        if well and job.state is not None:
            process = self.rng.choice(job.masters)
            self.down(process, seconds)
            disk = process.disks["groups"]
            assert isinstance(disk, KeyValueDisk)
            disk.rot(self.rng, job.key + self.rng.choice([b"e", b"s", b"m"]))

    def _lose_majority(self, job: JobSide) -> None:
        """All members but one are gone, and that one goes on, whatever it lacks; the others come back later."""
        members = [process for process in job.masters if process.address in job.wanted]
        survivor = self.rng.choice(members)
        node = survivor.core
        if job.recoveries >= 2 or not isinstance(node, GroupNode) or not node.well or not node.is_member:
            return
        job.recoveries += 1
        for process in job.masters:
            if process is not survivor:
                self.down(process, 4.0 + self.rng.random() * 3.0)
        self.world.after(0.3, lambda: self.world.give(survivor, Recover()))

    def down(self, process: Process, seconds: float) -> None:
        if process.core is not None:
            self.world.crash(process)
        self._boot_later(process, seconds)

    def _boot_later(self, process: Process, seconds: float) -> None:
        if "log" in process.disks and self.shape.recover:
            job = next(job for job in self.jobs if process in job.masters)
            if job.recoveries < 2 and self.rng.random() < 0.7:
                job.recoveries += 1
                lose_tail(process.disks["log"], self.rng.randint(0, 6))  # type: ignore[arg-type]
        self.world.after(seconds, lambda: self.world.boot(process) if process.core is None else None)

    def strike_opening(self, process: Process, event: Any) -> None:
        """R3: two lanes are registered and nothing of them is committed when the leader dies, and then the agent: it asks
        once more, from where it is then."""
        _, message = unparted(event.message) if isinstance(event, Received) else (0, None)
        if not isinstance(message, Sync) or process not in self.masters or self.ended_s is not None:
            return
        for request in message.requests:
            if request.split >= 0 and self.rng.random() < 0.5:
                agent = self.world.processes[request.stream.agent.rstrip(b"#").decode()]
                self.world.after(0.005 + 0.03 * self.rng.random(), lambda: self.down(process, 1.8))
                self.world.after(1.2 + 0.3 * self.rng.random(), lambda agent=agent: self.down(agent, 0.2))

    def rewrite_plan(self) -> None:
        """G4: of a log of one member."""
        job, world = self.jobs[0], self.world
        (root,) = job.masters
        if job.state is None or not job.state.book.revisions:
            return
        state = job.state
        before, own = state.index, state.book.revisions[-1].plan
        lost, kept = (PLANS[0], PLANS[2]) if own.window == PLANS[2].window else (PLANS[2], PLANS[0])
        start = state.book.next_boundary(max(state.book.revisions[-1].start_us, state.horizon_us), PLANS[0])

        def lose() -> None:
            if root.core is not None:
                world.crash(root)
                lose_tail(root.disks["log"], before=before)  # type: ignore[arg-type]
                job.recoveries += 1
                world.after(0.05, lambda: world.boot(root) if root.core is None else None)
                world.after(0.1, lambda: job.change(kept, start))
            self.calm_network()

        world.network.straying = 0.5
        job.change(lost, start)
        world.after(0.3, lose)

    def cut_off_leader(self, job: JobSide, seconds: float) -> None:
        """The other members do not hear the leader, everybody else does."""
        leader = job.leader
        if leader is not None:
            others = {process.address for process in job.masters} - {leader.address}
            self.world.network.partition({leader.address}, others)
            self.world.after(seconds, self.world.network.cut.clear)

    def leave_apart(self, seconds: float) -> None:
        """G2: work goes on meanwhile."""
        for job in self.jobs:
            self.cut_off_leader(job, seconds)
            self.world.after(seconds - 0.1, lambda job=job, before=job.commits: job.check_goes_on(before))

    def calm_network(self) -> None:
        network = self.world.network
        network.loss = network.duplication = network.straying = 0.0

    def no_crashes(self) -> None:
        self.world.crash_chance = 0.0
        for process in self.masters:
            process.crash_chance = self.chance

    def set_pace(self, processes: Iterable[Process], service_s: float) -> None:
        for process in processes:
            process.service_s = service_s

    def revive(self) -> None:
        """Whoever died by an effect comes back."""
        for process in self.world.processes.values():
            if process.core is None:
                self._boot_later(process, 0.2)
        if self.ended_s is None:
            self.world.after(0.5, self.revive)

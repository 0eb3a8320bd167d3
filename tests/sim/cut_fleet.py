"""A simulated fleet around one job or two: logs, agents, vertices, masters, faults by a seed, the invariants of cuts."""

from __future__ import annotations

import random
from typing import Any

from agent.journal import JournalOptions
from agent.stream import PIECES_MAX
from agent.stream_events import Advance, Fold, Release, Started
from agent.stream_options import StreamsOptions
from elfstream.simulated.disks import FileDisk
from elfstream.simulated.network import Network
from elfstream.simulated.world import WALL_START_US, Process, World
from master.committed_parts import WindowPublished
from master.root import DrainJob
from srt import frames
from srt.automaton import Ref
from tests.sim.cut_faults import Faults, Shape, shape_of
from tests.sim.cut_job import UNFIT, JobSide
from tests.sim.cut_logs import Driver, Line, LogFile, Logs
from tests.sim.cut_masters import GroupNode
from tests.sim.cut_nodes import AgentNode, MasterNode, NeedParent, SetParent, VertexNode
from tests.sim.cut_truth import SECOND_US, AgentBox, Broken

STEPS_MAX = 60_000
"""A run takes 3,000 to 15,000."""
FRAME_PART_BYTES = 150
"""Of frames that are cut into many parts."""
TREE_LINES_MAX = 10
"""What an agent has memory for, per stream that cannot send."""
HOPELESS_S = 15.0
"""Lines that are so late are later than any allowed lateness."""
SERVICE_S = 0.01
"""What a slow master needs for a message: more than comes in when agents catch up."""


class Fleet(Faults):
    """One seed, one run."""

    def __init__(self, seed: int, shape: Shape) -> None:
        self.seed, self.shape = seed, shape
        self.rng = random.Random(seed)
        self.world = World(seed, Network(0.001, 0.004))
        self.boxes: dict[str, AgentBox] = {}
        self.ended_s: float | None = None
        self.healed_s = 0.0
        self.world.observers.append(self._effect)
        self.world.checks.append(self._check)
        if shape.restless:
            self.world.handled.append(self.strike_opening)
        self.jobs = [JobSide(self.world, shape, self.rng, self.boxes, job) for job in range(shape.jobs)]
        for number in range(shape.agents):
            name = f"agent{number}"
            self.boxes[name] = box = self._box(number)
            disk = FileDisk(JournalOptions.tiny().file_bytes)
            if box.starts_s:
                self.world.at(box.starts_s, lambda name=name, disk=disk: self._spawn(name, disk))
            else:
                self._spawn(name, disk)
        if shape.skewed:
            for process in self.world.processes.values():
                process.clock_ahead_us = self.rng.randint(-2 * SECOND_US, 2 * SECOND_US)

        for process in self.masters:
            process.clock_ahead_us -= int(shape.clock_behind_s * 1e6)

    # agents

    def _spawn(self, name: str, disk: FileDisk) -> None:
        self.world.spawn(name, self._agent, journal=disk)

    def _box(self, number: int) -> AgentBox:
        logs, shape = Logs(), self.shape
        for file in range(2):
            logs.files[b"%d/%d" % (number, file)] = LogFile()
        box = AgentBox(logs, Driver(logs, TREE_LINES_MAX))
        if shape.skewed:
            box.skew_us = self.rng.randint(-2 * SECOND_US, 2 * SECOND_US)
        if shape.early:
            box.starts_s = 0.6 * number
            for name in logs.files:
                for back in range(8, 0, -1):
                    logs.files[name].append(self._line(box, -back, 0.0), 0.0)
        if shape.quiet:
            box.mute = number == shape.agents - 1
            box.stops = frozenset([b"0/0"])
            if box.mute:
                for file in logs.files.values():
                    file.lines.clear()
                    file.written_s.clear()
        return box

    def _agent(self, process: Process) -> AgentNode:
        box = self.boxes[process.address]
        box.driver = Driver(box.logs, TREE_LINES_MAX)
        picky = process.address == "agent0"
        node = AgentNode(
            Ref(process.address.encode().ljust(16, b"."), process.address, process.boot),
            self.shape.jobs,
            bytes(process.disks["journal"].durable),  # type: ignore[arg-type, union-attr]
            process.address.encode().ljust(16, b"#"),
            lambda wanted: "no such field" if wanted == UNFIT and picky else None,
            random.Random(self.rng.getrandbits(32)),
            StreamsOptions(advance_bytes_max=25, fold_bytes_max=20, settle_s=2.0),
        )
        box.ids.add(node.streams.journal.journal_id)
        self.world.after(0.001, lambda: self.world.give(process, Started({})))
        return node

    # effects

    def _effect(self, process: Process, effect: Any) -> None:
        if isinstance(effect, NeedParent):
            self._find_parent(process, self.jobs[effect.job])
        elif isinstance(effect, Advance | Fold):
            self._read(process, effect)
        elif isinstance(effect, WindowPublished) and isinstance(process.core, MasterNode):
            self.jobs[process.core.job].shown(effect, process.core.lineage)
            if self.chance and self.rng.random() < 0.1 and process.core.leads:
                boot = process.boot
                self.world.after(
                    self.rng.random() * 0.002,
                    lambda: self.down(process, 0.2 + self.rng.random()) if process.boot == boot else None,
                )
        elif isinstance(effect, Release) and not self.shape.recover:
            self.boxes[process.address].logs.delete_before(effect.files)

    def _find_parent(self, process: Process, job: JobSide) -> None:
        if process in job.masters:
            return
        level = 3 if process.address in self.boxes else 2 if process in job.vertices[:3] else 1
        alive = [one for one in job.parents(level) if one.core is not None]
        if not alive:
            return
        parent, boot = self.rng.choice(alive), process.boot
        assert parent.core is not None
        ref = parent.core.ref
        self.world.after(
            0.05, lambda: self.world.give(process, SetParent(ref)) if process.boot == boot else None
        )

    def _read(self, process: Process, ask: Advance | Fold) -> None:
        """Reading takes a while; a crash meanwhile loses the answer."""
        box, boot = self.boxes[process.address], process.boot
        driver = box.driver

        def answer() -> None:
            if process.boot == boot and process.core is not None:
                done = driver.advance(ask) if isinstance(ask, Advance) else driver.fold(ask)
                self.world.give(process, done)

        self.world.after(0.002 + self.rng.random() * 0.02, answer)

    # logs

    def write_lines(self) -> None:
        """Appends a line to each log now and then, until it is time to stop."""
        for box in self.boxes.values():
            if not box.mute:
                self._write(box)

    def _line(self, box: AgentBox, after_s: float, late_s: float) -> Line:
        rng = self.rng
        time = (
            WALL_START_US + int((self.world.now + after_s - late_s - 0.3 * rng.random()) * 1e6) + box.skew_us
        )
        return Line(time, f"/{rng.randrange(4)}", rng.choice([200, 404]), rng.randrange(1000))

    def _write(self, box: AgentBox) -> None:
        rng, shape, now_s = self.rng, self.shape, self.world.now
        if now_s >= shape.write_s:
            return
        going_on = [name for name, file in box.logs.files.items() if not file.finished]
        name = rng.choice([name for name in going_on if now_s < 6.0 or name not in box.stops] or going_on)
        file = box.logs.files[name]
        late_s = rng.random() * 4.0 if shape.late and rng.random() < 0.1 else 0.0
        if shape.hopeless and rng.random() < 0.02:
            late_s = HOPELESS_S + rng.random() * 20.0
        line = self._line(box, 0.0, late_s)
        if shape.late and not shape.brief and rng.random() < shape.future:
            line = line._replace(time=line.time + 600 * SECOND_US)
        elif late_s >= HOPELESS_S:
            box.hopeless.add(line)
        file.append(line, now_s)
        if rng.random() < 0.03 and name not in box.stops:
            file.finished = True
            number = len(box.logs.files)
            box.logs.files[name.split(b"/")[0] + b"/%d" % number] = LogFile()
        self.world.after(rng.random() * 0.3, lambda: self._write(box))

    # a run

    def run(self) -> None:
        """Raises Broken, or whatever a core raised."""
        world, shape, rng = self.world, self.shape, self.rng
        world.at(0.3, self.write_lines)
        world.at(1.0, self.revive)
        for _ in range(shape.faults):
            begin_s = 0.2 if shape.split else 2.0  # lanes are opened in the first second
            world.at(begin_s + rng.random() * (shape.faults_until_s - begin_s), self.fault)
        for _ in range(shape.plan_changes):
            world.at(3.0 + rng.random() * (shape.faults_until_s - 3.0), self.some_change)
        world.at(2.0, self.no_crashes)
        if shape.slow:
            world.at(2.0, lambda: self.set_pace(self.masters, SERVICE_S))
        if shape.absent:
            world.at(4.0, lambda: [world.pause(process, 11.0) for process in self.jobs[-1].masters])
        if shape.rewritten:
            for number in range(4):
                world.at(5.0 + 3.0 * number, self.rewrite_plan)
        if shape.apart:
            world.at(6.0, lambda: self.leave_apart(10.0))
        world.run(max(shape.write_s, shape.faults_until_s + 3.5))
        self.calm()
        self._wait(25.0, "not final within 25 s once faults had stopped", JobSide.all_final_that_are_due)
        self.healed_s = world.now - (self.ended_s or 0.0)
        self.drain()
        self._wait(10.0, "not drained within 10 s", JobSide.drained)
        for job in self.jobs:
            job.check_results()

    def _wait(self, seconds: float, problem: str, done: Any) -> None:
        self.world.run(self.world.now + seconds, lambda: all(done(job) for job in self.jobs))
        for job in self.jobs:
            if not done(job):
                raise Broken(f"{problem}: {job.open_windows()}")

    def some_change(self) -> None:
        """Somebody wants another plan; now and then the leader dies with it."""
        job, rng = self.rng.choice(self.jobs), self.rng
        job.some_change()
        leader = job.leader
        if leader is not None and rng.random() < 0.3:
            self.world.after(rng.random() * 0.01, lambda: self.down(leader, 0.2 + rng.random()))

    def drain(self) -> None:
        """Asked again and again: a leader may go with the request."""
        for job in self.jobs:
            if job.state is None or not job.state.draining:
                job.ask(DrainJob())
        self.world.after(1.0, self.drain)

    def calm(self) -> None:
        self.ended_s = self.world.now
        self.world.network.heal()
        self.no_crashes()
        self.set_pace(self.world.processes.values(), 0.0)
        for process in self.world.processes.values():
            process.full = False
            if process.core is None:
                self._boot_later(process, 0.1)

    # checks

    def _check(self, process: Process) -> None:
        if self.world.steps > STEPS_MAX:
            raise Broken(f"it goes round in circles: {STEPS_MAX} steps")
        core = process.core
        if isinstance(core, VertexNode | GroupNode):
            core.vertices.check()
        if isinstance(core, AgentNode):
            self._check_agent(process, core)

    def _check_agent(self, process: Process, core: AgentNode) -> None:
        streams = core.streams
        fresh = streams.journal.durable.keys() - core.checked
        if fresh:
            streams.journal.check()
            self.boxes[process.address].learn(streams.journal.durable, fresh)
            core.checked |= fresh
        for side in self.jobs:
            job = streams.jobs.get(side.key)
            if job is None:
                continue
            side.check_told(job)
            pieces = [len(stream.pieces) for stream in job.streams.values()]
            if max(pieces, default=0) > PIECES_MAX:
                raise Broken(f"invariant 7: {max(pieces)} pieces of a stream are not acknowledged")


def simulate(seed: int, **changes: Any) -> Fleet:
    """Runs a seed; what fails carries the last steps."""
    fleet = Fleet(seed, shape_of(seed, **changes))
    part_bytes = frames.PART_BYTES
    try:
        if fleet.shape.chunked:
            frames.PART_BYTES = FRAME_PART_BYTES
        fleet.run()
    except BaseException as problem:
        problem.add_note(
            f"seed {seed}, {fleet.shape}; the last steps:\n" + "\n".join(list(fleet.world.story)[-40:])
        )
        raise
    finally:
        frames.PART_BYTES = part_bytes
    return fleet

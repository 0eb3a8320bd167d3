"""A simulated fleet around one job: growing logs, agents, vertices, a root; faults by a seed; the invariants of cuts."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from agent.journal import Journal, JournalOptions
from agent.journal_format import Positions
from agent.stream_events import Advance, Fold, Release, Started
from agent.streams import StreamsOptions
from cbt.node import HASH_END
from cbt.tree import Tree
from job.plan import Plan
from job.plan_book import PlanBook, Revision
from job.settings import Settings
from job.window import window_starts
from master.committed import Committed, WindowPublished
from master.entries import FINAL, WITHDRAWN
from master.finality import FinalityOptions
from master.root import ChangePlan, DrainJob, PlanAnswer, PlanFailed, RootOptions
from srt.automaton import Ref
from srt.frame_messages import StreamId
from srt.reducer import ReducerOptions
from tests.plans import plan
from tests.sim.cut_faults import Faults, Shape, shape_of
from tests.sim.cut_logs import Driver, Line, LogFile, Logs, pane_states
from tests.sim.cut_nodes import AgentNode, NeedParent, Node, RootNode, SetParent, VertexNode
from tests.sim.disk import FileDisk, KeyValueDisk
from tests.sim.network import Network
from tests.sim.single_log import SingleLog
from tests.sim.world import WALL_START_US, Process, World

SECOND_US = 1_000_000
STEPS_MAX = 60_000
"""A run takes about 4,000."""
PLANS = [
    plan("window(time, '4 seconds')"),
    plan("window(time, '4 seconds')", "status"),
    plan("window(time, '6 seconds', '2 seconds')"),
    plan("window(time, '4 seconds')", having="count(*) > 1"),
]
UNFIT = plan("window(time, '4 seconds')", "bytes")
"""A plan that some agent cannot run."""


class Broken(AssertionError):  # noqa: N818
    """An invariant of the cut protocol does not hold."""


@dataclass
class AgentBox:
    """An agent's machine: its logs outlive its crashes."""

    logs: Logs
    driver: Driver
    cuts: dict[int, Positions] = field(default_factory=dict)
    """What each durable cut ever meant."""
    ids: set[bytes] = field(default_factory=set)


class Fleet(Faults):
    """One seed, one run."""

    def __init__(self, seed: int, shape: Shape) -> None:
        self.seed, self.shape = seed, shape
        self.rng = random.Random(seed)
        self.world = World(seed, Network(0.001, 0.004))
        self.boxes: dict[str, AgentBox] = {}
        self.published: dict[tuple[int, int], dict[int, tuple[str, Any, dict[int, bytes]]]] = defaultdict(
            dict
        )
        self.revisions: dict[int, Revision] = {}
        self.answers: list[PlanAnswer | PlanFailed] = []
        self.commits = 0
        self.ended_s: float | None = None
        self.histories = 1
        self._token = 0
        self.world.observers.append(self._effect)
        self.world.checks.append(self._check)
        self.root = self.world.spawn("root", self._root, log=KeyValueDisk())
        for number in range(5):
            self.world.spawn(f"vertex{number}", self._vertex)
        for number in range(shape.agents):
            self._agent_box(number)
            self.world.spawn(
                f"agent{number}", self._agent, journal=FileDisk(JournalOptions.tiny().file_bytes)
            )
        self.world.at(0.05, self._first_plan)

    # processes

    def _ref(self, process: Process) -> Ref:
        return Ref(process.address.encode().ljust(16, b"."), process.address, process.boot)

    def _root(self, process: Process) -> Node:
        options = RootOptions(
            finality=FinalityOptions(grace_s=3.0)
        )
        log = SingleLog(process.disks["log"], process.boot)  # type: ignore[arg-type]
        return RootNode(self._ref(process), log, options, self._committed)

    def _vertex(self, process: Process) -> Node:
        forgetful = ReducerOptions(pending_max=3, forget_after_s=10.0)
        return VertexNode(
            self._ref(process), forgetful if self.shape.forgetful else ReducerOptions(forget_after_s=10.0)
        )

    def _agent_box(self, number: int) -> None:
        logs = Logs()
        for file in range(2):
            logs.files[b"%d/%d" % (number, file)] = LogFile()
        self.boxes[f"agent{number}"] = AgentBox(logs, Driver(logs, 60))

    def _agent(self, process: Process) -> Node:
        box = self.boxes[process.address]
        box.driver = Driver(box.logs, 60)
        number = int(process.address.removeprefix("agent"))
        node = AgentNode(
            self._ref(process),
            process.address,
            bytes(process.disks["journal"].durable),  # type: ignore[arg-type, union-attr]
            process.address.encode().ljust(16, b"#"),
            lambda wanted: "no such field" if wanted == UNFIT and number == 0 else None,
            random.Random(self.rng.getrandbits(32)),
            StreamsOptions(advance_bytes_max=25, fold_bytes_max=20, settle_s=2.0),
        )
        box.ids.add(node.streams.journal.journal_id)
        self.world.after(0.001, lambda: self.world.give(process, Started({})))
        return node

    # effects

    def _effect(self, process: Process, effect: Any) -> None:
        if isinstance(effect, NeedParent):
            self._find_parent(process)
        elif isinstance(effect, Advance | Fold):
            self._read(process, effect)
        elif isinstance(effect, Release):
            if not self.shape.recover:
                self.boxes[process.address].logs.delete_before(effect.files)
        elif isinstance(effect, PlanAnswer | PlanFailed):
            self.answers.append(effect)

    def _find_parent(self, process: Process) -> None:
        level = {"a": 3, "v": 2 if process.address in ("vertex0", "vertex1", "vertex2") else 1}.get(
            process.address[0]
        )
        choices = {3: ["vertex0", "vertex1", "vertex2"], 2: ["vertex3", "vertex4", "root"], 1: ["root"]}
        if level is None:
            return
        up = [self.world.processes[name] for name in choices[level]]
        alive = [one for one in up if one.core is not None]
        if not alive:
            return
        parent = self.rng.choice(alive)
        boot, ref = process.boot, parent.core.ref if parent.core is not None else None
        assert ref is not None
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

    # what users do

    def _now_us(self) -> int:
        return WALL_START_US + int(self.world.now * 1e6)

    @property
    def settings(self) -> Settings:
        return Settings(
            emit_us=SECOND_US // 2,
            deadline_us=3 * SECOND_US,
            delay_us=1 * SECOND_US,
            idle_us=5 * SECOND_US,
            lateness_us=12 * SECOND_US,
            since_us=int(self.shape.split and self._token == 1),
            expect=self.shape.agents,
        )

    def change(self, wanted: Plan, start_us: int | None) -> None:
        self._token += 1
        self.world.give(self.root, ChangePlan(self._token, wanted, start_us, self.settings))

    def _first_plan(self) -> None:
        self.change(
            self.rng.choice([PLANS[0], PLANS[2]]), (WALL_START_US // (4 * SECOND_US) - 1) * 4 * SECOND_US
        )

    @property
    def state(self) -> Committed | None:
        core = self.root.core
        return core.root.committed if isinstance(core, RootNode) and core.root.leading else None

    def some_change(self) -> None:
        state = self.state
        if state is None or not state.book.revisions:
            return
        kind = self.rng.choice(["ahead", "ahead", "back", "unfit"])
        wanted = UNFIT if kind == "unfit" else self.rng.choice(PLANS)
        start = None
        if kind == "back":
            last = state.book.revisions[-1].start_us
            start = state.book.next_boundary(max(last, state.horizon_us), wanted)
        self.change(wanted, start)

    # logs

    def write_lines(self) -> None:
        """Appends a line to each log now and then, until it is time to stop."""
        for box in self.boxes.values():
            self._write(box)

    def _write(self, box: AgentBox) -> None:
        rng = self.rng
        if self.world.now < self.shape.write_s:
            name = rng.choice([name for name, file in box.logs.files.items() if not file.finished])
            file = box.logs.files[name]
            late = 0.0
            if self.shape.late and rng.random() < 0.1:
                late = rng.random() * 4.0
            jitter = 0.3 * rng.random()
            time = self._now_us() - int((late + jitter) * 1e6)
            if self.shape.late and rng.random() < 0.004:
                time += 600 * SECOND_US
            file.lines.append(Line(time, f"/{rng.randrange(4)}", rng.choice([200, 404]), rng.randrange(1000)))
            if rng.random() < 0.03:
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
            world.at(2.0 + rng.random() * (shape.faults_until_s - 2.0), self.fault)
        for _ in range(shape.plan_changes):
            world.at(3.0 + rng.random() * (shape.faults_until_s - 3.0), self.some_change)
        world.run(max(shape.write_s, shape.faults_until_s + 3.5))
        self.calm()
        world.run(world.now + 25.0, self.all_final_that_are_due)
        if not self.all_final_that_are_due():
            raise Broken(f"not final within 25 s once faults had stopped: {self.open_windows()}")
        world.give(self.root, DrainJob())
        world.run(world.now + 10.0, self.drained)
        if not self.drained():
            raise Broken(f"not drained within 10 s: {self.open_windows()}")
        assert self.state is not None
        self._check_content(self.state)
        self.check_results()

    def calm(self) -> None:
        self.ended_s = self.world.now
        self.world.network.heal()
        self.no_crashes()
        for process in self.world.processes.values():
            process.full = False
            if process.core is None:
                self._boot_later(process, 0.1)

    def all_final_that_are_due(self) -> bool:
        """Every window that ended 6 s before the logs did; the horizon may have passed it."""
        state = self.state
        if state is None or not state.roster:
            return False
        limit = WALL_START_US + int((self.shape.write_s - 6.0) * 1e6)
        wanted = {key for key in self.truth_windows() if key[1] <= limit}
        return all(self.final_now(key) for key in wanted) and all(
            not window.changed for key, window in state.windows.items() if key[1] <= limit
        )

    def drained(self) -> bool:
        state = self.state
        return (
            state is not None
            and state.draining
            and all(window.status == FINAL and not window.changed for window in state.windows.values())
            and all(self.final_now(key) for key in self.truth_windows())
        )

    def final_now(self, key: tuple[int, int]) -> bool:
        return key in self.published and self.latest(key)[0] == FINAL

    def latest(self, key: tuple[int, int]) -> tuple[str, Any, dict[int, bytes]]:
        """What readers saw last of a window."""
        return list(self.published[key].values())[-1]

    def open_windows(self) -> str:
        state = self.state
        if state is None:
            return "no leader"
        waiting = {
            key: window for key, window in state.windows.items() if window.changed or window.status != FINAL
        }
        absent = [key for key in self.truth_windows() if not self.final_now(key)]
        return (
            f"{len(waiting)} open {list(waiting.items())[:3]}, absent {absent[:3]}, streams {state.streams}"
        )

    # truth

    def full_book(self) -> PlanBook:
        return PlanBook(0, tuple(self.revisions[number] for number in sorted(self.revisions)))

    def truth_windows(self) -> set[tuple[int, int]]:
        book = self.full_book()
        found = set()
        times = {line.time for box in self.boxes.values() for line in box.logs.all_lines}
        for revision in book.revisions:
            panes = {time - time % revision.pane_us for time in times}
            for start in window_starts(panes, revision.size_us, revision.slide_us):
                if book.owns(revision.number, start):
                    found.add((start, start + revision.size_us))
        return found

    def truth_of(self, owner: Revision, key: tuple[int, int]) -> list[bytes]:
        lines = [
            line for box in self.boxes.values() for line in box.logs.all_lines if key[0] <= line.time < key[1]
        ]
        trees: list[Tree] = []
        for state in pane_states(owner.plan, lines).values():
            for number, tree in enumerate([state.groups, *state.pairs]):
                if number == len(trees):
                    trees.append(Tree(tree.key_kinds, tree.state_kinds))
                trees[number].merge(tree)
        return [canonical(tree) for tree in trees]

    # checks

    def _seen(self, window: WindowPublished, state: Committed) -> None:
        key = (window.start_us, window.end_us)
        revision = window.revision
        closed = revision is not None and state.book.revision(revision.number) is None
        if revision is not None and not closed and not state.book.owns(revision.number, key[0]):
            raise Broken(
                f"invariant 5: window {key} comes from revision {revision.number}, which does not own it"
            )
        content = (
            window.status,
            None if revision is None else revision.number,
            {number: canonical(tree) for number, tree in window.tables.items()},
        )
        known = self.published[key].pop(window.edition, content)
        self.published[key][window.edition] = content  # the one seen last is last: a recovery counts anew
        if known != content and self.histories == 1:
            raise Broken(f"invariant 3: edition {window.edition} of {key} has two contents")
        if len(self.published[key]) != max(self.published[key]) and self.histories == 1:
            raise Broken(f"invariant 3: {key} has the editions {sorted(self.published[key])}")
        if window.status == FINAL and not self.shape.late and revision is not None and self.histories == 1:
            self._check_complete(state, revision, key, content[2])

    def _check_complete(
        self, state: Committed, revision: Revision, key: tuple[int, int], tables: dict[int, bytes]
    ) -> None:
        """Invariant 4, where no line is late: the first final has all lines, and so has every one after it."""
        if not all(state.roster.values()) or len(state.roster) < self.shape.agents:
            return
        wanted = {number: data for number, data in enumerate(self.truth_of(revision, key)) if data}
        if {number: data for number, data in tables.items() if data} != wanted:
            raise Broken(f"invariant 4: {key} was final before its lines were in")

    def _committed(self, state: Committed, effects: list[Any]) -> None:
        """Right after an entry was applied, also once more after a start."""
        self.commits += 1
        for revision in state.book.revisions:
            self.revisions[revision.number] = revision
        for number in [
            number
            for number in self.revisions
            if number > max((one.number for one in state.book.revisions), default=0)
        ]:
            del self.revisions[number]  # lost with the end of the log
        for effect in effects:
            if isinstance(effect, WindowPublished):
                self._seen(effect, state)
        if self.commits % 10 == 0:
            self._check_content(state)

    def _check(self, process: Process) -> None:
        if self.world.steps > STEPS_MAX:
            raise Broken(f"it goes round in circles: {STEPS_MAX} steps")
        core = process.core
        if isinstance(core, VertexNode):
            core.reducer.check()
        elif isinstance(core, AgentNode):
            journal = core.streams.journal
            fresh = journal.durable.keys() - core.checked
            if fresh:
                journal.check()
                self._check_cuts(
                    self.boxes[process.address], {number: journal.durable[number].files for number in fresh}
                )
                core.checked |= fresh

    def _check_cuts(self, box: AgentBox, cuts: dict[int, Positions]) -> None:
        """A1: a number that was ever proposed or sent means one place for ever."""
        for number, files in cuts.items():
            if box.cuts.setdefault(number, files) != files:
                raise Broken(f"A1: cut {number} means two places")

    def _check_content(self, state: Committed) -> None:
        """Invariants 1 and 2: what is committed of a pane is the fold of each log over (start, next]."""
        lost = any(box.logs.lost_lines for box in self.boxes.values())
        for feed in state.book.feeds:
            counts: Counter[int] = Counter()
            revision = state.book.fed_by(feed)[0]
            for stream, known in state.streams.items():
                if stream.revision == feed:
                    for line in self._committed_lines(stream, known.start, known.next):
                        counts[line.time - line.time % revision.pane_us] += 1
            for pane, lines in counts.items():
                kept = state.book.keeps(feed, pane) and pane >= state.horizon_us
                have = state.content.lines.get((feed, pane), 0)
                if kept and have != lines and not lost:
                    raise Broken(
                        f"invariant 1: pane {pane} of feed {feed} has {have} lines, the logs {lines}"
                    )
            for (number, pane), have in state.content.lines.items():
                if number == feed and have and not counts[pane] and not lost:
                    raise Broken(f"invariant 1: pane {pane} of feed {feed} has {have} lines, the logs none")
        if lost and not self.shape.recover:
            raise Broken("invariant 6: lines were deleted and then asked for")

    def _committed_lines(self, stream: StreamId, start: int, end: int) -> list[Line]:
        for box in self.boxes.values():
            if stream.agent in box.ids:
                if not {start, end} <= {0, *box.cuts}:  # it died before anybody looked
                    disk = self.world.processes[stream.agent.rstrip(b"#").decode()].disks["journal"]
                    found = Journal(bytes(disk.durable), stream.agent, JournalOptions.tiny())  # type: ignore[arg-type]
                    self._check_cuts(box, {number: cut.files for number, cut in found.durable.items()})
                for number in (start, end):
                    if number and number not in box.cuts:
                        raise Broken(f"invariant 2: {number} is no cut of {stream}")
                return box.logs.truth(box.cuts.get(start, {}), box.cuts.get(end, {}))
        raise Broken(f"invariant 2: nobody is {stream.agent!r}")

    def check_results(self) -> None:
        """The last edition of every window is the undisturbed fold of the logs, to the bit."""
        book = self.full_book()
        truth = self.truth_windows()
        for key in truth:
            owner = book.owner(key[0])
            assert owner is not None
            status, number, tables = self.latest(key)
            if status != FINAL or number is None:
                raise Broken(f"{key} is {status}")
            for table, data in enumerate(self.truth_of(owner, key)):
                if tables.get(table, b"") != data:
                    raise Broken(
                        f"the final of {key} by revision {number} is not the fold of the logs (table {table})"
                    )
        for key in self.published:
            status, _, tables = self.latest(key)
            if key not in truth and status != WITHDRAWN and any(tables.values()):
                raise Broken(f"{key} was published, and no plan has it")
        state = self.state
        assert state is not None
        if state.counts.late:
            raise Broken(f"{state.counts.late} lines were dropped as late")


def canonical(tree: Tree) -> bytes:
    return tree.merger(0, HASH_END).next_block(1 << 30) or b""


def simulate(seed: int, **changes: Any) -> Fleet:
    """Runs a seed; what fails carries the last steps."""
    fleet = Fleet(seed, shape_of(seed, **changes))
    try:
        fleet.run()
    except BaseException as problem:
        problem.add_note(
            f"seed {seed}, {fleet.shape}; the last steps:\n" + "\n".join(list(fleet.world.story)[-40:])
        )
        raise
    return fleet

"""One job of a simulated fleet: its masters and vertices, what readers saw of it, and what must hold of it."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agent.journal import Journal, JournalOptions
from agent.stream_job import Job
from elfstream.simulated.disks import KeyValueDisk
from elfstream.simulated.world import WALL_START_US, Process, World
from job.plan import Plan
from job.plan_book import ALWAYS, NEVER_US, PlanBook, Revision
from job.settings import Settings
from master.committed import Committed
from master.committed_parts import WindowPublished
from master.entries import FINAL, WITHDRAWN
from master.finality import FinalityOptions
from master.group_events import Committed as LogCommitted
from master.group_messages import Lineage
from master.root import ChangePlan, RootOptions
from srt.automaton import Ref
from srt.frame_messages import StreamId
from srt.reducer import ReducerOptions
from tests.plans import plan
from tests.sim.cut_logs import Line
from tests.sim.cut_masters import LOG_ENTRIES_MAX, GroupNode, Neighbours
from tests.sim.cut_nodes import JOBS, SECOND, MasterNode, Node, RootNode, VertexNode
from tests.sim.cut_truth import (
    TIMING,
    AgentBox,
    Broken,
    WindowKey,
    canonical,
    reached,
    window_rows,
    windows_of,
)
from tests.sim.job_watch import check_groups
from tests.sim.single_log import SingleLog

if TYPE_CHECKING:
    from tests.sim.cut_faults import Shape

SECOND_US = 1_000_000
PARTITIONS = (1, 2, 3, 7)
GRACE_S = 3.0
BRIEF_US = 6 * SECOND_US
"""The allowed lateness where windows are closed soon."""
FRAME_BYTES_MAX = 2500
"""Of vertices that cut their frames small: the trees of a few pieces."""
PLANS = [
    plan("window(time, '4 seconds')"),
    plan("window(time, '4 seconds')", "status"),
    plan("window(time, '6 seconds', '2 seconds')"),
    plan("window(time, '4 seconds')", having="count(*) > 1"),
]
ENDLESS = plan("")
Content = tuple[str, int | None, dict[int, bytes]]
"""Status, revision and rows of a window."""
UNFIT = plan("window(time, '4 seconds')", "bytes")
"""A plan that some agent cannot run."""


class JobSide:
    """A job of the fleet around `world`."""

    def __init__(
        self, world: World, shape: Shape, rng: random.Random, boxes: dict[str, AgentBox], number: int
    ) -> None:
        self.world, self.shape, self.rng, self.boxes = world, shape, rng, boxes
        self.number, self.key = number, JOBS[number]
        self.endless = shape.endless and number == shape.jobs - 1
        self.published: dict[WindowKey, dict[tuple[Lineage, int], Content]] = defaultdict(dict)
        self.revisions: dict[int, Revision] = {}
        self.lost: dict[int, Lineage] = {}
        """Plans that are in no log any more: the lineage that began without them, by number."""
        self.log: dict[tuple[Lineage, int], bytes] = {}
        """What was committed, as any member ever saw it."""
        self.books: dict[int, PlanBook] = {}
        """By version, as they were committed."""
        self.reached: dict[StreamId, int] = {}
        """The greatest `next` that was committed."""
        self.recoveries = 0
        self.came_us: dict[bytes, int] = {}
        """By agent: the horizon when it registered. Nobody waited for it with what starts earlier (F4)."""
        self.lags_s: dict[WindowKey, float] = {}
        """How long after its end each window was final."""
        self.neighbours = Neighbours()
        self.wanted: list[str] = []
        self._token = 0
        self._led_s: float | None = None
        prefix = SECOND if number else ""
        if shape.group:
            names = [f"{prefix}master{one}" for one in range(4)]
            self.masters = [world.spawn(name, self._group_node, groups=KeyValueDisk()) for name in names]
            self.want(names[:3])
        else:
            self.masters = [world.spawn(f"{prefix}root", self._root_node, log=KeyValueDisk())]
        self.vertices = [world.spawn(f"{prefix}vertex{one}", self._vertex) for one in range(5)]
        world.at(shape.second_s if number else 0.05, self._first_plan)

    # processes

    def ref(self, process: Process) -> Ref:
        return Ref(process.address.encode().ljust(16, b"."), process.address, process.boot)

    @property
    def reducer_options(self) -> ReducerOptions:
        shape = self.shape
        return ReducerOptions(
            forget_after_s=10.0,
            pending_max=3 if shape.forgetful else 1024,
            frame_bytes_max=FRAME_BYTES_MAX if shape.chunked else 64 << 20,
            pending_bytes_max=3 * FRAME_BYTES_MAX if shape.chunked else 128 << 20,
        )

    @property
    def root_options(self) -> RootOptions:
        finality = FinalityOptions(grace_s=GRACE_S)
        return RootOptions(finality=finality)

    def _root_node(self, process: Process) -> Node:
        log = SingleLog(process.disks["log"], process.boot)  # type: ignore[arg-type]
        return RootNode(self.ref(process), log, self.root_options, self._committed)

    def _group_node(self, process: Process) -> Node:
        disk = process.disks["groups"]
        assert isinstance(disk, KeyValueDisk)
        rng = random.Random(f"{self.world.seed} {process.address} {process.boot}")
        first = process.address.endswith("master0")
        return GroupNode(
            self.ref(process), disk.durable, rng, self.root_options, self.reducer_options, self.neighbours,
            self._committed, first,
        )  # fmt: skip

    def _vertex(self, process: Process) -> Node:
        return VertexNode(self.ref(process), self.reducer_options)

    def parents(self, level: int) -> list[Process]:
        """Where those of a level may hang: agents are on level 3."""
        if level == 3:
            return self.vertices[:3]
        leading = [] if self.leader is None else [self.leader]
        return self.vertices[3:] + leading if level == 2 else leading

    def want(self, names: list[str]) -> None:
        """The ring says who is closest, the closest first."""
        self.wanted = names
        self.neighbours.wanted = [
            Ref(name.encode().ljust(16, b"."), name, self.world.processes[name].boot) for name in names
        ]

    # the leader

    @property
    def leader(self) -> Process | None:
        """Who leads, by his own word; of several the one that others obey."""
        leading = [
            (node.rank, process.address)
            for process in self.masters
            if isinstance(node := process.core, MasterNode) and node.leads
        ]
        return self.world.processes[max(leading)[1]] if leading else None

    @property
    def state(self) -> Committed | None:
        """That of a root which leads."""
        leader = self.leader
        core = None if leader is None else leader.core
        return core.root.committed if isinstance(core, MasterNode) else None

    def ask(self, event: Any) -> None:
        if self.leader is not None:
            self.world.give(self.leader, event)

    def change(self, wanted: Plan, start_us: int | None, split: bool = False) -> None:
        self._token += 1
        settings = Settings(
            emit_us=SECOND_US // (10 if self.shape.absent else 2),
            deadline_us=SECOND_US,
            delay_us=TIMING.delay_us,
            idle_us=TIMING.idle_us,
            lateness_us=BRIEF_US if self.shape.brief else TIMING.lateness_us,
            since_us=int(split),
            expect=self.shape.agents,
            partitions=self.rng.choice(PARTITIONS) if self._token > 1 < self.shape.partitions else self.shape.partitions,
        )
        self.ask(ChangePlan(self._token, wanted, start_us, settings))

    def _first_plan(self) -> None:
        """Tried until it is there: a leader may die with it."""
        state = self.state
        if state is None or not state.book.revisions:
            if self.endless:
                self.change(ENDLESS, None, True)
            else:
                back = 3 if self.shape.early else 1
                start = (WALL_START_US // (4 * SECOND_US) - back) * 4 * SECOND_US
                self.change(self.rng.choice([PLANS[0], PLANS[2]]), start, self.shape.split)
            self.world.after(0.2, self._first_plan)

    def some_change(self) -> None:
        state = self.state
        if state is None or not state.book.revisions or self.endless:
            return
        kind = self.rng.choice(["ahead", "ahead", "back", "unfit", "too far back"])
        wanted = UNFIT if kind == "unfit" else self.rng.choice(PLANS)
        start = None
        if kind == "back":
            last = state.book.revisions[-1].start_us
            start = state.book.next_boundary(max(last, state.horizon_us), wanted)
        elif kind == "too far back":  # to be refused
            start = state.book.next_boundary(max(state.horizon_us, WALL_START_US) - 12 * SECOND_US, wanted)
        self.change(wanted, start, self.shape.split and self.rng.random() < 0.5)

    # how far it is

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

    def final_now(self, key: WindowKey) -> bool:
        return key in self.published and self.latest(key)[0] == FINAL

    def latest(self, key: WindowKey) -> Content:
        """What readers saw last of a window: a recovery counts anew."""
        editions = self.published[key]
        return editions[max(editions)]

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

    def check_goes_on(self, commits: int) -> None:
        """G2: where a majority of the group and all others hear each other, work is committed."""
        if self.commits <= commits + 3:
            raise Broken("G2: nothing was committed while only one member was cut off from the others")

    # truth

    @property
    def commits(self) -> int:
        return len(self.log)

    @property
    def recovered(self) -> bool:
        """Committed entries may have been lost: n and contents are not what they were."""
        return len({lineage for lineage, _ in self.log}) > 1

    def full_book(self) -> PlanBook:
        return PlanBook(0, tuple(self.revisions[number] for number in sorted(self.revisions)))

    def _sources(self) -> Iterator[tuple[int, list[Line]]]:
        """The lines of each agent, and the start of the first window that was open for them."""
        for box in self.boxes.values():
            first_us = max((self.came_us.get(agent, ALWAYS) for agent in box.ids), default=ALWAYS)
            yield first_us, list(box.logs.all_lines)

    def lines_for(self, key: WindowKey) -> list[Line]:
        """All lines that a window has to hold, and some outside it."""
        return [line for first_us, lines in self._sources() if key[0] >= first_us for line in lines]

    def truth_windows(self) -> set[WindowKey]:
        """Those that have a line which came in time."""
        book = self.full_book()
        hopeless = {line for box in self.boxes.values() for line in box.hopeless}
        return {
            key
            for first_us, lines in self._sources()
            for key in windows_of(book, (line for line in lines if line not in hopeless))
            if key[0] >= first_us
        }

    def lines_behind(self) -> int:
        """How many lines lie in windows that were closed when their agent came: they are late for that alone."""
        return sum(line.time < first_us for first_us, lines in self._sources() for line in lines)

    # checks at each entry

    def _committed(self, node: MasterNode, lineage: Lineage, entry: LogCommitted, effects: list[Any]) -> None:
        """Right after a member applied an entry; after a start it applies them once more."""
        known = self.log.get((lineage, entry.at))
        if known is not None and known != entry.data:
            raise Broken(f"invariant 3: entry {entry.at} of {lineage} is two things")
        state = node.root.committed
        if known is None:
            self.log[lineage, entry.at] = entry.data
            self.books[state.book.version] = state.book
            self.came_us = {agent: self.came_us.get(agent, state.horizon_us) for agent in state.roster}
            for stream, one in state.streams.items():
                self.reached[stream] = max(one.next, self.reached.get(stream, 0))
            for revision in state.book.revisions:
                self.revisions[revision.number] = revision
            last = max((one.number for one in state.book.revisions), default=0)
            for number in [number for number in self.revisions if number > last]:
                del self.revisions[number]  # lost with the end of the log
                self.lost[number] = lineage
        for effect in effects:
            if isinstance(effect, WindowPublished):
                self._seen(effect, lineage, state)
        if known is None and self.commits % 10 == 0:
            self.check_content(state)

    def shown(self, window: WindowPublished, lineage: Lineage) -> Content:
        """Readers see a window."""
        key = (window.start_us, window.end_us)
        content = (
            window.status,
            None if window.revision is None else window.revision.number,
            {number: canonical(tree) for number, tree in window.tables.items()},
        )
        if self.published[key].setdefault((lineage, window.edition), content) != content:
            raise Broken(f"invariant 3: edition {window.edition} of {key} has two contents")
        return content

    def _seen(self, window: WindowPublished, lineage: Lineage, state: Committed) -> None:
        key = (window.start_us, window.end_us)
        revision = window.revision
        closed = revision is not None and state.book.revision(revision.number) is None
        if revision is not None and not closed and not state.book.owns(revision.number, key[0]):
            raise Broken(
                f"invariant 5: window {key} comes from revision {revision.number}, which does not own it"
            )
        content = self.shown(window, lineage)
        editions = sorted(edition for _, edition in self.published[key])
        if not self.recovered and editions != list(range(1, len(editions) + 1)):
            raise Broken(f"invariant 3: {key} has the editions {editions}")
        if window.status == FINAL and key[1] < NEVER_US:
            self.lags_s.setdefault(key, self.world.now - (key[1] - WALL_START_US) / 1e6)
        if window.status == FINAL and revision is not None and not state.draining:
            self._check_final(state, revision, key, content[2])

    def _check_final(
        self, state: Committed, revision: Revision, key: WindowKey, tables: dict[int, bytes]
    ) -> None:
        """Invariant 4, and F4."""
        expected = self.shape.agents
        if len(state.roster) < expected and self.world.now < GRACE_S and not self.recovered:
            raise Broken(
                f"F4: {key} was final with {len(state.roster)} agents before the grace time was over"
            )
        for agent, on in state.roster.items():
            first = StreamId(revision.feed, agent)
            live = state.streams.get(first)
            lanes = [known for stream, known in state.streams.items() if stream == first.of(stream.partition)]
            if on and not all(self._has_reached(agent, lane.next, key[1]) for lane in lanes):
                raise Broken(f"invariant 4: {key} is final, and {agent!r} has not reached its end")
            past = [known for stream, known in state.streams.items() if stream.of(0) == first.history]
            if on and any(lane.next < lane.end and not self._has_reached(agent, lane.next, key[1]) for lane in past):
                raise Broken(f"F1: {key} is final, and the history of {agent!r} has not reached its end")
            closed = revision.feed not in state.book.feeds and first in self.reached  # by this very entry
            if on and live is None and not closed:
                raise Broken(f"invariant 4: {key} is final without a stream of {agent!r}")
        lossy = self.shape.late or self.recovered
        if lossy or not all(state.roster.values()) or len(state.roster) < expected:
            return
        rows = window_rows(revision, key, self.lines_for(key))
        wanted = {number: data for number, data in enumerate(rows) if data}
        if {number: data for number, data in tables.items() if data} != wanted:
            raise Broken(f"invariant 4: {key} was final before its lines were in")

    def _has_reached(self, agent: bytes, number: int, end_us: int) -> bool:
        """Whether it had come so far at the cut `number` or before: watermarks never go back."""
        box = self._box(agent)
        self._learn_cuts(box, agent, {number})
        before = sorted((cut for cut in (0, *box.cuts) if cut <= number), reverse=True)
        return any(reached(box.logs, box.read_at(cut), end_us, self.world.now, box.mute) for cut in before)

    def _box(self, agent: bytes) -> AgentBox:
        for box in self.boxes.values():
            if agent in box.ids:
                return box
        raise Broken(f"invariant 2: nobody is {agent!r}")

    def _learn_cuts(self, box: AgentBox, agent: bytes, wanted: set[int]) -> None:
        if not wanted <= {0, *box.cuts}:  # it died before anybody looked
            disk = self.world.processes[agent.rstrip(b"#").decode()].disks["journal"]
            found = Journal(bytes(disk.durable), agent, JournalOptions.tiny())  # type: ignore[arg-type]
            box.learn(found.durable, found.durable)
        if not wanted <= {0, *box.cuts}:
            raise Broken(f"invariant 2: {wanted - box.cuts.keys()} are no cuts of {agent!r}")

    def check_told(self, job: Job) -> None:
        """R2 and C4: what an agent was told is committed."""
        if self.recovered:
            return
        if job.book.version and self.books.get(job.book.version) != job.book:
            raise Broken(f"C4: the book of version {job.book.version} was never committed")
        feeds = self.books[max(self.books)].feeds if self.books else []
        for stream in job.streams.values():
            # Of closed revisions everything is acknowledged, and nothing taken.
            for way in stream.ways:
                if stream.id.revision in feeds and way.acked > self.reached.get(way.id, -1):
                    raise Broken(f"R2: cut {way.acked} of {way.id} was never committed")

    # checks now and then

    def check_content(self, state: Committed) -> None:
        """Invariants 1, 2 and 7: what is committed of a pane is the fold of each log over (start, next], and each line of it
        is accounted for."""
        lost = any(box.logs.lost_lines for box in self.boxes.values())
        if lost and not self.shape.recover:
            raise Broken("invariant 6: lines were deleted and then asked for")
        for feed in state.book.feeds:
            counts: Counter[int] = Counter()
            pane_us = state.book.fed_by(feed)[0].pane_us
            for stream, known in state.streams.items():
                if stream.revision == feed and not stream.partition:  # lines are told by the first
                    lines = self._committed_lines(stream, known.start, known.next)
                    for line in lines:
                        counts[line.time - line.time % pane_us if pane_us else 0] += 1
                    got = known.counters
                    parts = got.rows + got.filtered + got.outside + got.rejected + got.late
                    if not lost and (got.lines != len(lines) or parts != got.lines or got.shed):
                        raise Broken(f"invariant 7: {len(lines)} lines of {stream}, counted {got}")
            late = state.counts.late + sum(known.counters.late for known in state.streams.values())
            for pane, wanted in counts.items():
                kept = state.book.keeps(feed, pane) and pane >= state.horizon_us
                have = state.content.lines.get((feed, pane), 0)
                if kept and not lost and not wanted - late <= have <= wanted:
                    raise Broken(
                        f"invariant 1: pane {pane} of feed {feed} has {have} lines, the logs {wanted}"
                    )
            for (number, pane), have in state.content.lines.items():
                if number == feed and have and not counts[pane] and not lost:
                    raise Broken(f"invariant 1: pane {pane} of feed {feed} has {have} lines, the logs none")
        if not lost and not self.shape.late and not self.recovered:
            check_groups(state, self._committed_lines)
        if any(pane < state.horizon_us for _, pane in state.content.lines):
            raise Broken("F3: lines were taken into a pane that is closed")

    def _committed_lines(self, stream: StreamId, start: int, end: int) -> list[Line]:
        box = self._box(stream.agent)
        self._learn_cuts(box, stream.agent, {start, end})
        return box.logs.truth(box.read_at(start), box.read_at(end))

    # checks at the end

    def check_results(self) -> None:
        """The last edition of every window is the undisturbed fold of the logs, to the bit."""
        state = self.state
        assert state is not None
        self.check_content(state)
        if not all(state.roster.values()):
            raise Broken("F4: an agent is forgotten whose frames are committed")
        for node in [process.core for process in self.masters]:
            if isinstance(node, GroupNode) and node.is_member and node.log_entries > LOG_ENTRIES_MAX + 8:
                raise Broken(f"invariant 7: a log of {node.log_entries} entries at {node.ref.address}")
        if self.shape.hopeless:
            return
        book = self.full_book()
        truth = self.truth_windows()
        for key in truth:
            owner = book.owner(key[0])
            assert owner is not None
            status, number, tables = self.latest(key)
            if status != FINAL or number is None:
                raise Broken(f"{key} is {status}")
            for table, data in enumerate(window_rows(owner, key, self.lines_for(key))):
                if tables.get(table, b"") != data:
                    raise Broken(
                        f"the final of {key} by revision {number} is not the fold of the logs (table {table})"
                    )
        for key, editions in self.published.items():
            status, number, tables = self.latest(key)
            if number in self.lost and max(editions)[0] < self.lost[number]:
                continue  # nobody knows any more that readers saw it
            if key not in truth and status != WITHDRAWN and any(tables.values()):
                raise Broken(f"{key} was published, and no plan has it")
        late = state.counts.late + sum(known.counters.late for known in state.streams.values())
        behind = self.lines_behind() * len(self.revisions)  # each plan may read them again
        if late > behind:
            raise Broken(f"{late} lines were dropped as late, and {behind} came with their agents too late")

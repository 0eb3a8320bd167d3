"""A job's log, entry by entry, as its members apply it: what must hold of the state behind each of them.

Invariants 1 to 5 of docs/PROTOCOL.md, against what the logs of the agents have: nothing that the state says of itself is
taken for true.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple, Protocol

from agent.folding import divided
from agent.journal_format import Positions
from agent.stream_job import Job
from cbt.tree import Tree
from job.plan_book import ALWAYS, PlanBook, Revision, feed_plan
from master.committed import ERA_EDITION_BITS, ERA_INDEX_BITS, Committed
from master.entries import FINAL, WITHDRAWN, Publish, decode_entry
from master.group_events import Committed as LogCommitted
from master.group_messages import Lineage
from master.job_events import Finish
from master.masters import Masters
from master.snapshots import snapshot
from srt.content import run_kinds
from srt.frame_messages import StreamId
from tests.sim.cut_logs import Line, Logs, pane_states
from tests.sim.cut_truth import Broken, canonical, reached

INDEX_MASK = (1 << ERA_INDEX_BITS) - 1
"""Of a result's index: above it is the era."""
WindowKey = tuple[int, int]
PaneKey = tuple[int, int]


class Applied(NamedTuple):
    """An entry that a member has just applied, and the state behind it."""

    key: bytes
    lineage: Lineage
    at: int
    data: bytes
    state: Committed
    void: bool
    """It did not fit, and changed nothing."""


def listen(masters: Masters, tell: Callable[[Applied], None]) -> None:
    """Has each entry told as soon as it is applied, also where a step applies several. What leaves a node only follows from
    entries, so this listens between its groups and its roots."""
    pass_on = masters._to_root

    def to_root(key: bytes, event: object) -> None:
        if not isinstance(event, LogCommitted):
            pass_on(key, event)
            return
        lineage, state = masters.group(key).log.meta.lineage, masters.root(key).committed
        voids = state.counts.void
        pass_on(key, event)
        if state.index != event.at:
            raise Broken(f"entry {event.at} was passed on, and the state is that of {state.index}")
        tell(Applied(key, lineage, event.at, event.data, state, state.counts.void > voids))

    masters._to_root = to_root  # type: ignore[method-assign]


class Sources(Protocol):
    """The machines of the agents."""

    def read_at(self, agent: bytes, cut: int) -> tuple[Logs, Positions]:
        """The logs of an agent, and how far it had read them at a cut. Raises Broken: there is no such cut."""
        ...

    def is_in_time(self) -> bool:
        """Whether no line was written later than the agents wait for it."""
        ...

    def now_s(self) -> float: ...


class Shown(NamedTuple):
    """What a publication has to show."""

    revision: int | None
    """None: no plan has the window any more."""
    tables: dict[int, bytes]


class LogWatch:
    """The log of one job. Raises Broken."""

    def __init__(self, sources: Sources | None = None) -> None:
        """None: nothing is known of the agents' logs, so 3 alone is looked at."""
        self.books: dict[int, PlanBook] = {}
        """What was committed, by version."""
        self._feeds: tuple[int, frozenset[int]] = (0, frozenset())
        """The feeds of the newest of them, with its version."""
        self.reached: dict[StreamId, int] = {}
        """The greatest `next` that was committed."""
        self.newest: dict[Lineage, int] = {}
        """The last entry."""
        self._sources = sources
        self._entries: dict[tuple[Lineage, int], tuple[bytes, bytes]] = {}
        """Each entry, and what a snapshot behind it says, but for the groups."""
        self._folds: dict[Lineage, Fold] = {}
        self._shown: dict[tuple[Lineage, int], Shown] = {}

    @property
    def fold(self) -> Fold | None:
        """Of the lineage that wins."""
        return self._folds[max(self._folds)] if self._folds else None

    def applied(self, entry: Applied, exact: bool) -> bool:
        """Whether nobody had applied it before. `exact`: nothing of the job may be missing."""
        place, state = (entry.lineage, entry.at), entry.state
        found = (entry.data, next(snapshot(state)))
        known = self._entries.setdefault(place, found)
        if known[0] != found[0]:
            raise Broken(f"invariant 3: entry {entry.at} of {entry.lineage} is two things")
        if known[1] != found[1]:
            raise Broken(f"invariant 3: members have two states behind entry {entry.at} of {entry.lineage}")
        if known is not found:
            return False
        if entry.at <= self.newest.get(entry.lineage, 0):
            raise Broken(f"invariant 3: entry {entry.at} came behind {self.newest[entry.lineage]}")
        self.newest[entry.lineage] = entry.at
        self.books[state.book.version] = state.book
        if state.book.version > self._feeds[0]:
            self._feeds = state.book.version, frozenset(state.book.feeds)
        for stream, one in state.streams.items():
            self.reached[stream] = max(one.next, self.reached.get(stream, 0))
        if self._sources is not None and exact:
            self._look(entry, self._sources)
        return True

    def _look(self, entry: Applied, sources: Sources) -> None:
        fold, what = self._folds.get(entry.lineage), decode_entry(entry.data)
        if fold is None:
            fold = self._folds[entry.lineage] = Fold(sources)
            fold.begin(entry.state)
        elif not isinstance(what, Publish):
            fold.follow(entry.state)
        elif not entry.void:
            self._shown[entry.lineage, entry.at] = fold.published(entry.state, what)
        fold.keep(entry.state)

    def check_told(self, job: Job) -> None:
        """R2 and C4: what an agent was told is committed."""
        book = job.book
        if book.version and self.books.get(book.version) != book:
            raise Broken(f"C4: the book of version {book.version} was never committed")
        feeds = self._feeds[1]
        for stream in job.streams.values():
            # Of closed revisions everything is acknowledged, and nothing taken.
            for way in stream.ways:
                if way.acked > self.reached.get(way.id, -1) and stream.id.revision in feeds:
                    raise Broken(f"R2: cut {way.acked} of {way.id} was never committed")

    def finished(self, lineage: Lineage, window: Finish, tables: dict[int, bytes]) -> None:
        """A member makes the result of a publication: 1 and 5."""
        wanted = self._shown.get((lineage, window.log_index & INDEX_MASK))
        if wanted is None:
            return  # it was not looked at
        key = (window.start_us, window.end_us)
        if (window.revision if window.plan is not None else None) != wanted.revision:
            raise Broken(f"invariant 5: {key} comes from revision {window.revision}, and {wanted.revision} owns it")
        if {number: data for number, data in tables.items() if data} != wanted.tables:
            raise Broken(f"invariant 1: edition {window.edition} of {key} is not the fold of the logs")


class Fold:
    """What the logs of the agents say of the committed ranges of one lineage."""

    def __init__(self, sources: Sources) -> None:
        self.book = PlanBook()
        self.horizon_us = ALWAYS
        self.nexts: dict[StreamId, int] = {}
        """Of closed streams, too."""
        self.ends: dict[StreamId, int] = {}
        self._sources = sources
        self._read: Counter[StreamId] = Counter()
        """Lines of the committed range."""
        self._lines: Counter[PaneKey] = Counter()
        self._tables: defaultdict[PaneKey, dict[int, Tree]] = defaultdict(dict)
        self._editions: dict[WindowKey, int] = {}
        """The last one of each window."""

    # what is committed

    def begin(self, state: Committed) -> None:
        """The first entry of a lineage; a further one goes on from what another had."""
        self.follow(state)
        self._editions = {key: window.count for key, window in state.windows.items() if window.count}

    def follow(self, state: Committed) -> None:
        """Invariants 1, 2 and the accounts of 7, of what an entry changed."""
        touched = self._take(state)
        book, held = state.book, state.content.lines
        for feed in book.feeds:
            first, end = book.panes(feed)
            first = max(first, state.horizon_us)
            mine = {pane for number, pane in (*self._lines, *held) if number == feed and first <= pane < end}
            for pane in mine:
                have, wanted = held.get((feed, pane), 0), self._lines[feed, pane]
                if have != wanted:
                    raise Broken(f"invariant 1: pane {pane} of feed {feed} has {have} lines, the logs {wanted}")
                if (feed, pane) in touched:
                    self._compare((feed, pane), state.content.tables.get((feed, pane), {}))
        for pane_key in [pane for pane in self._lines if pane[0] not in book.feeds]:
            del self._lines[pane_key]
            self._tables.pop(pane_key, None)

    def _take(self, state: Committed) -> set[PaneKey]:
        """Reads what was committed since; returns the panes that have lines of it."""
        fresh: dict[tuple[int, int], list[Line]] = defaultdict(list)
        for stream, known in state.streams.items():
            before = self.nexts.get(stream)
            if before is None:
                before, self.ends[stream] = known.start, known.end
            elif known.next == before:
                continue
            elif known.next < before:
                raise Broken(f"invariant 2: next of {stream} fell from {before} to {known.next}")
            self.nexts[stream] = known.next
            lines = self._between(stream, before, known.next)
            fresh[stream.revision, stream.partition] += lines
            self._read[stream] += len(lines)
            got = known.counters
            parts = got.rows + got.filtered + got.outside + got.rejected + got.late
            if not stream.partition and (got.lines != self._read[stream] or parts != got.lines or got.shed):
                raise Broken(f"invariant 7: {self._read[stream]} lines of {stream}, counted {got}")
        return {pane for (feed, part), lines in fresh.items() if lines for pane in self._add(state.book, feed, part, lines)}

    def _between(self, stream: StreamId, start: int, end: int) -> list[Line]:
        logs, first = self._sources.read_at(stream.agent, start)
        return logs.truth(first, self._sources.read_at(stream.agent, end)[1])

    def _add(self, book: PlanBook, feed: int, partition: int, lines: list[Line]) -> set[PaneKey]:
        """Lines are counted by the first partition; each has its groups."""
        revision, touched = book.fed_by(feed)[0], set()
        for line in lines:
            pane = feed, line.time - line.time % revision.pane_us
            touched.add(pane)
            self._lines[pane] += not partition
        for run in divided(feed, pane_states(feed_plan(revision), lines), book.partitions(feed))[partition]:
            tables = self._tables[feed, run.start_us]
            if run.table not in tables:
                tables[run.table] = Tree(*run_kinds(run.run))
            tables[run.table].insert_run(run.run)
        return touched

    def _compare(self, pane: PaneKey, held: dict[int, Tree]) -> None:
        mine = self._tables[pane]
        for number in mine.keys() | held.keys():
            some = [canonical(tables[number]) if number in tables else b"" for tables in (mine, held)]
            if some[0] != some[1]:
                raise Broken(f"invariant 1: table {number} of pane {pane[1]} of feed {pane[0]} is not the fold of the logs")

    def keep(self, state: Committed) -> None:
        """The next entry meets this book."""
        self.book, self.horizon_us = state.book, state.plan_horizon_us

    def needing(self, agents: Collection[bytes]) -> Iterator[tuple[StreamId, int]]:
        """The open streams of some agents that need what lies behind their `next`."""
        for stream, following in self.nexts.items():
            if stream.agent in agents and stream.revision in self.book.feeds and following != self.ends[stream]:
                yield stream, following

    # what is published

    def published(self, state: Committed, entry: Publish) -> Shown:
        """Invariants 3 (numbers of editions) and 4. Its own entry may have closed what shows a window."""
        key = (entry.start_us, entry.end_us)
        before = max(self._editions.get(key, 0), state.era << ERA_EDITION_BITS)
        if entry.count != before + 1:
            raise Broken(f"invariant 3: edition {entry.count} of {key} came behind {before}")
        self._editions[key] = entry.count
        owner = self.book.owner(key[0])
        if owner is not None and (owner.size_us != key[1] - key[0] or key[0] % owner.slide_us):
            owner = None
        if (owner is None) != (entry.status == WITHDRAWN):
            raise Broken(f"invariant 5: {key} is {entry.status}, and its owner is {owner and owner.number}")
        if owner is None:
            return Shown(None, {})
        if entry.status == FINAL:
            self._check_final(state, owner, key)
        return Shown(owner.number, self._tables_of(owner, key))

    def _check_final(self, state: Committed, owner: Revision, key: WindowKey) -> None:
        """Invariant 4: every agent of the roster has come to its end, by its own log up to `next`."""
        sources = self._sources
        lanes = defaultdict(list)
        for stream in self.nexts:
            if stream.revision == owner.feed:
                lanes[stream.agent].append(stream)
        for agent in [agent for agent, on in state.roster.items() if on]:
            live = [stream for stream in lanes[agent] if stream.is_live]
            if len(live) != self.book.partitions(owner.feed):
                raise Broken(f"invariant 4: {key} is final with {len(live)} streams of {agent!r}")
            past = [one for one in lanes[agent] if not one.is_live and self.nexts[one] < self.ends[one]]
            for stream in (*live, *past):
                logs, at = sources.read_at(agent, self.nexts[stream])
                if not state.draining and not reached(logs, at, key[1], sources.now_s(), mute=True):
                    raise Broken(f"invariant 4: {key} is final, and {stream} has not reached its end")
                if stream.is_live and sources.is_in_time() and any(line.time < key[1] for line in _behind(logs, at)):
                    raise Broken(f"invariant 4: {key} is final, and not all its lines of {stream} were in")

    def _tables_of(self, owner: Revision, key: WindowKey) -> dict[int, bytes]:
        merged: dict[int, Tree] = {}
        for start in range(key[0], key[1], owner.pane_us):
            for number, tree in self._tables.get((owner.feed, start), {}).items():
                if number not in merged:
                    merged[number] = Tree(tree.key_kinds, tree.state_kinds)
                merged[number].merge(tree)
        return {number: data for number, tree in merged.items() if (data := canonical(tree))}


def _behind(logs: Logs, at: Positions) -> Iterable[Line]:
    """The lines that were not read yet there."""
    for name, file in logs.files.items():
        yield from file.lines[at[name].offset if name in at else 0 :]

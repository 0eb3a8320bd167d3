"""What a simulated world knows of one job: what readers saw of its windows, and what they should have seen."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from agent.folding import divided
from agent.journal import Journal
from agent.journal_format import Cut, Positions
from cbt.tree import Tree
from job.plan_book import NEVER_US, PlanBook, Revision, feed_plan
from job.window import window_starts
from master.committed import Committed
from master.entries import FINAL, WITHDRAWN
from master.group_messages import Lineage
from master.job_events import Finish
from srt.content import run_kinds
from tests.sim.cut_logs import Line, pane_states
from tests.sim.cut_truth import Broken, canonical

Place = tuple[Lineage, int]
"""Where in which log: a recovered one, which lost entries for good, has another lineage."""
ALL = (0, NEVER_US)
"""The one window of a job without windows."""
Shown = tuple[str, int | None, dict[int, bytes]]
"""Status, revision, tables."""


class JobWatch:
    """Raises Broken where an invariant of docs/PROTOCOL.md does not hold."""

    def __init__(self, key: bytes, lines: Callable[[], list[Line]]) -> None:
        self.key, self._lines = key, lines
        self.shown: dict[tuple[int, int], dict[tuple[Place, int], Shown]] = defaultdict(dict)
        """Per window, by (place, edition)."""
        self.revisions: dict[int, Revision] = {}
        self._book_at: tuple[Lineage, int] | None = None
        self._book: PlanBook | None = None

    def lineages(self) -> set[Lineage]:
        return {place[0] for shown in self.shown.values() for place, _ in shown}

    # what happens

    def follow(self, lineage: Lineage, state: Committed) -> None:
        """The book behind an entry, when the first member has applied it."""
        if state.book is self._book or (self._book_at and (lineage, state.index) < self._book_at):
            return
        self._book, self._book_at = state.book, (lineage, state.index)
        newest = max((one.number for one in state.book.revisions), default=0)
        for number in [number for number in self.revisions if number > newest]:
            del self.revisions[number]  # lost with the end of a log
        self.revisions |= {one.number: one for one in state.book.revisions}

    def published(self, lineage: Lineage, window: Finish, tables: dict[int, bytes]) -> None:
        """A member makes the result of an entry that shows a window."""
        key = ALL if window.start_us is None or window.end_us is None else (window.start_us, window.end_us)
        revision = window.revision if window.plan is not None else None
        content = (window.status, revision, tables)
        place = ((lineage, window.log_index), window.edition)
        if self.shown[key].setdefault(place, content) != content:
            raise Broken(f"invariant 3: edition {window.edition} of {key} has two contents")
        places = [at for (of, at), n in self.shown[key] if of == lineage and n == window.edition]
        if len(places) > 1:
            raise Broken(f"invariant 3: edition {window.edition} of {key} was published at {places}")

    # what should be

    def full_book(self) -> PlanBook:
        return PlanBook(0, tuple(self.revisions[number] for number in sorted(self.revisions)))

    def wanted(self) -> set[tuple[int, int]]:
        """The windows that have lines, under the revisions that own them."""
        book, found = self.full_book(), set()
        times = {line.time for line in self._lines()}
        for revision in book.revisions:
            panes = {time - time % revision.pane_us for time in times}
            for start in window_starts(panes, revision.size_us, revision.slide_us):
                if book.owns(revision.number, start):
                    found.add((start, start + revision.size_us))
        return found

    def truth(self, owner: Revision, key: tuple[int, int]) -> dict[int, bytes]:
        """The fold of all lines of a window, by table."""
        trees: list[Tree] = []
        lines = [line for line in self._lines() if key[0] <= line.time < key[1]]
        for state in pane_states(owner.plan, lines).values():
            for number, tree in enumerate([state.groups, *state.pairs]):
                if number == len(trees):
                    trees.append(Tree(tree.key_kinds, tree.state_kinds))
                trees[number].merge(tree)
        return {number: data for number, tree in enumerate(trees) if (data := canonical(tree))}

    def latest(self, key: tuple[int, int]) -> Shown | None:
        """What the newest entry of the greatest lineage says."""
        shown = self.shown.get(key)
        return shown[max(shown)] if shown else None

    def open(self, until_us: int) -> list[tuple[int, int]]:
        """The windows that end by then and are not final."""
        return [
            key
            for key in sorted(self.wanted())
            if key[1] <= until_us and ((last := self.latest(key)) is None or last[0] != FINAL)
        ]

    def check_results(self) -> None:
        """The last edition of every window is the undisturbed fold of the logs, to the bit."""
        book, wanted = self.full_book(), self.wanted()
        for key in sorted(wanted):
            owner, last = book.owner(key[0]), self.latest(key)
            assert owner is not None
            if last is None or last[0] != FINAL:
                raise Broken(f"{key} is {last and last[0]}")
            if {number: data for number, data in last[2].items() if data} != self.truth(owner, key):
                raise Broken(f"the final of {key} by revision {last[1]} is not the fold of the logs")
        for key in self.shown:
            last = self.latest(key)
            if key not in wanted and last is not None and last[0] != WITHDRAWN and any(last[2].values()):
                raise Broken(f"{key} was published, and no plan has it")


def check_content(state: Committed, committed_lines: Callable[[Any, int, int], Iterable[Line]]) -> None:
    """Invariants 1 and 2: what is committed of a pane is the fold of each log over (start, next]."""
    for feed in state.book.feeds:
        counts: Counter[int] = Counter()
        revision = state.book.fed_by(feed)[0]
        for stream, known in state.streams.items():
            if stream.revision == feed and not stream.partition:  # lines are told by the first
                for line in committed_lines(stream, known.start, known.next):
                    counts[line.time - line.time % revision.pane_us] += 1
        held = {pane: lines for (number, pane), lines in state.content.lines.items() if number == feed and lines}
        for pane in counts.keys() | held.keys():
            kept = state.book.keeps(feed, pane) and pane >= state.horizon_us
            if kept and held.get(pane, 0) != counts[pane]:
                raise Broken(
                    f"invariant 1: pane {pane} of feed {feed} has {held.get(pane, 0)} lines, the logs {counts[pane]}"
                )


def check_groups(state: Committed, committed_lines: Callable[[Any, int, int], Iterable[Line]]) -> None:
    """The same of the groups of each partition, each as far as it is committed."""
    for feed in state.book.feeds:
        revision, count = state.book.fed_by(feed)[0], state.book.partitions(feed)
        lines: list[list[Line]] = [[] for _ in range(count)]
        for stream, known in state.streams.items():
            if stream.revision == feed:
                lines[stream.partition] += committed_lines(stream, known.start, known.next)
        wanted: dict[tuple[int, int], Tree] = {}
        for partition, some in enumerate(lines):
            for run in divided(feed, pane_states(feed_plan(revision), some), count)[partition]:
                keys, states = run_kinds(run.run)
                tree = wanted.setdefault((run.start_us, run.table), Tree(keys, states))
                tree.insert_run(run.run)
        held = {
            (pane, number): tree
            for (of, pane), tables in state.content.tables.items()
            for number, tree in tables.items()
            if of == feed
        }
        for pane, number in wanted.keys() | held.keys():
            one, other = held.get((pane, number)), wanted.get((pane, number))
            kept = state.book.keeps(feed, pane) and pane >= state.horizon_us
            if kept and (canonical(one) if one else b"") != (canonical(other) if other else b""):
                raise Broken(f"invariant 1: table {number} of pane {pane} of feed {feed} is not the fold of the logs")


class Cuts:
    """A1: what each number of an agent's journal means, for ever."""

    def __init__(self) -> None:
        self.meaning: dict[int, Positions] = {}
        self._looked: set[int] = set()
        self._newest: Cut | None = None

    def look(self, journal: Journal, afresh: bool = False) -> None:
        """`afresh`: a journal that was opened again, all of it is compared; else cuts that came since."""
        newest = journal.durable.peekitem()[1]
        if newest is self._newest and not afresh:
            return
        journal.check()
        self._newest = newest
        if afresh:
            self._looked.clear()
        for number in journal.durable.keys() - self._looked:
            files = journal.durable[number].files
            if self.meaning.setdefault(number, files) != files:
                raise Broken(f"A1: cut {number} means two places")
            self._looked.add(number)

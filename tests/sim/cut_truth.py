"""What the results of a job should be, from its logs and its plans alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agent.journal_format import Cut, Positions
from cbt.node import HASH_END
from cbt.tree import Tree
from job.plan_book import NEVER_US, PlanBook, Revision
from job.watermark import Timing
from job.window import window_starts
from tests.sim.cut_logs import Driver, Line, Logs, pane_states

SECOND_US = 1_000_000
TIMING = Timing(1 * SECOND_US, 5 * SECOND_US, 12 * SECOND_US)
WindowKey = tuple[int, int]


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
    _reached: dict[int, Positions] = field(default_factory=dict)
    skew_us: int = 0
    """How far the clock is ahead that stamps its lines."""
    starts_s: float = 0.0
    stops: frozenset[bytes] = frozenset()
    """Files that nothing is written to after the beginning."""
    mute: bool = False
    hopeless: set[Line] = field(default_factory=set)
    """Lines that are later than any allowed lateness."""

    def read_at(self, number: int) -> Positions:
        """How far the agent was at a cut, with the files that are gone and in no cut any more."""
        return self._reached.get(number, {})

    def learn(self, durable: Mapping[int, Cut], fresh: Iterable[int]) -> None:
        """A1: a number that was ever proposed or sent means one place for ever. `durable` is what the journal has: these
        numbers are in the order of places, but not among those that were let go."""
        for number in sorted(fresh):
            files = durable[number].files
            if self.cuts.setdefault(number, files) != files:
                raise Broken(f"A1: cut {number} means two places")
            if number not in self._reached:
                before = max((known for known in durable if known < number), default=0)
                self._reached[number] = {**self.read_at(before), **files}


def canonical(tree: Tree) -> bytes:
    return tree.merger(0, HASH_END).next_block(1 << 30) or b""


def windows_of(book: PlanBook, lines: Iterable[Line]) -> set[WindowKey]:
    """All windows that have lines, each of the revision that owns it."""
    found = set()
    times = {line.time for line in lines}
    for revision in book.revisions:
        if not revision.slide_us:
            found |= {(0, NEVER_US)} if times else set()
            continue
        panes = {time - time % revision.pane_us for time in times}
        for start in window_starts(panes, revision.size_us, revision.slide_us):
            if book.owns(revision.number, start):
                found.add((start, start + revision.size_us))
    return found


def window_rows(owner: Revision, key: WindowKey, lines: Iterable[Line]) -> list[bytes]:
    """The groups and the pairs of a window."""
    trees: list[Tree] = []
    inside = [line for line in lines if key[0] <= line.time < key[1]]
    for state in pane_states(owner.plan, inside).values():
        for number, tree in enumerate([state.groups, *state.pairs]):
            if number == len(trees):
                trees.append(Tree(tree.key_kinds, tree.state_kinds))
            trees[number].merge(tree)
    return [canonical(tree) for tree in trees]


def reached(logs: Logs, at: Positions, end_us: int, now_s: float, mute: bool) -> bool:
    """Whether the watermark of an agent that has read so far can be at `end_us` (A6), by its logs alone.

    Each file that goes on has come so far, or held nobody back because it was idle; and one of all, by its lines or by
    the time that passed since, is there. `mute`: what it had read may have had no line when it was told how far others are.
    """
    greatest, last_s = None, 0.0
    for name, position in at.items():
        file = logs.files[name]
        times = [line.time for line in file.lines[: position.offset]]
        if not times:
            continue
        here, written_s = max(times), file.written_s[position.offset - 1]
        greatest, last_s = here if greatest is None else max(greatest, here), max(last_s, written_s)
        idle = file.rested(TIMING.idle_us / 1e6 - 0.5, now_s)
        if not position.finished and here - TIMING.delay_us < end_us and not idle:
            return False
    if greatest is None:
        return mute or not any(file.lines for file in logs.files.values())
    return greatest + int((now_s - last_s) * 1e6) - TIMING.delay_us >= end_us

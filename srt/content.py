"""What frames carry, merged: per pane a line count and one buffer tree per table.

Runs say of themselves which kinds of keys and states they have, so vertices merge frames of plans they never heard of.
Nothing of a frame is taken unless all of it is sound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cbt.budget import Budget
from cbt.errors import MemoryCapError, SpillError
from cbt.options import Options
from cbt.tree import Tree
from cython_ext.run import VERSION, RunError
from srt.errors import ContentError
from srt.frame_messages import PART_BYTES, PaneLines, PaneRun

PaneKey = tuple[int, int]
"""(revision, start of the pane)."""
_HEAD_BYTES = 16


def run_kinds(run: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The kinds of keys and of states that a run says it has; `Tree.insert_run` checks the rest. Raises ContentError."""
    if len(run) < _HEAD_BYTES or run[:4] != b"ELFR" or run[4] != VERSION:
        raise ContentError("a run that does not begin as one")
    keys, states = run[6], run[7]
    kinds = run[_HEAD_BYTES : _HEAD_BYTES + keys + states]
    if len(kinds) != keys + states:
        raise ContentError("a run that ends in its header")
    return tuple(kinds[:keys]), tuple(kinds[keys:])


class Content:
    """Panes of several revisions. Not thread-safe."""

    def __init__(self, budget: Budget, options: Options) -> None:
        self._budget, self._options = budget, options
        self.lines: dict[PaneKey, int] = {}
        self.tables: dict[PaneKey, dict[int, Tree]] = {}
        self.tight: MemoryCapError | SpillError | None = None
        """Why the budget had no room the last time, though all that was given is in here."""

    def staged(self, panes: Iterable[PaneLines], runs: Iterable[PaneRun], bytes_max: int) -> Content:
        """The same as content of its own, of at most `bytes_max` uncompressed bytes. Raises ContentError."""
        made = Content(self._budget, self._options)
        for pane in panes:
            key = (pane.revision, pane.start_us)
            if pane.lines < 0:
                raise ContentError("a negative number of lines")
            made.lines[key] = made.lines.get(key, 0) + pane.lines
        for run in runs:
            made._take(run, bytes_max)
        return made

    def _take(self, run: PaneRun, bytes_max: int) -> None:
        keys, states = run_kinds(run.run)
        tables = self.tables.setdefault((run.revision, run.start_us), {})
        tree = tables.get(run.table)
        try:
            if tree is None:
                tree = tables[run.table] = Tree(keys, states, self._options, self._budget)
            tree.insert_run(run.run, bytes_max)
        except (RunError, ValueError) as problem:
            raise ContentError(f"pane {run.start_us} of revision {run.revision}: {problem}") from problem
        except (MemoryCapError, SpillError) as problem:
            self.tight = problem

    def fits(self, other: Content) -> bool:
        """Whether the tables of both are of the same kinds. O(tables of `other`)."""
        for key, tables in other.tables.items():
            mine = self.tables.get(key, {})
            for number, tree in tables.items():
                known = mine.get(number)
                if known is not None and (known.key_kinds, known.state_kinds) != (
                    tree.key_kinds,
                    tree.state_kinds,
                ):
                    return False
        return True

    def merge(self, other: Content) -> None:
        """Takes in `other`, which must fit and not be used afterwards: its trees may become ours."""
        for key, lines in other.lines.items():
            self.lines[key] = self.lines.get(key, 0) + lines
        for key, tables in other.tables.items():
            mine = self.tables.setdefault(key, {})
            for number, tree in tables.items():
                known = mine.get(number)
                if known is None:
                    mine[number] = tree
                    continue
                try:
                    known.merge(tree)
                except (MemoryCapError, SpillError) as problem:
                    self.tight = problem
        self.tight = self.tight or other.tight

    def drop(self, key: PaneKey) -> int:
        """Forgets a pane; returns its lines."""
        self.tables.pop(key, None)
        return self.lines.pop(key, 0)

    def panes(self) -> tuple[PaneLines, ...]:
        return tuple(PaneLines(*key, lines) for key, lines in sorted(self.lines.items()))

    def runs(self) -> Iterator[PaneRun]:
        """All groups as runs of bounded size, by pane and table, in order of hash. The panes stay."""
        for (revision, start), tables in sorted(self.tables.items()):
            for number, tree in sorted(tables.items()):
                for run in tree.runs():
                    yield PaneRun(revision, start, number, run)

    @property
    def bytes_used(self) -> int:
        """Memory of all trees. O(tables)."""
        return sum(tree.bytes_used for tables in self.tables.values() for tree in tables.values())

    @property
    def held_bytes(self) -> int:
        """The same with what is on disk. O(blocks) once anything is."""
        trees = [tree for tables in self.tables.values() for tree in tables.values()]
        used = sum(tree.bytes_used for tree in trees)
        if self._budget.spilled_bytes:
            used += sum(tree.stats().spilled_bytes for tree in trees)
        return used

    def __len__(self) -> int:
        return len(self.lines)


def chunked(runs: Iterable[PaneRun], bytes_max: int = PART_BYTES) -> Iterator[tuple[PaneRun, ...]]:
    """Runs in chunks that end once they have `bytes_max` bytes; at least one chunk, perhaps empty."""
    chunk: list[PaneRun] = []
    size, empty = 0, True
    for run in runs:
        if chunk and size + len(run.run) > bytes_max:
            yield tuple(chunk)
            empty = False
            chunk, size = [], 0
        chunk.append(run)
        size += len(run.run)
    if chunk or empty:
        yield tuple(chunk)

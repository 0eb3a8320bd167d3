"""Model logs of the simulation of cuts, and a driver that folds them with the real row phase.

An offset is a number of lines. Files are appended to, rotated away, and deleted from the front.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from agent.folding import divided
from agent.journal_format import FilePosition, Positions
from agent.stream_events import Advance, Advanced, Fold, Folded, FoldSpec, Portion, StreamKey
from cython_ext.column import Column
from job.panes import PaneState
from job.plan import Plan
from job.row_phase import RowPhase
from job.types import Kind
from job.window import pane_us
from srt.frame_messages import Counters, PaneLines

KINDS = {"time": Kind.TIMESTAMP, "path": Kind.STRING, "status": Kind.BIGINT, "bytes": Kind.BIGINT}


class Line(NamedTuple):
    time: int
    path: str
    status: int
    bytes: int


@dataclass
class LogFile:
    lines: list[Line] = field(default_factory=list)
    finished: bool = False
    deleted: int = 0
    """Lines at the front that are gone."""
    written_s: list[float] = field(default_factory=list)
    """When each line was appended, as far as `append` did it."""

    def append(self, line: Line, now_s: float) -> None:
        self.lines.append(line)
        self.written_s.append(now_s)

    def rested(self, seconds: float, now_s: float) -> bool:
        """Whether nothing was appended for so long, once or until now, since its first line."""
        times = [*self.written_s, now_s]
        return any(after - before >= seconds for before, after in pairwise(times))


class Logs:
    """All files of one agent."""

    def __init__(self) -> None:
        self.files: dict[bytes, LogFile] = {}
        self.lost_lines = 0
        """Lines that were deleted and asked for afterwards."""

    def positions(self, start: Positions, lines_max: int) -> tuple[dict[bytes, FilePosition], bool]:
        """How far a reader gets from `start`, and whether it stopped at the limit."""
        found: dict[bytes, FilePosition] = {}
        left = lines_max
        for name, file in self.files.items():
            at = start.get(name, FilePosition(0))
            if at.finished or (name not in start and self.is_gone(name)):
                continue
            end = min(len(file.lines), at.offset + left)
            left -= end - at.offset
            times = [line.time for line in file.lines[at.offset : end]]
            latest = max([*times, *([at.latest_us] if at.latest_us is not None else [])], default=None)
            found[name] = FilePosition(end, file.finished and end == len(file.lines), latest)
        return found, left <= 0

    def between(self, start: Positions, end: Positions) -> tuple[list[Line], int]:
        """The lines of a range that are still there, and how many are not."""
        lines: list[Line] = []
        lost = 0
        for name, at in end.items():
            first = start[name].offset if name in start else 0
            if first < at.offset:
                file = self.files[name]
                gone = max(0, min(file.deleted, at.offset) - first)
                lost += gone
                lines += file.lines[first + gone : at.offset]
        return lines, lost

    def truth(self, start: Positions, end: Positions) -> list[Line]:
        """The lines of a range, deleted or not."""
        return [
            line
            for name, at in end.items()
            for line in self.files[name].lines[start[name].offset if name in start else 0 : at.offset]
        ]

    def is_gone(self, name: bytes) -> bool:
        """Rotated away, and removed."""
        file = self.files[name]
        return file.finished and 0 < len(file.lines) == file.deleted

    def delete_before(self, floor: Positions) -> None:
        for name, at in floor.items():
            self.files[name].deleted = max(self.files[name].deleted, at.offset)

    @property
    def all_lines(self) -> Iterable[Line]:
        return (line for file in self.files.values() for line in file.lines)


def pane_states(plan: Plan, lines: Iterable[Line]) -> Mapping[int, PaneState]:
    """The real fold of some lines."""
    some = list(lines)
    phase = RowPhase(plan)
    columns = {
        field.name: Column.from_list(int(KINDS[field.name]), [getattr(line, field.name) for line in some])
        for field in plan.fields
    }
    if some:
        phase.process(columns, len(some))
    return phase.store.panes


def portion_of(spec: FoldSpec, lines: list[Line], lost: int) -> Portion:
    """What the driver of a real agent delivers."""
    feed, window = spec.key[1].revision, spec.plan.window
    panes: dict[int, list[Line]] = defaultdict(list)
    length = 0 if window is None else pane_us(window.size_us, window.slide_us)
    outside = late = 0
    for line in lines:
        pane = line.time - line.time % length if length else 0
        if not spec.first_pane_us <= pane < spec.end_pane_us:
            outside += 1
        elif pane < spec.closed_us:
            late += 1
        else:
            panes[pane].append(line)
    kept = pane_states(spec.plan, [line for some in panes.values() for line in some])
    counters = Counters(len(lines), sum(map(len, panes.values())), 0, outside, 0, late, lost)
    return Portion(
        tuple(PaneLines(feed, start, len(some)) for start, some in panes.items()),
        divided(feed, kept, spec.partitions),
        counters,
    )


class Driver:
    """Answers what an agent's core asks of its logs; the trees are lists of lines here until they are delivered."""

    def __init__(self, logs: Logs, trees_max: int) -> None:
        self.logs, self.trees_max = logs, trees_max
        self.trees: dict[StreamKey, tuple[list[Line], int]] = {}

    def advance(self, ask: Advance) -> Advanced:
        files, more = self.logs.positions(ask.start, ask.bytes_max)
        lines, lost = self.logs.between(ask.start, files)
        heard: dict[bytes, int] = {}
        for name, at in files.items():
            first = ask.start[name].offset if name in ask.start else 0
            times = [line.time for line in self.logs.files[name].lines[first : at.offset]]
            if times:
                heard[name] = max(times)
        kept, portions, overfull = {}, {}, set()
        for spec in ask.specs:
            old, old_lost = ([], 0) if spec.fresh else self.trees[spec.key]
            mine = [*old, *lines]
            if spec.deliver:
                portions[spec.key] = portion_of(spec, mine, old_lost + lost)
                kept[spec.key] = ([], 0)
            elif len(mine) > self.trees_max:
                overfull.add(spec.key)
            else:
                kept[spec.key] = (mine, old_lost + lost)
        self.trees = kept
        gone = frozenset(name for name in ask.start if self.logs.is_gone(name))
        return Advanced(ask.token, files, heard, portions, frozenset(overfull), gone, more)

    def fold(self, ask: Fold) -> Folded:
        end, reached = ask.end, None
        total = sum(
            at.offset - (ask.start[name].offset if name in ask.start else 0) for name, at in end.items()
        )
        if total > ask.bytes_max:
            reached = self._part(ask)
            end = reached
        lines, lost = self.logs.between(ask.start, end)
        self.logs.lost_lines += lost
        latest = max((line.time for line in lines), default=None)
        return Folded(ask.token, portion_of(ask.spec, lines, lost), reached, latest)

    def _part(self, ask: Fold) -> dict[bytes, FilePosition]:
        left = ask.bytes_max
        reached: dict[bytes, FilePosition] = {}
        for name, at in ask.end.items():
            known = ask.start.get(name, FilePosition(0))
            if left <= 0 and name not in ask.start:
                continue  # not begun yet
            step = min(left, at.offset - known.offset)
            left -= step
            offset = known.offset + step
            times = [line.time for line in self.logs.files[name].lines[known.offset : offset]]
            latest = max([*times, *([known.latest_us] if known.latest_us is not None else [])], default=None)
            reached[name] = FilePosition(offset, at.finished and offset == at.offset, latest)
        return reached

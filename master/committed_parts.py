"""What the committed state of a job (master/committed.py) is made of, and what it tells readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import msgspec

from cbt.tree import Tree
from job.plan_book import NEVER_US, Revision
from job.times import later
from master.entries import Reg
from master.requests import Coverage, ResultRecord
from srt.frame_messages import Counters, StreamId

WindowKey = tuple[int, int]
"""(start, end), microseconds; (0, NEVER_US) is the endless one."""


class StreamState(msgspec.Struct, array_like=True):
    """What is committed of a stream."""

    start: int
    next: int
    """The cut behind its committed content, which is the fold of (start, next]."""
    end: int
    """Where a history lane ends; -1: nowhere."""
    watermark_us: int | None
    counters: Counters

    @property
    def finished(self) -> bool:
        return self.end >= 0 and self.next == self.end


def registered(entry: Reg, partitions: int) -> dict[StreamId, StreamState]:
    """The streams that an entry opens: both lanes, of all partitions (R3)."""
    made: dict[StreamId, StreamState] = {}
    has_history = entry.split > entry.start
    begin = entry.split if has_history else entry.start
    for partition in range(partitions):
        live = StreamId(entry.revision, entry.agent).of(partition)
        made[live] = StreamState(begin, begin, -1, None, Counters())
        if has_history:
            made[live.history] = StreamState(entry.start, entry.start, entry.split, None, Counters())
    return made


def mark_of(
    state: Callable[[StreamId], StreamState | None], feed: int, agent: bytes, partitions: int
) -> int | None:
    """The least mark of an agent's live lane, and its history lane until that is finished, in all partitions. None: it has
    not begun; ALWAYS: it has read all there is, and no line told a time. O(partitions)."""
    stream, least = StreamId(feed, agent), NEVER_US
    for partition in range(partitions):
        live = state(stream.of(partition))
        history = state(stream.of(partition).history)
        for lane in (live,) if history is None or history.finished else (live, history):
            if lane is None or lane.watermark_us is None:
                return None
            least = min(least, lane.watermark_us)
    return least


def share_marks(streams: Mapping[StreamId, StreamState], stream: StreamId, partitions: int) -> None:
    """Cuts are those of all partitions, so the watermark of one holds for those that are as far. O(P log P)."""
    lanes = sorted((streams[stream.of(partition)] for partition in range(partitions)), key=_next)
    mark: int | None = None
    for _, group in groupby(lanes, _next):
        as_far = list(group)
        for lane in as_far:
            mark = later(lane.watermark_us, mark)
        for lane in as_far:
            lane.watermark_us = mark


def _next(state: StreamState) -> int:
    return state.next


class WindowState(msgspec.Struct, array_like=True):
    """A window that may still be published."""

    count: int = 0
    """Its last edition; 0: it was not published."""
    status: str = ""
    changed: bool = True
    """Its content is not that of its last publication."""


class WindowPublished(NamedTuple):
    """A window that readers may see. `tables` are the groups (0) and pairs of all its panes as of that entry, none if it has
    no rows; they are the receiver's."""

    log_index: int
    """Of the entry, and above its 40 lower bits the era: it ascends also when entries were lost."""
    start_us: int
    end_us: int
    edition: int
    """n: how often it was published, this time included; more after entries were lost."""
    status: str
    agents: int
    missing: tuple[str, ...]
    revision: Revision | None
    """None: the window is withdrawn, no plan has it any more."""
    tables: dict[int, Tree]
    lines: int
    coverage: Coverage
    published_us: int


Published = WindowPublished | ResultRecord
"""What readers may see: a window to be finished, or one that was computed elsewhere."""


class Dropped(msgspec.Struct, array_like=True):
    """Lines of one feed that came to the root in panes and count in no window."""

    late: int = 0
    """Their panes were closed."""
    outside: int = 0
    """No window of the feed has their pane (any more): another plan's windows have, or they are older than the job."""
    closed: int = 0
    """Of late lines, those of streams that were closed while their frame was under way: this feed's rows never had them."""

    def add(self, lines: int, late: bool, own: bool) -> None:
        """`own`: they are lines of this feed, not of one that is closed."""
        if late:
            self.late += lines
            self.closed += 0 if own else lines
        elif own:
            self.outside += lines

    def coverage(self, agents: int, missing: tuple[str, ...], of: Counters) -> Coverage:
        """What readers are shown of the feed. `of`: what its agents said."""
        rows = of.rows - (self.late - self.closed) - self.outside
        return Coverage(
            agents, missing, of.lines, rows, of.filtered, of.rejected, of.late + self.late, of.lost_bytes, of.shed,
            of.outside + self.outside,
        )  # fmt: skip


@dataclass
class Counts:
    """What the state itself did with committed lines."""

    late: int = 0
    """Dropped, for their panes were closed."""
    outside: int = 0
    """Dropped, for no window of their revision has their pane any more."""
    void: int = 0
    """Entries that changed nothing. Not part of the state: members that started from a snapshot know of fewer."""

    def note(self, lines: int, late: bool) -> None:
        if late:
            self.late += lines
        else:
            self.outside += lines

"""Snapshots of a job's committed state: parts of bounded size, for members that join or have fallen behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from cbt.budget import Budget
from cbt.options import Options as TreeOptions
from job.plan_book import NEVER_US, PlanBook, Revision
from master.committed import RUN_BYTES_MAX, Committed
from master.committed_parts import Dropped, StreamState, WindowState
from master.entries import DerivedEntry, PlanText
from master.errors import EntryError
from master.ingested import Ingested
from master.open_windows import OpenWindows
from srt.content import chunked
from srt.frame_messages import Counters, PaneLines, PaneRun, StreamId


class _Head(msgspec.Struct, array_like=True):
    """All of a snapshot but the runs."""

    index: int
    book: PlanBook
    past: tuple[Revision, ...]
    streams: list[tuple[StreamId, StreamState]]
    roster: list[tuple[bytes, bool, str]]
    windows: list[tuple[int, int, WindowState]]
    horizon_us: int
    late: int
    outside: int
    closed: Counters
    draining: bool
    panes: list[PaneLines]
    texts: dict[int, PlanText]
    problems: dict[int, str]
    stopped: bool
    removed: bool
    created_us: int
    changed_us: int
    era: int
    history: int
    delivered: int
    published: int
    editions: int
    filled_us: int
    empty_row: int
    derived: tuple[DerivedEntry, ...] = ()
    boundary_us: int | None = None
    """None in a snapshot of a version that knew of none."""
    ingested: Ingested = Ingested()
    dropped: dict[int, Dropped] = {}


def snapshot(state: Committed) -> Iterator[bytes]:
    """The state as parts of bounded size, the first of which has all but the runs. Apply nothing while it is read."""
    head = _Head(
        state.index,
        state.book,
        state.past,
        sorted(state.streams.items()),
        [(agent, on, state.names.get(agent, "")) for agent, on in state.roster.items()],
        [(*key, window) for key, window in sorted(state.windows.items())],
        state.horizon_us,
        state.counts.late,
        state.counts.outside,
        state.closed,
        state.draining,
        list(state.content.panes()),
        state.texts,
        state.problems,
        state.stopped,
        state.removed,
        state.created_us,
        state.changed_us,
        state.era,
        state.history,
        state.delivered,
        state.published,
        state.editions,
        state.filled_us,
        state.empty_row,
        state.derived,
        state.boundary_us,
        state.ingested,
        state.dropped,
    )
    yield msgspec.msgpack.encode(head)
    for part in chunked(state.content.runs()):
        yield msgspec.msgpack.encode(part)


def restored(parts: Iterable[bytes], budget: Budget, tree_options: TreeOptions | None = None) -> Committed:
    """The state of a snapshot. Raises EntryError."""
    made = Committed(budget, tree_options or TreeOptions())
    rest = iter(parts)
    try:
        head = msgspec.msgpack.decode(next(rest, b""), type=_Head)
        runs = (run for part in rest for run in msgspec.msgpack.decode(part, type=tuple[PaneRun, ...]))
        made.content.merge(made.content.staged(head.panes, runs, RUN_BYTES_MAX))
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as problem:
        raise EntryError(f"a snapshot that is none: {problem}") from problem
    made.index, made.book, made.horizon_us = head.index, head.book, head.horizon_us
    made.past, made.streams = head.past, dict(head.streams)
    made.roster = {agent: on for agent, on, _ in head.roster}
    made.names = {agent: name for agent, _, name in head.roster}
    made.windows = OpenWindows({(start, end): window for start, end, window in head.windows})
    made.counts.late, made.counts.outside = head.late, head.outside
    made.closed, made.draining = head.closed, head.draining
    made.texts, made.problems = head.texts, head.problems
    made.stopped, made.removed = head.stopped, head.removed
    made.created_us, made.changed_us = head.created_us, head.changed_us
    made.era, made.history = head.era, head.history
    made.delivered, made.published, made.editions = head.delivered, head.published, head.editions
    made.filled_us, made.empty_row = head.filled_us, head.empty_row
    made.derived, made.ingested, made.dropped = head.derived, head.ingested, head.dropped
    starts = [revision.start_us for revision in (*head.past, *head.book.revisions)]
    made.boundary_us = min(starts, default=NEVER_US) if head.boundary_us is None else head.boundary_us
    return made

"""Small frames for the tests of reducers and masters: count(*) and distinct statuses by path, as real runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cbt.aggregate import StateKind
from cbt.tree import Tree
from cython_ext.column import Column
from job.types import Kind
from srt.automaton import Ref
from srt.content import Content
from srt.frame_messages import LIVE, Counters, Frame, PaneLines, PaneRun, Span, StreamId
from srt.frames import Assemblies, WholeFrame

AGENTS = [bytes([number]) * 16 for number in range(1, 9)]
Groups = Mapping[str, int]
"""path -> hits."""


def stream(agent: int = 0, revision: int = 1, lane: int = LIVE) -> StreamId:
    return StreamId(revision, AGENTS[agent], lane)


def runs_of(revision: int, pane_us: int, groups: Groups) -> tuple[PaneRun, ...]:
    tree = Tree([int(Kind.STRING)], [int(StateKind.COUNT)])
    paths = [path for path, hits in groups.items() for _ in range(hits)]
    tree.update([Column.from_list(Kind.STRING, paths)], [None], [None], len(paths))
    return tuple(PaneRun(revision, pane_us, 0, run) for run in tree.runs())


def frame(
    number: int,
    spans: Mapping[StreamId, tuple[int, int]],
    panes: Mapping[int, Groups] | None = None,
    solo: bool = False,
    watermark_us: int | None = None,
    revision: int = 1,
) -> WholeFrame:
    """A frame of `spans` {stream: (from, to)} and `panes` {start: {path: hits}}; all lines are booked to the first span."""
    panes = panes or {}
    lines = sum(sum(groups.values()) for groups in panes.values())
    return WholeFrame(
        number,
        solo,
        tuple(
            Span(one, *ends, watermark_us, Counters(lines, lines) if not index and lines else Counters())
            for index, (one, ends) in enumerate(spans.items())
        ),
        tuple(PaneLines(revision, start, sum(groups.values())) for start, groups in panes.items()),
        tuple(run for start, groups in panes.items() for run in runs_of(revision, start, groups)),
    )


def groups_of(content: Content, revision: int, pane_us: int) -> dict[Any, int]:
    """path -> hits of a pane."""
    found: dict[Any, int] = {}
    tree = content.tables.get((revision, pane_us), {}).get(0)
    for batch in () if tree is None else tree.batches():
        hits = batch.finish(0, 1)[0].to_list()
        found.update(zip(batch.keys()[0].to_list(), hits, strict=True))
    return found


def whole_frames(messages: Iterable[Any]) -> list[WholeFrame]:
    """The frames among the messages of one sender."""
    begun, sender = Assemblies(1 << 30, 1 << 30, 1), Ref(bytes(16), "sender", 1)
    found = [begun.take(sender, one) for one in messages if isinstance(one, Frame)]
    return [one for one in found if one is not None]

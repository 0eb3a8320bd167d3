"""Before the shuffle: the panes of a few lines, packed. Pure.

A split's lines go through the row phase of the plan into panes, as an agent's do, and the panes come out as runs
(docs/RUN.md), in the records in which agents send them: `PaneRun`. Large stretches are merged in several hash ranges, so
their runs are cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cbt.codec import compress, expand
from cbt.options import Options
from cython_ext.groups import GroupTable
from cython_ext.merge import Merger
from cython_ext.run import RunShape, compress_block, decode_run, encode_run
from job.panes import PaneStore
from job.plan import Window
from master.spark.stretches import Router, bounds
from srt.content import run_kinds
from srt.frame_messages import PaneRun

RUN_BYTES_MAX = 1 << 30
"""Of one run, packed and expanded: far beyond what `batch_bytes_max` lets trees write."""


def packed(store: PaneStore) -> Iterator[PaneRun]:
    """All groups of `store` as runs of bounded size, by pane and table, in order of hash. Its panes are freed on the way."""
    while store.panes:
        start, state = store.panes.popitem(0)
        for table, tree in enumerate((state.groups, *state.pairs)):
            for run in tree.runs():
                yield PaneRun(0, start, table, run)


def pane_sizes(runs: Sequence[PaneRun]) -> dict[int, int]:
    """Packed bytes by pane."""
    sizes: dict[int, int] = {}
    for run in runs:
        sizes[run.start_us] = sizes.get(run.start_us, 0) + len(run.run)
    return sizes


def kept_panes(asked_us: tuple[int, int], window: Window) -> tuple[int, int]:
    """The panes, as [first, end), of which the windows that start in [first, end) of `asked_us` are made."""
    slide = window.slide_us
    first, end = (-(-edge // slide) * slide for edge in asked_us)
    return first, first if end <= first else end - slide + window.size_us


def routed(run: PaneRun, router: Router) -> Iterator[tuple[int, PaneRun]]:
    """A run for each part that needs it: (number of the part, run)."""
    cuts: dict[int, Mapping[int, bytes]] = {}
    for stretch in router.of(run.start_us):
        if stretch.ranges == 1:
            yield stretch.part, run
            continue
        if stretch.ranges not in cuts:
            cuts[stretch.ranges] = cut(run.run, stretch.ranges)
        for number, piece in cuts[stretch.ranges].items():
            yield stretch.part + number, PaneRun(run.revision, run.start_us, run.table, piece)


def cut(run: bytes, ranges: int) -> dict[int, bytes]:
    """The groups of a run by hash range, as runs; ranges without groups are left out. O(groups). Raises RunError."""
    shape = RunShape(GroupTable(*run_kinds(run)))
    blocks = decode_run(shape, run, expand, RUN_BYTES_MAX, expanded_bytes_max=RUN_BYTES_MAX)
    merger, block_bytes = Merger(shape, [blocks]), Options().block_bytes
    pieces: dict[int, bytes] = {}
    for number, end in enumerate(bounds(ranges)):
        until = None if number == ranges - 1 else end
        piece: list[bytes] = []
        while (block := merger.next_block(block_bytes, until)) is not None:
            piece.append(compress_block(shape, block, compress))
        if piece:
            pieces[number] = encode_run(shape, piece)
    return pieces

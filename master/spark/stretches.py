"""Where the work behind the shuffle is cut: stretches of time, and within large ones ranges of the key hash. Pure.

A *stretch* is a run of consecutive windows: what is finished, kept and told as one. A *part* is one hash range of a stretch:
what one task merges. The cuts follow from the sizes that the scan found: small answers are one part, large ones many.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

import msgspec

from job.plan import Plan, Window
from job.window import window_starts

PART_BYTES = 16 << 20
"""Packed runs of a part: a second or two of merging."""
WINDOWS_MAX = 2048
"""Windows of a stretch, unless one window is made of more panes than so many slides."""
RANGES_MAX = 256
HASHES = 1 << 64
ALL_TIME = (-(1 << 62), 1 << 62)
"""No bounds: microseconds before and after all times of logs."""


class Stretch(msgspec.Struct, frozen=True, array_like=True):
    """The windows that start in [first_us, end_us); both None for a plan without windows. Its parts are numbered from
    `part` on."""

    first_us: int | None
    end_us: int | None
    starts: tuple[int | None, ...]
    """Of its windows that have lines."""
    ranges: int
    part: int

    @property
    def name(self) -> str:
        """What nothing but this stretch of the same work is called."""
        if self.first_us is None:
            return "all"
        return f"{self.first_us}_{self.end_us}"


class Assignment(msgspec.Struct, frozen=True, array_like=True):
    """What the task of a part does."""

    stretch: Stretch
    range: int


def may_be_cut(plan: Plan, is_final: bool) -> bool:
    """Whether the groups of one window may be merged in several hash ranges: not without keys, for there is one group; not
    with count(DISTINCT), whose values lie in order of another hash; not below another plan with LIMIT, which needs all."""
    has_pairs = any(aggregate.function == "count_distinct" for aggregate in plan.aggregates)
    return bool(plan.keys) and not has_pairs and (is_final or plan.limit is None)


def stretches(
    sizes: Mapping[int, int],
    window: Window | None,
    ranges_max: int = 1,
    part_bytes: int = PART_BYTES,
    asked_us: tuple[int, int] = ALL_TIME,
) -> list[Stretch]:
    """The stretches of panes of these packed `sizes`, by start of the pane: the windows that start in [first, end) of
    `asked_us`. O(windows log panes)."""
    if window is None:
        return [Stretch(None, None, (None,), _ranges(sum(sizes.values()), ranges_max, part_bytes), 0)]
    panes = sorted(sizes)
    totals = [0, *accumulate(sizes[pane] for pane in panes)]

    def bytes_of(first_us: int, last_us: int) -> int:
        """Of the panes that the windows from one start to another need."""
        end = bisect_left(panes, last_us + window.size_us)
        return totals[end] - totals[bisect_left(panes, first_us)]

    made: list[Stretch] = []
    taken: list[int] = []
    part = 0
    starts = window_starts(panes, window.size_us, window.slide_us)
    asked = [start for start in starts if asked_us[0] <= start < asked_us[1]]
    for start in [*asked, None]:
        size = bytes_of(taken[0], taken[-1]) if taken else 0
        if taken and (start is None or _is_full(taken, start, size, window, part_bytes)):
            ranges = _ranges(size, ranges_max, part_bytes)
            made.append(Stretch(taken[0], taken[-1] + window.slide_us, tuple(taken), ranges, part))
            part += ranges
            taken = []
        if start is not None:
            taken.append(start)
    return made


def _is_full(taken: Sequence[int], start: int, size: int, window: Window, part_bytes: int) -> bool:
    """Panes that two stretches need are merged twice: so a stretch is at least as long as a window of several slides."""
    if window.size_us != window.slide_us and start - taken[0] < window.size_us:
        return False
    return size >= part_bytes or len(taken) >= WINDOWS_MAX


def _ranges(size: int, ranges_max: int, part_bytes: int) -> int:
    return max(1, min(ranges_max, RANGES_MAX, -(-size // part_bytes)))


def assignments(all_stretches: Sequence[Stretch]) -> list[Assignment]:
    """What each part is, by its number."""
    return [Assignment(stretch, range_) for stretch in all_stretches for range_ in range(stretch.ranges)]


class Router:
    """Which stretches need a pane."""

    def __init__(self, all_stretches: Sequence[Stretch], window: Window | None) -> None:
        self._stretches, self._window = all_stretches, window
        self._firsts = [0 if stretch.first_us is None else stretch.first_us for stretch in all_stretches]

    def of(self, pane_us: int) -> Iterator[Stretch]:
        """The stretches that have a window with this pane. O(log stretches + answers)."""
        window = self._window
        if window is None:
            yield from self._stretches
            return
        at = bisect_right(self._firsts, pane_us)
        while at > 0:
            at -= 1
            end = self._stretches[at].end_us
            if end is None or pane_us >= end - window.slide_us + window.size_us:
                return
            yield self._stretches[at]


def bounds(ranges: int) -> list[int]:
    """Where each of `ranges` equal hash ranges ends."""
    return [(number + 1) * HASHES // ranges for number in range(ranges)]

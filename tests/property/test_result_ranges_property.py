"""Ranges of time that tasks share: each moment in one of them, whatever windows there are."""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from master.spark.result_ranges import Range, ranges

EPOCH = datetime(2025, 11, 28, tzinfo=UTC)


class Windows:
    """Starts of windows, and how often it was asked for one."""

    def __init__(self, starts: list[datetime], end: datetime | None) -> None:
        self.starts = [start for start in starts if end is None or start < end]
        self.asked = 0

    def behind(self, moment: datetime) -> datetime | None:
        self.asked += 1
        assert moment.tzinfo is not None
        return next(iter(self.starts[bisect_left(self.starts, moment) :]), None)


def cut(windows: Windows, page: int, asked: Range, parts: int) -> list[Range]:
    found = ranges(windows.starts[:page], windows.behind, asked, parts)
    edges = [start for start, _ in found] + [found[-1][1]]
    assert (edges[0], edges[-1]) == asked
    assert all(before[1] == after[0] for before, after in pairwise(found))
    inner = [edge for edge in edges[1:-1] if edge is not None]
    assert len(inner) == len(found) - 1
    assert inner == sorted(set(inner))
    assert all((asked[0] or EPOCH) < edge for edge in inner)
    assert all(edge < asked[1] for edge in inner if asked[1] is not None)
    return found


@given(
    st.lists(st.integers(0, 10**15), min_size=2, max_size=200, unique=True),
    st.integers(2, 50),
    st.integers(2, 20),
    st.integers(0, 10**15) | st.none(),
)
def test_each_moment_is_in_one_range(micros: list[int], page: int, parts: int, end_us: int | None) -> None:
    starts = sorted(EPOCH + timedelta(microseconds=one) for one in micros)
    end = None if end_us is None else EPOCH + timedelta(microseconds=end_us)
    windows = Windows(starts, end)
    cut(windows, page, (None, end), parts)
    assert windows.asked <= 120  # the span of all windows is at most 2^50 of the first step, and a hole is jumped over


def test_windows_at_a_steady_pace_are_shared_evenly() -> None:
    starts = [EPOCH + timedelta(seconds=10 * number) for number in range(100_000)]
    windows = Windows(starts, None)
    found = cut(windows, 200, (EPOCH, None), 8)
    sizes = [
        bisect_left(starts, end or starts[-1] + timedelta(1)) - bisect_left(starts, start or EPOCH) for start, end in found
    ]
    assert sum(sizes) == len(starts)
    assert max(sizes) < 1.2 * len(starts) / 8
    assert windows.asked < 20


def test_what_cannot_be_cut_is_one_range() -> None:
    asked = (EPOCH, EPOCH + timedelta(days=1))
    assert ranges([], Windows([], None).behind, asked, 8) == [asked]
    assert ranges([EPOCH] * 3, Windows([EPOCH] * 3, None).behind, asked, 8) == [asked]

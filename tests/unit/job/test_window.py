"""Panes and windows: every instant is in exactly size / slide windows, and panes never straddle an edge."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from job.window import open_pane, pane_us, window_starts


def test_tumbling_windows_are_their_panes() -> None:
    assert pane_us(60, 60) == 60
    assert window_starts([0, 60, 180], 60, 60) == [0, 60, 180]


def test_sliding_windows() -> None:
    assert pane_us(60, 25) == 5
    assert window_starts([0], 60, 20) == [-40, -20, 0]


@given(
    slide=st.integers(1, 30),
    size=st.integers(1, 90),
    times=st.lists(st.integers(-1000, 1000), min_size=1, max_size=20),
)
def test_windows_by_panes_hold_the_same_times_as_by_definition(
    slide: int, size: int, times: list[int]
) -> None:
    slide = min(slide, size)
    pane = pane_us(size, slide)
    panes = sorted({time - time % pane for time in times})
    starts = window_starts(panes, size, slide)
    by_panes = {
        start: [time for time in times if start <= time - time % pane < start + size] for start in starts
    }
    wide = range(-1000 - size, 1001)
    by_definition = {
        start: [time for time in times if start <= time < start + size]
        for start in wide
        if start % slide == 0
    }
    assert by_panes == {start: inside for start, inside in by_definition.items() if inside}


@given(
    slide=st.integers(1, 30),
    size=st.integers(1, 90),
    lateness=st.integers(0, 50),
    watermark=st.integers(-200, 200),
)
def test_a_pane_is_open_while_one_of_its_windows_is(
    slide: int, size: int, lateness: int, watermark: int
) -> None:
    slide = min(slide, size)
    first = open_pane(watermark, size, slide, lateness)
    for time in range(watermark - 300, watermark + 50):
        ends = [start + size for start in range(time - size + 1, time + 1) if start % slide == 0]
        assert (time >= first) == (max(ends) + lateness > watermark)

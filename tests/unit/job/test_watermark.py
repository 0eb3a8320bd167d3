"""Watermarks: the least of the busy files, on by elapsed time when idle, never back, never far ahead of the clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from job.errors import JobError
from job.watermark import AHEAD_MAX_US, SourceWatermark, Timing

S = 1_000_000
CLOCK = 10_000 * S
TIMING = Timing(delay_us=2 * S, idle_us=5 * S, lateness_us=60 * S)


def test_a_source_without_lines_has_none() -> None:
    assert SourceWatermark(TIMING).value_us(0, CLOCK) is None


def test_it_is_the_largest_time_less_the_delay() -> None:
    mark = SourceWatermark(TIMING)
    mark.lines("a", 100 * S, now_us=0)
    mark.lines("a", 90 * S, now_us=0)
    assert mark.value_us(0, CLOCK) == 98 * S


def test_the_slowest_busy_file_decides() -> None:
    mark = SourceWatermark(TIMING)
    mark.lines("a", 100 * S, now_us=0)
    mark.lines("b", 50 * S, now_us=0)
    assert mark.value_us(0, CLOCK) == 48 * S
    mark.lines("b", 80 * S, now_us=S)
    assert mark.value_us(S, CLOCK) == 78 * S


def test_an_idle_file_holds_nobody_back() -> None:
    mark = SourceWatermark(TIMING)
    mark.lines("slow", 50 * S, now_us=0)
    mark.lines("a", 100 * S, now_us=4 * S)
    assert mark.value_us(4 * S, CLOCK) == 48 * S
    assert mark.value_us(5 * S, CLOCK) == 98 * S


def test_a_finished_file_holds_nobody_back() -> None:
    mark = SourceWatermark(TIMING)
    mark.lines("old", 50 * S, now_us=0)
    mark.lines("new", 100 * S, now_us=0)
    mark.closed("old")
    assert mark.value_us(0, CLOCK) == 98 * S
    mark.closed("new")
    assert mark.value_us(S, CLOCK) == 98 * S


def test_an_idle_source_goes_on_by_the_time_that_passes_from_where_it_was() -> None:
    mark = SourceWatermark(TIMING)
    mark.lines("a", 100 * S, now_us=0)
    assert mark.value_us(4 * S, CLOCK) == 98 * S
    assert mark.value_us(5 * S, CLOCK) == 103 * S
    assert mark.value_us(20 * S, CLOCK) == 118 * S
    mark.lines("a", 101 * S, now_us=21 * S)
    assert mark.value_us(21 * S, CLOCK) == 118 * S  # never back


def test_when_all_are_idle_the_greatest_decides() -> None:
    mark = SourceWatermark(TIMING)
    mark.lines("years ago", 1 * S, now_us=0)
    mark.lines("yesterday", 1000 * S, now_us=0)
    assert mark.value_us(6 * S, CLOCK) == 1004 * S


def test_a_line_from_the_future_moves_it_to_just_ahead_of_the_clock() -> None:
    mark = SourceWatermark(TIMING)
    mark.lines("a", CLOCK + 1800 * S, now_us=0)
    assert mark.value_us(0, CLOCK) == CLOCK + AHEAD_MAX_US - 2 * S
    assert mark.value_us(S, CLOCK + S) == CLOCK + S + AHEAD_MAX_US - 2 * S


def test_a_source_without_lines_takes_what_the_root_announced() -> None:
    mark = SourceWatermark(TIMING)
    mark.announced(77 * S)
    mark.announced(76 * S)
    assert mark.value_us(0, CLOCK) == 77 * S
    mark.lines("a", 100 * S, now_us=0)
    assert mark.value_us(0, CLOCK) == 98 * S


def test_negative_settings_are_refused_together() -> None:
    with pytest.raises(JobError, match="delay, lateness must not be negative"):
        Timing(delay_us=-1, lateness_us=-1)


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 10**12), st.integers(0, 20 * S), st.booleans()), max_size=30
    )
)
def test_it_never_goes_back_and_never_far_ahead(steps: list[tuple[str, int, int, bool]]) -> None:
    mark, now, before = SourceWatermark(TIMING), 0, None
    for file, time, pause, close in steps:
        now += pause
        mark.lines(file, time, now)
        if close:
            mark.closed(file)
        value = mark.value_us(now, CLOCK + now)
        assert value is not None
        assert before is None or value >= before
        assert value <= CLOCK + now + AHEAD_MAX_US - TIMING.delay_us
        before = value

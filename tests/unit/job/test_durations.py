"""Durations: what people write, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from job.durations import DURATION_MAX_US, UNITS_US, duration_s, duration_text, duration_us


@given(st.integers(0, DURATION_MAX_US))
def test_durations_are_read_back(microseconds: int) -> None:
    assert duration_us(duration_text(microseconds)) == microseconds


@given(st.integers(0, 10**6), st.integers(0, 10**6 - 1))
def test_each_digit_counts(seconds: int, rest: int) -> None:
    """4.1 s is not 4.099999 s."""
    assert duration_us(f"{seconds}.{rest:06}s") == seconds * 10**6 + rest


@pytest.mark.parametrize("unit", UNITS_US)
def test_units(unit: str) -> None:
    assert duration_us(f" 3 {unit} ") == 3 * UNITS_US[unit]
    assert duration_s(f"3{unit}") == 3 * UNITS_US[unit] / 10**6


@pytest.mark.parametrize(
    "text", ["", "5", "s", "-5s", "5 weeks", "1e3s", "1.s", ".5s", "\u0665s", 5, 0.5, None, False, True, ["5s"]]
)
def test_what_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match="is no duration; write 500ms"):
        duration_us(text)


def test_what_is_too_long() -> None:
    assert duration_s(duration_text(DURATION_MAX_US)) == DURATION_MAX_US / 10**6
    with pytest.raises(ValueError, match="'36501d' is more than a hundred years"):
        duration_s("36501d")


def test_nothing_needs_no_unit() -> None:
    assert duration_us(0) == duration_us("0") == duration_us("0s") == 0

"""The least of many times, against a dict, and times that many share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srt.automaton import NEVER
from srt.due_times import DueTimes, Ticks

KEYS = st.sampled_from([bytes([number]) for number in range(5)])
STEPS = st.lists(st.tuples(KEYS, st.sampled_from([NEVER, -NEVER, 0.0, 1.0, 2.0, 3.0])), max_size=300)


@given(STEPS, st.sampled_from([0.5, 1.0, 2.5]))
def test_it_is_the_least_of_what_was_set_last(steps: list[tuple[bytes, float]], now_s: float) -> None:
    due, known = DueTimes[bytes](), dict[bytes, float]()
    for number, (key, at_s) in enumerate(steps):
        due.set(key, at_s)
        known[key] = at_s
        assert due.first == min(known.values())
        if number % 7 == 6:
            taken = due.take(now_s)
            assert sorted(taken) == sorted(key for key, at in known.items() if at <= now_s)
            assert [known[key] for key in taken] == sorted(known[key] for key in taken)
            known |= dict.fromkeys(taken, NEVER)
    assert len(due._heap) <= 2 * 5 + 65  # what was replaced does not pile up


@given(st.floats(-1e6, 1e6), st.sampled_from([0.05, 0.25, 1.0]), st.floats(0.0, 1.0, exclude_max=True))
def test_a_tick_is_not_before_the_time_and_many_times_share_it(at_s: float, every_s: float, phase: float) -> None:
    ticks = Ticks(every_s, phase * every_s)
    tick_s = ticks.after(at_s)
    assert at_s <= tick_s < at_s + every_s + 1e-6
    assert ticks.after(tick_s) == tick_s
    assert ticks.after(tick_s - every_s / 2) == pytest.approx(tick_s, abs=1e-5)
    assert ticks.after(NEVER) == NEVER

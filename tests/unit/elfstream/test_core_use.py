"""Which part of its time a core works."""

from __future__ import annotations

import pytest

from elfstream.core_use import SPAN_S, USE_MAX, CoreUse


def used(part: float, seconds: float, turn_s: float = 0.01) -> float:
    """What is known of a core that works so much of each turn, for so long."""
    use, now_s = CoreUse(), 100.0
    while now_s < 100.0 + seconds:
        use.worked(now_s, now_s + part * turn_s)
        now_s += turn_s
    return use.share(now_s)


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_after_a_while_it_is_what_it_works(part: float) -> None:
    assert used(part, 8 * SPAN_S) == pytest.approx(part, abs=0.01)


def test_it_does_not_depend_on_how_long_a_turn_is() -> None:
    assert used(0.6, 30.0, 0.5) == pytest.approx(used(0.6, 30.0), abs=0.02)


def test_ten_seconds_of_nothing_else_are_no_overload_and_half_a_minute_is() -> None:
    assert used(1.0, 10.0) < USE_MAX < used(1.0, 30.0)


def test_it_forgets_while_it_rests() -> None:
    use = CoreUse()
    assert use.share(5.0) == 0.0
    use.worked(0.0, 10 * SPAN_S)
    assert use.share(10 * SPAN_S) == pytest.approx(1.0, abs=1e-3)
    assert use.share(10 * SPAN_S + 1.0) < 1.0
    assert use.share(20 * SPAN_S) < 0.001

"""What jobs cost that have nothing to do: the work grows with the jobs, not with their square, and each costs little."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from elfstream.testing import Fleet

CALLS_MAX = 850
"""Of Python functions, for a job and a second, on all three nodes together, their simulation included; it is about 710. When
each group gave its own signs of life it was 3,700; 930 when the clock was told each second, and agents went over all streams
at each emit."""


def calls_for_each(jobs: int, seconds: float) -> float:
    """Calls of Python functions in a fleet at rest, for each job and second."""
    counted = 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal counted
        counted += event == "call"

    with Fleet(agents=2, workers=1, format="combined") as fleet:
        for number in range(jobs):
            fleet.submit(f"job{number}", f"SELECT count(*) AS n FROM access WHERE status = {number}")
        fleet.sleep(5)
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            fleet.sleep(seconds)
        finally:
            sys.setprofile(before)
    return counted / jobs / seconds


@pytest.fixture(scope="module")
def few() -> float:
    return calls_for_each(10, 4.0)


def test_a_job_costs_no_more_beside_many_others(few: float) -> None:
    many = calls_for_each(60, 4.0)
    assert many < 1.2 * few
    assert many < CALLS_MAX

"""A fleet with many jobs within its bounds; at ELF's largest size in `make stress`."""

from __future__ import annotations

import pytest

from tests.sim.fleet_figures import take_figures


@pytest.mark.parametrize(
    ("nodes", "jobs", "agents_per_job"),
    [(160, 60, 6), pytest.param(1280, 1000, 8, marks=pytest.mark.stress)],
)
def test_a_fleet_with_many_jobs(nodes: int, jobs: int, agents_per_job: int) -> None:
    figures = take_figures(nodes, jobs, agents_per_job)
    assert figures.hops_max <= figures.hops_allowed
    assert figures.children_max <= 16
    assert figures.masters_max <= 2 * figures.masters_max_hashed
    assert figures.build_s <= 2.0
    assert figures.cast_s <= 0.3
    assert figures.newcomer_s <= 1.5
    assert figures.joined_s <= 2.0
    assert figures.repaired_s <= 3.0
    assert figures.trees_repaired_s <= 3.0

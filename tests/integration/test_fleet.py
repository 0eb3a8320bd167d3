"""A fleet of real processes: logs go in, kills and pauses come over it, and its results are those of the truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.test_truth import DATA
from tests.integration.fleet_proof import prove

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the log sets of ../shared/data are not here")


def test_results_are_the_truth_though_nodes_fail_and_a_job_is_changed(tmp_path: Path) -> None:
    prove(tmp_path, agents=8, workers=2, faults=5, write_s=8.0, seed=1)


def test_results_of_divided_jobs_are_the_truth_though_a_node_fails(tmp_path: Path) -> None:
    prove(tmp_path, agents=3, workers=2, faults=1, write_s=4.0, seed=2, partitions=3)

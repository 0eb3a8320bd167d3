"""A fleet of real processes: logs go in, a kill or a pause comes over it, and its results are those of the truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.test_truth import DATA
from tests.integration.fleet_proof import prove

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the log sets of ../shared/data are not here")


def test_results_are_the_truth_though_a_node_fails_and_a_job_is_changed(tmp_path: Path) -> None:
    prove(tmp_path, agents=3, workers=2, faults=1, write_s=6.0, seed=1)

"""A fleet of real processes: logs go in, kills and pauses come over it, and its results are those of the truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.test_truth import DATA
from tests.integration.fleet_proof import prove

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the log sets of ../shared/data are not here")


def test_results_are_the_truth_whatever_happens_to_nodes(tmp_path: Path) -> None:
    prove(tmp_path, agents=3, workers=2, faults=5, write_s=8.0, seed=1)

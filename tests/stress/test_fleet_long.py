"""A larger fleet of real processes under many faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.test_truth import DATA
from tests.integration.fleet_proof import prove

pytestmark = [
    pytest.mark.stress,
    pytest.mark.skipif(not DATA.is_dir(), reason="the log sets of ../shared/data are not here"),
]


def test_a_hundred_faults(tmp_path: Path) -> None:
    prove(tmp_path, agents=8, workers=2, faults=100, write_s=240.0, seed=2)


@pytest.mark.parametrize("seed", range(100, 105))
def test_other_seeds(seed: int, tmp_path: Path) -> None:
    prove(tmp_path, agents=3, workers=2, faults=8, write_s=12.0, seed=seed)

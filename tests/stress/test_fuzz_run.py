"""The fuzzer of runs, for a while."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest


@pytest.mark.stress
def test_damaged_runs_are_refused_or_sound() -> None:
    one_round = runpy.run_path(str(Path(__file__).with_name("fuzz_run.py")))["one_round"]
    refused = sum(one_round(seed) for seed in range(100_000))
    assert 50_000 < refused < 100_000

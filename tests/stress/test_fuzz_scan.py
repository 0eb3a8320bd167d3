"""The scan fuzzer, for a while."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest


@pytest.mark.stress
def test_kernel_and_reference_agree_on_fuzzed_blocks() -> None:
    one_round = runpy.run_path(str(Path(__file__).with_name("fuzz_scan.py")))["one_round"]
    for seed in range(20_000):
        one_round(seed)

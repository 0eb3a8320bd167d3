"""Benchmarks cannot rot: each runs at its tiny size, and its contestants agree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(path.stem for path in (ROOT / "bench").glob("bench_*.py"))


@pytest.mark.parametrize("module", MODULES)
def test_smoke(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{module}", "--smoke"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()

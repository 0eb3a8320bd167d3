"""Exact answers over many more groups than the memory cap holds, at a peak of the whole process near the cap."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PEAK_MIB_MAX = 192


@pytest.mark.stress
@pytest.mark.parametrize(
    ("events", "keys", "key_bytes", "trees"),
    [
        pytest.param(50_000_000, 20_000_000, 20, 1, id="20-byte keys"),
        pytest.param(50_000_000, 20_000_000, 200, 1, id="200-byte keys"),
        pytest.param(50_000_000, 312_500, 20, 64, id="64 trees"),
    ],
)
def test_many_groups_under_a_cap(events: int, keys: int, key_bytes: int, trees: int, tmp_path: Path) -> None:
    program = Path(__file__).with_name("tree_cap.py")
    arguments = [str(value) for value in (events, keys, key_bytes, trees, 128, tmp_path)]
    done = subprocess.run(
        [sys.executable, str(program), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["found"] == answer["expected"]
    assert answer["peak_mib"] <= PEAK_MIB_MAX
    assert (answer["left_bytes"], answer["left_on_disk"]) == (0, 0)
    assert list(tmp_path.iterdir()) == []

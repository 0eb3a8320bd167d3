"""docs/SPARK.md: the commands of its chapter about backfills run, and say what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import elfstream as elf
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.spark
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "SPARK.md").read_text()
CHAPTER = PAGE[PAGE.index("## Backfill") : PAGE.index("## Where live")]


def test_the_commands_run(spark: Any, tmp_path: Path) -> None:
    launcher = tmp_path / "elfstream"
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m elfstream "$@"\n')
    launcher.chmod(0o755)
    (block,) = re.findall(r"^```sh\n(.*?)^```$", CHAPTER, re.MULTILINE | re.DOTALL)
    more = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["sh", "-ec", block.replace("/tmp/elfstream-work", str(tmp_path / "work"))],
        cwd=ROOT, env={**os.environ, **more}, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    log = str(ROOT / "examples" / "access.log")
    hours = elf.query(
        "SELECT window(time, '1 hour') AS h, count(*) AS n FROM access GROUP BY window(time, '1 hour')", log
    )
    assert "   200   278\n" in done.stdout
    assert [int(line.rpartition(",")[2]) for line in done.stdout.splitlines() if "Z," in line] == [
        row.n for row in hours
    ]
    assert not (tmp_path / "work").exists()

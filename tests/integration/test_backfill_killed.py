"""Backfills that are killed: what was finished is kept and not done again, and the answer is the same."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import elfstream as elf
from tests.backfill_process import SIZES, prepared_for, told_by
from tests.integration.test_backfill import QUERIES, written

pytestmark = pytest.mark.spark
ROOT = Path(__file__).resolve().parents[2]
SQL = QUERIES["sliding"]
TIME_MAX_S = 900


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return written(tmp_path_factory.mktemp("logs"), 9000, 8)


def run(master: str, work: Path, kill: str, logs: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.backfill_process", master, SQL, str(work), kill, *logs]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIME_MAX_S, check=False)


def wanted(logs: list[str]) -> dict[str, Any]:
    result = elf.query(SQL, logs, format="combined")
    stats = result.stats
    told = {
        "rows": [[str(value) for value in row] for row in result],
        "stats": [stats.lines, stats.parsed, dict(stats.rejected_by), stats.groups, stats.bytes],
        "samples": [[sample.path, sample.line_number] for sample in stats.samples],
    }
    return json.loads(json.dumps(told))  # type: ignore[no-any-return]


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def kept(work: Path, kind: str) -> dict[str, int]:
    """Files of a kind, and when they were made."""
    return {path.name: path.stat().st_mtime_ns for path in work.glob(f"*/{kind}-*.elf")}


def test_the_driver_is_killed(spark: Any, logs: list[str], tmp_path: Path) -> None:
    """Twice: while logs are read, and while windows are finished."""
    work = tmp_path / "work"
    assert run("local[2]", work, "scan", logs).returncode == -signal.SIGKILL
    tasks = kept(work, "task")
    assert tasks
    assert run("local[2]", work, "windows", logs).returncode == -signal.SIGKILL
    windows = kept(work, "windows")
    assert windows
    rerun = prepared_for(SQL, str(work), logs)
    told = json.loads(json.dumps(told_by(rerun, [done.window for done in rerun.windows(spark)])))
    assert told["kept_stretches"] == len(windows)
    assert tasks.items() <= kept(work, "task").items()  # what was there was not written again
    assert windows.items() < kept(work, "windows").items()
    want = wanted(logs)
    assert {name: told[name] for name in want} == want


def test_an_executor_is_killed(spark: Any, logs: list[str], tmp_path: Path) -> None:
    told = answer(run("local-cluster[2,1,1024]", tmp_path / "work", "executor", logs))
    assert told["killed"] == 1
    want = wanted(logs)
    assert {name: told[name] for name in want} == want


def test_ctrl_c_ends_the_job_and_keeps_what_is_done(spark: Any, logs: list[str], tmp_path: Path) -> None:
    def interrupt(now: elf.Progress) -> None:
        if now.bytes_done:
            raise KeyboardInterrupt

    work = tmp_path / "work"
    with pytest.raises(KeyboardInterrupt):
        elf.backfill(
            SQL, logs, format="combined", spark=spark, work_dir=work, sizes=SIZES, progress=interrupt
        )
    assert kept(work, "task")
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    result = elf.backfill(SQL, logs, format="combined", spark=spark, work_dir=work, sizes=SIZES)
    assert [list(row) for row in result] == [list(row) for row in elf.query(SQL, logs, format="combined")]
    assert not work.exists()

"""Real logs split at a random time: before it a backfill by Spark, from it on a fleet of processes. Together they are the
truth, each window once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import elfstream as elf
from elfstream.client_sync import Job
from elfstream.remote_results import WindowResult
from tests.golden.test_truth import DATA
from tests.integration.fleet_logs import CHANGED, Replay
from tests.integration.fleet_processes import ROOT, Collector, Fleet, until
from tests.patience import PATIENCE_S

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not DATA.is_dir(), reason="the log sets of ../shared/data are not here"),
]

SET, AGENTS, WRITE_S = "apache_semicomplete_2015", 2, 4.0
SQL = {
    "minutes": CHANGED,
    "hours": """SELECT window(time, '1 hour', '15 minutes') AS w, status, count(*) AS n, count(DISTINCT path) AS paths,
                       max(bytes) AS most FROM access GROUP BY w, status ORDER BY n DESC LIMIT 3""",
}
HOUR = timedelta(hours=1)


def of_backfill(job: Job) -> list[WindowResult]:
    return [one for one in job.results(all=True) if one.origin == "backfill"]


def is_over(job: Job) -> bool:
    shown = job.show()
    return shown["state"] == "stopped" and shown["windows_open"] == 0


def test_backfilled_and_live_windows_are_the_truth(spark: Any, tmp_path: Path) -> None:
    """`minutes` by the command, while the rest is written; `hours`, whose windows overlap the boundary, from Python."""
    seed = time.time_ns()
    print(f"seed {seed}")
    rng = random.Random(seed)
    with Fleet(tmp_path, AGENTS, 1, {"access": "combined"}) as fleet, fleet.client() as client:
        replay = Replay(SET, [node.folder / "access" for node in fleet.agents], rng)
        since = datetime.now(UTC) - replay.at(rng.uniform(0.1, 0.9))
        settings = {
            "emit": "200ms", "expect": AGENTS, "delay": "60s", "idle": "1h", "retain": "30d",
            "since": f"{since.total_seconds():.0f}s",
        }  # fmt: skip
        jobs = {name: client.submit(name, sql, settings=settings) for name, sql in SQL.items()}
        bounds = {name: job.backfill_scope().boundary for name, job in jobs.items()}
        old = replay.cut(min(bounds.values()), max(bounds.values()) + HOUR, tmp_path / "old")
        collector = Collector(fleet.urls(), "minutes")
        command = [sys.executable, "-m", "elfstream", "backfill", "minutes", f"{old}/*.gz"]
        command += ["--url", fleet.urls()[0], "--spark-master", "local[2]", "--work-dir", str(tmp_path / "work")]
        running = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            write(replay, jobs)
            said, _ = running.communicate(timeout=PATIENCE_S)
        finally:
            running.kill()
        wanted = {name: replay.once(sql, tmp_path / "once") for name, sql in SQL.items()}
        before = sum(row[0].start < bounds["minutes"] for row in wanted["minutes"])
        assert (running.returncode, said) == (0, f"minutes: {before} stored, 0 same, 0 replaced\n")
        elf.backfill("hours", f"{old}/*.gz", fleet=client, spark=spark)
        backfilled = {name: of_backfill(job) for name, job in jobs.items()}
        for name in SQL:
            elf.backfill(name, f"{old}/*.gz", fleet=client, spark=spark)
        assert {name: of_backfill(job) for name, job in jobs.items()} == backfilled, "a rerun changes nothing"

        for job in jobs.values():
            job.stop(drain=True)
        until(lambda: all(is_over(job) for job in jobs.values()), PATIENCE_S, "all windows are closed")
        found = {name: list(job.results(status="final", all=True)) for name, job in jobs.items()}
        for name, results in found.items():
            windows = [one.window for one in results]
            assert len(windows) == len(set(windows)), f"a window of {name} came twice"
            for one in results:
                assert (one.origin == "backfill") == (one.window is not None and one.window.start < bounds[name])
            assert {one.origin for one in results} == {"backfill", "live"}
            assert [tuple(row) for one in results for row in one.rows] == wanted[name]
        replay.check_minutes([tuple(row) for one in found["minutes"] for row in one.rows])
        until(lambda: collector.has(max(one.id for one in found["minutes"])), PATIENCE_S, "all results were in the stream")
        collector.close()
        collector.check()
        assert collector.rows() == wanted["minutes"]


def write(replay: Replay, jobs: dict[str, Job]) -> None:
    """What was not cut off."""
    until(lambda: all(job.show()["coverage"]["agents"] == AGENTS for job in jobs.values()), PATIENCE_S, "agents in the jobs")
    replay.begin()
    until(lambda: all(job.show()["coverage"]["lines"] >= AGENTS for job in jobs.values()), PATIENCE_S, "first lines")
    may_pass = threading.Event()
    may_pass.set()
    replay.write(WRITE_S, may_pass)

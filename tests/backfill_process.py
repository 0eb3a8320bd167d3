"""A backfill in a process of its own, to be killed: `python -m tests.backfill_process MASTER SQL WORK_DIR KILL LOG...`.

KILL: `scan` ends this process, as power failure would, when the first task is done, `windows` when the first stretch is,
and `executor` ends one executor then. Writes the rows and the report as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elfstream.embedded import Progress, compile_plan
from elfstream.prepared_backfill import PreparedBackfill
from elfstream.result import Result
from job.formats import find
from master.spark.backfill import Sizes
from master.spark.session import archive, open_session
from master.windows import FinishedWindow

SIZES = Sizes(split_bytes=100_000, part_bytes=15_000, here_bytes=0)
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def executors() -> list[int]:
    """Executors that were started by this process, or by its own."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(fields[1])
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sorted(pid for pid in ours if b"CoarseGrainedExecutorBackend" in _command(pid))


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def prepared_for(sql: str, work_dir: str, paths: Sequence[str]) -> PreparedBackfill:
    """The backfill that all these processes do."""
    format = find("combined")
    return PreparedBackfill(compile_plan(sql, format), format, list(paths), work_dir=work_dir, sizes=SIZES)


def told_by(prepared: PreparedBackfill, windows: Sequence[FinishedWindow]) -> dict[str, Any]:
    """The rows and the report of one that is done."""
    stats = prepared.stats
    return {
        "rows": [[str(value) for value in row] for row in Result(prepared.columns, windows, stats, "", "")],
        "stats": [stats.lines, stats.parsed, dict(stats.rejected_by), stats.groups, stats.bytes],
        "samples": [[sample.path, sample.line_number] for sample in stats.samples],
        "kept_stretches": prepared.run.kept_stretches,
    }


def main(master: str, sql: str, work_dir: str, kill: str, *paths: str) -> None:
    prepared = prepared_for(sql, work_dir, paths)
    killed: list[int] = []

    def progress(now: Progress) -> None:
        if kill == "scan" and now.bytes_done:
            os.kill(os.getpid(), signal.SIGKILL)
        if kill == "executor" and now.bytes_done and not killed:
            killed.append(executors()[0])
            os.kill(killed[0], signal.SIGKILL)

    windows = []
    shipped = archive(work_dir) if "cluster" in master else None
    session = open_session(master, settings=SETTINGS, archive_path=shipped)
    for done in prepared.windows(session, progress):
        windows.append(done.window)
        if kill == "windows":
            os.kill(os.getpid(), signal.SIGKILL)
    print(json.dumps({**told_by(prepared, windows), "killed": len(killed)}))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Executors without kernels: a process that cannot import one scans, the driver does the rest; the answer is the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import elfstream as elf
from cbt.errors import SpillError
from elfstream.embedded import compile_plan
from elfstream.prepared_backfill import PreparedBackfill
from elfstream.result import Result
from job.formats import find
from master.spark.backfill import BackfillError, Sizes
from master.spark.driver_merge import DriverMerge, counted
from master.spark.executor import FAILED, is_content
from master.spark.records import Failed, encode
from master.spark.tasks import LostError, route
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]
LOG = str(ROOT / "examples" / "access.log")
SCAN = """
import importlib.abc, pathlib, sys

class NoKernels(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        package, _, module = name.partition(".")
        if package == "cython_ext" and module and not pathlib.Path("cython_ext", module + ".py").exists():
            raise ImportError("no kernel " + module)

sys.meta_path.insert(0, NoKernels())
import json
from master.spark import executor

class Sum:
    def add(self, more):
        pass

job, *tasks = (bytes.fromhex(line.strip()) for line in sys.stdin)
for record in executor.scan(job, Sum(), Sum(), iter(tasks)):
    print(record.hex())
"""
QUERIES = [
    "SELECT status, count(*) AS n, sum(bytes) AS b, approx_percentile(bytes, 0.5) AS m FROM access GROUP BY status",
    """SELECT window(time, '2 hours', '1 hour') AS w, path, count(DISTINCT remote_addr) AS ips FROM access
       WHERE path RLIKE '^/[a-c]' OR bytes > 1000 GROUP BY window(time, '2 hours', '1 hour'), path
       HAVING count(*) > 1 ORDER BY ips DESC LIMIT 3""",
    """SELECT n, count(*) AS k FROM (SELECT remote_addr, count(*) AS n FROM access WHERE status = 200 GROUP BY remote_addr)
       GROUP BY n ORDER BY k DESC""",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_a_scan_without_kernels_gives_the_same_answer(sql: str) -> None:
    format = find("combined")
    prepared = PreparedBackfill(compile_plan(sql, format), format, [LOG], sizes=Sizes(20_000, 1000))
    job, tasks = prepared.run.orders()
    assert len(tasks) > 2
    done = subprocess.run(
        [sys.executable, "-c", SCAN], cwd=ROOT, input="\n".join(one.hex() for one in (job, *tasks)),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    records = [bytes.fromhex(line) for line in done.stdout.split()]
    prepared.run.counts.stage(counted(records), 0)
    merge = DriverMerge(prepared.run.job, 1000)
    for record in filter(is_content, records):
        merge.add(record)
    windows = [one.window for one in prepared.run.merged_by(merge)]
    want, stats = elf.query(sql, LOG, format="combined"), prepared.stats
    assert [tuple(row) for row in Result(prepared.columns, windows, stats, "", "")] == [tuple(row) for row in want]
    assert prepared.run.report.plain_tasks == len(tasks)
    assert (stats.lines, stats.parsed, stats.rejected_by) == (
        want.stats.lines, want.stats.parsed, want.stats.rejected_by
    )  # fmt: skip
    assert (stats.samples, stats.groups) == (want.stats.samples, want.stats.groups)


class Context:
    """Of Spark as far as `Actions` needs one; a cancelled job is told."""

    def __init__(self) -> None:
        self.cancelled = Event()

    def setJobGroup(self, *_: Any, **__: Any) -> None:  # noqa: N802 - Spark's names here and below
        pass

    def cancelJobGroup(self, _: str) -> None:  # noqa: N802
        self.cancelled.set()


class Rows:
    """An RDD whose rows do not come: Spark fails, or they do until the job is cancelled."""

    def __init__(self, fail: Callable[[], None]) -> None:
        self._fail = fail

    def filter(self, _: Any) -> Rows:
        return self

    def toLocalIterator(self) -> Iterator[bytes]:  # noqa: N802
        self._fail()
        yield encode(Failed("SpillError", "the disk is full"))


def merged_here(context: Context, look: Callable[[], None], fail: Callable[[], None]) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    from master.spark.actions import Actions

    format = find("combined")
    prepared = PreparedBackfill(compile_plan(QUERIES[0], format), format, [LOG])
    list(prepared.run._merged_here(Actions(context, look), Rows(fail)))


def test_what_spark_fails_with_while_rows_come_here_is_told() -> None:
    protocol = pytest.importorskip("py4j.protocol", reason="PySpark is not installed")

    def lost() -> None:
        raise protocol.Py4JError("ExecutorLostFailure: java.lang.Error: gone")

    with pytest.raises(BackfillError, match="Spark could not do it: ExecutorLostFailure"):
        merged_here(Context(), lambda: None, lost)


def test_ctrl_c_ends_the_job_while_rows_come_here() -> None:
    context = Context()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        merged_here(context, interrupt, lambda: None if context.cancelled.wait(PATIENCE_S) else pytest.fail("not cancelled"))
    assert context.cancelled.is_set()


def test_a_task_that_fails_when_it_runs_again_is_no_empty_task() -> None:
    """Spark runs a task again whose work was lost with an executor; the counts of its first run are known by then."""
    with pytest.raises(SpillError, match="the disk is full"):
        merged_here(Context(), lambda: None, lambda: None)
    format = find("combined")
    job = PreparedBackfill(compile_plan(QUERIES[0], format), format, [LOG]).run.job
    failed = encode(Failed("SpillError", "the disk is full"))
    with pytest.raises(LostError, match="SpillError in a task that ran again: the disk is full"):
        list(route(job, 0, (), [failed]))
    assert failed[0] == FAILED

"""A standalone cluster of two processes on loopback, begun by nothing but pip's pyspark: a backfill and a table of logs by
an executor that has our code from the archive alone, as docs/SPARK.md tells users to do it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import elfstream as elf
from tests.conftest import JAVA, require_spark

pytestmark = [pytest.mark.stress, pytest.mark.spark]

ROOT = Path(__file__).resolve().parents[2]
LOG = ROOT / "examples" / "access.log"
SQL = "SELECT status, count(*) AS hits FROM access GROUP BY status"
START_S, WORK_S = 180.0, 900.0
LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.executor.memory": "768m"}
TABLE = """
import json, sys
from elfstream import spark

url, log, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
session = spark.open_session(url, settings=settings)
def where(_):
    from master.spark import kernels
    yield kernels.__file__, kernels.COMPILED
found = session.sparkContext.parallelize([0], 1).mapPartitions(where).collect()
reads = spark.register(session)
rows = session.read.format("elfstream_logs").option("format", "combined").load(log).groupBy("status").count().collect()
print(json.dumps({"where": found, "rows": sorted(map(list, rows)), "lines": reads.last.counts.lines}))
session.stop()
"""


@contextmanager
def _daemon(folder: Path, name: str, said: str, *arguments: str) -> Iterator[str]:
    """One of Spark's processes, and what it `said` once it was ready (a pattern with one group)."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"SPARK_HOME": str(home), "SPARK_DAEMON_JAVA_OPTS": JAVA, "PYSPARK_PYTHON": sys.executable}
    log = folder / f"{name}.log"
    with log.open("w") as out:
        running = subprocess.Popen(
            [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *arguments],
            cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            until = time.monotonic() + START_S
            while (found := re.search(said, log.read_text())) is None:
                assert running.poll() is None, log.read_text()[-2000:]
                assert time.monotonic() < until, f"{name} did not start: {log.read_text()[-2000:]}"
                time.sleep(0.2)
            yield found[1]
        finally:
            running.terminate()
            running.wait(60)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require_spark()
    folder = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        ports = ("--port", "0", "--webui-port", "0")
        started = _daemon(folder, "master.Master", r"Starting Spark master at (spark://\S+)", *ports)
        url = stack.enter_context(started)
        worker = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"), *ports, url)
        stack.enter_context(_daemon(folder, "worker.Worker", r"Successfully registered with master (\S+)", *worker))
        yield url


def _ran(tmp_path: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=WORK_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_a_backfill_from_the_command_line(cluster: str, tmp_path: Path) -> None:
    conf = [argument for key, value in LOCAL.items() for argument in ("--conf", f"{key}={value}")]
    told = _ran(
        tmp_path, "-m", "elfstream", "backfill", SQL, "--spark-master", cluster, "--ship", *conf, "-o", "csv", str(LOG)
    )
    rows = [tuple(map(int, line.split(","))) for line in told.splitlines()[1:]]
    assert rows == [tuple(row) for row in elf.query(SQL, LOG)]


def test_a_table_of_logs(cluster: str, tmp_path: Path) -> None:
    told = json.loads(_ran(tmp_path, "-c", TABLE, cluster, str(LOG), json.dumps({**LOCAL, "spark.ui.enabled": "false"})))
    assert all("/elfstream_code/" in path and compiled for path, compiled in told["where"])
    result = elf.query(SQL, LOG)
    assert told["rows"] == sorted([row.status, row.hits] for row in result)
    assert told["lines"] == result.stats.lines

"""Backfills on a real Spark: the rows, the order and the report of the one-shot query, and Spark's own answer."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow.parquet
import pytest

import elfstream as elf
from agent.errors import InputError
from elfstream.backfill_targets import JobTarget
from elfstream.backfilled import BackfillScope
from elfstream.embedded import compile_plan
from elfstream.prepared_backfill import PreparedBackfill
from elfstream.spark_query import check_fields, prepared_for, run
from job.errors import ParameterError
from job.formats import find
from job.plan import Schema
from job.sql import compile_sql
from job.types import SECONDS
from master.spark.backfill import Sizes
from master.spark.work_folder import WorkFolderError
from tests.golden.test_truth import DATA, SETS, truth
from tests.memory_fleet import SECOND_US, Client, with_fleet

pytestmark = pytest.mark.spark

QUERIES = {
    "totals": "SELECT count(*) AS n, sum(bytes) AS b, min(time) AS a, max(time) AS z, avg(bytes) AS m FROM access",
    "keys": "SELECT status, method, count(*) AS n, sum(bytes) AS b FROM access GROUP BY status, method",
    "best": """SELECT path, count(*) AS n, count(DISTINCT remote_addr) AS ips FROM access WHERE status = 200
               GROUP BY path HAVING count(*) > 1 ORDER BY ips DESC, n LIMIT 5""",
    "windows": """SELECT window(time, '1 hour') AS w, status, count(*) AS n, avg(bytes) AS b FROM access
                  GROUP BY window(time, '1 hour'), status ORDER BY n DESC LIMIT 3""",
    "sliding": """SELECT window(time, '6 hours', '1 hour') AS w, count(*) AS n, count(DISTINCT path) AS p FROM access
                  GROUP BY window(time, '6 hours', '1 hour')""",
    "nested": """SELECT n, count(*) AS clients FROM (SELECT remote_addr, count(*) AS n FROM access GROUP BY remote_addr)
                 GROUP BY n ORDER BY clients DESC, n LIMIT 20""",
    "sketches": """SELECT status, approx_count_distinct(remote_addr) AS ips, approx_percentile(bytes, 0.9) AS p
                   FROM access GROUP BY status""",
}
EXACT = ("keys", "best", "windows", "sliding", "nested")
"""What Spark answers by the same numbers: no sketches, no DOUBLE sums."""
LINE = (
    '10.0.{a}.{b} - - [{day:02d}/Mar/2025:{h:02d}:{m:02d}:{s:02d} +0000] '
    '"GET /p{p}?q={q} HTTP/1.1" {status} {size} "-" "x"'
)
SMALL = Sizes(split_bytes=100_000, part_bytes=20_000, here_bytes=0)
HERE = SMALL._replace(here_bytes=1 << 20)
"""Two ways behind the scan: Spark's shuffle, and the driver alone."""


def written(folder: Path, lines: int, seed: int) -> list[str]:
    """Three logs, one of them packed, with lines that are none and a day's lines in no order."""
    chance, texts = Random(seed), []
    for number in range(lines):
        if chance.random() < 0.01:
            texts.append(f"no line {number}")
            continue
        texts.append(
            LINE.format(
                a=chance.randrange(4), b=chance.randrange(200), day=1 + chance.randrange(3), h=chance.randrange(24),
                m=chance.randrange(60), s=chance.randrange(60), p=int(chance.paretovariate(0.7)) % 5000, q=number % 7,
                status=chance.choice([200, 200, 200, 404, 500]), size=chance.randrange(100_000),
            )
        )  # fmt: skip
    third = len(texts) // 3
    paths = [folder / "a.log", folder / "b.log", folder / "c.log.gz"]
    for path, part in zip(paths, (texts[:third], texts[third : 2 * third], texts[2 * third :]), strict=True):
        data = ("\n".join(part) + "\n").encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return [str(path) for path in paths]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return written(tmp_path_factory.mktemp("logs"), 9000, 7)


def compared(result: elf.Result) -> tuple[Any, ...]:
    """All that two answers must agree in."""
    stats = result.stats
    told = (stats.lines, stats.parsed, stats.directives, stats.rejected_by, stats.bytes, stats.samples)
    rows = [tuple(row) for row in result]
    return rows, result.columns, result.format, told, (stats.eval_errors, stats.overflow, stats.groups)


@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_of_the_one_shot_query_and_of_spark(spark: Any, logs: list[str], name: str) -> None:
    """The same rows in the same order, the same report; and Spark's own, which reads the same lines as a table."""
    got = elf.backfill(QUERIES[name], logs, format="combined", spark=spark, sizes=SMALL)
    want = compared(elf.query(QUERIES[name], logs, format="combined"))
    assert compared(got) == want
    here = elf.backfill(QUERIES[name], logs, format="combined", spark=spark, sizes=HERE)
    assert compared(here) == want
    if name in EXACT:
        from master.spark.log_source import register

        register(spark)
        spark.read.format("elfstream_logs").option("format", "combined").load(logs).createOrReplaceTempView("access")
        theirs = spark.sql(compile_plan(QUERIES[name], find("combined")).to_spark_sql()).collect()
        assert [tuple(map(plain, row)) for row in got] == [tuple(map(plain, row)) for row in theirs]


def plain(value: Any) -> Any:
    """Windows as pairs, times in UTC."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def test_the_truth_about_real_logs(spark: Any) -> None:
    name = "shop_zanbil_2019"
    if not DATA.is_dir():
        pytest.skip("the log sets of ../shared/data are not here")
    files, format = SETS[name]
    sql = """SELECT path, count(*) AS n, coalesce(sum(bytes), 0) AS b FROM access
             WHERE path IS NOT NULL GROUP BY path ORDER BY n DESC LIMIT 20"""
    got, want = elf.backfill(sql, DATA / files, format=format, spark=spark), truth(name)
    assert [list(row) for row in got] == want["top20_paths_by_count"]["rows"]
    assert (got.stats.lines, got.stats.parsed, got.stats.rejected) == (want["lines"], want["parsed"], want["rejected"])
    assert [sample.line_number for sample in got.stats.samples] == [
        reject["line"] for reject in want["rejected_lines"]
    ][:8]


def test_a_range_of_windows(spark: Any, logs: list[str]) -> None:
    """Those that start in it, with the panes beyond its end that they need."""
    sql, edges = QUERIES["sliding"], (datetime(2025, 3, 1, 20, tzinfo=UTC), datetime(2025, 3, 2, 3, tzinfo=UTC))
    got = elf.backfill(sql, logs, format="combined", spark=spark, start=edges[0], end="2025-03-02T03:00:00Z")
    rows = [row for row in elf.query(sql, logs, format="combined") if edges[0] <= row.w.start < edges[1]]
    assert [tuple(row) for row in got] == [tuple(row) for row in rows]
    assert len(rows) == 7


def test_no_lines_at_all(spark: Any, tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.write_bytes(b"")
    got = elf.backfill("SELECT count(*) AS n FROM access", empty, format="combined", spark=spark)
    assert [tuple(row) for row in got] == [(0,)]
    assert list(elf.backfill(QUERIES["windows"], empty, format="combined", spark=spark)) == []


def test_what_executors_cannot_read_is_told_as_here(spark: Any, tmp_path: Path) -> None:
    log = tmp_path / "cut.log.gz"
    log.write_bytes(gzip.compress(b"x" * 1000)[:-6])
    with pytest.raises(elf.InputError, match=r"cut\.log\.gz: the compressed data ends too early"):
        elf.backfill("SELECT count(*) AS n FROM access", log, format="combined", spark=spark)


def test_what_is_wrong_is_said_before_spark_starts(logs: list[str], tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"start and end \(--from, --to\) choose windows"):
        elf.backfill("SELECT count(*) FROM access", logs, format="combined", start="2025-01-01")
    with pytest.raises(ParameterError, match=r"end \(--to\) is not after start"):
        elf.backfill(QUERIES["windows"], logs, format="combined", start="2025-01-01", end="2025-01-01")
    with pytest.raises(ParameterError, match="'yesterday'"):
        elf.backfill(QUERIES["windows"], logs, format="combined", start="yesterday")
    with pytest.raises(ParameterError, match="disorder"):
        elf.backfill(QUERIES["windows"], logs, format="combined", disorder_s=1.0)
    with pytest.raises(WorkFolderError, match="Not a directory"):
        elf.backfill(QUERIES["windows"], logs, format="combined", work_dir=logs[0])


JOB_SQL = """SELECT window(time, '1 hour') AS w, status, count(*) AS n, sum(bytes) AS b FROM access
             GROUP BY window(time, '1 hour'), status ORDER BY n DESC LIMIT 3"""


def test_windows_become_results_of_a_job_and_parquet_files(spark: Any, logs: list[str], tmp_path: Path) -> None:
    """Those before the boundary, with as many lines as fell into them; sent twice they are there once."""
    edge = datetime(2025, 3, 2, 12, tzinfo=UTC)
    format = find("combined")
    plan = compile_plan(JOB_SQL, format)
    scope = BackfillScope(
        "hot", 1, plan, JOB_SQL, {}, (), (), 3600 * SECOND_US, 3600 * SECOND_US, edge, None, edge
    )
    bodies: list[bytes] = []

    def send(windows: Sequence[bytes]) -> Mapping[str, int]:
        bodies.extend(windows)
        return {"stored": len(windows)}

    prepared = prepared_for(scope, format, logs, sizes=SMALL)
    target = JobTarget(send, scope.revision, prepared.columns)
    result = run(prepared, "", [target], parquet=tmp_path / "lake", spark=spark)
    want = [row for row in elf.query(JOB_SQL, logs, format="combined") if row.w.start < edge]
    assert [tuple(row) for row in result] == [tuple(row) for row in want]
    lines = elf.query(
        "SELECT window(time, '1 hour') AS w, count(*) AS n FROM access GROUP BY window(time, '1 hour')",
        logs,
        format="combined",
    )
    sent = [msgspec.json.decode(body) for body in bodies]
    assert target.told["stored"] == len(sent)
    assert [one["lines"] for one in sent] == [row.n for row in lines if row.w.start < edge]
    stored = pyarrow.parquet.read_table(tmp_path / "lake", columns=["_start", "status", "n", "b"]).to_pylist()
    assert [(row["_start"], row["status"], row["n"], row["b"]) for row in stored] == [
        (row.w.start, row.status, row.n, row.b) for row in want
    ]

    async def main(client: Client) -> None:
        await client.submit(sql=JOB_SQL, number=0)
        told = []
        for _ in range(2):
            for at in range(0, len(bodies), 200):
                answer = await client(
                    "PUT", "/v1/jobs/hot/backfill/windows", data=b"\n".join(bodies[at : at + 200]),
                    headers={"Content-Type": "application/x-ndjson"},
                )  # fmt: skip
                assert answer.status == 200, answer.json
                told.append(answer.json)
        assert (told[0]["stored"], told[-1]["same"]) == (len(bodies), len(bodies))

    with_fleet(main)


def test_a_job_that_reads_what_the_logs_lack_is_refused(logs: list[str]) -> None:
    format = find("combined")
    plan = compile_sql(
        "SELECT sum(request_time) AS s FROM access GROUP BY window(time, '1 hour')",
        {"access": Schema({**format.fields, "request_time": SECONDS})},
    )
    with pytest.raises(elf.FormatError, match=r"job hot reads request_time as DECIMAL.* combined has no such field"):
        check_fields("hot", plan, format)
    with pytest.raises(ParameterError, match="'hot' is the name of a job"):
        elf.backfill("hot", logs, format="combined")


def test_what_was_read_is_not_read_again(spark: Any, tmp_path: Path) -> None:
    """The groups that came to the driver are in the work folder: a run that ends behind the scan loses nothing."""
    (log,) = written(tmp_path, 900, 9)[:1]
    format, sql = find("combined"), QUERIES["sliding"]
    want = compared(elf.query(sql, log, format="combined"))
    plan, work = compile_plan(sql, format), tmp_path / "work"
    killed, rerun, other = (
        PreparedBackfill(plan, format, log, work_dir=folder, sizes=HERE) for folder in (work, work, None)
    )
    next(killed.windows(spark))
    for kept in work.glob("*/task-*.elf"):
        kept.unlink()  # executors that do not see the folder keep nothing
    Path(log).write_text("nothing\n")
    windows = [done.window for done in rerun.windows(spark)]
    assert compared(elf.Result(rerun.columns, windows, rerun.stats, "combined", "")) == want
    with pytest.raises(InputError, match="another file"):  # as who reads it now
        list(other.windows(spark))

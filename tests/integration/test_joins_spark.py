"""Queries over several jobs: the catalog, a join at once and one that goes on, into all places an answer may go to."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import elfstream as elf
from master.api_options import ApiOptions
from tests.integration.fleet_processes import ROOT
from tests.memory_fleet import EPOCH_US
from tests.served_fleet import Served, served_fleet
from tests.spark_streams import run_to_end

pytestmark = pytest.mark.spark
EPOCH = datetime.fromtimestamp(EPOCH_US / 1e6, UTC)
HOT = "SELECT window(time, '10 seconds') AS w, path, count(*) AS hits FROM access GROUP BY w, path"
TEXT = """SELECT h.w, h.path, h.hits, CAST(e.hits / h.hits AS DECIMAL(5,2)) AS share
          FROM jobs.hot h JOIN jobs.`bad-ones` e ON h.w = e.w AND h.path = e.path"""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with served_fleet(1, ApiOptions(heartbeat_s=0.05)) as running:
        running.submit("hot", HOT)
        running.submit("bad-ones", HOT)
        for number in range(4):
            publish(running, "hot", number, {"/a": 10 + number, "/b": 4})
        publish(running, "bad-ones", 0, {"/a": 1})
        publish(running, "bad-ones", 1, {"/b": 2, "/c": 9})
        yield running


def publish(
    served: Served, name: str, number: int, hits: dict[str, int], edition: int = 1, status: str = "final"
) -> None:
    window = {"start": at(number).isoformat(), "end": at(number + 1).isoformat()}
    columns = [("w", "STRUCT<start: TIMESTAMP, end: TIMESTAMP>"), ("path", "STRING"), ("hits", "BIGINT")]
    rows = [[window, path, count] for path, count in hits.items()]
    served.publish(name, number * 10, rows, status, edition, columns)


def at(number: int) -> datetime:
    return EPOCH + timedelta(seconds=10 * number)


@pytest.fixture
def catalog(spark: Any, served: Served) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return elf.jobs_catalog(spark, served.url)


def test_at_once(catalog: Any) -> None:
    assert catalog.names() == ["bad-ones", "hot"]
    rows = catalog.sql(TEXT + " ORDER BY h.w, h.path").collect()
    assert [(row.path, row.hits, str(row.share)) for row in rows] == [("/a", 10, "0.10"), ("/b", 4, "0.50")]
    assert rows[0].w.start.astimezone(UTC) == EPOCH
    assert catalog.sql(TEXT, start=at(1)).count() == 1
    with pytest.raises(Exception, match=r"there is no job bad; did you mean jobs\.`bad-ones`\?"):
        catalog.sql("SELECT * FROM jobs.bad")
    with pytest.raises(Exception, match="the query names no job"):
        catalog.sql("SELECT 1")


def test_it_goes_on_into_files_and_a_derived_job(served: Served, catalog: Any, tmp_path: Path) -> None:
    from elfstream.join_output import DerivedJobJoin, ParquetJoin, WrittenJoin
    from master.spark.joins import Change, ContinuousJoin
    from master.spark.parquet_sink import ParquetSink

    text = io.StringIO()
    changes: list[Change] = []
    with elf.connect(served.url) as fleet, ParquetSink(tmp_path / "lake") as sink:
        job = fleet.job("shares")
        takers = [ParquetJoin(sink), DerivedJobJoin(fleet, "shares", TEXT), WrittenJoin("csv", text)]

        def take(change: Change) -> None:
            changes.append(change)
            for taker in takers:
                taker.take(change)

        def run() -> dict[int, list[tuple[str, str]]]:
            """What the derived job has then, by window."""
            run_to_end(lambda: ContinuousJoin(catalog, TEXT, take).start(tmp_path / "checkpoint", None))
            return {
                (result.window.start - EPOCH) // timedelta(seconds=10): [(row.path, str(row.share)) for row in result.rows]
                for result in job.results()
                if result.window is not None and result.rows
            }

        first = {0: [("/a", "0.10")], 1: [("/b", "0.50")]}
        assert run() == first
        assert len(changes) == 1
        assert run() == first
        assert len(changes) == 1, "nothing was published"
        publish(served, "hot", 0, {"/a": 20}, 2)
        publish(served, "bad-ones", 2, {"/a": 3})
        publish(served, "bad-ones", 1, {}, 2, "withdrawn")
        assert run() == {0: [("/a", "0.05")], 2: [("/a", "0.25")]}
        assert [window.start for window in changes[1].joined.windows if window] == [at(0), at(2)]
        shown = job.show()
        assert (shown["sql"], [one["name"] for one in shown["columns"]]) == (None, ["w", "path", "hits", "share"])
    from pyarrow import parquet

    rows = [
        (row["_start"], row["share"])
        for path in (tmp_path / "lake").glob("date=*/hour=*/*.parquet")
        for row in parquet.read_table(path, partitioning=None).to_pylist()
    ]
    assert sorted((start, str(share)) for start, share in rows) == [(at(0), "0.05"), (at(2), "0.25")]
    assert text.getvalue().splitlines()[0] == "w.start,w.end,path,hits,share"
    assert sorted(line.rpartition(",")[2] for line in text.getvalue().splitlines()[1:]) == ["0.05", "0.10", "0.25", "0.50"]


def test_a_watermark_join_of_sparks_own(served: Served, catalog: Any, tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []
    frame = catalog.sql(
        "SELECT h._start, h.path, h.hits FROM jobs.hot h JOIN jobs.`bad-ones` e ON h._start = e._start AND h.path = e.path",
        continuous=True,
    )
    assert frame.isStreaming
    writer = frame.writeStream.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "checkpoint"))
    run_to_end(writer.foreachBatch(lambda batch, _: seen.extend((row.path, row.hits) for row in batch.collect())).start)
    assert {("/a", 10), ("/b", 4)} <= set(seen)


def test_the_command(served: Served, spark: Any) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "elfstream", "join", *arguments, "--url", served.url, "--spark-master", "local[1]"],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
        )  # fmt: skip

    done = run("SELECT path, sum(hits) AS n FROM jobs.hot GROUP BY path ORDER BY path LIMIT 1", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('{"path":"/a","n":')
    done = run("SELECT * FROM jobs.hit")
    # Java says nothing of itself.
    assert (done.returncode, done.stderr) == (1, "elfstream: error: there is no job hit; did you mean jobs.hot?\n")
    assert run("SELECT 1", "--once").returncode == 2

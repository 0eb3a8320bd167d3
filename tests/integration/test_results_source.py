"""Results of a live job as a Spark table, batch and stream, against nodes behind real sockets."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

import elfstream as elf
from job.types import ARRAY, BIGINT, STRING, WINDOW, decimal
from master.api_options import ApiOptions
from master.window_values import Window
from srt.ids import job_key
from tests.memory_fleet import EPOCH_US, Client
from tests.served_fleet import Served, served_fleet
from tests.spark_streams import run_to_end

pytestmark = pytest.mark.spark
QUICK = ApiOptions(heartbeat_s=0.05)
EPOCH = datetime.fromtimestamp(EPOCH_US / 1e6, UTC)
SQL = """SELECT window(time, '10 seconds') AS w, path, count(*) AS hits, sum(bytes) AS _id, avg(request_time) AS d,
         approx_percentile(request_time, array(0.5, 0.9)) AS a, max(time) AS t FROM access GROUP BY w, path"""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with served_fleet(2, QUICK) as running:
        yield running


@pytest.fixture
def results(spark: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from master.spark.results_source import register

        register(spark)
    return spark


def columns_of(served: Served, name: str) -> list[tuple[str, str]]:
    answer = served.do(lambda client: client("GET", f"/v1/jobs/{name}"))
    return [(one["name"], one["type"]) for one in answer.json["columns"]]


def publish(served: Served, name: str, start_s: int, hits: int, status: str = "final", edition: int = 1) -> None:
    start = EPOCH + timedelta(seconds=start_s)
    window = {"start": start.isoformat(), "end": (start + timedelta(seconds=10)).isoformat()}
    rows = [[window, "/ä", hits, 7, "1.2500000000", [0.5, 2.5], start.isoformat()], [None] * 7]
    served.publish(name, start_s, rows if status != "withdrawn" else [], status, edition, columns_of(served, name))


def test_a_batch_has_each_window_in_its_last_final_revision(served: Served, results: Any) -> None:
    served.submit("batch", SQL.replace("request_time", "CAST(bytes AS DECIMAL(18,6))"))
    for number in range(8):
        publish(served, "batch", number * 10, number)
    publish(served, "batch", 20, 99, edition=2)
    publish(served, "batch", 30, 98, "tentative", 2)
    publish(served, "batch", 40, 0, "withdrawn", 2)
    publish(served, "batch", 90, 5, "tentative")
    table = results.read.format("elfstream_results").option("url", served.url).option("job", "batch").load()
    assert [field.simpleString() for field in table.schema] == [
        "_id:bigint", "_start:timestamp", "_end:timestamp", "_revision:bigint", "w:struct<start:timestamp,end:timestamp>",
        "path:string", "hits:bigint", "_id_:bigint", "d:decimal(22,10)", "a:array<double>", "t:timestamp",
    ]  # fmt: skip
    rows = [row for row in table.orderBy("_start").collect() if row.path is not None]
    assert [(row.hits, row._revision) for row in rows] == [(0, 1), (1, 1), (99, 2), (3, 1), (5, 1), (6, 1), (7, 1)]
    one = rows[1]
    assert (one.path, one._id_, one.d, one.a) == ("/ä", 7, Decimal("1.25"), [0.5, 2.5])
    assert {moment.astimezone(UTC) for moment in (one._start, one.w.start, one.t)} == {EPOCH + timedelta(seconds=10)}
    assert table.count() == 14


def test_tasks_share_a_long_time_and_have_each_window_once(served: Served, results: Any) -> None:
    served.submit("shared", "SELECT count(*) AS hits FROM access")
    starts = [number * 10 for number in range(500) if not 100 < number < 300] + [90_000]
    for start_s in starts:
        served.publish("shared", start_s, [[start_s]], columns=[("hits", "BIGINT")])
    served.publish("shared", 20, [[7]], edition=2, columns=[("hits", "BIGINT")])
    served.publish("shared", 4990, [], "withdrawn", 2, columns=[("hits", "BIGINT")])
    served.publish("shared", None, [[8]], columns=[("hits", "BIGINT")])  # as it was before it had windows
    table = results.read.format("elfstream_results").option("url", served.url).option("job", "shared")
    expected = sorted([start_s for start_s in starts if start_s not in (20, 4990)] + [7, 8])
    assert table.load().rdd.getNumPartitions() == 8
    assert sorted(row.hits for row in table.load().collect()) == expected
    alone = table.option("partitions", "1").load()
    assert alone.rdd.getNumPartitions() == 1
    assert sorted(row.hits for row in alone.collect()) == expected
    with pytest.raises(Exception, match="option partitions: '0' is no number from 1 to 1000"):
        table.option("partitions", "0").load()


def test_conditions_on_time_are_asked_of_the_fleet(served: Served, results: Any) -> None:
    served.submit("filtered", SQL.replace("request_time", "CAST(bytes AS DECIMAL(18,6))"))
    for number in range(8):
        publish(served, "filtered", number * 10, number)
    table = results.read.format("elfstream_results").option("url", served.url).option("job", "filtered")
    low, high = EPOCH + timedelta(seconds=20), EPOCH + timedelta(seconds=40)
    text = "_start >= timestamp'{}' AND w.start <= timestamp'{}' AND path IS NOT NULL"
    chosen = table.load().where(text.format(low, high))
    assert [row.hits for row in chosen.orderBy("_start").collect()] == [2, 3, 4]
    given = table.option("from", low.isoformat()).option("to", high.isoformat()).load()
    assert sorted(row.hits for row in given.where("hits IS NOT NULL").collect()) == [2, 3]
    with pytest.raises(Exception, match="option form: there is none of this name"):
        table.option("form", "x").load()
    with pytest.raises(Exception, match="there is no such job"):
        results.read.format("elfstream_results").option("url", served.url).option("job", "none").load()


def test_a_stream_has_each_result_once_through_restarts(served: Served, results: Any, tmp_path: Path) -> None:
    served.submit("stream", SQL.replace("request_time", "CAST(bytes AS DECIMAL(18,6))"))
    seen: list[tuple[int, int]] = []

    def run() -> None:
        table = results.readStream.format("elfstream_results").option("url", served.url).option("job", "stream").load()
        run_to_end(
            table.where("path IS NOT NULL").writeStream.trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .foreachBatch(lambda batch, _: seen.extend((row.hits, row._revision) for row in batch.collect()))
            .start
        )  # fmt: skip

    for number in range(5):
        publish(served, "stream", number * 10, number)
    run()
    assert seen == [(number, 1) for number in range(5)]
    publish(served, "stream", 50, 5, "tentative")
    publish(served, "stream", 50, 6, edition=2)
    publish(served, "stream", 0, 9, edition=2)
    served.do(lambda client: client.fleet.leaders.update({job_key("stream"): 1}))
    run()
    assert seen[5:] == [(6, 2), (9, 2)]
    run()
    assert len(seen) == 7
    created(served, EPOCH_US + 1_000_000)
    with pytest.raises(Exception, match="was made anew at 2025-11-28T20:00:01Z"):
        run()
    created(served, EPOCH_US)


def created(served: Served, created_us: int) -> None:
    """When nodes say that jobs were made."""

    def change(client: Client) -> None:
        for node in client.fleet.nodes:
            shown = type(node)._view.__get__(node)
            node._view = lambda job, shown=shown: msgspec.structs.replace(shown(job), created_us=created_us)  # type: ignore

    served.do(change)


def test_sketches_are_united_by_spark(served: Served, results: Any, tmp_path: Path) -> None:
    sql = "SELECT hll_sketch_agg(path) AS paths, hll_sketch_agg(status) AS statuses FROM access"
    log = [f'203.0.113.9 - - [28/Nov/2025:20:00:01 +0000] "GET /{n} HTTP/1.1" {n % 7 + 200} 1 "-" "-"' for n in range(3000)]
    served.submit("sketches", sql)
    columns = columns_of(served, "sketches")
    assert columns == [("paths", "STRING"), ("statuses", "STRING")]
    for number, lines in enumerate((log[:2000], log[1000:], log[:5], [])):
        (tmp_path / "access.log").write_text("".join(f"{line}\n" for line in lines))
        (row,) = elf.query(sql, tmp_path / "access.log", format="combined")
        served.publish("sketches", number * 10, [list(row)], "final", 1, columns)
    options = {"url": served.url, "job": "sketches", "binary": "paths, statuses"}
    table = results.read.format("elfstream_results").options(**options).load()
    assert table.schema["paths"].dataType.simpleString() == "binary"
    united = "hll_sketch_estimate(hll_union_agg({}))"
    paths, statuses = table.selectExpr(united.format("paths"), united.format("statuses")).first()
    assert abs(paths - 3000) < 3000 * 0.05
    assert statuses == 7
    spark_made = results.range(200, 207).selectExpr("hll_sketch_agg(id) AS statuses")
    both = table.select("statuses").unionAll(spark_made).selectExpr(united.format("statuses")).first()
    assert both == (7,), "the same values hash alike"
    with pytest.raises(Exception, match="option binary: the job has no column path of texts"):
        results.read.format("elfstream_results").options(**{**options, "binary": "path"}).load()


def test_spark_reads_what_a_sink_wrote(results: Any, tmp_path: Path) -> None:
    from master.spark.parquet_sink import ParquetSink

    columns = [("w", WINDOW), ("path", STRING), ("hour", BIGINT), ("d", decimal(10, 2)), ("a", ARRAY)]
    windows = [Window(EPOCH + timedelta(minutes=5 * n), EPOCH + timedelta(minutes=5 * n + 5)) for n in range(30)]
    with ParquetSink(tmp_path) as sink:
        for number, window in enumerate(windows):
            sink.put(window, 1, columns, [(window, "/a", number, Decimal("1.25"), [0.5])])
        sink.compact(EPOCH + timedelta(hours=2))
        sink.put(windows[0], 2, columns, [(windows[0], "/b", 100, Decimal("1.25"), [0.5])] * 2)
        sink.withdraw(windows[29], 2)
    table = results.read.parquet(str(tmp_path))
    assert table.where("date = '2025-11-28'").selectExpr("sum(hour_)", "count(*)", "count(DISTINCT _start)").first() == (
        sum(range(1, 29)) + 200, 30, 29,
    )  # fmt: skip
    row = table.where("path = '/b' AND hour = 20").first()
    assert (row.d, row.a, row.w.start.astimezone(UTC), row._revision) == (Decimal("1.25"), [0.5], EPOCH, 2)

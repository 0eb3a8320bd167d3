"""Logs as a Spark table: rows and rejects of our own scan, conditions met in either place, errors that say what to do."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.files import LogFile
from agent.line_counts import LineCounts
from job.formats import find
from job.types import Kind
from master.spark.split_scan import SplitScan
from master.spark.splits import look_at
from tests.golden.test_truth import DATA, SETS

pytestmark = pytest.mark.spark

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
LINE = '192.0.2.%d - - [14/Mar/2024:09:%02d:%02d +0000] "GET /p%d?q=ü HTTP/1.1" %d %s "-" "curl\\x22"\n'
W3C = """#Fields: date time c-ip cs-uri-stem sc-status
2024-03-14 09:00:01 192.0.2.1 /a 200
nonsense
#Fields: sc-status date time time-taken
404 2024-03-14 09:00:02 17
"""


@pytest.fixture(scope="module")
def reads(spark: Any) -> Any:
    from master.spark.log_source import register

    return register(spark)


def _modules(_: Any) -> list[Any]:
    import sys

    return [(sys.modules["pyspark"].__file__, "master.spark.tasks" in sys.modules)]


def test_workers_are_forked_from_a_process_that_has_our_code(spark: Any) -> None:
    ((path, has_tasks),) = spark.sparkContext.parallelize([0], 1).mapPartitions(_modules).collect()
    assert ".zip" not in path
    assert has_tasks


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    lines = [
        LINE % (n % 9, n // 60, n % 60, n % 7, (200, 404, 500)[n % 3], n if n % 4 else "-") if n % 40 else "no line\n"
        for n in range(1, 600)
    ]
    (folder / "access.log").write_text("".join(lines))
    return folder


def _ours(path: str, format: str, names: list[str]) -> tuple[list[Any], LineCounts]:
    """What our scan says, as the values that Spark gives: (sorted rows, counts)."""
    scan = SplitScan(look_at(path), find(format), names)
    kinds = find(format).fields
    rows = [row for block in scan for row in zip(*(_values(block, name, kinds[name]) for name in names), strict=True)]
    return sorted(rows, key=repr), scan.counts


def _values(block: Any, name: str, type_: Any) -> list[Any]:
    values = block.columns[name].to_list(*([type_.scale] if type_.kind is Kind.DECIMAL else []))
    if type_.kind is not Kind.TIMESTAMP:
        return values  # type: ignore[no-any-return]
    return [None if value is None else EPOCH + datetime.timedelta(microseconds=value) for value in values]


def _rows(frame: Any) -> list[Any]:
    """Collected, instants with their offset."""
    found = [
        tuple(value.astimezone(datetime.UTC) if isinstance(value, datetime.datetime) else value for value in row)
        for row in frame.collect()
    ]
    return sorted(found, key=repr)


def _unpacked(folder: Path, name: str) -> Iterator[str]:
    for number, path in enumerate(sorted((DATA).glob(SETS[name][0]))):
        place = folder / f"{name}.{number}"
        with LogFile(str(path)) as file:
            place.write_bytes(b"".join(block.data[: block.stop] for block in file.blocks()))
        yield str(place)


@pytest.mark.skipif(not DATA.is_dir(), reason="the log sets of ../shared/data are not here")
@pytest.mark.parametrize("name", ["nginx_scanned_2024", "buttercup_2019"])
def test_real_logs_are_what_our_scan_says(spark: Any, reads: Any, tmp_path: Path, name: str) -> None:
    format = SETS[name][1]
    paths = list(_unpacked(tmp_path, name))
    source = spark.read.format("elfstream_logs").option("format", format).option("splitBytes", "100KiB")
    want: list[Any] = []
    counts = LineCounts()
    for path in paths:
        rows, one = _ours(path, format, list(find(format).fields))
        want += rows
        counts.merge(one)
    assert _rows(source.load(paths)) == sorted(want, key=repr)
    assert reads.last.complete
    assert reads.last.planned > 1
    assert reads.last.counts == counts
    packed = spark.read.format("elfstream_logs").option("format", format).load(str(DATA / SETS[name][0]))
    assert packed.count() == len(want)
    assert reads.last.counts == counts


CONDITIONS = {
    "status = 404 AND path = '/p1'": "",
    "time >= '2024-03-14 09:03:00' AND time < '2024-03-14 09:05:30'": "",
    "status IN (404, 500) AND bytes IS NOT NULL AND user_agent LIKE 'curl%'": "",
    "uri LIKE '%ü' AND NOT path LIKE '%3' AND bytes > 100": "",
    "NOT (status = 404) AND remote_addr <=> '192.0.2.3'": "",
    "length(path) = 3 AND status < 300": "length(path#",
    "bytes % 2 = 0 OR status = 500": "bytes#",
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_mean_the_same_in_either_place(spark: Any, reads: Any, logs: Path, condition: str) -> None:
    frame = spark.read.format("elfstream_logs").option("format", "combined").load(str(logs / "access.log"))
    pushed, plain = frame.where(condition), spark.createDataFrame(frame.toArrow()).where(condition)
    found = _rows(pushed)
    assert found == _rows(plain)
    assert 0 < len(found) < 585
    plan = pushed._jdf.queryExecution().executedPlan().toString()
    left = [line for line in plan.splitlines() if "Filter " in line]
    assert (CONDITIONS[condition] in "".join(left)) if CONDITIONS[condition] else not left


def test_a_schema_names_the_columns_that_are_read(spark: Any, reads: Any, logs: Path) -> None:
    source = spark.read.format("elfstream_logs").option("format", "combined")
    frame = source.schema("STATUS BIGINT, http_user_agent STRING, time TIMESTAMP").load(str(logs / "access.log"))
    assert frame.columns == ["STATUS", "http_user_agent", "time"]
    want = Counter({(200, 'curl\\x22'): 195, (404, 'curl\\x22'): 195, (500, 'curl\\x22'): 195})
    grouped = frame.groupBy("STATUS", "http_user_agent").count().collect()
    assert {tuple(row)[:2]: row[2] for row in grouped} == want
    assert frame.where("time < '2024-03-14 09:00:30'").count() == 29


def test_columns_of_each_file_and_fields_of_documents(spark: Any, reads: Any, tmp_path: Path) -> None:
    (tmp_path / "ex.log").write_text(W3C * 40)
    frame = spark.read.format("elfstream_logs").option("format", "w3c").option("splitBytes", 1024)
    frame = frame.schema("time TIMESTAMP, remote_addr STRING, status BIGINT").load(str(tmp_path / "ex.log"))
    found = Counter((row.remote_addr, row.status) for row in frame.collect())
    assert found == {("192.0.2.1", 200): 40, (None, 404): 40}
    assert reads.last.counts.directives == 80
    assert reads.last.counts.rejected.total() == 40
    assert reads.last.planned > 4
    (tmp_path / "app.json").write_text('{"user": {"id": 7}, "ok": true}\n{"user": {"id": "x"}}\n')
    frame = spark.read.format("elfstream_logs").option("format", "json")
    frame = frame.schema("`user.id` BIGINT, ok STRING").load(str(tmp_path / "app.json"))
    assert _rows(frame) == [(7, "true"), (None, None)]


def test_a_promise_of_order_leaves_bytes_unread(spark: Any, reads: Any, tmp_path: Path) -> None:
    lines = "".join(LINE % (1, n // 600 % 60, n // 10 % 60, n % 7, 200, n) for n in range(20_000))
    (tmp_path / "access.log").write_text(lines)
    source = spark.read.format("elfstream_logs").option("format", "combined").option("splitBytes", "64KiB")
    for disorder in (None, "1s"):
        frame = source if disorder is None else source.option("disorder", disorder)
        range_ = "time >= '2024-03-14 09:10:00' AND time < '2024-03-14 09:11:00'"
        assert frame.load(str(tmp_path / "access.log")).where(range_).count() == 600
        assert (reads.last.counts.lines == 20_000) == (disorder is None)
    assert 600 <= reads.last.counts.lines < 3000


@pytest.mark.parametrize(
    ("options", "schema", "message"),
    [
        ({"format": "combind"}, None, "Did you mean"),
        ({"formt": "combined"}, None, "there is no option 'formt'"),
        ({"rejects": "never"}, None, "neither count nor fail"),
        ({"splitBytes": "big"}, None, "option splitBytes: 'big' is no size"),
        ({"disorder": "5"}, None, "option disorder: '5' is no duration"),
        ({"path": "/no/such/access.log"}, None, "no such file"),
        ({}, "status STRING", "the field status of the format combined is BIGINT, not STRING"),
        ({}, "statsu BIGINT", "has no field 'statsu'"),
        ({}, "status INT", "no field is a int"),
        ({"rejects": "fail"}, None, "rejected as truncated: no line"),
    ],
    ids=str,
)
def test_errors_say_what_to_do(spark: Any, reads: Any, logs: Path, options: Any, schema: Any, message: str) -> None:
    from pyspark.errors import PySparkException

    given = {"format": "combined", "path": str(logs / "access.log"), **options}
    source = spark.read.format("elfstream_logs")
    for name, value in given.items():
        source = source.option(name, value)
    with pytest.raises(PySparkException) as error:
        (source if schema is None else source.schema(schema)).load().collect()
    assert message in str(error.value)

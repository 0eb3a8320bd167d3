"""Which logs a backfill reads, before Spark is asked anything."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from agent.errors import InputError
from elfstream.embedded import compile_plan
from elfstream.prepared_backfill import PreparedBackfill, range_us
from elfstream.spark_query import format_of
from job.errors import ParameterError
from job.formats import find
from master.spark.stretches import ALL_TIME

LINE = '203.0.113.9 - - [28/Nov/2025:19:30:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-"\n'


@pytest.mark.parametrize("address", ["file:{}/access.log*", "file://{}/access.log*", "{}/access.log*"])
def test_paths_globs_and_addresses_of_files(address: str, tmp_path: Path) -> None:
    files = [tmp_path / "access.log", tmp_path / "access.log.1"]
    for file in files:
        file.write_text(LINE)
    given = address.format(tmp_path)
    format, _ = format_of(given, "auto", None, None)
    assert format.name == "combined"
    plan = compile_plan("SELECT count(*) AS n FROM access", format)
    assert PreparedBackfill(plan, format, [given]).bytes_total == sum(file.stat().st_size for file in files) > 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("hdfs://head/logs/access.log", "hdfs: is not read; logs are read from file systems that are mounted"),
        ("-", "standard input cannot be split among tasks"),
        ("file:/no/such/file", "/no/such/file: no such file"),
    ],
)
def test_what_tasks_cannot_read_is_refused(given: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        format_of(given, "combined", None, None)
    format = find("combined")
    with pytest.raises(InputError, match=said):
        PreparedBackfill(compile_plan("SELECT count(*) AS n FROM access", format), format, [given])


def test_a_range_of_time() -> None:
    assert range_us(None, None) == ALL_TIME
    assert range_us("1970-01-01T00:00:01", "1970-01-01T01:00:02+01:00") == (1_000_000, 2_000_000)
    with pytest.raises(ParameterError, match="end is 'soon'; write a time"):
        range_us(None, "soon")

"""Logs as Spark reads them: our source against Spark's own regexp_extract over lines of text, and the way of columns into
Arrow alone.

CPU and memory are those of the driver, the JVM and its Python workers together, after one small query to warm them up, with
the log in memory; a line of it is 260 bytes. Both answer the same question over the same four fields, and must agree on
every number. The rival does what is usual, a regexp_extract per field; it checks no field beyond the expression.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.data import combined_log, warm
from bench.harness import Benchmark, Contestant, main

WANTED = "time TIMESTAMP, path STRING, status BIGINT, bytes BIGINT"
EXPRESSION = (
    r'^(\S+) (\S+) (\S+) \[(\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] '
    r'"(?:(\S+) ([^?"]*?)(?:\?(?:[^"\\]|\\.)*)? HTTP/[0-9.]+|(?:[^"\\]|\\.)*)" (\d{3}) (\d+|-) '
    r'"((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"$'
)
WARM_LINES = 2000


def _session() -> Any:
    from master.spark.session import open_session

    warnings.simplefilter("ignore")
    session = open_session("local[1]", settings={"spark.driver.memory": "1g"})
    session.sparkContext.setLogLevel("OFF")
    return session


def _answer(frame: Any) -> list[Any]:
    from pyspark.sql import functions as f

    row = frame.agg(
        f.count("*"), f.sum("bytes"), f.sum(f.length("path")), f.sum("status"), f.max(f.unix_micros("time"))
    ).collect()[0]
    return list(row)


def _source(sizes: Mapping[str, int]) -> Any:
    from master.spark.log_source import register

    session = _session()
    register(session)
    source = session.read.format("elfstream_logs").option("format", "combined").schema(WANTED)
    _answer(source.load(str(combined_log(WARM_LINES))))
    log = combined_log(sizes["lines"])
    warm(log)
    return source.load(str(log))


def _extracted(session: Any, path: Path) -> Any:
    from pyspark.sql import functions as f

    lines = session.read.text(str(path)).where(f.col("value").rlike(EXPRESSION))

    def part(number: int) -> Any:
        return f.regexp_extract("value", EXPRESSION, number)

    return lines.select(
        f.to_timestamp(part(4), "dd/MMM/yyyy:HH:mm:ss Z").alias("time"),
        part(6).alias("path"),
        part(7).cast("bigint").alias("status"),
        part(8).try_cast("bigint").alias("bytes"),
    )


def _rival(sizes: Mapping[str, int]) -> Any:
    session = _session()
    _answer(_extracted(session, combined_log(WARM_LINES)))
    log = combined_log(sizes["lines"])
    warm(log)
    return _extracted(session, log)


def _columns(names: list[str] | None, arrow: bool) -> Contestant:
    def prepare(sizes: Mapping[str, int]) -> Any:
        from job.formats import find
        from master.arrow_types import arrow_schema
        from master.spark.splits import plan_splits

        format = find("combined")
        wanted = list(format.fields) if names is None else names
        splits = plan_splits([str(combined_log(sizes["lines"]))], format)
        return splits, format, wanted, arrow_schema((name, format.fields[name]) for name in wanted)

    def run(prepared: Any) -> int:
        from master.spark.arrow_batches import record_batch
        from master.spark.split_scan import SplitScan

        splits, format, wanted, schema = prepared
        rows = 0
        for split in splits:
            for block in SplitScan(split, format, wanted):
                if arrow:
                    record_batch([block.columns[name] for name in wanted], schema, block.rows)
                rows += block.rows
        return rows

    return Contestant(run, prepare, ("pyarrow",))


def _lacks() -> str:
    return "" if shutil.which("java") else "no Java"


BENCHMARKS = {
    "arrow": Benchmark(
        "Columns into Arrow batches, no Spark",
        "lines",
        lambda sizes: sizes["lines"],
        {
            "all 14 fields": _columns(None, True),
            "all 14 fields, no Arrow": _columns(None, False),
            "4 fields": _columns(["time", "path", "status", "bytes"], True),
        },
        {"lines": 1_000_000},
        {"lines": WARM_LINES},
    ),
    "source": Benchmark(
        "A query over a log in Spark, one core",
        "lines",
        lambda sizes: sizes["lines"],
        {
            "elfstream_logs": Contestant(_answer, _source, ("pyspark", "pyarrow"), lacks=_lacks, tree=True),
            "regexp_extract": Contestant(_answer, _rival, ("pyspark",), lacks=_lacks, tree=True),
        },
        {"lines": 2_000_000},
        {"lines": WARM_LINES},
    ),
}

if __name__ == "__main__":
    main("bench.bench_spark_source", BENCHMARKS)

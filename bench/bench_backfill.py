"""A backfill of one large log against what Spark's users write: regexp_extract and groupBy, and a parser in a Python UDF.

Each contestant has a process and a session of its own, with two cores and 2 GiB of heap: ours the one that `elf.backfill`
starts, the rivals one with Spark's own settings of Java. Counted is the CPU of the whole tree of processes, Java and workers
too, and the peak of their memory together (process_tree.py). Start-up is what it takes until the session has answered the
same question over a few lines; then the log is read once, so that none of them pays for the disk. The rivals look only at
the fields they need and validate nothing; ours checks every field of every line. Compared is the count of the
hottest URI, which all must agree on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from bench.data import combined_log, warm
from bench.process_tree import Tree

SIZES = {"lines": 5_000_000}
SMOKE = {"lines": 2_000}
FEW = 100
MASTER = "local[2]"
SQL = "SELECT uri, count(*) AS n, sum(bytes) AS s, max(bytes) AS m FROM access GROUP BY uri ORDER BY n DESC LIMIT 1"
PATTERN = r'^(\S+) (\S+) (\S+) \[([^\]]+)\] "(\S+) (\S+)[^"]*" (\d{3}) (\d+|-)'
Ask = Callable[[Any, str], int]


def ours(spark: Any, path: str) -> int:
    import elfstream as elf

    row = next(iter(elf.backfill(SQL, path, format="combined", spark=spark)))
    return int(row.n)


def _grouped(table: Any) -> int:
    from pyspark.sql import functions as f

    best = table.groupBy("uri").agg(f.count("*").alias("n"), f.sum("bytes"), f.max("bytes"))
    return int(best.orderBy(f.desc("n")).first()["n"])


def regexp_extract(spark: Any, path: str) -> int:
    from pyspark.sql import functions as f

    lines = spark.read.text(path)
    size = f.expr("try_cast(size AS BIGINT)")
    table = lines.select(
        f.regexp_extract("value", PATTERN, 6).alias("uri"), f.regexp_extract("value", PATTERN, 8).alias("size")
    )
    return _grouped(table.where("uri != ''").select("uri", size.alias("bytes")))


def python_udf(spark: Any, path: str) -> int:
    import re

    from pyspark.sql import functions as f

    match = re.compile(PATTERN).match

    def parse(line: str) -> tuple[str, int | None] | None:
        found = match(line)
        if found is None:
            return None
        return found[6], None if found[8] == "-" else int(found[8])

    parsed = f.udf(parse, "struct<uri: string, bytes: bigint>")
    table = spark.read.text(path).select(parsed("value").alias("row")).where("row IS NOT NULL")
    return _grouped(table.select("row.uri", "row.bytes"))


CONTESTANTS: dict[str, Ask] = {
    "elf.backfill": ours,
    "Spark regexp_extract, groupBy": regexp_extract,
    "Spark with a Python UDF": python_udf,
}


def _child(name: str, lines: int) -> None:
    from master.spark.lent_session import backfill_session, session_at

    ask, tree = CONTESTANTS[name], Tree()
    session = backfill_session if ask is ours else session_at
    few, path = str(combined_log(FEW)), str(combined_log(lines))
    began = time.perf_counter()
    with warnings.catch_warnings(), session(MASTER, {"spark.driver.memory": "2g"}) as spark:
        warnings.simplefilter("ignore")
        ask(spark, few)
        start_cpu, start_wall = tree.cpu_s(), time.perf_counter() - began
        warm(path)
        before_cpu, began = tree.cpu_s(), time.perf_counter()
        answer = ask(spark, path)
        wall, cpu = time.perf_counter() - began, tree.cpu_s() - before_cpu
        tree.stop()
    told = {"answer": answer, "cpu_s": cpu, "wall_s": wall, "peak_bytes": tree.peak_bytes}
    print(json.dumps({**told, "start_cpu_s": start_cpu, "start_wall_s": start_wall}))


def _run(name: str, lines: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.bench_backfill", "--contestant", name, "--lines", str(lines)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.bench_backfill")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: does it run?")
    parser.add_argument("names", nargs="*", default=list(CONTESTANTS), help=f"of {', '.join(CONTESTANTS)}")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--lines", type=int, default=0)
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    options = parser.parse_args()
    lines = options.lines or (SMOKE if options.smoke else SIZES)["lines"]
    if options.contestant:
        _child(options.contestant, lines)
        return
    from master.spark.session import SparkMissingError, check_spark

    try:
        check_spark()
    except SparkMissingError as error:
        print(f"backfill: not run: {error}")
        return
    combined_log(lines), combined_log(FEW)
    # The tiny size asks whether it runs; ours alone says that, and each session takes long to start.
    names = options.names[:1] if options.smoke else options.names
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(1 if options.smoke else options.rounds):
        for name in names:
            found[name].append(_run(name, lines))
    print(
        f"\nbackfill, sums by URI ({lines:,} lines, {MASTER}, rounds: {len(found[names[0]])}, medians; all processes)"
    )
    print(f"  {'':30} {'cpu s':>8} {'vs ours':>8} {'wall s':>8} {'peak MiB':>9} {'start cpu s':>12} {'start s':>8}")
    base = 0.0
    for name, runs in found.items():
        cpu, wall, peak, start_cpu, start = (
            statistics.median(run[key] for run in runs)
            for key in ("cpu_s", "wall_s", "peak_bytes", "start_cpu_s", "start_wall_s")
        )
        base = base or cpu
        print(
            f"  {name:30} {cpu:8.1f} {cpu / max(base, 1e-9):7.1f}x {wall:8.1f} {peak / 2**20:9.0f} {start_cpu:12.1f}"
            f" {start:8.1f}"
        )
    if len({run["answer"] for runs in found.values() for run in runs}) > 1:
        raise SystemExit(f"answers differ: { {name: runs[0]['answer'] for name, runs in found.items()} }")


if __name__ == "__main__":
    main()

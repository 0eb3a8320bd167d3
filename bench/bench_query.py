"""End to end: a query over a combined log, file to answer, against polars, DuckDB and plain Python.

The rivals split at blanks, as their users do, and validate nothing; ours checks every field of every line, so group
counts may differ by the odd lines. Compared is therefore the count of the hottest URI, which all must agree on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.data import combined_log
from bench.harness import Benchmark, Contestant, main

COUNT = "SELECT uri, count(*) AS n FROM access GROUP BY uri ORDER BY n DESC LIMIT 1"
SUMS = "SELECT uri, count(*) AS n, sum(bytes) AS s, max(bytes) AS m FROM access GROUP BY uri ORDER BY n DESC LIMIT 1"


def _log(sizes: Mapping[str, int]) -> str:
    return str(combined_log(sizes["lines"]))


def _prepared(sizes: Mapping[str, int]) -> str:
    import elfstream
    import job.sql  # noqa: F401  (start-up is not what is measured)

    path = _log(sizes)
    list(elfstream.query(COUNT, "examples/access.log", format="combined"))
    return path


def _ours(sql: str, threads: int) -> Any:
    def run(path: str) -> Any:
        import elfstream

        row = next(iter(elfstream.query(sql, path, format="combined", threads=threads)))
        return row.n

    return Contestant(run, _prepared, threads=threads)


def _polars(sums: bool) -> Contestant:
    def prepare(sizes: Mapping[str, int]) -> str:
        import os

        os.environ["POLARS_MAX_THREADS"] = "1"
        import polars  # noqa: F401

        return _log(sizes)

    def run(path: str) -> Any:
        import polars as pl

        frame = pl.scan_csv(
            path, separator=" ", has_header=False, quote_char=None, new_columns=[f"c{i}" for i in range(12)],
            schema_overrides=[pl.String] * 12, truncate_ragged_lines=True,
            extra_columns="ignore", encoding="utf8-lossy",
        )  # fmt: skip
        columns = [pl.len().alias("n")]
        frame = frame.select(pl.col("c6").alias("u"), pl.col("c9").cast(pl.Int64, strict=False).alias("b"))
        if sums:
            columns += [pl.col("b").sum().alias("s"), pl.col("b").max().alias("m")]
        done = frame.drop_nulls("u").group_by("u").agg(columns).collect(engine="streaming")
        return done["n"].max()

    return Contestant(run, prepare, ("polars",))


def _duckdb(path: str) -> Any:
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    sql = (
        "SELECT split_part(l, ' ', 7) AS u, count(*) AS n FROM read_csv(?, columns = {'l': 'VARCHAR'}, delim = '\\x01',"
        " header = false, quote = '', escape = '', ignore_errors = true) GROUP BY u ORDER BY n DESC LIMIT 1"
    )
    return connection.execute(sql, [path]).fetchall()[0][1]


def _python(path: str) -> Any:
    from collections import Counter

    counts: Counter[bytes] = Counter()
    with open(path, "rb") as lines:
        for line in lines:
            parts = line.split(b" ", 7)
            if len(parts) > 6:
                counts[parts[6]] += 1
    return counts.most_common(1)[0][1]


BENCHMARKS = {
    "count": Benchmark(
        "count by uri, combined lines of 258 bytes",
        "lines",
        lambda sizes: sizes["lines"],
        {
            "elfstream, validating": _ours(COUNT, 1),
            "elfstream, 2 threads": _ours(COUNT, 2),
            "polars, blank split": _polars(False),
            "duckdb, blank split": Contestant(_duckdb, _log, ("duckdb",)),
            "python split + Counter": Contestant(_python, _log),
        },
        {"lines": 5_000_000},
        {"lines": 2_000},
    ),
    "sums": Benchmark(
        "count, sum, max by uri",
        "lines",
        lambda sizes: sizes["lines"],
        {"elfstream, validating": _ours(SUMS, 1), "polars, blank split": _polars(True)},
        {"lines": 5_000_000},
        {"lines": 2_000},
    ),
}

if __name__ == "__main__":
    main("bench.bench_query", BENCHMARKS)

"""Expressions over columns against polars on the same rows, one thread each.

Ours run block by block (4,096 rows, what the scan delivers), polars over whole columns, as each is used.
Counts of true rows are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from bench.harness import Benchmark, Contestant, main

BLOCK_ROWS = 4096
SEED = 7
PATHS = (
    "/api/v1/items",
    "/api/v2/orders/",
    "/catalog/shoes/",
    "/static/js/app.",
    "/blog/2014/",
    "/",
    "/login",
)


def rows_of(count: int) -> dict[str, list[Any]]:
    """status, bytes, path, number (text) and time of `count` requests."""
    random = Random(SEED)
    statuses = [200] * 180 + [304] * 10 + [404] * 7 + [500, 502, 503]
    return {
        "status": [random.choice(statuses) for _ in range(count)],
        "bytes": [random.randrange(100_000) for _ in range(count)],
        "path": [
            random.choice(PATHS) + random.choice(("", "", str(random.randrange(10_000))))
            for _ in range(count)
        ],
        "number": [str(random.randrange(10_000_000)) for _ in range(count)],
        "time": [1_403_136_000_000_000 + row * 667 for row in range(count)],
    }


Built = tuple[Any, list[dict[str, Any]], int]


def _ours(expression: Callable[[], Any]) -> Contestant:
    def prepare(sizes: Mapping[str, int]) -> Built:
        from cython_ext.column import Column
        from cython_ext.exprs_result import Failures
        from cython_ext.exprs_text import concat
        from job.evaluate import Evaluator

        rows, kinds = rows_of(sizes["rows"]), {"path": 5, "number": 5, "time": 6}
        blocks = []
        for start in range(0, sizes["rows"], BLOCK_ROWS):
            columns = {
                name: Column.from_list(kinds.get(name, 2), values[start : start + BLOCK_ROWS])
                for name, values in rows.items()
            }
            for name in ("path", "number"):  # side by side in memory, as the texts of a block are
                columns[name] = concat([columns[name]], Failures())
            blocks.append(columns)
        return Evaluator([expression()]), blocks, sizes["repeats"]

    def run(prepared: Built) -> int:
        evaluator, blocks, repeats = prepared
        found = 0
        for _ in range(repeats):
            for columns in blocks:
                found += len(evaluator.run(columns, len(columns["status"]))[0].selection())
        return found

    return Contestant(run, prepare)


def _polars(expression: Callable[[Any], Any]) -> Contestant:
    def prepare(sizes: Mapping[str, int]) -> Any:
        import os

        os.environ["POLARS_MAX_THREADS"] = "1"
        import polars

        rows = rows_of(sizes["rows"])
        frame = polars.DataFrame(rows).with_columns(polars.col("time").cast(polars.Datetime("us")))
        return frame.rechunk(), sizes["repeats"]

    def run(prepared: Any) -> int:
        import polars

        frame, repeats = prepared
        return sum(int(frame.select(expression(polars).sum()).item()) for _ in range(repeats))

    return Contestant(run, prepare, ("polars",))


def _call(function: str, type_: str, *arguments: Any) -> Any:
    from job import types
    from job.plan import Call

    return Call(function, arguments, getattr(types, type_))


def _field(name: str) -> Any:
    from job import types
    from job.plan import ColumnRef

    kinds = {"path": types.STRING, "number": types.STRING, "time": types.TIMESTAMP}
    return ColumnRef(name, kinds.get(name, types.BIGINT))


def _value(value: Any) -> Any:
    from job import types
    from job.plan import Literal

    return Literal(value, types.STRING if isinstance(value, str) else types.BIGINT)


def _filter() -> Any:
    like = _call("like", "BOOLEAN", _field("path"), _value("/api/%"), _value("\\"))
    return _call("and", "BOOLEAN", _call("ge", "BOOLEAN", _field("status"), _value(500)), like)


def _arithmetic() -> Any:
    product = _call("mul", "BIGINT", _field("bytes"), _value(8))
    return _call("gt", "BOOLEAN", _call("add", "BIGINT", product, _field("status")), _value(400_000))


def _extract() -> Any:
    pattern = _call("regexp_extract", "STRING", _field("path"), _value("^/api/([^/]+)/"), _value(1))
    return _call("eq", "BOOLEAN", pattern, _value("v2"))


def _equality() -> Any:
    return _call("eq", "BOOLEAN", _field("path"), _value("/api/v1/items"))


def _comparison() -> Any:
    return _call("ge", "BOOLEAN", _field("status"), _value(500))


def _contains() -> Any:
    return _call("contains", "BOOLEAN", _field("path"), _value("items"))


def _membership() -> Any:
    return _call("in", "BOOLEAN", _field("path"), *map(_value, PATHS))


def _case() -> Any:
    return _call("eq", "BOOLEAN", _call("upper", "STRING", _field("path")), _value("/LOGIN"))


def _cast() -> Any:
    return _call("lt", "BOOLEAN", _call("cast", "BIGINT", _field("number")), _value(5_000_000))


def _hour() -> Any:
    return _call("eq", "BOOLEAN", _call("hour", "BIGINT", _field("time")), _value(0))


def _substr() -> Any:
    part = _call("substr", "STRING", _field("path"), _value(2), _value(3))
    return _call("eq", "BOOLEAN", part, _value("api"))


EXPRESSIONS: dict[str, tuple[str, Callable[[], Any], Callable[[Any], Any]]] = {
    "comparison": ("status >= 500", _comparison, lambda pl: pl.col("status") >= 500),
    "arithmetic": (
        "bytes * 8 + status > 400000",
        _arithmetic,
        lambda pl: pl.col("bytes") * 8 + pl.col("status") > 400_000,
    ),
    "filter": (
        "status >= 500 AND path LIKE '/api/%'",
        _filter,
        lambda pl: (pl.col("status") >= 500) & pl.col("path").str.starts_with("/api/"),
    ),
    "equality": ("path = '/api/v1/items'", _equality, lambda pl: pl.col("path") == "/api/v1/items"),
    "contains": (
        "contains(path, 'items')",
        _contains,
        lambda pl: pl.col("path").str.contains("items", literal=True),
    ),
    "extract": (
        "regexp_extract(path, '^/api/([^/]+)/', 1) = 'v2'",
        _extract,
        lambda pl: pl.col("path").str.extract("^/api/([^/]+)/", 1) == "v2",
    ),
    "membership": ("path IN (7 texts)", _membership, lambda pl: pl.col("path").is_in(list(PATHS))),
    "upper": ("upper(path) = '/LOGIN'", _case, lambda pl: pl.col("path").str.to_uppercase() == "/LOGIN"),
    "substr": ("substr(path, 2, 3) = 'api'", _substr, lambda pl: pl.col("path").str.slice(1, 3) == "api"),
    "cast": (
        "CAST(number AS BIGINT) < 5000000",
        _cast,
        lambda pl: pl.col("number").cast(pl.Int64) < 5_000_000,
    ),
    "hour": ("hour(time) = 0", _hour, lambda pl: pl.col("time").dt.hour() == 0),
}

BENCHMARKS = {
    name: Benchmark(
        title,
        "rows",
        lambda sizes: sizes["rows"] * sizes["repeats"],
        {"elfstream": _ours(ours), "polars": _polars(polars)},
        {"rows": 500_000, "repeats": 40},
        {"rows": 5_000, "repeats": 1},
    )
    for name, (title, ours, polars) in EXPRESSIONS.items()
}

if __name__ == "__main__":
    main("bench.bench_expressions", BENCHMARKS)

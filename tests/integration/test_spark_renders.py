"""Spark itself reads what `to_spark_sql` writes: every query analyses, runs, and has the types that the plan
says.
"""

from __future__ import annotations

import datetime
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from job.plan import Plan, Schema
from job.sql import compile_sql
from job.types import BIGINT, BOOLEAN, DOUBLE, SECONDS, STRING, TIMESTAMP, Kind, Type

pytestmark = pytest.mark.spark

FIELDS = {
    "remote_addr": STRING,
    "time": TIMESTAMP,
    "method": STRING,
    "uri": STRING,
    "path": STRING,
    "query": STRING,
    "status": BIGINT,
    "bytes": BIGINT,
    "request_time": SECONDS,
    "ratio": DOUBLE,
    "cached": BOOLEAN,
}
SCHEMAS = {"access": Schema(FIELDS)}
SPARK_TYPES = {Kind.BOOLEAN: "boolean", Kind.BIGINT: "bigint", Kind.DOUBLE: "double", Kind.STRING: "string"}
_HOUR = datetime.timedelta(hours=1)
_T = datetime.datetime(2024, 5, 1, 10, 0, 7, 250_000, tzinfo=datetime.UTC)
ROWS: list[tuple[Any, ...]] = [
    ("10.0.0.1", _T, "GET", "/a?x=1", "/a", "x=1", 200, 512, Decimal("0.125000"), 0.5, True),
    ("10.0.0.1", _T, "GET", "/a", "/a", None, 404, None, Decimal("1.500000"), -2.5, False),
    ("10.0.0.2", _T, "POST", "/b%20c?y=%zz", "/b%20c", "y=%zz", 500, 2**62, None, None, None),
    ("::1", _T + _HOUR, None, None, None, None, 200, 2**62, Decimal("-0.000001"), float("nan"), True),
    ("::1", None, "GET", "http://a|b/c", "/Ünï\n", "", 200, 0, Decimal("3.000000"), 1e300, True),
]

_LINES = (Path(__file__).parent / "spark_renders.sql").read_text(encoding="utf-8").splitlines()
QUERIES = [line for line in _LINES if line and not line.startswith("--")]


@pytest.fixture(scope="module")
def access(spark: Any) -> Any:
    from pyspark.sql import types as t

    simple = {Kind.BOOLEAN: t.BooleanType(), Kind.BIGINT: t.LongType(), Kind.DOUBLE: t.DoubleType()}
    simple |= {
        Kind.STRING: t.StringType(),
        Kind.TIMESTAMP: t.TimestampType(),
        Kind.DECIMAL: t.DecimalType(18, 6),
    }
    schema = t.StructType([t.StructField(name, simple[kind.kind]) for name, kind in FIELDS.items()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spark.createDataFrame(ROWS, schema).coalesce(1).createOrReplaceTempView("access")
    return spark


def _spark_type(kind: Type) -> str:
    if kind.kind is Kind.DECIMAL:
        return f"decimal({kind.precision},{kind.scale})"
    if kind.kind is Kind.WINDOW:
        return "struct<start:timestamp,end:timestamp>"
    return "array<double>" if kind.kind is Kind.ARRAY else SPARK_TYPES.get(kind.kind, "timestamp")


def _run(session: Any, plan: Plan) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = session.sql(plan.to_spark_sql())
        columns = [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
        return columns, [tuple(row) for row in frame.collect()]


@pytest.mark.parametrize("sql", QUERIES)
def test_spark_runs_what_we_render(access: Any, sql: str) -> None:
    plan = compile_sql(sql, SCHEMAS)
    columns, _ = _run(access, plan)
    assert columns == [(output.name, _spark_type(output.expr.type)) for output in plan.outputs]

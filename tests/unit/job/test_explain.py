"""`explain` shows both phases with types, and marks what leaves the kernels."""

from __future__ import annotations

import pytest

from job.explain import duration, explain
from job.plan import Schema
from job.sql import compile_sql
from job.types import BIGINT, STRING, TIMESTAMP

SCHEMA = Schema({"time": TIMESTAMP, "path": STRING, "status": BIGINT})


def explained(sql: str, **parameters: object) -> str:
    return explain(compile_sql(sql, {"access": SCHEMA}, parameters))


def test_a_windowed_query() -> None:
    sql = """SELECT window(time, '1 minute', '30 seconds') AS w, path, count_if(status >= :least) AS bad
             FROM access WHERE path RLIKE '^/x' GROUP BY ALL HAVING count_if(status >= :least) > 0
             ORDER BY bad DESC LIMIT 3"""
    assert explained(sql, least=500) == (
        "scan lines of access\n"
        "  path: STRING\n"
        "  time: TIMESTAMP\n"
        "  status: BIGINT\n"
        "for each row\n"
        "  where (path RLIKE '^/x') [slow]\n"
        "  window of 1 minute every 30 seconds over time\n"
        "  key0 = path: STRING\n"
        "  agg0 = count(*) where (status >= :least=500): BIGINT\n"
        "for each group of a window\n"
        "  having (agg0 > 0)\n"
        "  w = window: STRUCT<start: TIMESTAMP, end: TIMESTAMP>\n"
        "  path = key0: STRING\n"
        "  bad = agg0: BIGINT\n"
        "  order by window; agg0 descending, NULLs last; key0\n"
        "  limit 3 per window\n"
        "[slow]: runs outside the kernels, once per distinct value of a block\n"
    )


def test_a_count_reads_no_field() -> None:
    assert "  no field: lines are only counted\n" in explained("SELECT count(*) FROM access")
    assert "[slow]" not in explained("SELECT count(*) FROM access")


def test_a_subquery_is_the_first_stage() -> None:
    shown = explained("SELECT avg(n) FROM (SELECT path, count(*) AS n FROM access GROUP BY path)")
    assert shown.startswith("first stage\n  scan lines of access\n    path: STRING\n")
    assert "second stage\nscan rows of the first stage\n  n: BIGINT\n" in shown


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [(60_000_000, "1 minute"), (90_000_000, "90 seconds"), (86_400_000_000, "1 day"), (1500, "1500 microseconds")],
)
def test_durations(microseconds: int, text: str) -> None:
    assert duration(microseconds) == text

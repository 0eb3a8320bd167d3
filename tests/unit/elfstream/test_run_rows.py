"""The row phase and the finish together, on columns instead of logs: what a query means, told by small cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import master.window_values
from cython_ext.column import Column
from elfstream.embedded import run_rows
from elfstream.result import Result
from job.plan import Schema
from job.sql import compile_sql
from job.types import BIGINT, STRING, TIMESTAMP, decimal

SCHEMA = Schema(fields={"time": TIMESTAMP, "path": STRING, "status": BIGINT, "took": decimal(18, 6)})
SECOND = 1_000_000
ROWS: list[tuple[int | None, str | None, int | None, int | None]] = [
    (0, "/a", 200, 500_000),
    (1 * SECOND, "/b", 500, 1_500_000),
    (9 * SECOND, "/a", 404, None),
    (10 * SECOND, "/a", 200, 250_000),
    (21 * SECOND, None, None, 1),
    (None, "/c", 200, 2),
]


def ask(sql: str, rows: Sequence[tuple[Any, ...]] = ROWS, blocks: int = 1) -> Result:
    plan = compile_sql(sql, {"access": SCHEMA})
    size = max(1, -(-len(rows) // blocks))
    return run_rows(plan, [_columns(rows[i : i + size]) for i in range(0, len(rows), size)])


def _columns(rows: Sequence[tuple[Any, ...]]) -> tuple[Mapping[str, Column], int]:
    values = zip(*rows, strict=True)
    columns = zip(SCHEMA.fields.items(), values, strict=True)
    return {name: Column.from_list(int(type.kind), list(column)) for (name, type), column in columns}, len(rows)


@pytest.mark.parametrize("blocks", [1, 2, 6])
def test_groups_in_order_of_the_query_then_of_the_keys(blocks: int) -> None:
    sql = "SELECT path, count(*) AS n FROM access GROUP BY path ORDER BY n DESC"
    assert list(ask(sql, blocks=blocks)) == [("/a", 3), (None, 1), ("/b", 1), ("/c", 1)]


def test_limit_is_per_window_and_rows_without_time_are_in_none() -> None:
    sql = """SELECT window(time, '10 seconds') AS w, path, count(*) AS n FROM access
             GROUP BY window(time, '10 seconds'), path ORDER BY n DESC LIMIT 1"""
    rows = [(row.w.start.second, row.path, row.n) for row in ask(sql)]
    assert rows == [(0, "/a", 2), (10, "/a", 1), (20, None, 1)]


def test_sliding_windows_are_merged_from_panes() -> None:
    sql = """SELECT window(time, '20 seconds', '10 seconds') AS w, count(*) AS n, count(DISTINCT path) AS d
             FROM access GROUP BY window(time, '20 seconds', '10 seconds')"""
    rows = [(row.w.start.timestamp(), row.n, row.d) for row in ask(sql, blocks=3)]
    assert rows == [(-10, 3, 2), (0, 4, 2), (10, 2, 1), (20, 1, 0)]


def test_aggregates_and_filters_share_rows() -> None:
    sql = """SELECT count(*) AS n, count(took) AS c, sum(took) AS s, avg(status) AS a, min(path) AS lo, max(path) AS hi,
                    count_if(status >= 400) AS bad, sum(status) FILTER (WHERE path = '/a') AS f FROM access"""
    (row,) = ask(sql)
    assert row.asdict() | {"s": str(row.s)} == {
        "n": 6, "c": 5, "s": "2.250003", "a": 300.8, "lo": "/a", "hi": "/c", "bad": 2, "f": 804,
    }  # fmt: skip


def test_a_query_without_keys_answers_also_without_rows() -> None:
    assert list(ask("SELECT count(*) AS n, sum(status) AS s FROM access", rows=[])) == [(0, None)]
    assert list(ask("SELECT path, count(*) AS n FROM access GROUP BY path", rows=[])) == []


def test_having_and_where() -> None:
    sql = "SELECT path FROM access WHERE status < 500 GROUP BY path HAVING count(*) > 1"
    assert list(ask(sql)) == [("/a",)]


def test_a_subquery_is_a_second_stage() -> None:
    sql = """SELECT count(*) AS pages, max(n) AS top FROM
             (SELECT path, count(*) AS n FROM access WHERE path IS NOT NULL GROUP BY path)"""
    assert list(ask(sql)) == [(3, 3)]


def test_a_second_stage_over_windows() -> None:
    sql = """SELECT w.start AS s, max(n) AS top FROM (SELECT window(time, '10 seconds') AS w, path, count(*) AS n
             FROM access GROUP BY window(time, '10 seconds'), path) GROUP BY w.start ORDER BY s"""
    assert [(row.s.second, row.top) for row in ask(sql)] == [(0, 2), (10, 1), (20, 1)]


def test_failed_expressions_are_null_and_counted_only_where_they_are_looked_at() -> None:
    result = ask("SELECT sum(status div (status - 200)) AS s FROM access")
    assert next(iter(result)).s == 500 // 300 + 404 // 204
    assert result.stats.eval_errors == 3
    guarded = ask("SELECT sum(status div (status - 200)) FILTER (WHERE status <> 200) AS s FROM access")
    assert guarded.stats.eval_errors == 0
    assert list(guarded) == [(2,)]


def test_an_integer_sum_beyond_bigint_is_null_and_counted() -> None:
    rows = [(0, "/a", 2**63 - 1, 1), (0, "/a", 1, 1), (0, "/b", 7, 1)]
    result = ask("SELECT path, sum(status) AS s FROM access GROUP BY path", rows)
    assert list(result) == [("/a", None), ("/b", 7)]
    assert result.stats.overflow == 1
    back = [*rows, (0, "/a", -2, 1)]
    assert next(iter(ask("SELECT path, sum(status) AS s FROM access GROUP BY path", back))) == ("/a", 2**63 - 2)


def test_rows_answer_by_name_index_and_dict() -> None:
    (row,) = ask("SELECT count(*) AS n, 'x' AS `odd name` FROM access")
    assert (row.n, row[0], row["odd name"], row.asdict()) == (6, 6, "x", {"n": 6, "odd name": "x"})
    with pytest.raises(AttributeError, match="no column 'm'; there are n, odd name"):
        _ = row.m


def test_rows_become_objects_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows of a window became Python objects before the first was written."""
    monkeypatch.setattr(master.window_values, "SLICE_ROWS", 3)
    rows = [(second * SECOND, f"/{second}", None, None) for second in range(10)]
    result = ask("SELECT path, count(*) AS n, min(time) AS t FROM access GROUP BY path", rows)
    assert [(row.path, row.n, row.t.second) for row in result] == [(f"/{n}", 1, n) for n in range(10)]
    pieces = [count for window in result._windows for _, count in master.window_values.slices(window)]
    assert pieces == [3, 3, 3, 1]

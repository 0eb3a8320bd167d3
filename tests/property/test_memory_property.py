"""Whole queries under a cap at which everything spills, in trees of a few rows: the answers of a dict, and of no cap."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cbt.budget import Budget
from cbt.memory import Memory
from cbt.options import BudgetOptions, Options
from cython_ext.column import Column
from elfstream.embedded import run_rows
from job.plan import Schema
from job.sql import compile_sql
from job.types import BIGINT, STRING, TIMESTAMP

SCHEMA = Schema(fields={"time": TIMESTAMP, "path": STRING, "status": BIGINT})
SECOND = 1_000_000
Row = tuple[int, str, int | None]
rows_of_logs = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.one_of(st.sampled_from(["/", "/a", "/b"]), st.text("xyz", max_size=4)),
        st.one_of(st.none(), st.integers(-3, 3)),
    ),
    max_size=150,
)


def tight(directory: str) -> Memory:
    options = BudgetOptions(
        memory_max=1 << 24, compress_share=0.0, spill_share=0.0, spill_dir=directory, table_bytes_min=512
    )
    return Memory(Budget(options), Options.tiny())


def ask(sql: str, rows: Sequence[Row], block: int, memory: Memory | None) -> list[tuple[Any, ...]]:
    plan = compile_sql(sql, {"access": SCHEMA})
    blocks = [_columns(rows[at : at + block]) for at in range(0, len(rows), block)]
    return [tuple(row) for row in run_rows(plan, blocks, memory)]


def _columns(rows: Sequence[Row]) -> tuple[Mapping[str, Column], int]:
    values = zip(*[(second * SECOND, path, status) for second, path, status in rows], strict=True)
    columns = zip(SCHEMA.fields.items(), values, strict=True)
    return {name: Column.from_list(int(type.kind), list(column)) for (name, type), column in columns}, len(rows)


@settings(max_examples=60, deadline=None)
@given(rows=rows_of_logs, block=st.integers(1, 60), limit=st.integers(0, 20))
def test_the_answers_of_a_dict(rows: list[Row], block: int, limit: int) -> None:
    sql = f"""SELECT path, count(*) AS n, sum(status) AS s, count(DISTINCT status) AS d FROM access
              GROUP BY path HAVING count(*) > 1 ORDER BY s DESC NULLS LAST LIMIT {limit}"""
    groups: defaultdict[str, list[int | None]] = defaultdict(list)
    for _, path, status in rows:
        groups[path].append(status)
    expected = []
    for path, statuses in groups.items():
        known = [status for status in statuses if status is not None]
        if len(statuses) > 1:
            expected.append((path, len(statuses), sum(known) if known else None, len(set(known))))
    expected.sort(key=lambda row: (row[2] is None, -(row[2] or 0), row[0].encode()))
    with TemporaryDirectory() as directory:
        memory = tight(directory)
        assert ask(sql, rows, block, memory) == expected[:limit]
        assert list(Path(directory).iterdir()) == []


def test_the_cap_is_tight(tmp_path: Path) -> None:
    memory = tight(str(tmp_path))
    rows: list[Row] = [(number, f"/{number}", number) for number in range(60)]
    assert len(ask("SELECT path, count(DISTINCT status) AS d FROM access GROUP BY path", rows, 10, memory)) == 60
    assert memory.budget.spilled_bytes > 0


QUERIES = (
    """SELECT window(time, '20 seconds', '1 second') AS w, path, count(*) AS n, min(status) AS low FROM access
       GROUP BY w, path ORDER BY n DESC LIMIT 3""",
    """SELECT window(time, '7 seconds', '3 seconds') AS w, count(DISTINCT path) AS d, max(path) AS m FROM access
       GROUP BY w""",
    """SELECT n, count(*) AS paths, min(path) AS first FROM
       (SELECT path, count(*) AS n FROM access GROUP BY path) AS counts GROUP BY n""",
    """SELECT s, count(*) AS windows FROM
       (SELECT window(time, '10 seconds') AS w, path, sum(status) AS s FROM access GROUP BY w, path
        ORDER BY s LIMIT 2) AS sums GROUP BY s""",
    "SELECT count(*) AS n, count(DISTINCT path, status) AS d, approx_count_distinct(path) AS a FROM access",
    "SELECT path, approx_percentile(status, 0.5) AS p FROM access GROUP BY path",
)


@settings(max_examples=40, deadline=None)
@given(rows=rows_of_logs, block=st.integers(1, 60), sql=st.sampled_from(QUERIES))
def test_the_answers_without_a_cap(rows: list[Row], block: int, sql: str) -> None:
    with TemporaryDirectory() as directory:
        assert ask(sql, rows, block, tight(directory)) == ask(sql, rows, max(len(rows), 1), None)

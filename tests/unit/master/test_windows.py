"""Windows finished batch by batch: order, LIMIT, what is held, and what happens when it does not fit."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

import master.kept_rows
from cbt.budget import Budget
from cbt.errors import MemoryCapError
from cbt.memory import Memory
from cbt.options import BudgetOptions, Options
from cython_ext.column import Column
from cython_ext.groups import GroupTable
from job.plan import Plan, Schema
from job.row_phase import RowPhase
from job.sql import compile_sql
from job.types import BIGINT, STRING, TIMESTAMP, Kind
from master.stages import Stages, innermost
from master.windows import FinishedWindow

SCHEMA = Schema(fields={"time": TIMESTAMP, "path": STRING, "status": BIGINT})
SECOND = 1_000_000
BATCHES = Options(batch_groups_max=100)
Rows = list[tuple[Any, ...]]


def finish(sql: str, rows: Rows, memory: Memory | None = None) -> list[FinishedWindow]:
    """The windows of rows of (second, path, status)."""
    return list(windows_of(sql, rows, memory or Memory(options=BATCHES)))


def windows_of(sql: str, rows: Rows, memory: Memory) -> Iterator[FinishedWindow]:
    plan: Plan = compile_sql(sql, {"access": SCHEMA})
    phase = RowPhase(innermost(plan), memory)
    for at in range(0, len(rows), 500):
        part = rows[at : at + 500]
        columns = {
            "time": Column.from_list(Kind.TIMESTAMP, [second * SECOND for second, _, _ in part]),
            "path": Column.from_list(Kind.STRING, [path for _, path, _ in part]),
            "status": Column.from_list(Kind.BIGINT, [status for _, _, status in part]),
        }
        phase.process(columns, len(part))
    for pane in phase.store.panes.values():
        for tree in (pane.groups, *pane.pairs):
            tree.pack(1)  # so that it comes in batches
    return Stages(plan, memory).finish(phase.store)


def values(window: FinishedWindow) -> Rows:
    columns = [column.columns[0].to_list() for column in window.columns if column.type.kind is not Kind.WINDOW]
    return list(zip(*columns, strict=True))


def shuffled(count: int) -> Rows:
    """Rows of paths by number, path n n % 7 + 1 times."""
    rows = [(0, f"/{n:05}", n % 9) for n in range(count) for _ in range(n % 7 + 1)]
    Random(3).shuffle(rows)
    return rows


@pytest.mark.parametrize("limit", [0, 1, 10, 350, 1999, 5000])
@pytest.mark.parametrize("surplus", [0, 64])
def test_the_best_rows_of_many_batches(limit: int, surplus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master.kept_rows, "SURPLUS_ROWS", surplus)
    sql = f"SELECT path, count(*) AS n FROM access GROUP BY path ORDER BY n DESC LIMIT {limit}"
    (window,) = finish(sql, shuffled(2000))
    expected = sorted(((f"/{n:05}", n % 7 + 1) for n in range(2000)), key=lambda row: (-row[1], row[0]))
    assert values(window) == expected[:limit]


def test_all_rows_of_many_batches_in_order_of_an_expression() -> None:
    sql = """SELECT path, count(*) * 10 AS n, count(DISTINCT status) AS d FROM access GROUP BY path
             HAVING count(*) > 2 ORDER BY count(*) % 5, path DESC"""
    (window,) = finish(sql, shuffled(1000))
    counts = [(f"/{n:05}", n % 7 + 1) for n in range(999, -1, -1) if n % 7 + 1 > 2]
    assert values(window) == [(path, n * 10, 1) for path, n in sorted(counts, key=lambda row: row[1] % 5)]


def test_windows_without_groups_have_columns() -> None:
    (window,) = finish("SELECT path, sum(status) AS s FROM access GROUP BY path ORDER BY s + 1 LIMIT 3", [])
    assert (window.rows, [column.name for column in window.columns]) == (0, ["path", "s"])
    assert values(window) == []
    (one,) = finish("SELECT count(*) AS n, count(DISTINCT path) AS d, min(path) AS m FROM access", [])
    assert values(one) == [(0, 0, None)]


def test_a_few_best_rows_of_many_groups_take_the_memory_of_a_batch() -> None:
    """All groups were finished, sorted and only then cut."""
    budget = Budget()
    sql = "SELECT path, count(*) AS n FROM access GROUP BY path ORDER BY n DESC LIMIT 5"
    rows = [(0, f"/{n:06}", 0) for n in range(20_000)]
    windows = windows_of(sql, rows, Memory(budget, BATCHES))
    before = budget.peak_bytes
    (window,) = windows
    assert window.rows == 5
    assert budget.peak_bytes - before < 64 * 1024
    assert window.holding.held_bytes < 1024


def test_rows_are_charged_until_they_are_dropped() -> None:
    budget = Budget()
    sql = "SELECT path FROM access GROUP BY path"
    windows = finish(sql, [(0, f"/{n:06}", 0) for n in range(1000)], Memory(budget, BATCHES))
    assert budget.used_bytes >= 1000 * (16 + 7)
    del windows
    gc.collect()
    assert budget.used_bytes == 0


def test_rows_that_do_not_fit_are_an_error(tmp_path: Any) -> None:
    options = BudgetOptions(memory_max=200_000, spill_dir=str(tmp_path), table_bytes_min=512)
    memory = Memory(Budget(options), Options(table_bytes_max=2000, block_bytes=1000, batch_groups_max=100))
    rows = [(0, f"/{n:06}", 0) for n in range(10_000)]
    sql = "SELECT path, count(*) AS n FROM access GROUP BY path"
    with pytest.raises(MemoryCapError, match="add LIMIT or HAVING, or raise memory_max"):
        finish(sql, rows, memory)
    gc.collect()
    (window,) = finish(sql + " ORDER BY path DESC LIMIT 2", rows, memory)
    assert values(window) == [("/009999", 1), ("/009998", 1)]
    (nested,) = finish(f"SELECT count(*) AS c, sum(n) AS s FROM ({sql}) AS t", rows, memory)
    assert values(nested) == [(10_000, 10_000)]


@pytest.mark.parametrize("size", ["10 seconds', '1 second", "10 seconds"])
@pytest.mark.parametrize("limit", ["", "LIMIT 2"])
def test_finished_rows_keep_no_group_table_alive(size: str, limit: str) -> None:
    """They kept the tables of their groups: 4.6 GB for sliding windows of an hour by client, LIMIT 3."""
    sql = f"""SELECT window(time, '{size}') AS w, path, upper(path) AS u, min(path) AS m FROM access
              GROUP BY w, path {limit}"""
    rows = [(second, f"/{second % 7}/{n}", 0) for second in range(60) for n in range(5)]
    gc.collect()
    before = {id(held) for held in gc.get_objects() if isinstance(held, GroupTable)}
    plan = compile_sql(sql, {"access": SCHEMA})
    windows = finish(sql, rows)
    assert len(windows) > 5
    owners = [
        owner
        for window in windows
        for output in window.columns
        for column in output.columns
        for held in gc.get_referents(column)
        for owner in held
    ]
    assert plan.limit == (2 if limit else None)
    assert not [owner for owner in owners if isinstance(owner, GroupTable) and id(owner) not in before]


def test_order_is_the_same_whatever_the_batches() -> None:
    sql = """SELECT window(time, '10 seconds', '5 seconds') AS w, status, path, count(*) AS n FROM access
             GROUP BY w, status, path ORDER BY n % 3 DESC, status LIMIT 40"""
    source = Random(5)
    rows = [(source.randrange(60), f"/{source.randrange(90)}", source.choice([None, 1, 2])) for _ in range(3000)]
    whole = [(window.start_us, values(window)) for window in finish(sql, rows, Memory())]
    assert [(window.start_us, values(window)) for window in finish(sql, rows, Memory(options=Options.tiny()))] == whole

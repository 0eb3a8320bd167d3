"""The panes of several jobs under one cap."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from cbt.budget import Budget
from cbt.errors import SpillError
from cbt.memory import Memory
from cbt.options import BudgetOptions, Options
from cbt.spill import Extent, SpillFile
from cython_ext.column import Column
from job.panes import PaneStore, finished_groups
from job.plan import Schema
from job.row_phase import RowPhase
from job.sql import compile_sql
from job.types import STRING, Kind

PLAN = compile_sql(
    "SELECT path, count(*) AS n, count(DISTINCT path) AS d FROM access GROUP BY path",
    {"access": Schema(fields={"path": STRING})},
)

SMALL = Options(table_bytes_max=2000, block_bytes=1000, slice_bytes=500, leaf_bytes_max=8000, fanout_max=8)


def feed(phase: RowPhase, first: int, count: int) -> None:
    names = [f"/page/{number}" for number in range(first, first + count)]
    phase.process({"path": Column.from_list(Kind.STRING, names)}, count)


def answers(store: PaneStore) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for groups in finished_groups(PLAN, store.shape, store.pane(0)):
        columns = [groups.columns[name].to_list() for name in ("key0", "agg0", "agg1")]
        found.update({name: (count, distinct) for name, count, distinct in zip(*columns, strict=True)})
    return found


def test_a_job_that_the_disk_refuses_fails_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = Budget(BudgetOptions(memory_max=100_000, spill_dir=str(tmp_path), table_bytes_min=512))
    memory = Memory(budget, SMALL)
    hungry, modest = RowPhase(PLAN, memory), RowPhase(PLAN, memory)
    feed(modest, 0, 200)
    writes, write = iter(range(1 << 30)), SpillFile.write

    def refusing(file: SpillFile, data: bytes) -> Extent:
        if next(writes) >= 50:
            raise SpillError("the disk is full")
        return write(file, data)

    with monkeypatch.context() as patch:
        patch.setattr(SpillFile, "write", refusing)
        with pytest.raises(SpillError, match="the disk is full"):
            feed(hungry, 0, 100_000)
    of_hungry = weakref.ref(hungry.store.pane(0).groups)
    del hungry
    gc.collect()
    assert of_hungry() is None  # the error that is remembered kept its tree
    for first in range(100, 2000, 100):  # of more, the bookkeeping of such small blocks alone fills the cap
        feed(modest, first, 100)
    assert answers(modest.store) == {
        f"/page/{number}": (2 if 100 <= number < 200 else 1, 1) for number in range(2000)
    }
    assert budget.used_bytes <= 100_000
    assert list(tmp_path.iterdir()) == []


def test_stores_that_are_merged_share_nothing_afterwards() -> None:
    memory = Memory(Budget(), Options.tiny())
    one, two = RowPhase(PLAN, memory), RowPhase(PLAN, memory)
    feed(one, 0, 50)
    feed(two, 25, 50)
    one.store.merge(two.store)
    assert not two.store.panes
    feed(two, 0, 10)
    assert answers(one.store) == {f"/page/{n}": (2 if 25 <= n < 50 else 1, 1) for n in range(75)}
    assert len(answers(two.store)) == 10

"""Sliding windows from blocks of panes: the same groups as pane by pane, with far fewer merges."""

from __future__ import annotations

from collections import Counter
from math import isqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbt.aggregate import Finish
from cbt.budget import Budget
from cbt.memory import Memory
from cython_ext.column import Column
from job.pane_blocks import PaneBlocks, block_panes
from job.panes import PaneState, PaneStore
from job.plan import Schema
from job.row_phase import RowPhase
from job.sql import compile_sql
from job.types import STRING, TIMESTAMP, Kind
from job.window import window_starts

PLAN = compile_sql(
    "SELECT path, count(*) AS n FROM access GROUP BY path",
    {"access": Schema(fields={"time": TIMESTAMP, "path": STRING})},
)


def store_of(budget: Budget | None = None) -> PaneStore:
    return PaneStore(RowPhase(PLAN).shape, Memory(budget))


def add(store: PaneStore, pane: int, *paths: str) -> None:
    store.pane(pane).update(store.shape, [Column.from_list(Kind.STRING, list(paths))], len(paths))


def groups(state: PaneState) -> dict[str, int]:
    found: dict[str, int] = {}
    for batch in state.groups.batches():
        names, counts = batch.keys()[0].to_list(), batch.finish(0, Finish.COUNT)[0].to_list()
        found.update(zip(names, counts, strict=True))
    return found


def by_panes(store: PaneStore, start: int, size: int) -> dict[str, int]:
    total: Counter[str] = Counter()
    for pane in store.panes.irange(start, start + size, inclusive=(True, False)):
        total.update(groups(store.panes[pane]))
    return dict(total)


def test_a_window_of_a_thousand_panes_merges_few_pieces() -> None:
    """Each window merged its thousand panes: 65 s for a million lines."""
    store, size = store_of(), 1000
    for pane in range(2000):
        add(store, pane, f"/{pane % 7}")
    blocks = PaneBlocks(store, size, 1)
    starts = window_starts(store.panes, size, 1)
    for start in starts:
        blocks.release_before(start)
        state, _ = blocks.window(start)
        assert sum(groups(state).values()) == min(start + size, 2000) - max(start, 0)
    assert blocks.merges <= 3 * isqrt(size) * len(starts)


def test_blocks_with_a_pane_that_grew_are_made_anew() -> None:
    store = store_of()
    for pane in range(100):
        add(store, pane, "/a")
    blocks = PaneBlocks(store, 100, 1)
    for times in range(1, 4):
        assert groups(blocks.window(0)[0]) == {"/a": 99 + times}
        before = blocks.merges
        blocks.window(0)
        assert blocks.merges == before  # the core is all of it
        add(store, 50, "/a")


@settings(max_examples=60, deadline=None)
@given(
    slide=st.integers(1, 7),
    times=st.integers(1, 40),
    history=st.lists(
        st.one_of(
            st.tuples(st.integers(-60, 60), st.sampled_from(["/a", "/b", "/c"])),
            st.integers(-60, 60),  # a window is asked for
            st.none(),  # everything before the greatest start asked for is released
        ),
        max_size=60,
    ),
)
def test_windows_are_those_of_their_panes_while_panes_grow(
    slide: int, times: int, history: list[tuple[int, str] | int | None]
) -> None:
    store, size = store_of(), slide * times
    for pane in range(-60, 60, 3):
        add(store, pane * slide, "/")
    blocks = PaneBlocks(store, size, slide)
    for step in history:
        if isinstance(step, tuple):
            add(store, step[0] * slide, step[1])
        elif step is None:
            blocks.release_before(0)
        elif by_panes(store, step * slide, size):
            state, is_own = blocks.window(step * slide)
            assert groups(state) == by_panes(store, step * slide, size)
            assert is_own == all(state is not pane for pane in store.panes.values()) or not is_own


def test_blocks_are_freed() -> None:
    budget = Budget()
    store = store_of(budget)
    for pane in range(400):
        add(store, pane, f"/{pane}")
    of_panes = budget.used_bytes
    blocks = PaneBlocks(store, 100, 1)
    for start in range(300):
        blocks.window(start)
    assert budget.used_bytes > of_panes
    blocks.release_before(400)
    assert budget.used_bytes == of_panes


@pytest.mark.parametrize(
    ("size", "slide", "panes"),
    [
        pytest.param(1000, 1, 31, id="many panes"),
        pytest.param(10, 10, 1, id="tumbling"),
        pytest.param(5, 1, 1, id="few panes"),
        pytest.param(100, 99, 1, id="few shared panes"),
    ],
)
def test_blocks_only_where_they_pay(size: int, slide: int, panes: int) -> None:
    assert block_panes(size, slide) == panes

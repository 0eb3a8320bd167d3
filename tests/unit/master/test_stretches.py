"""Cutting work behind the shuffle: every window in one stretch, every pane where it is needed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from job.plan import ColumnRef, Schema, Window
from job.sql import compile_sql
from job.types import BIGINT, STRING, TIMESTAMP
from job.window import window_starts
from master.spark.partials import kept_panes
from master.spark.stretches import HASHES, Router, assignments, bounds, may_be_cut, stretches

TIME = ColumnRef("time", TIMESTAMP)
SCHEMAS = {"access": Schema({"time": TIMESTAMP, "path": STRING, "status": BIGINT})}


def window(panes: int, slide: int) -> Window:
    return Window(TIME, panes * slide, slide)


@settings(deadline=None)
@given(
    st.dictionaries(st.integers(-20, 60).map(lambda pane: pane * 10), st.integers(1, 100), max_size=30),
    st.integers(1, 5),
    st.integers(1, 500),
    st.tuples(st.integers(-300, 700), st.integers(-300, 700)),
)
def test_every_window_is_in_one_stretch_and_has_its_panes(
    sizes: dict[int, int], panes: int, part_bytes: int, asked: tuple[int, int]
) -> None:
    sliding = window(panes, 10)
    cuts = stretches(sizes, sliding, 4, part_bytes, asked)
    starts = [start for cut in cuts for start in cut.starts]
    assert starts == [
        start for start in window_starts(sizes, panes * 10, 10) if asked[0] <= start < asked[1]
    ]
    parts = assignments(cuts)
    assert [(one.stretch.part + one.range) for one in parts] == list(range(len(parts)))
    assert len({cut.name for cut in cuts}) == len(cuts)
    router = Router(cuts, sliding)
    for pane in sizes:
        needing = [
            cut
            for cut in cuts
            if any(start is not None and start <= pane < start + panes * 10 for start in cut.starts)
        ]
        routed = list(router.of(pane))
        assert all(cut in routed for cut in needing)
        assert len(routed) == len(set(routed))


def test_a_stretch_is_as_large_as_asked_but_holds_a_whole_window() -> None:
    sizes = {pane * 10: 100 for pane in range(20)}
    assert [len(cut.starts) for cut in stretches(sizes, window(1, 10), 4, 500)] == [5, 5, 5, 5]
    assert {cut.ranges for cut in stretches(sizes, window(1, 10), 4, 500)} == {1}
    assert {cut.ranges for cut in stretches(sizes, window(1, 10), 4, 30)} == {4}
    long = stretches(sizes, window(10, 10), 4, 100)
    assert all(len(cut.starts) >= 10 for cut in long[:-1])


def test_without_windows_there_is_one_stretch() -> None:
    (cut,) = stretches({0: 1000}, None, 7, 100)
    assert (cut.starts, cut.ranges, cut.name) == ((None,), 7, "all")
    (cut,) = stretches({}, None, 7, 100)
    assert cut.ranges == 1


def test_hash_ranges_end_where_the_next_begins() -> None:
    assert bounds(1) == [HASHES]
    assert bounds(4) == [HASHES // 4, HASHES // 2, 3 * HASHES // 4, HASHES]


def test_which_plans_may_be_cut() -> None:
    def cut(sql: str, is_final: bool = True) -> bool:
        return may_be_cut(compile_sql(sql, SCHEMAS), is_final)

    assert cut("SELECT path, count(*) FROM access GROUP BY path LIMIT 3")
    assert not cut("SELECT path, count(*) FROM access GROUP BY path LIMIT 3", False)
    assert cut("SELECT path, count(*) FROM access GROUP BY path", False)
    assert not cut("SELECT path, count(DISTINCT status) FROM access GROUP BY path")
    assert not cut("SELECT count(*) FROM access")


def test_the_panes_of_a_range_of_windows() -> None:
    assert kept_panes((0, 100), window(1, 10)) == (0, 100)
    assert kept_panes((5, 95), window(3, 10)) == (10, 120)
    assert kept_panes((5, 6), window(3, 10)) == (10, 10)
    assert kept_panes((0, 10), Window(TIME, 25, 10)) == (0, 25)

"""Backfills without Spark: rows cut into splits, packed, routed to parts, merged and joined give the one-shot answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cbt.memory import Memory
from cython_ext.column import Column
from elfstream.embedded import run_rows
from elfstream.result import Result, ResultColumn, Stats
from job.plan import Plan
from job.row_phase import RowPhase
from job.sql import compile_sql
from master.spark.merging import FinalMerge, Joined, StageMerge, WindowMerge
from master.spark.partials import packed, pane_sizes, routed
from master.spark.records import PartCounts
from master.spark.stretches import Router, Stretch, assignments, may_be_cut, stretches
from master.stages import Stages, innermost
from srt.frame_messages import PaneRun
from tests.property.test_memory_property import tight
from tests.property.test_spark_oracle import FIELDS, SCHEMAS, queries, tables

Block = tuple[Mapping[str, Column], int]


def blocks_of(rows: Sequence[tuple[Any, ...]], cuts: Sequence[int]) -> list[Block]:
    """The rows as blocks of columns, cut at `cuts`."""
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    blocks = []
    for first, last in pairwise(edges):
        values = list(zip(*rows[first:last], strict=True)) or [()] * len(FIELDS)
        columns = {
            name: Column.from_list(int(kind.kind), list(column))
            for (name, kind), column in zip(FIELDS.items(), values, strict=True)
        }
        blocks.append((columns, last - first))
    return blocks


class Answer:
    """A backfill of blocks, each its own split, all in this process."""

    def __init__(self, plan: Plan, blocks: Sequence[Block], part_bytes: int, memory: Memory) -> None:
        self._part_bytes, self._memory = part_bytes, memory
        self.counts: list[PartCounts] = []
        self.eval_errors = 0
        chain = [plan]
        while chain[0].inner is not None:
            chain.insert(0, chain[0].inner)
        runs: list[PaneRun] = []
        for columns, rows in blocks:
            phase = RowPhase(chain[0], memory)
            phase.process(columns, rows)
            self.eval_errors += phase.eval_errors
            runs += packed(phase.take())
        for stage, above in pairwise(chain):
            runs = self._stage(stage, above, runs)
        self.windows = self._final(plan, runs)

    def _parts(
        self, plan: Plan, runs: Sequence[PaneRun], is_final: bool
    ) -> list[tuple[Stretch, list[PaneRun]]]:
        ranges_max = 7 if may_be_cut(plan, is_final) else 1
        cuts = stretches(pane_sizes(runs), plan.window, ranges_max, self._part_bytes)
        parts: list[tuple[Stretch, list[PaneRun]]] = [(one.stretch, []) for one in assignments(cuts)]
        router = Router(cuts, plan.window)
        for run in runs:
            for number, piece in routed(run, router):
                parts[number][1].append(piece)
        return parts

    def _stage(self, plan: Plan, above: Plan, runs: Sequence[PaneRun]) -> list[PaneRun]:
        found: list[PaneRun] = []
        for stretch, part in self._parts(plan, runs, False):
            merge = StageMerge(plan, above, self._memory)
            merge.reduce(part, stretch.starts)
            found += packed(merge.phase.take())
            self.eval_errors += merge.phase.eval_errors
            self.counts.append(merge.counts)
        return found

    def _final(self, plan: Plan, runs: Sequence[PaneRun]) -> list[Any]:
        rows: dict[int | None, list[bytes]] = {}
        for stretch, part in self._parts(plan, runs, True):
            merge = FinalMerge(plan, self._memory)
            for start in stretch.starts:
                rows.setdefault(start, [])
            for found in merge.rows(part, stretch.starts):
                rows[found.start_us].append(found.run)
            self.counts.append(merge.counts)
        joined = Joined(plan, self._memory)
        windows = [joined.window(start, runs) for start, runs in rows.items()]
        self.eval_errors += joined.eval_errors + sum(counts.eval_errors for counts in self.counts)
        return windows


def plain(windows: list[Any], plan: Plan) -> list[tuple[str, ...]]:
    columns = tuple(ResultColumn(output.name, output.expr.type) for output in plan.outputs)
    return [tuple(map(repr, row)) for row in Result(columns, windows, Stats(), "", "")]


@settings(deadline=None, max_examples=400, suppress_health_check=list(HealthCheck))
@given(
    tables(60),
    queries(),
    st.lists(st.integers(0, 60), max_size=4),
    st.sampled_from([1, 60, 300, 1 << 20]),
    st.booleans(),
)
def test_a_backfill_is_the_one_shot_answer(
    rows: list[tuple[Any, ...]], sql: str, cuts: list[int], part_bytes: int, is_tight: bool
) -> None:
    plan = compile_sql(sql, SCHEMAS)
    blocks = blocks_of(rows, cuts)
    want = run_rows(plan, blocks)
    with TemporaryDirectory() as directory:
        answer = Answer(plan, blocks, part_bytes, tight(directory) if is_tight else Memory())
        assert plain(answer.windows, plan) == [tuple(map(repr, row)) for row in want]
        overflow = sum(counts.overflow for counts in answer.counts)
        assert (answer.eval_errors, overflow) == (want.stats.eval_errors, want.stats.overflow)


def test_what_fails_in_order_by_is_counted_once() -> None:
    """With LIMIT the parts look at all groups, and the driver looks at the best of each again."""
    sql = "SELECT s, count(*) AS n FROM log GROUP BY s ORDER BY CAST(s AS BIGINT) + count(*) DESC LIMIT 3"
    plan = compile_sql(sql, SCHEMAS)
    rows = [(number, f"x{number % 9}", *[None] * (len(FIELDS) - 2)) for number in range(40)]
    blocks = blocks_of(rows, [10, 20])
    want = run_rows(plan, blocks)
    answer = Answer(plan, blocks, 60, Memory())
    assert want.stats.eval_errors == 9
    assert len(answer.counts) > 1
    assert answer.eval_errors == want.stats.eval_errors
    assert plain(answer.windows, plan) == [tuple(map(repr, row)) for row in want]


NESTED = [
    """SELECT n, count(*) AS paths, sum(x) AS x FROM (SELECT window(t, '1 hour') AS w, s, count(*) AS n, max(i) AS x FROM log
       GROUP BY window(t, '1 hour'), s) GROUP BY n""",
    """SELECT window(w.end, '1 day') AS d, max(n) AS top FROM (SELECT window(t, '1 hour') AS w, s, count(*) AS n FROM log
       GROUP BY window(t, '1 hour'), s ORDER BY n DESC LIMIT 2) GROUP BY window(w.end, '1 day')""",
    """SELECT max(m) AS m, count(DISTINCT k) AS ks FROM (SELECT k, max(n) AS m FROM
       (SELECT k, s, count(DISTINCT i) AS n FROM log GROUP BY k, s) GROUP BY k)""",
    """SELECT approx_percentile(n, 0.5) AS p, approx_count_distinct(s) AS c
       FROM (SELECT s, count(*) AS n FROM log GROUP BY s)""",
]


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(
    tables(60),
    st.sampled_from(NESTED),
    st.lists(st.integers(0, 60), max_size=4),
    st.sampled_from([1, 200, 1 << 20]),
)
def test_nested_plans(rows: list[tuple[Any, ...]], sql: str, cuts: list[int], part_bytes: int) -> None:
    plan = compile_sql(sql, SCHEMAS)
    blocks = blocks_of(rows, cuts)
    want = run_rows(plan, blocks)
    answer = Answer(plan, blocks, part_bytes, Memory())
    assert plain(answer.windows, plan) == [tuple(map(repr, row)) for row in want]
    assert answer.eval_errors == want.stats.eval_errors


@settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
@given(tables(60), st.lists(st.integers(0, 60), max_size=4), st.sampled_from([1, 200, 1 << 20]))
def test_nested_plans_window_by_window(rows: list[tuple[Any, ...]], cuts: list[int], part_bytes: int) -> None:
    """As live jobs run them: the outer plan sees one window of the log at a time."""
    sql = """SELECT n, count(*) AS texts, count(DISTINCT m) AS ms FROM (SELECT s, count(*) AS n, max(k) AS m FROM log
             GROUP BY window(t, '2 hours', '1 hour'), s ORDER BY n DESC LIMIT 9) GROUP BY n ORDER BY texts DESC"""
    plan = compile_sql(sql, SCHEMAS)
    source = innermost(plan)
    runs: list[PaneRun] = []
    whole = RowPhase(source)
    for columns, count in blocks_of(rows, cuts):
        phase = RowPhase(source)
        phase.process(columns, count)
        whole.process(columns, count)
        runs += packed(phase.take())
    cut = stretches(pane_sizes(runs), source.window, 1, part_bytes)
    router, joined, memory = Router(cut, source.window), Joined(plan, Memory()), Memory()
    stages = Stages(plan)
    for stretch in cut:
        part = [piece for run in runs for number, piece in routed(run, router) if number == stretch.part]
        found = list(WindowMerge(plan, memory).rows(part, stretch.starts))
        for start in stretch.starts:
            window = joined.window(start, [row.run for row in found if row.start_us == start])
            want = stages.finish_window(whole.store, start)
            assert (window.start_us, window.end_us) == (want.start_us, want.end_us)
            assert plain([window], plan) == plain([want], plan)

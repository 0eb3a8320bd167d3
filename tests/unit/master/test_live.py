"""Windows that close while rows come in: told by small cases, and held to the answer of the whole log."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cython_ext.column import Column
from job.errors import JobError
from job.plan import Plan, Schema
from job.row_phase import RowPhase
from job.sql import compile_sql
from job.types import STRING, TIMESTAMP, Kind
from master.live import LiveWindows, Publication
from master.stages import innermost

SECOND = 1_000_000
SCHEMA = Schema(fields={"time": TIMESTAMP, "path": STRING})
TUMBLING = """SELECT window(time, '10 seconds') AS w, path, count(*) AS n, count(DISTINCT path) AS d FROM access
              GROUP BY window(time, '10 seconds'), path"""
SLIDING = """SELECT window(time, '10 seconds', '5 seconds') AS w, count(*) AS n FROM access
             GROUP BY window(time, '10 seconds', '5 seconds')"""
Told = tuple[int, int, list[tuple[object, ...]]]


class Log:
    """A log that grows under a plan."""

    def __init__(self, sql: str, lateness_s: int = 20) -> None:
        self.plan: Plan = compile_sql(sql, {"access": SCHEMA})
        self.phase = RowPhase(innermost(self.plan))
        self.live = LiveWindows(self.plan, lateness_s * SECOND)

    def append(self, *rows: tuple[int, str]) -> None:
        columns = {
            "time": Column.from_list(Kind.TIMESTAMP, [second * SECOND for second, _ in rows]),
            "path": Column.from_list(Kind.STRING, [path for _, path in rows]),
        }
        self.phase.process(columns, len(rows))

    def advance(self, second: int) -> list[Told]:
        return [_told(publication) for publication in self.live.advance(self.phase.store, second * SECOND)]

    def drain(self) -> list[Told]:
        return [_told(publication) for publication in self.live.drain(self.phase.store)]


def _told(publication: Publication) -> Told:
    """(start in seconds, edition, rows without the window)."""
    window = publication.window
    assert publication.status == "final"
    columns = [
        column.columns[0].to_list() for column in window.columns if column.type.kind is not Kind.WINDOW
    ]
    start = -1 if window.start_us is None else window.start_us // SECOND
    return start, publication.edition, list(zip(*columns, strict=True))


def test_a_window_is_final_once_the_watermark_passes_its_end() -> None:
    log = Log(TUMBLING)
    log.append((1, "/a"), (9, "/b"), (11, "/a"))
    assert log.advance(9) == []
    assert log.advance(10) == [(0, 1, [("/a", 1, 1), ("/b", 1, 1)])]
    assert log.advance(19) == []
    assert log.drain() == [(10, 1, [("/a", 1, 1)])]


def test_late_lines_revise_and_later_ones_are_counted() -> None:
    log = Log(TUMBLING, lateness_s=20)
    log.append((1, "/a"))
    assert log.advance(15) == [(0, 1, [("/a", 1, 1)])]
    log.append((2, "/a"))
    assert log.advance(15) == [(0, 2, [("/a", 2, 1)])]
    assert log.advance(30) == []
    log.append((3, "/a"))
    assert log.phase.late == 1
    assert log.advance(31) == []
    assert list(log.phase.store.panes) == []


def test_a_watermark_that_jumps_still_closes_every_window() -> None:
    log = Log(SLIDING, lateness_s=0)
    log.append((1, "/a"), (100, "/b"))
    assert log.advance(1000) == [(-5, 1, [(1,)]), (0, 1, [(1,)]), (95, 1, [(1,)]), (100, 1, [(1,)])]


def test_a_window_beyond_its_lateness_does_not_change_with_panes_it_shares() -> None:
    log = Log(SLIDING, lateness_s=0)
    log.append((6, "/a"))
    assert log.advance(10) == [(0, 1, [(1,)])]
    log.append((7, "/a"))  # too late for [0, 10), in time for [5, 15)
    assert log.phase.late == 0
    assert log.advance(11) == []
    assert log.advance(15) == [(5, 1, [(2,)])]


def test_tentative_windows_show_what_is_open() -> None:
    log = Log(TUMBLING)
    log.append((1, "/a"), (12, "/b"))
    log.advance(10)
    (publication,) = log.live.open_windows(log.phase.store)
    assert (publication.window.start_us, publication.edition) == (10 * SECOND, 0)
    assert publication.status == "tentative"
    log.append((13, "/b"))
    current = log.live.current(log.phase.store)
    assert current is not None
    assert current.window.columns[2].columns[0].to_list() == [2]


def test_the_current_sliding_window_is_the_fullest() -> None:
    log = Log(SLIDING)
    assert log.live.current(log.phase.store) is None
    log.append((1, "/a"), (7, "/b"), (11, "/c"))
    current = log.live.current(log.phase.store)
    assert current is not None
    assert (current.window.start_us, current.window.columns[1].columns[0].to_list()) == (5 * SECOND, [2])


def test_a_query_without_windows_is_final_when_the_log_ends() -> None:
    log = Log("SELECT path, count(*) AS n FROM access GROUP BY path")
    log.append((1, "/a"))
    assert log.advance(1000) == []
    current = log.live.current(log.phase.store)
    assert current is not None
    assert current.window.rows == 1
    log.append((2, "/a"))
    assert log.drain() == [(-1, 1, [("/a", 2)])]


def test_a_second_stage_sees_one_window_at_a_time() -> None:
    inner = """(SELECT window(time, '10 seconds') AS w, path, count(*) AS n FROM access
                GROUP BY window(time, '10 seconds'), path)"""
    log = Log(f"SELECT w.start, max(n) AS top FROM {inner} GROUP BY w.start")
    log.append((1, "/a"), (2, "/a"), (3, "/b"), (12, "/a"))
    assert [(start, rows[0][1]) for start, _, rows in log.drain()] == [(0, 2), (10, 1)]
    with pytest.raises(JobError, match=r"GROUP BY w\.start"):
        Log(f"SELECT max(n) AS top FROM {inner}")


@given(
    blocks=st.lists(
        st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["/a", "/b"])), min_size=1, max_size=6)
    ),
    delay=st.integers(0, 30),
    sql=st.sampled_from([TUMBLING, SLIDING]),
)
@settings(deadline=None, max_examples=150)
def test_last_editions_are_the_answer_of_the_whole_log(
    blocks: list[list[tuple[int, str]]], delay: int, sql: str
) -> None:
    """A lateness that covers all disorder leaves nothing late, so the last editions are the whole answer."""
    log, greatest = Log(sql, lateness_s=60), 0
    published: dict[int, tuple[int, list[tuple[object, ...]]]] = {}
    for block in blocks:
        log.append(*block)
        greatest = max([greatest, *(second for second, _ in block)])
        for start, edition, rows in log.advance(greatest - delay):
            assert edition == published.get(start, (0, []))[0] + 1
            published[start] = (edition, rows)
    published |= {start: (edition, rows) for start, edition, rows in log.drain()}
    whole = Log(sql)
    if blocks:
        whole.append(*(row for block in blocks for row in block))
    assert log.phase.late == 0
    assert {start: rows for start, (_, rows) in published.items()} == {
        start: rows for start, _, rows in whole.drain()
    }

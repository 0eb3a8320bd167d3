"""A live query under a manual clock: what is late, what is idle, what is future, what is lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from elfstream.testing import FollowTest, LiveTest
from job.watermark import Timing

PER_10_S = (
    "SELECT window(time, '10 seconds') AS w, count(*) AS n FROM access GROUP BY window(time, '10 seconds')"
)
START = datetime(2025, 11, 28, 20, 0, 0, tzinfo=UTC)


def line(second: float, path: str = "/") -> str:
    time = START + timedelta(seconds=second)
    return f'203.0.113.9 - - [{time:%d/%b/%Y:%H:%M:%S +0000}] "GET {path} HTTP/1.1" 200 1 "-" "-"'


def live(sql: str = PER_10_S, **settings: int) -> LiveTest:
    clock = int((START + timedelta(days=1)).timestamp() * 1e6)
    return LiveTest(sql, "combined", timing=Timing(**settings), clock_us=clock)


def told(test: LiveTest) -> list[tuple[float, int, int]]:
    """(window start in seconds, edition, count) of what was published."""
    return [
        ((window.window.start - START).total_seconds(), window.revision, window.rows[0].n)
        for window in test.finals()
        if window.window is not None
    ]


def test_old_logs_close_windows_by_their_own_time_and_the_last_by_silence() -> None:
    test = live()
    test.write(line(1), line(2), line(11), line(13))
    test.sleep(0.5)
    assert told(test) == [(0.0, 1, 2)]
    test.sleep(5)
    assert told(test) == []
    test.sleep(5)
    assert told(test) == [(10.0, 1, 2)]


def test_late_lines_make_editions_and_then_are_counted() -> None:
    test = live(lateness_us=10_000_000)
    test.write(line(1), line(15))
    test.sleep(0.1)
    test.write(line(2))
    test.sleep(0.1)
    assert told(test) == [(0.0, 1, 1), (0.0, 2, 2)]
    test.write(line(40))
    test.sleep(0.1)
    test.write(line(3))
    assert test.query.late == 1


def test_lines_far_ahead_of_the_clock_are_rejected() -> None:
    test = live()
    test.write(line(1), line(3 * 86400))
    assert test.query.counts.rejected == {"future": 1}
    assert (test.query.counts.lines, test.query.counts.parsed) == (2, 1)
    test.drain()
    assert told(test) == [(0.0, 1, 1)]


def test_a_slow_file_holds_windows_open_until_it_is_idle_or_gone() -> None:
    test = live()
    test.write(line(1), file="a")
    test.write(line(30), file="b")
    test.sleep(1)
    assert told(test) == []
    test.query.ended("a")
    test.sleep(0)
    assert told(test) == [(0.0, 1, 1)]
    assert test.query.counts.lines == 2


def test_a_query_without_windows_has_one_answer_that_grows() -> None:
    test = live("SELECT path, count(*) AS n FROM access GROUP BY path ORDER BY n DESC LIMIT 1")
    test.write(line(1, "/a"), line(2, "/b"), line(3, "/b"))
    current = test.current()
    assert current is not None
    assert (current.window, current.status, current.rows) == (None, "tentative", [("/b", 2)])
    test.drain()
    assert [(window.status, window.rows) for window in test.finals()] == [("final", [("/b", 2)])]


def test_rejects_are_counted_over_files() -> None:
    test = live()
    test.write("garbage", line(1), file="a")
    test.write("garbage", file="b")
    counts = test.query.counts
    assert counts.lines == 3 == counts.parsed + counts.rejected.total()


def test_files_are_followed_under_the_same_clock(tmp_path: Path) -> None:
    log, clock = tmp_path / "access.log", int((START + timedelta(days=1)).timestamp() * 1e6)
    with FollowTest(PER_10_S, "combined", [f"{log}*"], clock_us=clock) as test:
        log.write_text(line(1) + "\n" + line(2))
        test.sleep(0.5)
        assert (test.query.counts.lines, test.finals()) == (1, [])
        with log.open("a") as writer:
            writer.write("\n" + line(13) + "\n")
        test.sleep(0.5)
        assert told(test) == [(0.0, 1, 2)]
        log.rename(f"{log}.1")
        log.write_text(line(25) + "\n")
        test.sleep(6)
        assert told(test) == [(10.0, 1, 1)]
        assert test.troubles == []


def lose_half_a_line(test: FollowTest, log: Path) -> None:
    """Of two lines the second has no end yet when the log is emptied, and is nowhere when it is given up."""
    log.write_text(line(1) + "\n" + line(2))
    test.sleep(0.5)
    log.write_text("")
    for _ in range(20):
        test.sleep(0.5)
    assert test.query.gap_bytes == len(line(2))


def test_what_was_lost_is_told(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    with FollowTest(PER_10_S, "combined", [log], clock_us=int(START.timestamp() * 1e6)) as test:
        lose_half_a_line(test, log)
        assert test.troubles == [f"{log}: {len(line(2))} bytes were gone before they could be read (truncated)"]


def test_what_is_found_after_all_was_not_lost(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    clock_us = int(START.timestamp() * 1e6)
    with FollowTest(PER_10_S, "combined", [f"{log}*"], clock_us=clock_us) as test:
        lose_half_a_line(test, log)
        (tmp_path / "access.log.1").write_text(line(1) + "\n" + line(2) + "\n")
        for _ in range(20):
            test.sleep(0.5)
        assert test.query.gap_bytes == 0
        assert test.query.counts.lines == 2

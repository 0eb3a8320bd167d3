"""The logs behind a live query: what is counted, and which are let go of."""

from __future__ import annotations

import pytest

from elfstream.embedded import compile_plan
from elfstream.live_logs import QUIET_US, LiveLogs
from job.formats import find
from job.row_phase import RowPhase
from job.watermark import Timing

CLOCK = 1_764_400_000_000_000
LINE = b'203.0.113.9 - - [28/Nov/2025:20:00:%02d +0000] "GET / HTTP/1.1" 200 1 "-" "-"\n'
W3C = b"#Fields: date time c-ip cs-method cs-uri-stem sc-status\n"


def logs_of(format_name: str) -> tuple[LiveLogs, RowPhase]:
    format = find(format_name)
    phase = RowPhase(compile_plan("SELECT window(time, '10 seconds') AS w, count(*) AS n FROM access GROUP BY w", format))
    return LiveLogs(format, [phase], Timing(), timed=True), phase


def feed(logs: LiveLogs, log: str, data: bytes, clock_us: int) -> None:
    logs.feed(log, data, 0, len(data), clock_us)


def test_quiet_logs_are_let_go_of_and_stay_counted() -> None:
    logs, _ = logs_of("combined")
    for number in range(5):
        feed(logs, f"access.log.{number}", LINE % number + b"odd\n", CLOCK + number)
    feed(logs, "access.log.0", LINE % 9, CLOCK + 100)
    logs.watermark_us(CLOCK + QUIET_US + 2)
    assert len(logs) == 3
    assert (logs.counts.lines, logs.counts.parsed, logs.counts.rejected.total()) == (11, 6, 5)
    before = logs.watermark_us(CLOCK + QUIET_US + 100)
    assert len(logs) == 0
    feed(logs, "access.log.1", LINE % 10, CLOCK + QUIET_US + 100)
    assert (len(logs), logs.counts.parsed) == (1, 7)
    after = logs.watermark_us(CLOCK + QUIET_US + 101)
    assert before is not None
    assert after is not None
    assert after >= before


def test_a_quiet_log_that_named_its_columns_is_kept() -> None:
    logs, phase = logs_of("w3c")
    feed(logs, "u_ex.log", W3C, CLOCK)
    logs.watermark_us(CLOCK + 2 * QUIET_US)
    assert len(logs) == 1
    feed(logs, "u_ex.log", b"2025-11-28 20:00:01 203.0.113.9 GET / 200\n", CLOCK + 2 * QUIET_US)
    assert (logs.counts.parsed, logs.counts.directives) == (1, 1)
    assert [len(pane.groups) for pane in phase.store.panes.values()] == [1]


@pytest.mark.parametrize("log", ["a", "never seen"])
def test_a_log_that_ended_stays_counted(log: str) -> None:
    logs, _ = logs_of("combined")
    feed(logs, "a", LINE % 1, CLOCK)
    logs.ended(log)
    assert (len(logs), logs.counts.parsed) == (0 if log == "a" else 1, 1)

"""Logs that were given up and are found after all: each line is in the counts once, as lost or as read.

What was told as lost is not read by those who were told; who reads the range later finds it (docs/TAIL.md).
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.source_logs import SourceLogs
from agent.sources import Source
from job.plan import Plan
from srt.frame_messages import Counters
from tests.integration.test_logs_driver import (
    KEY,
    SECOND_US,
    START_S,
    Lines,
    append,
    plan_of,
    source_of,
    with_a_log,
)
from tests.small_agent import SmallAgent, SmallRoot, content_of, truth_of


@dataclass
class Away:
    """An agent that was stopped after it had read `read` of a log; `unread` is in no cut of it, and the file is gone."""

    folder: Path
    source: Source
    plan: Plan
    lines: Lines
    root: SmallRoot
    agent: SmallAgent
    read: bytes
    unread: bytes

    @property
    def elsewhere(self) -> Path:
        return self.folder / "elsewhere"

    def expect(self, *texts: bytes, lost: int) -> None:
        panes, counters = truth_of(self.plan, self.source, texts)
        stream = self.root.stream()
        assert stream.counters == counters + Counters(lost_bytes=lost)
        assert content_of(stream) == panes


@pytest.fixture
def away(tmp_path: Path) -> Away:
    source, plan, lines, log, root, agent, read = with_a_log(tmp_path, 200, settled_s=4.0, lost_wait_s=1.0)
    journal = bytes(agent.data)
    agent.loss = 1.0
    unread = append(log, lines.take(100))
    for _ in range(20):
        agent.step()
    assert agent.data != journal
    agent.crash()
    agent.data[:] = journal  # what was read last was never durable, what the log looks like is known
    agent.loss = 0.0
    log.rename(tmp_path / "elsewhere")
    agent.boot()
    return Away(tmp_path, source, plan, lines, root, agent, read, unread)


def move_back(away: Away) -> bytes:
    away.elsewhere.rename(away.folder / "access.log")
    return append(away.folder / "access.log", away.lines.take(50))


def pack(away: Away) -> bytes:
    more = append(away.elsewhere, away.lines.take(50))
    (away.folder / "access.log.1.gz").write_bytes(gzip.compress(away.elsewhere.read_bytes()))
    return more


def nothing(agent: SmallAgent) -> None:
    pass


def stop_and_start(agent: SmallAgent) -> None:
    agent.reader.close()
    agent.boot()


def crash_and_start(agent: SmallAgent) -> None:
    agent.crash()
    agent.boot()


FINDS = pytest.mark.parametrize("find", [move_back, pack])
BETWEEN = pytest.mark.parametrize("between", [nothing, stop_and_start, crash_and_start])


@FINDS
@BETWEEN
def test_what_was_told_as_lost_is_not_counted_again(
    find: Callable[[Away], bytes], between: Callable[[SmallAgent], None], away: Away
) -> None:
    away.agent.settle(8.0)
    away.expect(away.read, lost=len(away.unread))
    between(away.agent)
    away.agent.settle(4.0)
    more = find(away)
    away.agent.settle(8.0)
    away.expect(away.read, more, lost=len(away.unread))
    between(away.agent)
    away.agent.settle(4.0)
    away.expect(away.read, more, lost=len(away.unread))


@FINDS
def test_who_reads_the_range_after_it_was_found_has_its_lines(
    find: Callable[[Away], bytes], away: Away
) -> None:
    away.agent.settle(8.0)
    more = find(away)
    away.agent.settle(8.0)
    away.root.change(away.plan, START_S // 10 * 10 * SECOND_US)
    away.agent.tell(away.root)
    away.agent.settle(8.0)
    panes, counters = truth_of(away.plan, away.source, [away.read + away.unread + more])
    assert away.root.stream(2).counters == counters
    assert content_of(away.root.stream(2)) == panes


@FINDS
def test_a_loss_that_no_cut_has_is_told_after_the_next_start_or_read(
    find: Callable[[Away], bytes], away: Away
) -> None:
    """What is known of the logs says that this one is given up; the cut that counts the loss was never stored."""
    journal = bytes(away.agent.data)
    while not all(stream.is_open for stream in away.agent.streams.jobs[KEY].streams.values()):
        away.agent.step(0.1)
    away.agent.loss = 1.0
    for _ in range(40):
        away.agent.step()
    assert away.agent.data != journal
    assert away.root.stream().counters.lost_bytes == 0
    away.agent.crash()
    away.agent.data[:] = journal
    away.agent.loss = 0.0
    if find is pack:
        away.agent.boot()
        away.agent.settle(8.0)
        away.expect(away.read, lost=len(away.unread))
        more = find(away)
        away.agent.settle(8.0)
        away.expect(away.read, more, lost=len(away.unread))
    else:
        more = find(away)
        away.agent.boot()
        away.agent.settle(8.0)
        away.expect(away.read + away.unread + more, lost=0)


@FINDS
@BETWEEN
def test_a_log_that_is_done_with_and_in_no_cut_is_known_again(
    find: Callable[[Away], bytes], between: Callable[[SmallAgent], None], away: Away
) -> None:
    away.agent.settle(8.0)
    (name,) = away.agent.streams.journal.newest.files
    away.root.horizon_us = (START_S + 3600) * SECOND_US
    away.lines.second += 3700
    other = append(away.folder / "access.log.9", away.lines.take(300))
    away.agent.tell(away.root)
    for _ in range(200):
        away.agent.step()
        if name not in away.agent.streams.journal.newest.files:
            break
    else:
        raise AssertionError("the log stays in the cuts")
    between(away.agent)
    away.agent.settle(4.0)
    away.lines.second += 3700
    more = find(away)
    away.agent.settle(8.0)
    counters = truth_of(away.plan, away.source, [away.read, other, more])[1]
    got = away.root.stream().counters
    assert (got.lines, got.lost_bytes) == (counters.lines, len(away.unread))


@BETWEEN
def test_of_a_line_that_was_lost_in_part_nothing_is_read(
    between: Callable[[SmallAgent], None], tmp_path: Path
) -> None:
    """A log is cut in the middle of a line; a copy of all of it turns up when nobody waits for it any more."""
    source, plan, lines, log, root, agent, read = with_a_log(tmp_path, 50, lost_wait_s=1.0)
    line = lines.one()
    append(log, line[:-20])
    agent.settle(2.0)
    log.write_bytes(b"")
    agent.settle(4.0)
    new = append(log, lines.take(50))
    agent.settle(2.0)
    between(agent)
    agent.settle(2.0)
    more = lines.take(30)
    (tmp_path / "access.log.1").write_bytes(read + line + more)
    agent.settle(8.0)
    panes, counters = truth_of(plan, source, [read, new, more])
    assert root.stream().counters == counters + Counters(lost_bytes=len(line) - 20)
    assert content_of(root.stream()) == panes


def test_what_is_found_before_anything_is_read_on_was_never_lost(tmp_path: Path) -> None:
    """Nothing is read while no stream has room (A8), and names are kept up with."""
    source, lines, now = source_of(tmp_path, lost_wait_s=1.0), Lines(), [100.0]
    log = tmp_path / "access.log"
    read, line, more = append(log, lines.take(50)), lines.one(), lines.take(5)

    logs = SourceLogs(source, None, None, hints=False, clock=lambda: now[0])

    def polled(reads: bool) -> bytes:
        found = b""
        for _ in range(20):
            now[0] += 0.25
            for _, stretch in logs.poll(reads, 100):
                found += stretch.data[stretch.start : stretch.stop]
        return found

    assert polled(True) == read
    append(log, line[:-20])
    assert polled(True) == b""
    log.write_bytes(b"")
    assert polled(False) == b""
    (at,) = logs.positions().values()
    assert (at.offset, at.finished) == (len(read), False)
    assert (logs.gaps, logs.lost) == (0, [])
    (tmp_path / "access.log.1").write_bytes(read + line + more)
    assert polled(False) == b""
    assert polled(True) == line + more
    assert (logs.gap_bytes, logs.lost) == (0, [])
    logs.close()


@pytest.mark.parametrize("copied", [True, False])
def test_a_log_that_is_cut_while_only_old_ranges_are_read_is_found_in_its_copy(copied: bool, tmp_path: Path) -> None:
    """The only stream is behind: nothing is read on meanwhile, and so nobody looks whether the log's file still holds it."""
    source, plan, lines = source_of(tmp_path, lost_wait_s=3.0), plan_of(), Lines()
    log = tmp_path / "access.log"
    text = append(log, lines.take(100))
    root = SmallRoot(KEY, plan)
    agent = SmallAgent(tmp_path, [source], [root], fold_bytes_max=2000)
    agent.settle(4.0)
    agent.loss = 1.0
    for _ in range(8):
        text += append(log, lines.take(50))
        agent.step()
    assert root.stream().counters.lines == 100
    agent.crash()
    agent.loss = 0.0
    agent.boot()
    if copied:
        (tmp_path / "access.log.1").write_bytes(text)
    log.write_bytes(b"")
    new = append(log, lines.take(20))
    for _ in range(20):
        agent.step(0.01)  # sooner than names are listed by themselves
    agent.settle(15.0)
    if copied:
        panes, counters = truth_of(plan, source, [text, new])
        assert root.stream().counters == counters
        assert content_of(root.stream()) == panes
    else:
        got = root.stream().counters
        assert (got.lines, got.lost_bytes > 0) == (120, True)

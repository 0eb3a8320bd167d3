"""What the first job of an agent finds: everything that is under its paths, and what was deleted in the last ten minutes."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from agent.stream_events import JobParent
from agent.tail_options import TailOptions
from tests.integration.test_logs_driver import KEY, Lines, append, check, plan_of, source_of
from tests.small_agent import UP, SmallAgent, SmallRoot


def _first_job(agent: SmallAgent) -> SmallRoot:
    root = agent.roots[KEY] = SmallRoot(KEY, plan_of())
    agent.tell(root)
    agent.give(JobParent(KEY, UP))
    agent.settle(10.0)
    return root


def _wait(agent: SmallAgent, seconds: float) -> None:
    for _ in range(int(seconds * 4)):
        agent.step()


def test_rotated_logs_are_found_however_long_there_was_no_job(tmp_path: Path) -> None:
    source, lines, log = source_of(tmp_path), Lines(), tmp_path / "access.log"
    agent, texts = SmallAgent(tmp_path, [source], []), []
    for number in range(3):
        texts.append(append(log, lines.take(50)))
        _wait(agent, 400)
        log.rename(tmp_path / f"access.log.{number}")
    (tmp_path / "access.log.0.gz").write_bytes(gzip.compress(texts[0]))
    (tmp_path / "access.log.0").unlink()
    texts.append(append(log, lines.take(50)))
    _wait(agent, 700)
    check(_first_job(agent), source, texts, plan_of())
    assert agent.troubles == []


@pytest.mark.parametrize("is_late", [False, True])
def test_a_log_that_was_deleted_is_kept_for_ten_minutes(is_late: bool, tmp_path: Path) -> None:
    source, lines, log = source_of(tmp_path), Lines(), tmp_path / "access.log"
    agent = SmallAgent(tmp_path, [source], [])
    gone = append(log, lines.take(100))
    agent.step()
    log.unlink()
    left = append(log, lines.take(50))
    kept_s = TailOptions().open_deleted_s
    _wait(agent, kept_s + 30 if is_late else kept_s - 30)
    root = _first_job(agent)
    if is_late:
        counters = root.stream().counters
        assert (counters.lines, counters.lost_bytes) == (50, len(gone))
    else:
        check(root, source, [gone, left], plan_of())

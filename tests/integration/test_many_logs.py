"""More logs than an agent reads at a time: the rest waits, is told, and has its turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.journal import JournalOptions
from agent.log_reader import FILES_MAX
from srt.frame_messages import Counters
from tests.integration.test_logs_driver import (
    KEY,
    SECOND_US,
    START_S,
    Lines,
    append,
    check,
    plan_of,
    source_of,
)
from tests.small_agent import SmallAgent, SmallRoot, content_of, truth_of


def test_a_cut_has_room_for_what_is_read() -> None:
    assert JournalOptions().files_max > FILES_MAX


def test_thousands_of_logs_are_read_with_few_descriptors(tmp_path: Path) -> None:
    source, plan, lines = source_of(tmp_path, open_max=100), plan_of(), Lines()
    # Of their own, each: a short file that equals another one is taken for its copy.
    texts = [
        append(tmp_path / f"access.log.{number}", b"no record %d\n" % number + lines.one()) for number in range(1500)
    ]
    root = SmallRoot(KEY, plan)
    agent = SmallAgent(tmp_path, [source], [root])
    agent.settle(2.0)
    check(root, source, texts, plan)
    for number in (3, 700, 1499):
        texts[number] += append(tmp_path / f"access.log.{number}", lines.one())
    agent.settle(7.0)
    check(root, source, texts, plan)
    agent.crash()
    agent.boot()
    texts[7] += append(tmp_path / "access.log.7", lines.one())
    agent.settle(7.0)
    check(root, source, texts, plan)
    assert agent.troubles == []


@pytest.mark.parametrize("crashes", [False, True])
def test_beyond_the_most_files_wait_until_others_are_done_with(crashes: bool, tmp_path: Path) -> None:
    source, plan, lines = source_of(tmp_path), plan_of(), Lines()
    texts = [append(tmp_path / f"access.log.{number:02}", lines.take(20)) for number in range(30)]
    root = SmallRoot(KEY, plan)
    agent = SmallAgent(tmp_path, [source], [root], files_max=20)
    agent.settle(7.0)
    assert agent.reader.figures()[0].waiting_files == 10
    assert [one for one in agent.troubles if "10 files wait" in one] == agent.troubles != []
    check(root, source, texts[:20], plan)
    if crashes:
        agent.crash()
        agent.boot()
        agent.settle(7.0)
        assert agent.reader.figures()[0].waiting_files == 10
    texts[4] += append(tmp_path / "access.log.04", lines.take(3))  # a log that is read goes on
    agent.settle(7.0)
    check(root, source, texts[:20], plan)
    for number in range(12):
        (tmp_path / f"access.log.{number:02}").unlink()
    root.horizon_us = (START_S - 60) * SECOND_US
    agent.tell(root)
    for _ in range(200):
        agent.step()
    root.horizon_us = (START_S + 600) * SECOND_US
    agent.tell(root)
    agent.settle(30.0)
    assert agent.reader.figures()[0].waiting_files == 0
    _, counters = truth_of(plan, source, texts)
    counted = root.stream().counters
    assert counted.lines == counters.lines
    assert counted.lost_bytes == 0


def test_a_cut_that_is_too_large_stops_reading_and_not_the_node(tmp_path: Path) -> None:
    source, plan, lines = source_of(tmp_path), plan_of(), Lines()
    root = SmallRoot(KEY, plan)
    agent = SmallAgent(tmp_path, [source], [root], files_max=1 << 20)
    agent.streams.journal.options = JournalOptions(files_max=5)
    texts = [append(tmp_path / f"access.log.{number}", lines.take(5)) for number in range(8)]
    for _ in range(20):
        agent.step()
    assert [one for one in agent.troubles if "8 files in one cut, at most 5" in one]
    assert not root.streams or root.stream().counters == Counters()
    agent.streams.journal.options = JournalOptions()
    agent.settle(7.0)
    check(root, source, texts, plan)
    assert content_of(root.stream())

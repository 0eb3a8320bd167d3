"""The file of what is known of logs, saved while reading goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agent.known_logs import KnownSource, LogsFile, load

ID = b"\x07" * 16
Task = Callable[[], object]


def saved(path: Path) -> str:
    """The name of the source that is known there."""
    found, problem = load(str(path))
    assert found is not None, problem
    return found.sources[0].name


def known(name: str) -> tuple[KnownSource, ...]:
    return (KnownSource(name, ()),)


def test_what_nobody_waits_for_is_saved_aside_and_never_over_what_was_known_later(tmp_path: Path) -> None:
    path, tasks = tmp_path / "logs", list[Task]()
    file = LogsFile(str(path), ID, tasks.append)
    assert file.save(known("first"))
    file.save_aside(known("second"))
    assert saved(path) == "first"
    file.save_aside(known("while that is under way"))
    assert len(tasks) == 1
    tasks.pop()()
    assert saved(path) == "second"
    file.save_aside(known("third"))
    assert file.save(known("fourth"))
    tasks.pop()()
    assert saved(path) == "fourth"
    assert file.take_troubles() == []


def test_a_disk_that_refuses_is_told_and_tried_again(tmp_path: Path) -> None:
    path, tasks = tmp_path / "gone" / "logs", list[Task]()
    file = LogsFile(str(path), ID, tasks.append)
    assert not file.save(known("first"))
    file.save_aside(known("second"))
    tasks.pop()()
    assert len(file.take_troubles()) == 2
    assert file.take_troubles() == []
    path.parent.mkdir()
    file.save_aside(known("third"))
    tasks.pop()()
    assert saved(path) == "third"

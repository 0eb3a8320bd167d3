"""The thread that reads logs, beside a server that writes them and a core that asks."""

from __future__ import annotations

import gzip
import queue
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.driver import LogsThread
from agent.journal import Journal, JournalOptions
from agent.log_id import of_source
from agent.log_reader import LogReader
from agent.sources import Sources
from agent.stream_events import (
    Advance,
    Advanced,
    Fold,
    Folded,
    JobHeard,
    JobParent,
    JobTold,
    JobUp,
    Release,
    Started,
)
from agent.stream_options import StreamsOptions
from agent.streams import Streams
from cbt.memory import Memory
from srt.automaton import WAKE, Instant, Stored, Write
from tests.integration.test_logs_driver import KEY, Lines, append, check, plan_of, source_of
from tests.patience import PATIENCE_S
from tests.small_agent import CLOCK_US, ID, PATIENT, UP, SmallRoot


class Rig:
    """A thread and a queue for what it tells."""

    def __init__(self, folder: Path, rest_s: Callable[[], float] = lambda: 0.0) -> None:
        self.source = source_of(folder)
        self.told: queue.Queue[Any] = queue.Queue()
        self.troubles: list[str] = []
        self.failures: list[BaseException] = []
        self.reader = LogReader(
            Sources([self.source]), None, Memory(), str(folder / "logs"), ID, wall_us=lambda: CLOCK_US
        )
        self.thread = LogsThread(self.reader, self.told.put, self.troubles.append, self.failed, rest_s)
        self.thread.start()
        self.started = self.take(Started)

    def failed(self, problem: BaseException) -> None:
        self.failures.append(problem)
        self.told.put(problem)

    def take(self, kind: type) -> Any:
        found = self.told.get(timeout=PATIENCE_S)
        assert isinstance(found, kind), found
        return found


def test_a_live_log_reaches_the_root_while_it_rotates(tmp_path: Path) -> None:
    texts: list[bytes] = [b""]
    rig, lines, log = Rig(tmp_path), Lines(), tmp_path / "access.log"

    def write() -> None:
        rng = random.Random(5)
        for number in range(400):
            texts[-1] += append(log, lines.take(50))
            if rng.random() < 0.03:
                old = tmp_path / f"access.log.{number}"
                log.rename(old)
                texts.append(b"")
                if rng.random() < 0.5:
                    (tmp_path / f"access.log.{number}.gz").write_bytes(gzip.compress(old.read_bytes(), 1))
                    old.unlink()

    root = SmallRoot(KEY, plan_of(), settings=replace(PATIENT, emit_us=20_000))
    journal = Journal(bytes(JournalOptions().file_bytes), ID, JournalOptions())
    options = StreamsOptions(settle_s=0.0)
    core = Streams("web1", journal, random.Random(1), rig.reader.sources.can_run, options, of_source)
    waiting: list[Any] = [rig.started, JobTold(KEY, root.news(CLOCK_US)), JobParent(KEY, UP)]
    writer = threading.Thread(target=write)
    writer.start()
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        while waiting:
            for effect in core.handle(waiting.pop(0), Instant(time.monotonic(), CLOCK_US)):
                if isinstance(effect, Advance | Fold | Release):
                    rig.thread.give(effect)
                elif isinstance(effect, Write):
                    waiting.append(Stored(effect.token))
                elif isinstance(effect, JobUp):
                    root.take(effect.message)
            waiting += [JobHeard(KEY, answer) for answer in root.answers]
            root.answers.clear()
        stream = next(iter(root.streams.values()), None)
        written = sum(text.count(b"\n") for text in texts)
        if stream is not None and not writer.is_alive() and stream.counters.lines == written:
            break
        try:
            waiting.append(rig.told.get(timeout=max(0.0, min(core.wake_at - time.monotonic(), 1.0))))
        except queue.Empty:
            waiting.append(WAKE)
    writer.join()
    check(root, rig.source, texts, plan_of())
    assert rig.thread.stop(PATIENCE_S)
    assert (rig.troubles, rig.failures) == ([], [])


def test_an_ask_that_finds_nothing_new_is_answered_at_once(tmp_path: Path) -> None:
    rig, lines = Rig(tmp_path), Lines()
    append(tmp_path / "access.log", lines.take(100))
    rig.thread.give(Advance(1, rig.started.files, (), 1 << 20))
    first = rig.take(Advanced)
    assert len(first.heard) == 1
    rig.reader.due_s = lambda: 2 * PATIENCE_S  # type: ignore[method-assign]  # nothing else ends a sleep of the thread
    cpu = time.process_time()
    for token in range(2, 202):
        rig.thread.give(Advance(token, first.files, (), 1 << 20))
        same = rig.take(Advanced)
        assert same == Advanced(token, first.files, {}, {})
    assert time.process_time() - cpu < 1.0  # 5 ms each; it takes a tenth of that
    assert rig.thread.stop(PATIENCE_S)


def test_reading_does_not_wait_until_what_is_known_of_logs_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.log_reader.SAVE_S", 0.0)
    lines, tasks = Lines(), list[Callable[[], object]]()
    log, file = tmp_path / "access.log", tmp_path / "logs"
    append(log, lines.take(10))
    reader = LogReader(
        Sources([source_of(tmp_path)]), None, Memory(), str(file), ID, wall_us=lambda: CLOCK_US, aside=tasks.append
    )
    first = reader.advance(Advance(1, reader.begin().files, (), 1 << 20))
    new = file.read_bytes()  # before the cut that names the log
    append(log, lines.take(10))
    later = reader.advance(Advance(2, first.files, (), 1 << 20))
    assert later.heard
    assert file.read_bytes() == new
    (task,) = tasks
    task()
    assert file.read_bytes() != new
    reader.close()


def test_a_thread_that_has_to_rest_reads_later_and_ends_at_once(tmp_path: Path) -> None:
    rest = threading.Event()
    rested: queue.Queue[float] = queue.Queue()

    def rest_s() -> float:
        if not rest.is_set():
            return 0.0
        rested.put(1000.0)
        return 1000.0

    rig, lines = Rig(tmp_path, rest_s), Lines()
    append(tmp_path / "access.log", lines.take(100))
    rest.set()
    rig.thread.nudge()
    rested.get(timeout=PATIENCE_S)
    rig.thread.give(Advance(1, rig.started.files, (), 1 << 20))
    for _ in range(3):
        rested.get(timeout=PATIENCE_S)
    assert rig.told.empty()
    rest.clear()
    assert rig.take(Advanced).heard
    rest.set()
    rig.thread.nudge()
    rested.get(timeout=PATIENCE_S)
    assert rig.thread.stop(PATIENCE_S)


def test_figures_tell_how_far_each_file_is_read(tmp_path: Path) -> None:
    log, lines = tmp_path / "access.log", Lines()
    text = append(log, lines.take(99) + b"no line\n")
    rig = Rig(tmp_path)
    rig.thread.give(Advance(1, rig.started.files, (), 1 << 20))
    rig.take(Advanced)
    assert rig.thread.stop(PATIENCE_S)
    (source,) = rig.reader.figures()
    (file,) = source.files
    assert file == (str(log), len(text), 0, 0.0)
    assert (source.lines, source.read_bytes, source.gaps) == (100, len(text), 0)
    assert sum(source.rejected.values()) == text.count(b"no line")
    assert source.samples[-1].path == str(log)
    assert source.samples[-1].text == b"no line"
    assert source.samples[-1].offset == len(text) - len(b"no line\n")


def test_a_fault_of_the_program_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(tmp_path)

    def fault(ask: object) -> None:
        raise AssertionError("a fault")

    monkeypatch.setattr(rig.reader, "advance", fault)
    rig.thread.give(Advance(1, {}, (), 1))
    assert str(rig.take(AssertionError)) == "a fault"
    assert rig.thread.stop(PATIENCE_S)


def test_old_ranges_are_read_while_the_frontier_goes_on(tmp_path: Path) -> None:
    """An advance that is asked for behind a long fold is answered before it."""
    from agent.stream_events import FoldSpec
    from srt.frame_messages import StreamId

    log, lines = tmp_path / "access.log", Lines()
    held, holding = threading.Event(), queue.SimpleQueue[None]()

    def rest_s() -> float:
        if held.is_set():
            holding.put(None)
        return 1000.0 if held.is_set() else 0.0

    rig = Rig(tmp_path, rest_s)
    append(log, lines.take(200) * 2000)
    rig.thread.give(Advance(1, {}, (), 1 << 40))
    files: dict[bytes, Any] = {}
    more, token = True, 1
    while more:
        answer = rig.take(Advanced)
        files, more = dict(answer.files), answer.more
        if more:
            token += 1
            rig.thread.give(Advance(token, files, (), 1 << 40))
    spec = FoldSpec((KEY, StreamId(1, ID)), plan_of(), 0, 1 << 62, -(1 << 62))
    held.set()  # until both are asked for: else the fold may be over before
    rig.thread.nudge()
    holding.get(timeout=PATIENCE_S)
    rig.thread.give(Fold(2000, spec, {}, files, 1 << 40))
    rig.thread.give(Advance(token + 1, files, (), 1 << 40))
    held.clear()
    assert rig.take(Advanced).token == token + 1
    assert rig.take(Folded).portion.counters.lines == 400_000
    assert rig.thread.stop(PATIENCE_S)

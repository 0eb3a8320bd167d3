"""Whose turn it is in the thread that reads logs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator
from typing import Any

import pytest

from agent.driver import LogsThread
from agent.stream_events import Advance, Advanced, Fold, Folded, FoldSpec, Portion, Started
from srt.frame_messages import HISTORY, LIVE, StreamId
from tests.plans import counting

PATIENCE_S = 60.0


class Reader:
    """Old ranges of as many steps as each Fold asks bytes for; what is told of each step goes to `stepped`."""

    wants_shrink = False

    def __init__(self) -> None:
        self.may_begin = threading.Event()
        self.steps: list[int] = []
        """The token of each step, in order; 0: an advance."""
        self.stepped: Callable[[int], None] = lambda _: None

    def begin(self) -> Started:
        assert self.may_begin.wait(PATIENCE_S)
        return Started({})

    def advance(self, ask: Advance) -> Advanced:
        self.steps.append(0)
        return Advanced(ask.token, {}, {}, {})

    def folding(self, ask: Fold) -> Generator[float, None, Folded]:
        for _ in range(ask.bytes_max):
            self.steps.append(ask.token)
            self.stepped(ask.token)
            yield 0.0
        return Folded(ask.token, Portion())

    def take_troubles(self) -> list[str]:
        return []

    def figures(self) -> tuple[()]:
        return ()

    def due_s(self) -> float:
        return PATIENCE_S

    def filenos(self) -> list[int]:
        return []

    def close(self) -> None:
        pass


class Rig:
    def __init__(self, old_rest_s: Callable[[], float] = lambda: 0.0) -> None:
        self.reader = Reader()
        self.told: queue.Queue[Any] = queue.Queue()
        tell = self.told.put
        self.thread = LogsThread(self.reader, tell, tell, tell, old_rest_s=old_rest_s)  # type: ignore[arg-type]
        self.thread.start()

    def fold(self, token: int, lane: int, steps: int) -> None:
        key = (b"j" * 16, StreamId(1, b"\x07" * 16, lane))
        spec = FoldSpec(key, counting("window(time, '1 second')", "path"), 0, 1, 0)
        self.thread.give(Fold(token, spec, {}, {}, steps))

    def run(self, folds: int) -> list[int]:
        """The order in which the folds were done."""
        self.reader.may_begin.set()
        done = []
        while len(done) < folds:
            told = self.told.get(timeout=PATIENCE_S)
            assert isinstance(told, Started | Advanced | Folded), told
            if isinstance(told, Folded):
                done.append(told.token)
        assert self.thread.stop()
        return done


def test_a_live_lane_is_read_again_before_history_lanes() -> None:
    rig = Rig()
    rig.fold(1, HISTORY, 3)
    rig.fold(2, LIVE, 3)
    assert rig.run(2) == [2, 1]
    assert rig.reader.steps == [2] * 3 + [1] * 3


def test_a_new_ask_does_not_wait_for_the_end_of_a_slice() -> None:
    rig = Rig()

    def ask(token: int) -> None:
        if rig.reader.steps == [token] * 2:
            rig.thread.give(Advance(1, {}, (), 1))

    rig.reader.stepped = ask
    rig.fold(7, HISTORY, 100)
    rig.run(1)
    assert rig.reader.steps == [7, 7, 0] + [7] * 98


def test_old_ranges_go_on_though_there_is_always_a_new_ask() -> None:
    rig = Rig()
    rig.reader.stepped = lambda token: rig.thread.give(Advance(token, {}, (), 1))
    rig.fold(7, HISTORY, 3)
    rig.run(1)
    assert rig.reader.steps[:5] == [7, 0, 7, 0, 7]


def test_history_lanes_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.driver.SLICE_S", 0.0)
    rig = Rig()
    rig.fold(1, HISTORY, 3)
    rig.fold(2, HISTORY, 3)
    assert rig.run(2) == [1, 2]
    assert rig.reader.steps == [1, 2] * 3


def test_new_lines_are_read_while_an_old_range_rests() -> None:
    rests = [PATIENCE_S, 0.0]
    rig = Rig(lambda: rests[0])
    rig.fold(7, HISTORY, 3)
    rig.reader.may_begin.set()
    rig.thread.give(Advance(1, {}, (), 1))
    assert [type(rig.told.get(timeout=PATIENCE_S)) for _ in range(2)] == [Started, Advanced]
    assert rig.reader.steps == [0]
    rests.pop(0)
    rig.thread.give(Advance(2, {}, (), 1))
    assert rig.run(1) == [7]
    assert rig.reader.steps == [0, 0, 7, 7, 7]

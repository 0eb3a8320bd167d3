"""The thread of a node's core: order, wakes, carriers, and what becomes of a broken core."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from elfstream.core_thread import CoreThread
from master.group_messages import Beats
from master.job_events import Overload
from srt.automaton import NEVER, WAKE, Instant, Received, Ref
from srt.frame_messages import Ack, ForJob
from tests.patience import PATIENCE_S

REF = Ref(bytes(16), "here:1", 1)
FRAME = Received(REF, ForJob(bytes(16), Ack((1,))))


class Said(NamedTuple):
    event: Any


class Echo:
    """Says what it hears; wakes once when told."""

    ref = REF
    wake_at = NEVER

    def __init__(self) -> None:
        self.begin, self.holding = threading.Event(), threading.Event()

    def handle(self, event: Any, now: Instant) -> list[Any]:
        if event == "hold":
            self.holding.set()
            assert self.begin.wait(PATIENCE_S)
        if event == "wake soon":
            self.wake_at = now.s
        if event is WAKE:
            self.wake_at = NEVER
        if event == "break":
            raise ValueError("broken")
        return [Said(event)]


class Run:
    def __init__(self, rest_s: Callable[[], float] = lambda: 0.0) -> None:
        self.now_s = 5.0
        self.core, self.said = Echo(), queue.SimpleQueue[Any]()
        self.problems = queue.SimpleQueue[BaseException]()
        carriers = {Said: lambda effect: self.said.put(effect.event)}
        self.thread = CoreThread(self.core, carriers, self.problems.put, clock=lambda: Instant(self.now_s, 0), rest_s=rest_s)
        self.thread.start()

    def heard(self, count: int) -> list[Any]:
        return [self.said.get(timeout=PATIENCE_S) for _ in range(count)]

    def end(self) -> None:
        self.thread.stop()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()


@pytest.fixture
def run() -> Any:
    found = Run()
    yield found
    found.end()


def test_events_keep_their_order_and_frames_wait_for_the_rest(run: Run) -> None:
    run.thread.post("hold")
    run.thread.post(FRAME)
    run.thread.post("a")
    run.thread.post("b")
    run.core.begin.set()
    assert run.heard(4) == ["hold", "a", "b", FRAME]


def test_shared_beats_wait_for_nothing(run: Run) -> None:
    beats = Received(REF, Beats(1, []))
    run.thread.post("hold")
    assert run.core.holding.wait(PATIENCE_S)
    for event in ("a", FRAME, beats):
        run.thread.post(event)
    run.core.begin.set()
    assert run.heard(4) == ["hold", beats, "a", FRAME]


def test_a_late_core_hears_so_before_what_waits_and_when_it_is_over(run: Run) -> None:
    run.thread.post("hold")
    assert run.core.holding.wait(PATIENCE_S)
    run.thread.post("a")
    run.now_s += 10.0
    run.core.begin.set()
    _, late, event = run.heard(3)
    assert (event, late) == ("a", Overload(pytest.approx(10.0, rel=0.01)))
    run.now_s += 10.0
    run.thread.post("b")
    assert run.heard(2) == [Overload(0.0), "b"]


def test_a_core_that_does_nothing_else_hears_so_but_not_for_frames(run: Run) -> None:
    def handle(event: Any, now: Instant) -> list[Any]:
        run.now_s += 60.0
        return [Said(event)]

    run.core.handle = handle  # type: ignore[method-assign]
    run.thread.post(FRAME)
    assert run.heard(1) == [FRAME]
    run.thread.post("a")
    assert run.heard(1) == ["a"]
    run.core.handle = lambda event, now: [Said(event)]  # type: ignore[method-assign]
    run.thread.post("b")
    assert run.heard(2) == [Overload(0.0, pytest.approx(0.95, abs=0.01)), "b"]


def test_the_core_is_woken_at_its_time(run: Run) -> None:
    run.thread.post("wake soon")
    assert run.heard(2) == ["wake soon", WAKE]


def test_dealt_is_called_after_the_effects_are_carried(run: Run) -> None:
    order: list[str] = []
    done = threading.Event()

    def dealt() -> None:
        order.extend(run.heard(1))
        done.set()

    run.thread.post("x", dealt)
    assert done.wait(PATIENCE_S)
    assert order == ["x"]


def test_a_core_that_breaks_is_told_and_handles_nothing_more(run: Run) -> None:
    run.thread.post("break")
    run.thread.post("after")
    assert str(run.problems.get(timeout=PATIENCE_S)) == "broken"
    run.thread.join(PATIENCE_S)
    assert run.said.empty()


def test_an_effect_that_nobody_carries_is_an_error() -> None:
    run = Run()
    run.core.handle = lambda event, now: [object()]  # type: ignore[method-assign]
    run.thread.post("x")
    assert isinstance(run.problems.get(timeout=PATIENCE_S), KeyError)
    run.end()


def test_frames_wait_for_processor_time_and_nothing_else_does() -> None:
    rest = [1000.0]
    run = Run(lambda: rest[0])
    run.thread.post(FRAME)
    for event in ("one", "two", "wake soon"):
        run.thread.post(event)
    assert run.heard(4) == ["one", "two", "wake soon", WAKE]
    rest[0] = 0.0
    run.thread.post("three")
    assert run.heard(2) == ["three", FRAME]
    run.end()

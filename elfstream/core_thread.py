"""The thread that a node's core lives in: events in from anywhere, effects out to whoever carries them (docs/DAEMON.md)."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from srt.automaton import WAKE, Core, Instant, Received
from srt.frame_messages import ForJob

Carrier = Callable[[Any], None]
Clock = Callable[[], Instant]
IDLE_S = 3600.0
TURN_EVENTS = 256
"""Events between two looks at what was carried: answers leave after at most so many."""


def system_clock() -> Instant:
    return Instant(time.monotonic(), time.time_ns() // 1000)


class CoreThread(threading.Thread):
    """Runs a core until `stop`. Frames of jobs wait while anything else does: a lease must not end because runs are merged.
    Two events of the same kind keep their order."""

    def __init__(
        self,
        core: Core,
        carriers: Mapping[type, Carrier],
        failed: Carrier,
        flush: Callable[[], None] = lambda: None,
        clock: Clock = system_clock,
    ) -> None:
        """`carriers` take effects by their exact type, in this thread; an effect that nobody carries is an error. `flush` is
        called when the carriers have got all effects of a turn. `failed` gets the exception that ended the thread."""
        super().__init__(name="core", daemon=True)
        self.core = core
        self.handled = 0
        """Events so far."""
        self.busy_s = 0.0
        """Seconds spent on them."""
        self._carriers, self._failed, self._flush, self._clock = carriers, failed, flush, clock
        self._urgent: deque[tuple[Any, Callable[[], None] | None]] = deque()
        self._frames: deque[tuple[Any, Callable[[], None] | None]] = deque()
        self._woken = threading.Condition()
        self._stopping = False

    # any thread

    def post(self, event: Any, dealt: Callable[[], None] | None = None) -> None:
        """Queues an event; `dealt` is called in the core's thread when its effects are carried."""
        frame = isinstance(event, Received) and isinstance(event.message, ForJob)
        with self._woken:
            (self._frames if frame else self._urgent).append((event, dealt))
            self._woken.notify()

    def stop(self) -> None:
        """Ends the thread after the event at hand; what waits is dropped."""
        with self._woken:
            self._stopping = True
            self._woken.notify()

    @property
    def backlog(self) -> int:
        """Events that wait."""
        return len(self._urgent) + len(self._frames)

    # the thread itself

    def run(self) -> None:
        try:
            while not self._stopping:
                self._turn(self._next())
        except BaseException as problem:  # whoever started us decides what a broken core means
            self._failed(problem)

    def _next(self) -> Sequence[tuple[Any, Callable[[], None] | None]]:
        """Waits for events or for the core's time; empty: its time has come, or the end."""
        with self._woken:
            while not (self._urgent or self._frames or self._stopping):
                rest_s = self.core.wake_at - self._clock().s
                if rest_s <= 0:
                    return ()
                self._woken.wait(min(rest_s, IDLE_S))
            if self._urgent:
                count = min(len(self._urgent), TURN_EVENTS)
                return [self._urgent.popleft() for _ in range(count)]
            return [self._frames.popleft()] if self._frames else ()

    def _turn(self, events: Sequence[tuple[Any, Callable[[], None] | None]]) -> None:
        began_s = time.perf_counter()
        for event, dealt in events:
            self._handle(event)
            if dealt is not None:
                dealt()
        if self.core.wake_at <= self._clock().s:
            self._handle(WAKE)
        self._flush()
        self.handled += len(events)
        self.busy_s += time.perf_counter() - began_s

    def _handle(self, event: Any) -> None:
        for effect in self.core.handle(event, self._clock()):
            self._carriers[type(effect)](effect)

"""The thread that a node's core lives in: events in from anywhere, effects out to whoever carries them (docs/DAEMON.md)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from elfstream.core_queue import CoreQueue, Waiting, is_frame
from elfstream.core_use import CoreUse
from elfstream.cpu_share import unlimited
from srt.automaton import WAKE, Core, Instant

Carrier = Callable[[Any], None]
Clock = Callable[[], Instant]
IDLE_S = 3600.0
TURN_EVENTS = 32
"""Events between two looks at what was carried: answers leave after at most so many."""


def system_clock() -> Instant:
    return Instant(time.monotonic(), time.time_ns() // 1000)


class CoreThread(threading.Thread):
    """Runs a core until `stop`, and tells it when it is late (`Overload`). In which order it gets what waits says
    elfstream/core_queue.py."""

    def __init__(
        self,
        core: Core,
        carriers: Mapping[type, Carrier],
        failed: Carrier,
        flush: Callable[[], None] = lambda: None,
        clock: Clock = system_clock,
        rest_s: Callable[[], float] = unlimited,
    ) -> None:
        """`carriers` take effects by their exact type, in this thread; an effect that nobody carries is an error. `flush` is
        called when the carriers have got all effects of a turn. `failed` gets the exception that ended the thread. `rest_s`
        says how long frames are to wait for processor time."""
        super().__init__(name="core", daemon=True)
        self.core = core
        self.handled = 0
        """Events so far."""
        self.busy_s = 0.0
        """Seconds spent on them."""
        self._carriers, self._failed, self._flush, self._clock = carriers, failed, flush, clock
        self._rest_s = rest_s
        self._queue, self._use = CoreQueue(), CoreUse()
        self._late_s = 0.0
        """When events were taken last."""
        self._woken = threading.Condition()
        self._stopping = False

    # any thread

    def post(self, event: Any, dealt: Callable[[], None] | None = None) -> None:
        """Queues an event; `dealt` is called in the core's thread when its effects are carried."""
        with self._woken:
            self._queue.put(event, dealt, self._clock().s)
            self._woken.notify()

    def stop(self) -> None:
        """Ends the thread after the event at hand; what waits is dropped."""
        with self._woken:
            self._stopping = True
            self._woken.notify()

    @property
    def backlog(self) -> int:
        """Events that wait."""
        return len(self._queue)

    @property
    def late_s(self) -> float:
        """How late it is with events, about."""
        with self._woken:
            return self._queue.late_s(self._clock().s)

    @property
    def use(self) -> float:
        """Which part of the time it works, frames apart."""
        with self._woken:
            return self._use.share(self._clock().s)

    # the thread itself

    def run(self) -> None:
        try:
            while not self._stopping:
                self._turn(self._next())
        except BaseException as problem:  # whoever started us decides what a broken core means
            self._failed(problem)

    def _next(self) -> Sequence[Waiting]:
        """Waits for events or for the core's time; empty: its time has come, or the end."""
        with self._woken:
            while True:
                frames_s = self._rest_s() if self._queue.has_frames else IDLE_S
                if self._queue.has_others or self._stopping or frames_s <= 0:
                    break
                wake_s = self.core.wake_at - self._clock().s
                if wake_s <= 0:
                    return ()
                self._woken.wait(min(wake_s, frames_s))
            now_s = self._clock().s
            self._late_s = self._queue.late_s(now_s)
            return self._queue.take(TURN_EVENTS, now_s, frames_s <= 0)

    def _turn(self, events: Sequence[Waiting]) -> None:
        began_s = self._clock().s
        if (told := self._queue.overload(self._late_s, self._use.share(began_s))) is not None:
            self._handle(told)
        for waiting in events:
            self._handle(waiting.event)
            if waiting.dealt is not None:
                waiting.dealt()
        if self.core.wake_at <= self._clock().s:
            self._handle(WAKE)
        self._flush()
        self.handled += len(events)
        ended_s = self._clock().s
        self.busy_s += ended_s - began_s
        if not (events and is_frame(events[0].event)):
            with self._woken:
                self._use.worked(began_s, ended_s)

    def _handle(self, event: Any) -> None:
        for effect in self.core.handle(event, self._clock()):
            self._carriers[type(effect)](effect)

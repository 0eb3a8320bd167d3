"""What waits for a core in virtual time, with the order and the overload of the daemon's (elfstream/core_thread.py)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from elfstream.core_queue import CoreQueue
from elfstream.core_thread import TURN_EVENTS
from srt.automaton import WAKE


class CoreInbox:
    """Takes the place of `Process.inbox`: turns of events, and after each one `WAKE` if it is due."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.queue = CoreQueue()
        self._now_s = now_s
        self._turn = deque[Any]()
        self._wakes = False

    def __len__(self) -> int:
        return len(self.queue) + len(self._turn) + self._wakes

    def __contains__(self, event: Any) -> bool:
        """Of `WAKE` alone."""
        return self._wakes and event is WAKE

    def append(self, event: Any) -> None:
        if event is WAKE:
            self._wakes = True
        else:
            self.queue.put(event, None, self._now_s())

    def popleft(self) -> Any:
        if self._turn:
            return self._turn.popleft()
        if self._wakes:
            self._wakes = False
            return WAKE
        self._turn.extend(waiting.event for waiting in self.queue.take(TURN_EVENTS, self._now_s()))
        told = self.queue.overload(self.queue.late_s(self._now_s()))
        return self._turn.popleft() if told is None else told

    def clear(self) -> None:
        self.queue, self._wakes = CoreQueue(), False
        self._turn.clear()

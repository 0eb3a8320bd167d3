"""What waits for a core in virtual time, with the order and the overload of the daemon's (elfstream/core_thread.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from elfstream.core_queue import CoreQueue
from srt.automaton import WAKE


class CoreInbox:
    """One event at a time: takes the place of `Process.inbox`."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.queue = CoreQueue()
        self._now_s = now_s
        self._next: list[Any] = []
        self._wakes = False

    def __len__(self) -> int:
        return len(self.queue) + len(self._next)

    def __contains__(self, event: Any) -> bool:
        """Of `WAKE` alone."""
        return self._wakes and event is WAKE

    def append(self, event: Any) -> None:
        self._wakes = self._wakes or event is WAKE
        self.queue.put(event, None, self._now_s())

    def popleft(self) -> Any:
        if self._next:
            return self._next.pop()
        event = self.queue.take(1, self._now_s())[0].event
        self._wakes = self._wakes and event is not WAKE
        told = self.queue.overload(self.queue.late_s(self._now_s()))
        if told is None:
            return event
        self._next.append(event)
        return told

    def clear(self) -> None:
        self.queue, self._next = CoreQueue(), []
        self._wakes = False

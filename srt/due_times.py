"""When each of many wants to be woken: the least of all times without looking at all of them, and few of them. Pure."""

from __future__ import annotations

import heapq
import math
from typing import Generic, NamedTuple, TypeVar

from srt.automaton import NEVER

K = TypeVar("K")
ROUNDING = 1e-6
"""Of a tick: a time that is one, but for how it was calculated, is that one and not the next."""


class Ticks(NamedTuple):
    """Times that many share who need not be punctual, so that one wake-up serves them all. Seconds."""

    every_s: float
    phase_s: float
    """Nodes that have different ones do not all stand for election at the same time."""

    def after(self, at_s: float) -> float:
        """The first tick that is not before this time; NEVER stays so."""
        if at_s == NEVER:
            return NEVER
        number = math.ceil((at_s - self.phase_s) / self.every_s - ROUNDING)
        return max(at_s, number * self.every_s + self.phase_s)


class DueTimes(Generic[K]):
    """Times by key; seconds. State: O(keys), amortised: entries that were replaced go when they come to the front, or when
    they are more than the others."""

    def __init__(self) -> None:
        self._at: dict[K, float] = {}
        self._heap: list[tuple[float, K]] = []

    @property
    def first(self) -> float:
        """The least time; NEVER: there is none. O(1), amortised."""
        heap = self._heap
        while heap and self._at.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else NEVER

    def set(self, key: K, at_s: float) -> None:
        """NEVER takes it out. O(log keys) if the time is another one."""
        if at_s == NEVER:
            self._at.pop(key, None)
        elif self._at.get(key) != at_s:
            self._at[key] = at_s
            heapq.heappush(self._heap, (at_s, key))
            if len(self._heap) > 2 * len(self._at) + 64:
                self._heap = [(at, key) for key, at in self._at.items()]
                heapq.heapify(self._heap)

    def take(self, now_s: float) -> list[K]:
        """Takes out all whose time has come, the earliest first. O(log keys) each."""
        due = []
        while self.first <= now_s:
            _, key = heapq.heappop(self._heap)
            del self._at[key]
            due.append(key)
        return due

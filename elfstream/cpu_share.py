"""A cap on processor time that the process keeps by itself: what may wait rests for as long as too much was used."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

BURST_S = 0.25
"""What was not used for so long may be used at once: a node that sleeps between emits is not slowed down. And what comes in
now may be so far ahead of its share: it does not wait until a piece of old work is paid for, further old work does."""
REST_MAX_S = 10.0
"""Longer nobody rests."""


class CpuShare:
    """`cores` seconds of processor a second, over all threads. Who does work that may wait asks how long to rest before each
    piece of it: `rest_s` for what is old (logs that are read again), `live_rest_s` for what comes in now (new lines, frames
    to merge). What must not wait (leases, answers) does not ask, and its time counts. Thread-safe."""

    def __init__(
        self,
        cores: float,
        clock: Callable[[], float] = time.monotonic,
        used: Callable[[], float] = time.process_time,
    ) -> None:
        """`used` gives the seconds of processor that the process has taken so far."""
        self.cores = cores
        self._clock, self._used = clock, used
        self._lock = Lock()
        self._since_s = clock()
        self._used_s = used()
        self._owed_s = 0.0

    def rest_s(self) -> float:
        """Seconds to rest, 0: none. O(1), a microsecond."""
        return max(0.0, self._behind_s())

    def live_rest_s(self) -> float:
        """The same for what comes in now."""
        return max(0.0, self._behind_s() - BURST_S)

    def _behind_s(self) -> float:
        """In how many seconds what was used is paid for; below 0: some is left."""
        with self._lock:
            now_s, used_s = self._clock(), self._used()
            allowed_s = self.cores * (now_s - self._since_s)
            self._owed_s = max(self._owed_s + (used_s - self._used_s) - allowed_s, -self.cores * BURST_S)
            self._since_s, self._used_s = now_s, used_s
            return self._owed_s / self.cores


class Resting:
    """One that rests as its share says, but goes on after `REST_MAX_S`, if only for one piece: where what must not wait
    takes the whole share by itself, no log would be read any more. To be called before each piece, and while it rests."""

    def __init__(self, rest_s: Callable[[], float], clock: Callable[[], float] = time.monotonic) -> None:
        self._rest_s, self._clock = rest_s, clock
        self._since_s: float | None = None

    def __call__(self) -> float:
        """Seconds to rest, 0: none."""
        now_s, rest_s = self._clock(), self._rest_s()
        if self._since_s is None:
            self._since_s = now_s
        left_s = min(rest_s, self._since_s + REST_MAX_S - now_s)
        if left_s <= 0:
            self._since_s = None
        return max(0.0, left_s)


def unlimited() -> float:
    """For who has no cap: never rests."""
    return 0.0

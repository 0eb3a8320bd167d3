"""A socket whose peer has to go on: whoever sends bytes too slowly is given up, not only who sends none."""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable
from typing import Any

SILENT_S = 30.0
"""How long a peer may send nothing; a stream says every few seconds that it lives."""
BYTES_A_SECOND = 65_536
"""The least that comes beyond that, on the whole."""


class Pace:
    """How much longer one waits for a peer: SILENT_S, and a second for every BYTES_A_SECOND that came. Only time spent
    waiting counts, since whoever reads may do other things meanwhile."""

    def __init__(self, what: str) -> None:
        """`what` is named in errors."""
        self._what = what
        self.restart()

    def restart(self) -> None:
        """What was waited for is here; from now on something else is."""
        self._bytes, self._waited_s = 0, 0.0

    def came(self, size_bytes: int, waited_s: float) -> None:
        self._bytes += size_bytes
        self._waited_s += waited_s

    def left_s(self) -> float:
        """For the next bytes. Raises TimeoutError where it is over."""
        left_s = SILENT_S + self._bytes / BYTES_A_SECOND - self._waited_s
        if left_s <= 0:
            raise self.too_slow()
        return min(left_s, SILENT_S)

    def too_slow(self) -> TimeoutError:
        return TimeoutError(f"{self._what} comes too slowly: {self._bytes} bytes in {self._waited_s:.1f} s")


class PacedSocket:
    """What `http.client` needs of a connected socket, read at a pace: reading raises TimeoutError."""

    def __init__(self, own: socket.socket, pace: Pace, clock: Callable[[], float] = time.monotonic) -> None:
        self._socket, self._pace, self._clock = own, pace, clock
        own.settimeout(SILENT_S)
        self.sendall, self.close = own.sendall, own.close

    def makefile(self, mode: str) -> io.BufferedReader:
        """Keeps the connection open until it is closed as well, as that of a socket does."""
        return io.BufferedReader(_Paced(self._socket, self._pace, self._clock))


class _Paced(io.RawIOBase):
    def __init__(self, own: socket.socket, pace: Pace, clock: Callable[[], float]) -> None:
        self._socket, self._pace, self._clock = own, pace, clock
        self._raw = own.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._socket.settimeout(self._pace.left_s())
        began = self._clock()
        try:
            size = self._raw.readinto(buffer)
        except TimeoutError:
            self._pace.came(0, self._clock() - began)
            raise self._pace.too_slow() from None
        self._pace.came(size or 0, self._clock() - began)
        return size

    def close(self) -> None:
        self._raw.close()
        super().close()

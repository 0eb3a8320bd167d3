"""Ends connections whose reader takes nothing, whatever was being sent to it.

aiohttp waits for ever until an answer is taken, also on a connection that it has closed already. So for every
connection that has asked something it is looked now and then what waits to be sent on it, the kernel's share included:
that is megabytes, of which the program hears only when a third of them is gone.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import struct
import termios
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

log = logging.getLogger("elfstream.api")
LOOKS = 8
"""So often within the time that a reader has, what waits is looked at; it is the same each time when nothing is taken."""


@dataclass
class _Waiting:
    """Of one connection: bytes that wait to be sent, and for how many looks they have been so many."""

    size_bytes: int = 0
    looks: int = 0


class SlowReaders:
    """Connections of one server."""

    def __init__(self, stalled_s: float, dropped: Callable[[], None]) -> None:
        """`dropped` is called for each that is ended."""
        self._every_s, self._stalled_s, self._dropped = stalled_s / LOOKS, stalled_s, dropped
        self._connections: dict[asyncio.Transport, _Waiting] = {}

    def watch(self, transport: asyncio.BaseTransport | None) -> None:
        """A request came on it, or it took something."""
        if transport is not None:
            self._connections[cast(asyncio.Transport, transport)] = _Waiting()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(self._every_s)
            self.look()

    def look(self) -> None:
        """O(connections)."""
        for transport, waiting in list(self._connections.items()):
            size_bytes = _unsent_bytes(transport)
            if transport.is_closing() and not size_bytes:
                del self._connections[transport]
            elif not size_bytes or size_bytes != waiting.size_bytes:
                self._connections[transport] = _Waiting(size_bytes)
            elif waiting.looks + 1 < LOOKS:
                waiting.looks += 1
            else:
                del self._connections[transport]
                log.warning("a reader was dropped, for it took nothing for %g s", self._stalled_s)
                self._dropped()
                transport.abort()


def _unsent_bytes(transport: asyncio.Transport) -> int:
    """What the other end has not taken yet; where the kernel does not tell, what it has not got yet."""
    size_bytes = transport.get_write_buffer_size()
    connection = transport.get_extra_info("socket")
    try:
        (queued,) = struct.unpack("i", fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4)))
    except (OSError, ValueError, AttributeError):
        return size_bytes
    return size_bytes + int(queued)

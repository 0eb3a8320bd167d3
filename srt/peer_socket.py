"""One WebSocket to one peer: reads within limits, writes what the links give, knows when it is over."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

import aiohttp
from aiohttp import WSCloseCode, WSMsgType, web

from srt.automaton import Ref
from srt.peer_counters import Traffic
from srt.peer_options import PeerOptions
from srt.tcp_progress import INFO_BYTES, sent

CLOSE_S = 1.0
"""For the peer's part in an orderly end."""
IDLE, GOING, REPLACED = "idle", "going", "replaced"
"""Ends that are no fault."""
WebSocket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse
_ENDED = (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED)


class RateLimit:
    """Messages and bytes of one peer: how long to wait before reading on. O(1)."""

    def __init__(self, options: PeerOptions) -> None:
        self._message_s, self._byte_s = 1 / options.messages_per_s, 1 / options.bytes_per_s
        self._burst_s = options.burst_s
        self._messages_at = self._bytes_at = 0.0

    def spend(self, size: int, now_s: float) -> float:
        """Seconds until what came would have come at the allowed rate."""
        earliest_s = now_s - self._burst_s
        self._messages_at = max(self._messages_at, earliest_s) + self._message_s
        self._bytes_at = max(self._bytes_at, earliest_s) + size * self._byte_s
        return max(0.0, self._messages_at - now_s, self._bytes_at - now_s)


class PeerSocket:
    """`run` reads and writes until the link ends, and says why."""

    def __init__(
        self,
        ws: WebSocket,
        peer: Ref,
        dialled: bool,
        options: PeerOptions,
        take: Callable[[Ref], bytes | None],
        came: Callable[[PeerSocket, bytes], None],
    ) -> None:
        """`take(peer)` gives the next message or None; `came` gets each that arrives, and ends the link by `end`."""
        self.peer, self.dialled, self.traffic = peer, dialled, Traffic()
        self._ws, self._options, self._take, self._came = ws, options, take, came
        self._loop = asyncio.get_running_loop()
        self._rate = RateLimit(options)
        self._undealt_bytes = self._undealt_messages = 0
        self._ready = asyncio.Event()
        self._dealt_with = asyncio.Event()
        self._stopped = asyncio.Event()
        self._reason = self._detail = ""
        self._closing: asyncio.Task[None] | None = None
        self._writes_since: float | None = None
        self._probed_at: float | None = None
        self.active_at = self._loop.time()
        """When a message came or went, at last; loop seconds."""
        self._acknowledged_bytes = -1
        self._acknowledged_at = self.active_at
        """When the peer's system took more, or had all; loop seconds."""

    @property
    def undealt_bytes(self) -> int:
        """Of messages that came and are not dealt with."""
        return self._undealt_bytes

    # told by others

    def wake(self) -> None:
        """There may be something to take."""
        self._ready.set()

    def owe(self, size: int) -> None:
        """A message was handed on and is not dealt with yet."""
        self._undealt_bytes += size
        self._undealt_messages += 1

    def dealt(self, size: int) -> None:
        self._undealt_bytes -= size
        self._undealt_messages -= 1
        if not self._crowded:
            self._dealt_with.set()

    def end(self, reason: str, detail: str = "", code: int = WSCloseCode.POLICY_VIOLATION) -> None:
        """Ends the link; `run` returns the reason. The first one counts."""
        if not self._reason:
            self._stop(reason)
            self._detail = detail
            self._closing = self._loop.create_task(self._close(code, detail or reason))

    def probe(self) -> None:
        """Ends the link unless the peer answers within `probe_s`."""
        if self._probed_at is None:
            self._probed_at = self._loop.time()
            self._closing = self._loop.create_task(self._ping())

    def excuse(self, late_s: float) -> None:
        """This process stood still for so long: what the peer did meanwhile it cannot know yet."""
        self.active_at += late_s
        self._acknowledged_at += late_s
        if self._writes_since is not None:
            self._writes_since += late_s
        if self._probed_at is not None:
            self._probed_at += late_s

    def look(self, now_s: float) -> None:
        """Now and then: what did not happen in time."""
        options = self._options
        if self._writes_since is not None and now_s - self._writes_since > options.stuck_s:
            self._abort("slow", f"what was written {options.stuck_s:g} s ago still waits for it")
        elif self._takes_nothing_for(now_s) > options.stuck_s:
            self._abort("slow", f"it has taken nothing for {options.stuck_s:g} s")
        elif self._probed_at is not None and now_s - self._probed_at > options.probe_s:
            self._abort("silent", f"no answer for {options.probe_s:g} s")
        elif now_s - self.active_at > options.idle_s and not self._undealt_messages:
            self.end(IDLE, code=WSCloseCode.OK)

    # the link's life

    async def run(self) -> tuple[str, str]:
        """Until the link ends: (reason, what there is to say about it)."""
        writer = self._loop.create_task(self._write())
        writer.add_done_callback(self._written)
        detail = ""
        try:
            detail = await self._read()
        finally:
            writer.cancel()
            with suppress(asyncio.CancelledError):
                await writer
            if self._closing is not None:
                with suppress(asyncio.CancelledError):
                    await self._closing
            if not self._ws.closed:
                await self._close(WSCloseCode.GOING_AWAY, "")
        return self._reason, detail or self._detail

    async def _read(self) -> str:
        while True:
            message = await self._ws.receive()
            if self._reason:
                return ""
            kind = message.type
            if kind is WSMsgType.BINARY:
                wait_s = self._count_in(len(message.data))
                self._came(self, message.data)
            elif kind is WSMsgType.PING:
                wait_s = self._rate.spend(len(message.data), self._loop.time())
                with suppress(ConnectionError):
                    await self._ws.pong(message.data)
            elif kind is WSMsgType.PONG:
                wait_s = self._rate.spend(len(message.data), self._loop.time())
                self._probed_at = None
            elif kind is WSMsgType.TEXT:
                self.end("garbage", "it sent a text, and messages are binary", WSCloseCode.UNSUPPORTED_DATA)
                return ""
            else:
                return self._over(message)
            if wait_s > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopped.wait(), wait_s)
            while self._crowded and not self._reason:
                self._dealt_with.clear()
                await self._dealt_with.wait()

    def _over(self, message: aiohttp.WSMessage) -> str:
        if message.type in _ENDED:
            said = str(message.extra or "")
            self._reason = said if said in (IDLE, GOING, REPLACED) else "closed"
            return said
        problem = message.data
        too_big = isinstance(problem, aiohttp.WebSocketError) and problem.code == WSCloseCode.MESSAGE_TOO_BIG
        broken = isinstance(problem, aiohttp.WebSocketError) and not too_big
        self._reason = "oversize" if too_big else "garbage" if broken else "closed"
        return str(problem)

    async def _write(self) -> None:
        try:
            while not self._reason:
                data = self._take(self.peer)
                if data is None:
                    self._ready.clear()
                    await self._ready.wait()
                    continue
                self._writes_since = self.active_at = self._loop.time()
                await self._ws.send_bytes(data)
                self._writes_since = None
                self.traffic.messages_out += 1
                self.traffic.bytes_out += len(data)
        except (ConnectionError, aiohttp.ClientError):
            self._abort("closed")

    # small things

    @property
    def _crowded(self) -> bool:
        options = self._options
        return (
            self._undealt_bytes > options.undealt_bytes_max
            or self._undealt_messages > options.undealt_messages_max
        )

    def _count_in(self, size: int) -> float:
        self.active_at = self._loop.time()
        self.traffic.messages_in += 1
        self.traffic.bytes_in += size
        return self._rate.spend(size, self.active_at)

    def _written(self, writer: asyncio.Task[None]) -> None:
        if not writer.cancelled() and writer.exception() is not None:
            self._abort("broken")

    def _stop(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._stopped.set()
        self._dealt_with.set()
        self._ready.set()

    def _abort(self, reason: str, detail: str = "") -> None:
        """Ends the link without the peer."""
        if not self._reason:
            self._detail = detail
        self._stop(reason)
        with suppress(OSError):
            own = self._ws.get_extra_info("socket")
            if own is not None and own.fileno() >= 0:  # both loops give -1 once it is closed
                # Neither loop lets its users cut a connection, so another descriptor of it does.
                with socket.fromfd(own.fileno(), own.family, own.type) as same:
                    same.shutdown(socket.SHUT_RDWR)

    def _takes_nothing_for(self, now_s: float) -> float:
        """How long, seconds, although the system has bytes for it: of the peer's program, or of a machine that is gone."""
        with suppress(OSError):
            own = self._ws.get_extra_info("socket")
            if own is not None and own.fileno() >= 0 and own.family in (socket.AF_INET, socket.AF_INET6):
                info = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)
                acknowledged_bytes, waits = sent(info)
                if not waits or acknowledged_bytes != self._acknowledged_bytes:
                    self._acknowledged_bytes, self._acknowledged_at = acknowledged_bytes, now_s
                return now_s - self._acknowledged_at
        return 0.0

    async def _close(self, code: int, text: str) -> None:
        with suppress(ConnectionError, aiohttp.ClientError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                # A reason of more than 123 bytes does not fit into a close frame.
                await self._ws.close(code=code, message=text.encode()[:120])
        self._abort(self._reason)

    async def _ping(self) -> None:
        with suppress(ConnectionError, aiohttp.ClientError):
            await self._ws.ping()

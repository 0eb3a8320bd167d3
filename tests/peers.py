"""Nodes with real sockets on loopback, for tests: links without a core, one loop for all."""

from __future__ import annotations

import asyncio
import base64
import random
import socket
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import aiohttp
import msgspec
import uvloop
from aiohttp import web

from elfstream.core_thread import system_clock
from srt.automaton import PeerLost, Received, Ref
from srt.driver import PeerLinks
from srt.greetings import GREETING_HEADER
from srt.links import Links
from srt.options import LinkOptions
from srt.peer_options import PeerAuth, PeerOptions
from srt.wire import VERSION, VERSION_LEAST, Greeting, Wire, encode_greeting
from tests.patience import PATIENCE_S

QUIET_S = 0.3
"""A connection without a whole request is closed after so long; the daemon's is longer."""
QUICK = PeerOptions(dial_s=PATIENCE_S, backoff_first_s=0.02, backoff_max_s=0.1, probe_s=PATIENCE_S, stuck_s=PATIENCE_S)
"""Tests that are to meet a limit shrink it: to a machine that is busy enough each peer is silent for a while."""


def run(test: Callable[[], Coroutine[Any, Any, None]], loop_factory: Any = uvloop.new_event_loop) -> None:
    """Runs a test in a loop of its own; a hang is a failure, and so is an error that nobody took."""

    async def bounded() -> None:
        problems: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
        try:
            async with asyncio.timeout(PATIENCE_S):
                await test()
        finally:
            while NODES:
                with suppress(Exception):
                    await NODES[-1].stop()
        assert problems == []

    loop = loop_factory()
    loop.run_until_complete(bounded())
    loop.close()  # not after a failure: uvloop hangs while a connection is open


async def until(true: Callable[[], Any]) -> None:
    """Lets the loop work until it is so; the test's limit ends it."""
    while not true():
        await asyncio.sleep(0.002)


class Bulk(msgspec.Struct, frozen=True, array_like=True, tag="zb"):
    """A message that is charged to a job, of any size."""

    key: bytes
    number: int
    data: bytes


NODES: list[Node] = []
"""Those that listen."""


class Node:
    """A node whose events are kept, and dealt with at once unless `busy`."""

    def __init__(
        self,
        number: int,
        options: PeerOptions = QUICK,
        links: LinkOptions | None = None,
        auth: PeerAuth = PeerAuth(),  # noqa: B008 - frozen
        boot: int = 1,
        fleet: str = "test",
        versions: tuple[int, int] = (VERSION_LEAST, VERSION),
    ) -> None:
        self.number, self.options, self.auth, self.boot, self.fleet = number, options, auth, boot, fleet
        self.versions = versions
        self.links = Links(links)
        self.events: list[Any] = []
        self.undealt: list[Callable[[], None]] = []
        self.busy = False
        self.ref: Ref
        self.peers: PeerLinks
        self.runner: web.AppRunner

    async def start(self, port: int = 0, server_context: ssl.SSLContext | None = None) -> Node:
        # The address has to be known before the route is: so the port is bound first.
        listening = listen(port)
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        self.ref = Ref(self.number.to_bytes(16, "big"), address, self.boot)
        app = web.Application()
        self.peers = PeerLinks(
            Greeting(*self.versions, self.ref, self.fleet),
            Wire(Bulk),
            lambda message: message.key if isinstance(message, Bulk) else None,
            self.links,
            app,
            self._post,
            system_clock,
            random.Random(self.number),
            self.auth,
            self.options,
        )
        await self.peers.start()
        self.runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, keepalive_timeout=QUIET_S)
        await self.runner.setup()
        await web.SockSite(self.runner, listening, ssl_context=server_context).start()
        NODES.append(self)
        return self

    def _post(self, event: Any, dealt: Callable[[], None] | None) -> None:
        self.events.append(event)
        if dealt is not None:
            self.undealt.append(dealt)
            if not self.busy:
                self.deal()

    def deal(self) -> None:
        """As the core does it, when it has handled what came."""
        for dealt in self.undealt:
            dealt()
        self.undealt.clear()

    async def stop(self) -> None:
        NODES.remove(self)
        await self.peers.close()
        await self.runner.cleanup()

    def got(self, sender: Ref | None = None) -> list[Any]:
        """Messages that came, in order."""
        return [
            event.message
            for event in self.events
            if isinstance(event, Received) and sender in (None, event.sender)
        ]

    def lost(self) -> list[Ref]:
        return [event.peer for event in self.events if isinstance(event, PeerLost)]


def listen(port: int) -> Any:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(1024)
    return listening


def greeting_header(ref: Ref, fleet: str = "test", versions: tuple[int, int] = (1, 1)) -> dict[str, str]:
    """What a dial of this node presents."""
    return {GREETING_HEADER: base64.b64encode(encode_greeting(Greeting(*versions, ref, fleet))).decode()}


class Stranger:
    """A peer that speaks WebSocket as it likes. The first message, the other's greeting, is read."""

    def __init__(self, number: int, address: str = "127.0.0.1:1") -> None:
        self.ref = Ref(number.to_bytes(16, "big"), address, 1)
        self.session: aiohttp.ClientSession
        self.ws: aiohttp.ClientWebSocketResponse

    async def dial(self, node: Node, **headers: str) -> Stranger:
        self.session = aiohttp.ClientSession()
        try:
            self.ws = await self.session.ws_connect(
                f"ws://{node.ref.address}/v1/peer",
                headers={**greeting_header(self.ref), **headers},
                max_msg_size=0,
                autoping=False,
                compress=0,
            )
        except BaseException:
            await self.session.close()
            raise
        await self.ws.receive_bytes()
        return self

    async def end(self) -> tuple[int | None, str]:
        """Reads until the node ends the link: its code and text."""
        while (message := await self.ws.receive()).type is not aiohttp.WSMsgType.CLOSE:
            if message.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR):
                return self.ws.close_code, ""
        return message.data, str(message.extra)

    async def leave(self) -> None:
        await self.ws.close()
        await self.session.close()

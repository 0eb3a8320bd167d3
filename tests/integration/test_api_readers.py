"""Readers that take nothing, and requests that do not end: neither is held for ever."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from master.api_options import ApiOptions
from tests.memory_fleet import Client, Running, with_fleet
from tests.patience import PATIENCE_S

BIG = bytes(8 << 20)
"""More than what lies in the sockets' buffers."""
OPTIONS = ApiOptions(stalled_s=0.4, heartbeat_s=0.1, request_s=0.5)


@pytest.fixture(autouse=True)
def big(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=BIG)

    monkeypatch.setattr(Running, "made", lambda self, app: app.router.add_get("/big", answer))


def connected(client: Client) -> socket.socket:
    host, port = client.fleet.nodes[0].ref.address.split(":")
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect((host, int(port)))
    made.setblocking(False)
    return made


async def until(done: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not done():
            await asyncio.sleep(0.01)


def counters(client: Client) -> dict[str, Any]:
    return client.running.apis[0].counters()


def connections(client: Client) -> int:
    server = client.running.runners[0].server
    assert server is not None
    return len(server.connections)


@pytest.mark.parametrize("more", ["", "Connection: close\r\n"])
def test_an_answer_that_nobody_takes_is_given_up(more: str) -> None:
    """Also when the server has closed the connection already, for its part."""

    async def main(client: Client) -> None:
        with connected(client) as deaf:
            deaf.send(f"GET /big HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode())
            await until(lambda: connections(client))
            await until(lambda: counters(client)["http_readers_dropped_total"])
            await until(lambda: not connections(client))
        assert counters(client)["http_readers_dropped_total"] == 1
        assert (await client("GET", "/big")).body == BIG  # who reads gets all

    with_fleet(main, options=OPTIONS)


def test_a_slow_reader_is_no_deaf_one() -> None:
    async def main(client: Client) -> None:
        loop, count = asyncio.get_running_loop(), 0
        with connected(client) as slow:
            slow.send(b"GET /big HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            started = loop.time()
            while got := await asyncio.wait_for(loop.sock_recv(slow, 1 << 16), PATIENCE_S):
                count += len(got)
                if loop.time() < started + 3 * OPTIONS.stalled_s:
                    await asyncio.sleep(OPTIONS.stalled_s / 10)
        assert count > len(BIG)
        assert counters(client)["http_readers_dropped_total"] == 0

    with_fleet(main, options=OPTIONS)


def test_a_body_that_does_not_end_is_answered() -> None:
    async def main(client: Client) -> None:
        loop = asyncio.get_running_loop()
        with connected(client) as half:
            head = "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            half.send(f"{head}Content-Length: 100\r\n\r\n{{".encode())
            said = await asyncio.wait_for(loop.sock_recv(half, 4096), PATIENCE_S)
            assert said.startswith(b"HTTP/1.1 504 ")
            await until(lambda: counters(client)["http_requests_active"] == 0)

    with_fleet(main, options=OPTIONS)

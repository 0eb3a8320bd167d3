"""Peers that do what they must not: refused with a reason, counted, and nobody else feels it."""

from __future__ import annotations

import asyncio
import base64
import random
import socket
import struct
import zlib
from contextlib import suppress
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from srt.automaton import Ref
from srt.greetings import GREETING_HEADER, REFUSED_HEADER
from srt.link_messages import Grant
from srt.options import LinkOptions
from srt.peer_options import PeerAuth, PeerOptions
from srt.ring_messages import Ping
from srt.tree_messages import MasterReply
from srt.wire import MESSAGE_BYTES_MAX
from tests.peers import QUICK, QUIET_S, Bulk, Node, Stranger, greeting_header, run, until

SOON_STUCK = replace(QUICK, stuck_s=1.0)
THEM = Ref(b"t" * 16, "127.0.0.1:1", 1)
PING = b"\x91\xa2ri"
GOOD = greeting_header(THEM)
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


async def _served_still(node: Node, number: int = 77) -> None:
    """Another peer is served as ever."""
    other = await Node(number, auth=node.auth).start()
    other.peers.send(node.ref, MasterReply(number, b""))
    await until(lambda: MasterReply(number, b"") in node.got(other.ref))
    await other.stop()


REFUSALS: dict[str, tuple[int, dict[str, str], str]] = {
    "origin": (403, {**GOOD, "Origin": "http://evil.example"}, "not for web pages"),
    "token": (401, {**GOOD, "Authorization": "Bearer wrong"}, "the token is missing or wrong"),
    "fleet": (403, greeting_header(THEM, fleet="b"), "127.0.0.1:1 belongs to the fleet 'b'"),
    "version": (426, greeting_header(THEM, versions=(2, 3)), ": upgrade 127.0.0.1:"),
    "greeting": (400, {GREETING_HEADER: "%%%"}, "the greeting cannot be read"),
    "request": (400, {}, "this is for nodes"),
    "self": (409, greeting_header(Ref((1).to_bytes(16, "big"), "x:1", 1)), "has this id too"),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_dial_is_refused_with_a_status_and_a_reason(reason: str, caplog: pytest.LogCaptureFixture) -> None:
    status, headers, text = REFUSALS[reason]

    async def test() -> None:
        node = await Node(1, auth=PeerAuth(token=b"secret")).start()
        async with aiohttp.ClientSession() as session:
            for _ in range(3):
                presented = {**UPGRADE, "Authorization": "Bearer secret", **headers}
                async with session.get(f"http://{node.ref.address}/v1/peer", headers=presented) as answer:
                    assert answer.status == status
                    assert text in await answer.text()
                    assert answer.headers[REFUSED_HEADER].startswith(f"{reason}: ")
        assert node.peers.refusals.counts == {reason: 3}
        assert node.events == []
        await _served_still(node)
        await node.stop()

    run(test)
    assert len([one for one in caplog.records if "refused 127.0.0.1" in one.message]) == 1


BAD_GREETINGS = [b"", b"\x91", b"\xc1" * 50, random.Random(1).randbytes(1500), PING, b"\x96" * 3000]


@pytest.mark.parametrize("number", range(len(BAD_GREETINGS)))
def test_greetings_that_are_none(number: int) -> None:
    async def test() -> None:
        node = await Node(1).start()
        header = {GREETING_HEADER: base64.b64encode(BAD_GREETINGS[number]).decode()}
        async with aiohttp.ClientSession() as session:
            url = f"http://{node.ref.address}/v1/peer"
            async with session.get(url, headers={**UPGRADE, **header}) as answer:
                assert answer.status == 400
        assert node.peers.refusals.counts.total() == 1
        await node.stop()

    run(test)


def test_a_dial_that_is_refused_says_why(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        a, b = (
            await Node(1, auth=PeerAuth(token=b"one")).start(),
            await Node(2, auth=PeerAuth(token=b"two")).start(),
        )
        a.peers.send(b.ref, Ping())
        await until(lambda: a.lost() == [b.ref])
        assert a.peers.refusals.counts == {"refused": 1}
        assert b.peers.refusals.counts == {"token": 1}
        await a.stop()
        await b.stop()

    run(test)
    assert (
        "refused with 401: the token is missing or wrong: all nodes of a fleet need the same one"
        in caplog.text
    )
    assert "two" not in caplog.text


def _frame(opcode: int, payload: bytes, length: int | None = None, first: int = 0x80) -> bytes:
    """A masked frame of the WebSocket, as a dialler sends it; `length` may lie."""
    size = len(payload) if length is None else length
    head = struct.pack("!BBQ", first | opcode, 0xFF, size)
    return head + bytes(4) + payload


async def _raw(node: Node, receive_bytes: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection after the upgrade, for bytes of our own; `receive_bytes`: about so many come unread, and no more."""
    host, _, port = node.ref.address.rpartition(":")
    own = socket.socket()
    if receive_bytes:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    own.setblocking(False)
    await asyncio.get_running_loop().sock_connect(own, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=own, limit=receive_bytes or 1 << 16)
    lines = [f"{name}: {value}" for name, value in {**UPGRADE, **GOOD, "Host": "x"}.items()]
    writer.write(("\r\n".join(["GET /v1/peer HTTP/1.1", *lines]) + "\r\n\r\n").encode())
    assert b" 101 " in await reader.readline()
    return reader, writer


BOMB = zlib.compress(bytes(64 << 20))[2:-4]
BAD_FRAMES: dict[str, tuple[str, bytes]] = {
    "longer than allowed": ("oversize", _frame(2, b"", MESSAGE_BYTES_MAX + 1)),
    "2**63 bytes": ("oversize", _frame(2, b"", 2**63 - 1)),
    "no message": ("garbage", _frame(2, b"\xc1\xff\x00")),
    "unknown tag": ("garbage", _frame(2, b"\x91\xa2zz")),
    "bytes left over": ("garbage", _frame(2, PING + b"x")),
    "deep nesting": ("garbage", _frame(2, b"\x91" * 100_000)),
    "a text": ("garbage", _frame(1, b"hello")),
    "a compressed frame, which was not agreed": ("garbage", _frame(2, BOMB, first=0xC0)),
    "a reserved kind": ("garbage", _frame(11, b"")),
    "fragments without end": (
        "oversize",
        _frame(2, bytes(1 << 20), first=0) + _frame(0, bytes(1 << 20), first=0) * 8,
    ),
}


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_frames_that_end_a_link(name: str) -> None:
    reason, data = BAD_FRAMES[name]

    async def test() -> None:
        node = await Node(1).start()
        reader, writer = await _raw(node)
        await until(node.peers.peers)
        writer.write(data)
        await until(lambda: not node.peers.peers())
        assert node.peers.refusals.counts == {reason: 1}
        assert node.got() == []
        assert node.lost() == [THEM]
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        await _served_still(node)
        await node.stop()

    run(test)


@pytest.mark.parametrize("said", [b"", b"GET /v1/p", b"GET /v1/peer HTTP/1.1\r\nHost: x\r\nUpgrade: "])
def test_connections_without_a_whole_request_are_closed_and_links_are_not(said: bytes) -> None:
    async def test() -> None:
        node = await Node(1).start()
        peer = await Stranger(3).dial(node)
        host, _, port = node.ref.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(said)
        assert await reader.read() == b""
        writer.close()
        await asyncio.sleep(2 * QUIET_S)
        await peer.ws.send_bytes(PING)
        await until(node.got)
        await peer.leave()
        await node.stop()

    run(test)


def test_random_bytes_never_break_a_node() -> None:
    async def test() -> None:
        node, rng = await Node(1).start(), random.Random(5)
        for _ in range(60):
            reader, writer = await _raw(node)
            good = _frame(2, PING)
            noise = rng.randbytes(rng.randrange(200))
            cut = rng.randrange(len(good) + 1)
            writer.write(rng.choice([noise, good[:cut] + noise, good + noise, _frame(2, noise)]))
            writer.write_eof()
            await reader.read()
            writer.close()
        await until(lambda: not node.peers.peers())
        await _served_still(node)
        await node.stop()

    run(test)


def test_who_sends_without_credit_is_put_out() -> None:
    async def test() -> None:
        links = LinkOptions(
            quantum_bytes=1000, job_bytes_max=1000, job_credit_bytes=10_000, credit_bytes=20_000
        )
        node = await Node(1, links=links).start()
        node.busy = True
        bad = await Stranger(3).dial(node)
        data = node.peers._wire.encode(Bulk(b"j" * 16, 1, bytes(9000)))
        for _ in range(4):
            await bad.ws.send_bytes(data)
        assert await bad.end() == (1008, "it sends more than it was granted")
        await until(lambda: node.peers.refusals.counts == {"credit": 1})
        await bad.leave()
        await _served_still(node)
        await node.stop()

    run(test)


def test_a_peer_that_floods_is_read_slowly_and_alone() -> None:
    async def test() -> None:
        options = PeerOptions(messages_per_s=50, burst_s=0.5)
        node = await Node(1, options).start()
        bad = await Stranger(3).dial(node)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(3_000):
            await bad.ws.send_bytes(PING)
        await _served_still(node)
        assert len(node.got(bad.ref)) < 3_000, "another peer did not wait the minute that they take"
        await until(lambda: len(node.got(bad.ref)) > 100)
        read, took_s = len(node.got(bad.ref)), loop.time() - began
        assert read <= 25 + 50 * took_s + 1, "so many at once, and so many a second"
        await bad.leave()
        await node.stop()

    run(test)


def test_what_the_core_has_not_dealt_with_is_bounded() -> None:
    async def test() -> None:
        options = PeerOptions(undealt_messages_max=50)
        node = await Node(1, options).start()
        node.busy = True
        bad = await Stranger(3).dial(node)
        for _ in range(500):
            await bad.ws.send_bytes(PING)
        await until(lambda: len(node.got()) > 50)
        await asyncio.sleep(0.05)
        assert len(node.got()) == 51
        node.busy = False
        node.deal()
        await until(lambda: len(node.got()) == 500)
        await bad.leave()
        await node.stop()

    run(test)


def test_a_peer_that_does_not_read_loses_its_link() -> None:
    async def test() -> None:
        node = await Node(1, SOON_STUCK).start()
        _, writer = await _raw(node)
        await until(node.peers.peers)
        for number in range(60):
            node.peers.send(THEM, MasterReply(number, bytes(500_000)))
        held = node.links.control_dropped
        assert held > 0, "what waits for it is bounded"
        await _served_still(node)
        await until(lambda: THEM in node.lost())
        assert node.peers.refusals.counts == {"slow": 1}
        writer.close()
        await node.stop()

    run(test)


def test_a_peer_that_reads_nothing_of_what_the_system_took_for_it_loses_its_link() -> None:
    async def test() -> None:
        node = await Node(1, SOON_STUCK).start()
        _, writer = await _raw(node, receive_bytes=4096)
        await until(node.peers.peers)
        node.peers.send(THEM, MasterReply(1, bytes(100_000)))
        await _served_still(node)
        await until(lambda: THEM in node.lost())
        assert node.peers.refusals.counts == {"slow": 1}
        assert node.peers.traffic.messages_out == 1, "our own queue is empty"
        writer.close()
        await node.stop()

    run(test)


def test_a_peer_that_reads_little_by_little_and_one_that_is_told_nothing_keep_their_links() -> None:
    async def test() -> None:
        node = await Node(1, SOON_STUCK).start()
        reader, writer = await _raw(node, receive_bytes=4096)
        await until(node.peers.peers)
        loop = asyncio.get_running_loop()
        began = loop.time()
        while loop.time() < began + 3 * SOON_STUCK.stuck_s:
            if loop.time() > began + 1.5 * SOON_STUCK.stuck_s:
                node.peers.send(THEM, MasterReply(1, bytes(20_000)))
                await reader.read(1 << 20)
            await asyncio.sleep(0.1)
        assert node.peers.refusals.counts == {}
        assert len(node.peers.peers()) == 1
        writer.close()
        await node.stop()

    run(test)


class _Jumping:
    """A loop whose time goes on while nothing runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self.ahead_s = loop, 0.0

    def time(self) -> float:
        return self._loop.time() + self.ahead_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


def test_what_a_peer_does_not_take_while_this_process_stands_still_is_no_fault_of_it() -> None:
    """A machine that was paused, or had no turn for it: whatever the peer did lies in the system yet."""

    async def test() -> None:
        node = await Node(1).start()
        _, writer = await _raw(node, receive_bytes=4096)
        await until(node.peers.peers)
        (link,) = node.peers._sockets.values()
        looked: list[float] = []
        look = link.look

        def counted(now_s: float) -> None:
            look(now_s)
            looked.append(now_s)

        link.look = counted  # type: ignore[method-assign]
        node.peers._loop = jumping = _Jumping(asyncio.get_running_loop())  # type: ignore[assignment]
        node.peers.send(THEM, MasterReply(1, bytes(100_000)))
        await until(lambda: len(looked) >= 2)
        jumping.ahead_s = 2 * QUICK.stuck_s
        seen = len(looked)
        await until(lambda: len(looked) > seen + 2 or node.lost())
        assert node.peers.refusals.counts == {}
        assert len(node.peers.peers()) == 1
        writer.close()
        await node.stop()

    run(test)


def test_pings_are_answered_and_count_as_messages() -> None:
    async def test() -> None:
        node = await Node(1, PeerOptions(messages_per_s=100, burst_s=0.05)).start()
        bad = await Stranger(3).dial(node)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(30):
            await bad.ws.ping(b"x")
        for _ in range(30):
            assert (await bad.ws.receive()).type is aiohttp.WSMsgType.PONG
        assert loop.time() - began > 0.2
        await bad.leave()
        await node.stop()

    run(test)


def test_there_is_a_most_of_peers() -> None:
    async def test() -> None:
        node = await Node(1, PeerOptions(peers_max=2)).start()
        first, second = await Stranger(3).dial(node), await Stranger(4).dial(node)
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await Stranger(5).dial(node)
        assert refused.value.status == 503
        again = await Stranger(4).dial(node)
        for one in (first, second, again):
            await one.leave()
        await node.stop()

    run(test)


def test_grants_of_nonsense_do_no_harm() -> None:
    async def test() -> None:
        node = await Node(1).start()
        bad = await Stranger(3).dial(node)
        await bad.ws.send_bytes(node.peers._wire.encode(Grant(2**63 - 1, [])))
        await bad.ws.send_bytes(PING)
        await until(node.got)
        await bad.leave()
        await node.stop()

    run(test)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "unreachable"),
        (b"SSH-2.0-x\r\n", "unreachable"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "refused"),
    ],
    ids=["hangs up", "another protocol", "a web server"],
)
def test_who_answers_a_dial_may_be_anybody(answer: bytes, reason: str) -> None:
    async def test() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
            writer.close()

        node = await Node(1).start()
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        there = Ref(b"x" * 16, "{}:{}".format(*server.sockets[0].getsockname()), 1)
        node.peers.send(there, Ping())
        await until(lambda: node.lost() == [there])
        assert node.peers.refusals.counts == {reason: 1}
        server.close()
        await node.stop()

    run(test)


def test_who_accepts_and_greets_with_nonsense_is_no_peer() -> None:
    async def test() -> None:
        async def handler(request: Any) -> Any:
            ws = aiohttp.web.WebSocketResponse()
            await ws.prepare(request)
            await ws.send_bytes(b"hello")
            await ws.receive()
            return ws

        app = aiohttp.web.Application()
        app.router.add_get("/v1/peer", handler)
        runner = aiohttp.web.AppRunner(app)
        await runner.setup()
        site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        there = Ref(b"x" * 16, "{}:{}".format(*runner.addresses[0][:2]), 1)
        node = await Node(1, QUICK).start()
        node.peers.send(there, Ping())
        await until(lambda: node.lost() == [there])
        assert node.peers.refusals.counts == {"greeting": 1}
        await node.stop()
        await runner.cleanup()

    run(test)

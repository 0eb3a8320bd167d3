"""Links between two nodes on loopback against a bare WebSocket of the same library, and the memory of many peers.

Both ends are in one process, so its CPU seconds are those of a sender and a receiver together. Ours encodes each message,
queues it by its job, asks for credit, decodes it and gives the credit back; the bare one moves bytes.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import uvloop
from aiohttp import web

from bench.harness import Benchmark, Contestant, main
from srt.automaton import Ref
from srt.links import Busy, Room
from srt.peer_options import PeerOptions
from tests.peers import Bulk, Node, greeting_header

JOB = b"j" * 16
FAST = PeerOptions(messages_per_s=1e9, bytes_per_s=1e12)


class Counting(Node):
    """A node that counts what comes, and deals with it at once."""

    count = 0
    wanted = 0
    done: asyncio.Event
    room: asyncio.Event

    def _post(self, event: Any, dealt: Callable[[], None] | None) -> None:
        if dealt is not None:
            self.count += 1
            dealt()
            if self.count == self.wanted:
                self.done.set()
        elif isinstance(event, Busy):
            self.room.clear()
        elif isinstance(event, Room):
            self.room.set()


def _in_loop(work: Callable[[Mapping[str, int]], Any], sizes: Mapping[str, int]) -> Any:
    loop = uvloop.new_event_loop()
    return loop.run_until_complete(work(sizes))


async def _ours(sizes: Mapping[str, int]) -> int:
    sender, receiver = Counting(1, FAST), Counting(2, FAST)
    for node in (sender, receiver):
        node.done, node.room = asyncio.Event(), asyncio.Event()
        await node.start()
    receiver.wanted = sizes["messages"]
    message = Bulk(JOB, 0, bytes(sizes["bytes"]))
    sender.room.set()
    for number in range(sizes["messages"]):
        sender.peers.send(receiver.ref, message)
        if not sender.room.is_set():
            await sender.room.wait()
        elif number % 64 == 0:
            await asyncio.sleep(0)
    await receiver.done.wait()
    await sender.stop()
    await receiver.stop()
    return receiver.count


async def _bare(sizes: Mapping[str, int]) -> int:
    done, count = asyncio.Event(), 0

    async def handler(request: web.Request) -> web.WebSocketResponse:
        nonlocal count
        ws = web.WebSocketResponse(compress=False, max_msg_size=0)
        await ws.prepare(request)
        async for _ in ws:
            count += 1
            if count == sizes["messages"]:
                done.set()
        return ws

    app = web.Application()
    app.router.add_get("/", handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    data = bytes(sizes["bytes"])
    async with aiohttp.ClientSession() as session:
        ws = await session.ws_connect("http://{}:{}".format(*runner.addresses[0]), compress=0)
        for number in range(sizes["messages"]):
            await ws.send_bytes(data)
            if number % 64 == 0:
                await asyncio.sleep(0)
        await done.wait()
        await ws.close()
    await runner.cleanup()
    return count


def _moving(title: str, messages: int, size: int) -> Benchmark:
    return Benchmark(
        title=title,
        unit="messages",
        units=lambda sizes: sizes["messages"],
        contestants={
            "elfstream link": Contestant(run=partial(_in_loop, _ours), prepare=lambda sizes: sizes),
            "bare WebSocket": Contestant(run=partial(_in_loop, _bare), prepare=lambda sizes: sizes),
        },
        sizes={"messages": messages, "bytes": size},
        smoke={"messages": 50, "bytes": size},
    )


def resident_bytes() -> int:
    """Of this process, now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def many_peers(count: int) -> float:
    """Bytes per idle peer: links to another process, which dials `count` times as so many nodes."""
    node = await Node(1).start()
    clients = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.bench_links",
        "--dial",
        node.ref.address,
        "10",
        "20",
        stdin=subprocess.PIPE,
    )
    while len(node.peers.peers()) < 10:  # what the first ones cost is not theirs
        await asyncio.sleep(0.01)
    before = resident_bytes()
    more = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.bench_links", "--dial", node.ref.address, str(count), "1000",
        stdin=subprocess.PIPE,
    )  # fmt: skip
    while len(node.peers.peers()) < 10 + count:
        await asyncio.sleep(0.01)
    per_peer = (resident_bytes() - before) / count
    for process in (clients, more):
        process.terminate()
        await process.wait()
    await node.stop()
    return per_peer


async def _dial_often(address: str, count: int, first: int) -> None:
    """As many nodes, each with one link that is open and silent."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        kept = []
        for number in range(count):
            ref = Ref((first + number).to_bytes(16, "big"), f"127.0.0.1:{first + number}", 1)
            kept.append(await session.ws_connect(f"ws://{address}/v1/peer", headers=greeting_header(ref)))
        await asyncio.Event().wait()


BENCHMARKS = {
    "small": _moving("Messages of 200 bytes", 50_000, 200),
    "frames": _moving("Messages of 64 KiB", 4000, 64 << 10),
    "large": _moving("Messages of 1 MiB", 300, 1 << 20),
}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--dial"]:
        asyncio.run(_dial_often(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    else:
        main("bench.bench_links", BENCHMARKS)
        if "--contestant" not in sys.argv:
            peers = 20 if "--smoke" in sys.argv else 1000
            found = uvloop.new_event_loop().run_until_complete(many_peers(peers))
            print(f"\n{peers} peers without traffic: {found / 1024:.1f} KiB each")

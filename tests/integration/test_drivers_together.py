"""A core's thread, the disk thread and real links as the daemon joins them: what is answered is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from elfstream.core_thread import CoreThread
from srt.automaton import NEVER, Instant, Put, Received, Ref, Send, Stored, Write
from srt.data_dir import DataDir
from srt.stores import Stores
from srt.tree_messages import MasterReply, MasterRequest
from tests.peers import Node, run, until

MESSAGES = 300


class Keeper:
    """Stores each request, then answers it."""

    wake_at = NEVER

    def __init__(self, ref: Ref) -> None:
        self.ref = ref
        self._waiting: dict[int, Ref] = {}

    def handle(self, event: Any, now: Instant) -> list[Any]:
        if isinstance(event, Received) and isinstance(event.message, MasterRequest):
            number = event.message.request
            self._waiting[number] = event.sender
            return [Write("groups", [Put(number.to_bytes(16, "big"), event.message.payload)], number)]
        if isinstance(event, Stored):
            return [Send(self._waiting.pop(event.token), MasterReply(event.token, b""))]
        return []


class CoreNode(Node):
    """A node whose events go to a core's thread."""

    core: CoreThread

    def _post(self, event: Any, dealt: Callable[[], None] | None) -> None:
        self.core.post(event, dealt)


def test_what_is_answered_over_a_link_is_durable(tmp_path: Path) -> None:
    async def test() -> None:
        asker, keeper = await Node(1).start(), await CoreNode(2).start()
        loop = asyncio.get_running_loop()
        problems: list[BaseException] = []
        with DataDir(tmp_path) as directory:
            stores = Stores(directory.path)

            def send(effect: Send) -> None:
                loop.call_soon_threadsafe(keeper.peers.send, effect.to, effect.message)

            keeper.core = CoreThread(Keeper(keeper.ref), {Send: send, Write: stores.write}, problems.append)
            stores.start(keeper.core.post, problems.append)
            keeper.core.start()
            for number in range(MESSAGES):
                asker.peers.send(keeper.ref, MasterRequest(b"k" * 16, asker.ref, number, 0, b"%d" % number))
            await until(lambda: len(asker.got()) == MESSAGES)
            assert [message.request for message in asker.got()] == list(range(MESSAGES))
            found = dict(stores.scan("groups", b"", b"\xff" * 16, 2 * MESSAGES))
            assert list(found.values()) == [b"%d" % number for number in range(MESSAGES)]
            assert stores.syncs < MESSAGES, "writes that wait share a sync"
            await until(lambda: not keeper.peers._dealt)
            (socket,) = keeper.peers._sockets.values()
            assert socket._undealt_messages == 0, "what the core dealt with is no burden any more"
            await asker.stop()
            await keeper.stop()
            keeper.core.stop()
            keeper.core.join()
            stores.close()
        assert problems == []

    run(test)

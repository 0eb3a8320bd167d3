"""The nodes of `memory_fleet` behind sockets of a thread of their own, for tests that block, as those with Spark do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp

from master.api_options import ApiOptions
from tests.memory_fleet import Client, Running
from tests.patience import PATIENCE_S


class Served:
    """Methods may be called from any thread but the servers' own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, client: Client) -> None:
        self._loop, self._client = loop, client
        self.urls = [client.running.url(number) for number in range(len(client.fleet.nodes))]

    @property
    def url(self) -> str:
        """All nodes."""
        return ",".join(self.urls)

    def do(self, work: Callable[[Client], Any]) -> Any:
        """`work` among the servers, awaited where it is to be."""

        async def done() -> Any:
            result = work(self._client)
            return await result if isinstance(result, Coroutine) else result

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(PATIENCE_S)

    def publish(self, *arguments: Any, **more: Any) -> Any:
        return self.do(lambda client: client.fleet.publish(*arguments, **more))

    def submit(self, *arguments: Any, **more: Any) -> None:
        self.do(lambda client: client.submit(*arguments, **more))


@contextmanager
def served_fleet(count: int = 1, options: ApiOptions | None = None) -> Iterator[Served]:
    """So many nodes."""
    ready: list[Served] = []
    is_ready, ending = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with Running(count, options) as running, aiohttp.ClientSession() as session:
            ready.append(Served(asyncio.get_running_loop(), Client(running, session)))
            is_ready.set()
            await ending.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert is_ready.wait(PATIENCE_S)
        yield ready[0]
    finally:
        if ready:
            ready[0]._loop.call_soon_threadsafe(ending.set)
        thread.join(PATIENCE_S)

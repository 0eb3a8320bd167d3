"""Questions of the faces to a core in another thread, and waiting for news. Lives in the thread of the loop."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from master.requests import Answer, Ask, Refusal
from master.service import Refused

ASK_S = 15.0
"""A question that the core did not answer by then is given up: its job may be without a leader."""
WAITING_MAX = 10_000
"""Questions at a time."""


class Questions:
    """Questions to the core that wait for their answers."""

    def __init__(self, post: Callable[[Any], None], loop: asyncio.AbstractEventLoop) -> None:
        self._post, self._loop = post, loop
        self._tokens = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    async def ask(self, key: bytes, request: Any) -> Any:
        """The answer. Raises Refused, TimeoutError."""
        if len(self._waiting) >= WAITING_MAX:
            raise Refused(Refusal("busy", f"{WAITING_MAX} requests wait for this node's core already"))
        token = next(self._tokens)
        future = self._waiting[token] = self._loop.create_future()
        self._post(Ask(token, key, request))
        try:
            async with asyncio.timeout(ASK_S):
                body = await future
        finally:
            del self._waiting[token]
        if isinstance(body, Refusal):
            raise Refused(body)
        return body

    def answered(self, answer: Answer) -> None:
        """From the core, in the loop's thread."""
        future = self._waiting.get(answer.token)
        if future is not None and not future.done():
            future.set_result(answer.body)


class Bell:
    """Who waits for news of a key is woken when there are some."""

    def __init__(self) -> None:
        self._waiting: defaultdict[bytes, set[asyncio.Future[None]]] = defaultdict(set)

    def ring(self, key: bytes) -> None:
        for future in self._waiting.pop(key, ()):
            if not future.done():
                future.set_result(None)

    async def heard(self, key: bytes) -> None:
        """Waits for the next ring."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[key].add(future)
        try:
            await future
        finally:
            waiting = self._waiting.get(key)
            if waiting is not None:
                waiting.discard(future)
                if not waiting:
                    del self._waiting[key]

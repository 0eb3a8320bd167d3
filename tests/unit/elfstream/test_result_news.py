"""Who waits for a result hears of it, also if it comes while it looks."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

from elfstream.questions import Bell
from elfstream.running_node import RunningNode

KEY = bytes(16)


def test_a_result_that_comes_during_the_look_is_not_missed() -> None:
    looking, stored = threading.Event(), threading.Event()
    indices = iter((0, 1))

    def last_index(_: bytes) -> int:
        found = next(indices)
        looking.set()
        assert stored.wait(10)
        return found

    async def main() -> None:
        node = SimpleNamespace(results=SimpleNamespace(last_index=last_index), _bell=Bell())
        waiting = asyncio.ensure_future(RunningNode.published(node, KEY, 0))  # type: ignore[arg-type]
        await asyncio.to_thread(looking.wait, 10)
        node._bell.ring(KEY)
        stored.set()
        await asyncio.wait_for(waiting, 10)
        assert not node._bell._waiting

    asyncio.run(main())

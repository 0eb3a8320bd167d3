"""Who waits for a result hears of it, also if it comes while it looks."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

from elfstream.questions import Bell
from elfstream.running_node import RunningNode
from tests.patience import PATIENCE_S

KEY = bytes(16)


def test_a_result_that_comes_during_the_look_is_not_missed() -> None:
    looking, stored = threading.Event(), threading.Event()
    indices = iter((0, 1))

    def last_index(_: bytes) -> int:
        found = next(indices)
        looking.set()
        assert stored.wait(PATIENCE_S)
        return found

    async def main() -> None:
        node = SimpleNamespace(results=SimpleNamespace(last_index=last_index), _bell=Bell())
        waiting = asyncio.ensure_future(RunningNode.published(node, KEY, 0))  # type: ignore[arg-type]
        await asyncio.to_thread(looking.wait, PATIENCE_S)
        node._bell.ring(KEY)
        stored.set()
        await asyncio.wait_for(waiting, PATIENCE_S)
        assert not node._bell._waiting

    asyncio.run(main())

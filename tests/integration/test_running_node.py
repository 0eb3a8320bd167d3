"""A whole node in the test's own loop: what it says of itself while it comes and goes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp

from elfstream.config.model import Address, NodeConfig
from elfstream.running_node import RunningNode
from master.service import Reloaded
from tests.peers import run, until

LEAVING = "this node is leaving the fleet"


def test_who_asks_whether_it_is_ready_hears_that_it_leaves(tmp_path: Path) -> None:
    """And not that it has yet to join, though it is in no ring either way."""
    problems: list[str] = []

    async def reload() -> Reloaded:
        raise NotImplementedError

    async def main() -> None:
        listen = Address("127.0.0.1", 0)
        node = RunningNode(NodeConfig("", "one", str(tmp_path), listen=listen, advertise=None), problems.append, reload)
        await node.start()
        await until(lambda: not node.faults())
        stopping = asyncio.create_task(node.stop())
        async with aiohttp.ClientSession() as session, session.get(f"http://{node.ref.address}/readyz") as answer:
            assert (answer.status, (await answer.json())["detail"]) == (503, LEAVING)
        await stopping
        assert node.faults() == [LEAVING]

    run(main)
    assert problems == []

"""The process around a node, as far as it needs no node."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

from elfstream.config.reading import load
from elfstream.daemon import Daemon
from master.service import NotReloaded


def test_a_node_that_is_told_to_stop_reloads_nothing_and_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "node.toml"
    file.write_text(f'[node]\nname = "web1"\ndata_dir = "{tmp_path}/data"\n')
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        daemon = Daemon(str(file), load(str(file)))

        async def stopped() -> None:
            daemon._loop = asyncio.get_running_loop()
            daemon._on_signal()
            os.kill(os.getpid(), signal.SIGTERM)
            await daemon._ending.wait()
            with pytest.raises(NotReloaded, match="the node is stopping"):
                await daemon.reload()

        asyncio.run(stopped())
        with pytest.raises(BlockingIOError):
            manager.recv(1000)

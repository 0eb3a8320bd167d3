"""The fleet of the demonstration: an agent beside each webserver and a worker, each a process of `elfstream node`."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from agent.errors import InputError
from elfstream.demo.shop import LOG_FORMAT
from elfstream.demo.webservers import SERVERS

WORKER = "worker1"
STOP_S = 5.0
_METRIC = re.compile(r'^elfstream_(\w+)(?:\{source="access"(?:,[^}]*)?\})? ([0-9.e+-]+)$', re.MULTILINE)
_CONFIG = """\
[node]
name = "{name}"
fleet = "demo"
listen = "127.0.0.1:{port}"
{join}data_dir = "{data_dir}"
log_level = "warning"
"""
_SOURCE = """
[[sources]]
name = "access"
paths = ["{paths}"]
format = '{format}'
read_from = "beginning"
"""


class Node:
    """One process. Its log is `folder/NAME.log`."""

    def __init__(self, folder: Path, name: str, port: int, join: int | None, logs: Path | None) -> None:
        self.name, self.port = name, port
        self.log = folder / f"{name}.log"
        joined = "" if join is None else f'join = ["127.0.0.1:{join}"]\n'
        text = _CONFIG.format(name=name, port=port, join=joined, data_dir=folder / name)
        if logs is not None:
            text += _SOURCE.format(paths=logs / "access.log*", format=LOG_FORMAT)
        config = folder / f"{name}.toml"
        config.write_text(text)
        bound = [sys.executable, "-m", "elfstream.demo.bound", str(os.getpid())]
        command = [*bound, "node", "-c", str(config)]
        with self.log.open("wb") as log:
            # A session of its own: Ctrl-C is for us.
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def check(self) -> None:
        """Raises InputError when it has ended."""
        if self.process.poll() is not None:
            last = self.log.read_text(errors="replace").strip().splitlines()[-1:]
            raise InputError(f"node {self.name}", "".join(last) or "ended")

    def resident_bytes(self) -> int:
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu_s(self) -> float:
        """User and system time so far."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Fleet:
    """Starts at once; a context. Raises InputError when a node ends by itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "fleet"
        self.folder.mkdir()
        ports = _free_ports(len(SERVERS) + 1)
        self.worker = Node(self.folder, WORKER, ports[0], None, None)
        self.agents = [
            Node(self.folder, name, port, ports[0], folder / name)
            for name, port in zip(SERVERS, ports[1:], strict=True)
        ]

    @property
    def nodes(self) -> list[Node]:
        return [*self.agents, self.worker]

    @property
    def urls(self) -> list[str]:
        """Of all nodes, the worker's first; any of them answers for all."""
        return [self.worker.url, *(node.url for node in self.agents)]

    def check(self) -> None:
        for node in self.nodes:
            node.check()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends all processes; those that do not within STOP_S are killed."""
        for node in self.nodes:
            if node.process.poll() is None:
                node.process.terminate()
        end = time.monotonic() + STOP_S
        for node in self.nodes:
            try:
                node.process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                node.process.kill()
                node.process.wait()


def figures(metrics: str) -> dict[str, float]:
    """The metrics of a node that have no label but the source `access`; those of its files added up."""
    found: dict[str, float] = {}
    for name, value in _METRIC.findall(metrics):
        found[name] = found.get(name, 0.0) + float(value)
    return found


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]

"""A fleet of real processes on loopback, and who reads its results. For tests and benches."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import elfstream as elf
from elfstream.remote_results import WindowResult
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
PORTS = range(20_000, 32_000)
"""Below those that the system gives to outgoing connections: a dead node's port must be free when it comes back."""
BROKEN = re.compile(r"the thread \S+ broke|Traceback")


class FleetError(AssertionError):
    """A node ended or failed by itself, or something did not come in time."""


def free_port(rng: random.Random) -> int:
    while True:
        port = rng.choice(PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def until(done: Callable[[], bool], limit_s: float, what: str, every_s: float = 0.05) -> float:
    """Waits; returns how long it took, seconds. Raises FleetError."""
    began_s = time.monotonic()
    while not done():
        if time.monotonic() - began_s > limit_s:
            raise FleetError(f"not within {limit_s:g} s: {what}")
        time.sleep(every_s)
    return time.monotonic() - began_s


def is_ready(url: str) -> bool:
    return _says_yes(f"{url}/readyz")


def is_alive(url: str) -> bool:
    """Whether it answers, however late it is with its work."""
    return _says_yes(f"{url}/healthz")


def _says_yes(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _sources_known_by(url: str, token: str | None) -> set[str]:
    try:
        with elf.connect(url, token=token, patience_s=0.0) as client:
            return {one["name"] for one in client.sources()}
    except (elf.ApiError, elf.UnreachableError):
        return set()


class NodeProcess:
    """One node: its folder, its port, and the process while it lives."""

    def __init__(
        self, folder: Path, name: str, port: int, join: Sequence[int], sources: Mapping[str, str]
    ) -> None:
        """`sources`: the format of each; its logs are `folder/NAME/SOURCE/access.log*`, whose folder the writer makes."""
        self.folder, self.name, self.port = folder / name, name, port
        self.url = f"http://127.0.0.1:{port}"
        self.sources = dict(sources)
        self.is_paused = False
        self.program: Sequence[str] = ("-m", "elfstream")
        """What Python is to run, before the arguments."""
        self.child: subprocess.Popen[bytes] | None = None
        self.environment: dict[str, str] = {}
        """Beside that of this process."""
        self.folder.mkdir()
        self.said = self.folder / "said.log"
        seeds = ", ".join(f'"127.0.0.1:{one}"' for one in join)
        text = [
            "[node]",
            f'name = "{name}"',
            f'listen = "127.0.0.1:{port}"',
            f'data_dir = "{self.folder}/data"',
            f"join = [{seeds}]",
        ]
        for source, format in sources.items():
            paths = f'["{self.folder}/{source}/access.log*"]'
            text += ["[[sources]]", f'name = "{source}"', f"paths = {paths}", f"format = '''{format}'''"]
        (self.folder / "node.toml").write_text("\n".join(text) + "\n")

    def add_to_file(self, text: str) -> None:
        """Further sections of its configuration; before it starts."""
        with (self.folder / "node.toml").open("a") as file:
            file.write(text)

    @property
    def lives(self) -> bool:
        return self.child is not None and not self.is_paused

    def start(self) -> None:
        """Returns at once."""
        command = [sys.executable, *self.program, "node", "-c", str(self.folder / "node.toml")]
        env = {**os.environ, "PYTHONPATH": str(ROOT), **self.environment}
        with open(self.said, "ab") as said:
            self.child = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=said, env=env)
        self.is_paused = False

    def signal(self, number: int) -> None:
        assert self.child is not None
        self.child.send_signal(number)

    def kill(self) -> None:
        """As a power cut does, but for what the system has written already."""
        assert self.child is not None
        self.child.kill()
        self.child.wait()
        self.child, self.is_paused = None, False

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        self.signal(signal.SIGCONT)
        self.is_paused = False

    def stop(self) -> int:
        """As a service manager does. Returns the exit code."""
        assert self.child is not None
        self.child.terminate()
        code = self.child.wait(PATIENCE_S)
        self.child = None
        return code

    def check(self) -> None:
        """Raises FleetError with what it said, if it ended or failed by itself."""
        said = self.said.read_text(errors="replace") if self.said.exists() else ""
        code = None if self.child is None else self.child.poll()
        if code is not None or BROKEN.search(said):
            raise FleetError(f"{self.name} (exit code {code}):\n{said[-6000:]}")

    # what the system knows of the process

    def cpu_s(self) -> float:
        """User and system seconds so far."""
        assert self.child is not None
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int:
        assert self.child is not None
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.child.pid}/status").read_text())
        return int(found[1]) * 1024 if found else 0


class Fleet:
    """Agents web1, web2, ... and workers work1, ... in `folder`; ends them all, and checks each, at its end."""

    token: str | None = None

    def __init__(
        self, folder: Path, agents: int, workers: int, sources: Mapping[str, str], seed: int = 0
    ) -> None:
        rng = random.Random(f"{seed} {os.getpid()} {time.time_ns()}")
        names = [f"work{number + 1}" for number in range(workers)] + [
            f"web{number + 1}" for number in range(agents)
        ]
        ports: list[int] = []
        while len(ports) < len(names):
            if (port := free_port(rng)) not in ports:
                ports.append(port)
        self.nodes = {
            name: NodeProcess(folder, name, port, ports[:3], sources if name.startswith("web") else {})
            for name, port in zip(names, ports, strict=True)
        }
        self.agents = [node for node in self.nodes.values() if node.sources]
        self.workers = [node for node in self.nodes.values() if not node.sources]

    def __enter__(self) -> Fleet:
        for node in self.nodes.values():
            node.start()
        try:
            self.wait_ready()
            self.wait_sources()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.check()
        finally:
            self._end()

    def _end(self) -> None:
        for node in self.nodes.values():
            if node.child is not None:
                node.kill()

    def check(self) -> None:
        """Raises FleetError if a node failed."""
        for node in self.nodes.values():
            node.check()

    def urls(self, first: str | None = None) -> list[str]:
        """Addresses of all nodes, that of `first` in front."""
        return sorted((node.url for node in self.nodes.values()), key=lambda url: url != first)

    def client(self, patience_s: float = PATIENCE_S) -> elf.Client:
        return elf.connect(self.urls(), token=self.token, patience_s=patience_s)

    def wait_ready(self, limit_s: float = PATIENCE_S) -> float:
        """Until each node that runs is in the ring."""

        def all_ready() -> bool:
            self.check()
            return all(is_ready(node.url) for node in self.nodes.values() if node.lives)

        return until(all_ready, limit_s, "every node answers /readyz")

    def wait_sources(self, limit_s: float = PATIENCE_S) -> float:
        """Until each node has heard of all sources: before, jobs that ask of them are refused."""
        names = {name for node in self.agents for name in node.sources}

        def all_heard() -> bool:
            self.check()
            return all(_sources_known_by(node.url, self.token) >= names for node in self.nodes.values() if node.lives)

        return until(all_heard, limit_s, "every node has heard of all sources")

    def led_by(self, job: str) -> NodeProcess | None:
        """The node that leads a job now; None: nobody knows."""
        try:
            with elf.connect(self.urls(), token=self.token, patience_s=2.0) as client:
                address = client.job(job).show()["master"]["address"]
        except (elf.ApiError, elf.UnreachableError):
            return None
        return next(node for node in self.nodes.values() if node.url.endswith(address))

    def leader(self, job: str) -> NodeProcess:
        """The node that leads a job, as soon as somebody knows it."""
        found: list[NodeProcess] = []

        def is_led() -> bool:
            node = self.led_by(job)
            if node is not None:
                found.append(node)
            return node is not None

        until(is_led, PATIENCE_S, f"somebody leads {job}")
        return found[0]


class Collector(threading.Thread):
    """Reads the results of a job as they are published, as a user's program would, and holds them against what the stream
    promises: ids ascend, and each edition of a window comes once."""

    def __init__(self, urls: Sequence[str], job: str, token: str | None = None) -> None:
        super().__init__(name=f"collector of {job}", daemon=True)
        self.job = job
        self.results: list[WindowResult] = []
        self.heard_s: list[float] = []
        """When each of them was heard, monotonic seconds."""
        self.problem: BaseException | None = None
        self._client = elf.connect(list(urls), token=token, patience_s=PATIENCE_S)
        self._ending = False
        self.start()

    def run(self) -> None:
        try:
            for result in self._client.job(self.job).watch(after=0):
                self.heard_s.append(time.monotonic())
                self.results.append(result)
        except BaseException as problem:  # told by `check`
            if not self._ending:
                self.problem = problem

    def close(self) -> None:
        self._ending = True
        self._client.close()
        self.join(PATIENCE_S)

    def check(self) -> None:
        """Raises FleetError."""
        if self.problem is not None:
            raise FleetError(f"the stream of {self.job} ended: {self.problem!r}") from self.problem
        results = list(self.results)
        ids = [result.id for result in results]
        if ids != sorted(set(ids)):
            raise FleetError(f"ids of {self.job} do not ascend: {ids}")
        editions = [(result.window, result.revision) for result in results]
        if len(editions) != len(set(editions)):
            twice = [one for one in set(editions) if editions.count(one) > 1]
            raise FleetError(f"{self.job}: editions came twice: {twice[:5]}")

    def has(self, last: int) -> bool:
        """Whether the result of that id came. Raises FleetError when the stream failed."""
        self.check()
        return bool(self.results) and self.results[-1].id >= last

    def latest(self) -> dict[Any, WindowResult]:
        """By window, the last edition of each."""
        return {result.window: result for result in list(self.results)}

    def rows(self) -> list[tuple[Any, ...]]:
        """Of all windows, which have to be final."""
        found = self.latest()
        undecided = [window for window, result in found.items() if result.status == "tentative"]
        if undecided:
            raise FleetError(f"{self.job}: {len(undecided)} windows are not final, such as {undecided[0]}")
        return [tuple(row) for window in sorted(found) for row in found[window].rows]

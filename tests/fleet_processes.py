"""A worker and an agent as processes on loopback, for tests of whole commands."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Processes(NamedTuple):
    urls: tuple[str, ...]
    log: Path

    @property
    def url(self) -> str:
        return ",".join(self.urls)

    def write(self, *requests: tuple[datetime, str, int]) -> None:
        """Appends lines: time, path, status."""
        with open(self.log, "a") as log:
            for moment, path, status in requests:
                stamp = moment.astimezone(UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
                log.write(f'203.0.113.9 - - [{stamp}] "GET {path} HTTP/1.1" {status} 100 "-" "-"\n')


@contextmanager
def two_nodes(folder: Path) -> Iterator[Processes]:
    """`work1` and `web1`, whose log of ten minutes ago has 3 lines a second of one minute."""
    log = folder / "access.log"
    log.touch()
    worker = _started(folder, "work1", "")
    try:
        where = _address(worker)
        source = f'join = ["{where}"]\n[[sources]]\nname = "access"\npaths = ["{log}"]\nformat = "combined"\n'
        agent = _started(folder, "web1", source)
        try:
            fleet = Processes((f"http://{where}", f"http://{_address(agent)}"), log)
            start = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=10)
            fleet.write(*(
                (start + timedelta(seconds=second), path, status)
                for second in range(60)
                for path, status in (("/", 200), ("/cart", 200), ("/cart", 500))
            ))  # fmt: skip
            yield fleet
        finally:
            _end(agent)
    finally:
        _end(worker)


def _started(folder: Path, name: str, more: str) -> subprocess.Popen[str]:
    config = folder / f"{name}.toml"
    head = f'[node]\nname = "{name}"\nfleet = "test"\ndata_dir = "{folder / name}"\nlisten = "127.0.0.1:0"\n'
    config.write_text(head + more)
    command = [sys.executable, "-m", "elfstream", "node", "-c", str(config)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def _address(node: subprocess.Popen[str]) -> str:
    """Where it listens, from the first line of its log."""
    assert node.stderr is not None
    line = node.stderr.readline()
    found = re.search(r"address=(\S+)", line)
    assert found is not None, line
    return found[1]


def _end(node: subprocess.Popen[str]) -> None:
    node.kill()
    node.communicate()

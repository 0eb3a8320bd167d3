"""A worker and an agent as processes on loopback, for tests of whole commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from tests.integration.fleet_processes import Fleet


class TwoNodes(NamedTuple):
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
def two_nodes(folder: Path) -> Iterator[TwoNodes]:
    """`work1` and `web1`, whose log of ten minutes ago has 3 lines a second of one minute."""
    fleet = Fleet(folder, 1, 1, {"access": "combined"})
    log = fleet.agents[0].folder / "access" / "access.log"
    log.parent.mkdir()
    nodes = TwoNodes(tuple(node.url for node in fleet.nodes.values()), log)
    log.touch()
    with fleet:
        start = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=10)
        nodes.write(*(
            (start + timedelta(seconds=second), path, status)
            for second in range(60)
            for path, status in (("/", 200), ("/cart", 200), ("/cart", 500))
        ))  # fmt: skip
        yield nodes

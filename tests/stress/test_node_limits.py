"""[limits] of a real node: more groups than its memory holds, and more lines than its share of the processor reads."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import elfstream as elf
from elfstream.check.machine import OVERHEAD_BYTES
from tests.integration.fleet_processes import NodeProcess, free_port, is_alive, is_ready, until

LINES = 5_000_000
MEMORY_MIB = 32
CORES = 0.1
PIECE_S = 1.0
"""Of processor time: one advance, which is not broken off, and what answers requests meanwhile."""
SQL = "SELECT path, count(*) AS n FROM access GROUP BY path ORDER BY n DESC, path LIMIT 2"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeProcess]:
    """Not started; its log has LINES lines of as many paths, but for one that comes twice."""
    made = NodeProcess(tmp_path, "web1", free_port(random.Random()), [], {"access": "combined"})
    file = made.folder / "node.toml"
    file.write_text(file.read_text() + 'read_from = "beginning"\n')
    (made.folder / "access").mkdir()
    stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(time.time() - 300))
    with (made.folder / "access" / "access.log").open("w") as log:
        for number in (*range(LINES - 1), 77):
            log.write(f'203.0.113.9 - - [{stamp}] "GET /item/{number} HTTP/1.1" 200 12 "-" "x"\n')
    yield made
    if made.child is not None:
        made.kill()


def _submitted(node: NodeProcess, client: elf.Client) -> elf.Job:
    until(lambda: len(client.sources()) == 1, 30.0, "the source")
    return client.submit("big", SQL, settings={"since": "1h", "emit": "2s"})


@pytest.mark.stress
def test_memory_stays_within_the_cap_and_what_comes_on_top(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELFSTREAM_LIMITS_MEMORY_MAX", f"{MEMORY_MIB}MiB")
    node.start()
    until(lambda: is_ready(node.url), 30.0, "the node")
    with elf.connect(node.url) as client:
        job = _submitted(node, client)
        until(lambda: any(one.lines == LINES for one in job.results()), 120.0, "all lines", every_s=1.0)
        job.stop(drain=True)
        until(lambda: [one.status for one in job.results()] == ["final"], 120.0, "the end", every_s=1.0)
        (result,) = job.results()
    assert result.lines == LINES
    assert [tuple(row) for row in result.rows] == [("/item/77", 2), ("/item/0", 1)]
    assert node.child is not None
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{node.child.pid}/status").read_text())
    assert found is not None
    peak_bytes = int(found[1]) * 1024
    assert peak_bytes <= (MEMORY_MIB << 20) + OVERHEAD_BYTES, f"{peak_bytes >> 20} MiB"


@pytest.mark.stress
def test_the_share_of_the_processor_is_kept(node: NodeProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELFSTREAM_LIMITS_CPU_MAX_CORES", str(CORES))
    node.start()
    until(lambda: is_ready(node.url), 30.0, "the node")
    with elf.connect(node.url) as client:
        job = _submitted(node, client)
        began_s, used_s = time.monotonic(), node.cpu_s()
        read = 0
        while time.monotonic() - began_s < 12.0:
            time.sleep(0.5)
            assert is_alive(node.url)  # it answers all the time, and may say that it is late where others have the machine
            read = max(read, *(one.lines for one in job.results()), 0)
        used_s, took_s = node.cpu_s() - used_s, time.monotonic() - began_s
    assert used_s <= CORES * took_s + PIECE_S, f"{used_s:.1f} s in {took_s:.1f} s"
    assert read > 0

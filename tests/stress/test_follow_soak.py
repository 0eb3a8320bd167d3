"""A followed query for a long time over logs that are rotated, packed and removed: memory and descriptors stay flat, no line
is lost or counted twice. ELFSTREAM_SOAK_S says for how long; 20 minutes by default."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOAK_S = float(os.environ.get("ELFSTREAM_SOAK_S", "1200"))
LINES_A_TURN, TURN_S, ROTATE_S = 200, 0.1, 10.0
KEPT = 3
"""Rotated logs that stay: the newest plain, the others packed."""
WARM_UP = 0.3
"""Share of the time in which caches, arenas and the catalogue of logs may grow."""
GROWTH_BYTES_MAX = 2 << 20
"""What the fitted line may rise from the end of the warm-up to the end. A leak of one pane, scanner or handle per
rotation would be tens of megabytes in 20 minutes."""
SQL = """SELECT window(time, '5 seconds') AS w, path, count(*) AS n, count(DISTINCT remote_addr) AS c,
                approx_percentile(bytes, 0.9) AS p FROM access GROUP BY w, path"""


class Server:
    """Writes a line for each number, and rotates as logrotate with compress and delaycompress does."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "access.log"
        self.lines = 0
        self._file = self.log.open("ab", buffering=0)

    def write(self) -> None:
        stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime())
        numbers = range(self.lines, self.lines + LINES_A_TURN)
        self._file.write(
            "".join(
                f'198.18.{number % 251}.{number % 13} - - [{stamp}] "GET /{number % 997} HTTP/1.1" 200 {number} "-" "-"\n'
                for number in numbers
            ).encode()
        )
        self.lines += LINES_A_TURN

    def rotate(self) -> None:
        Path(f"{self.log}.{KEPT}.gz").unlink(missing_ok=True)
        for number in range(KEPT - 1, 1, -1):
            if Path(f"{self.log}.{number}.gz").exists():
                os.rename(f"{self.log}.{number}.gz", f"{self.log}.{number + 1}.gz")
        newest = Path(f"{self.log}.1")
        if newest.exists():
            Path(f"{self.log}.2.gz").write_bytes(gzip.compress(newest.read_bytes(), 1))
            newest.unlink()
        self.log.rename(newest)
        self._file.close()
        self._file = self.log.open("ab", buffering=0)

    def close(self) -> None:
        self._file.close()


class Counter:
    """Reads windows from a pipe and adds up what their last revisions count."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self.counts: dict[str, int] = {}
        self._child = child
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            window = json.loads(line)
            self.counts[window["window"]["start"]] = sum(row["n"] for row in window["rows"])

    def close(self) -> None:
        """Waits for the end of the pipe."""
        self._thread.join()
        assert self._child.stdout is not None
        self._child.stdout.close()


def sample(process: int) -> tuple[float, float]:
    """Resident bytes and descriptors of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return float(pages * os.sysconf("SC_PAGE_SIZE")), float(len(os.listdir(f"/proc/{process}/fd")))


def slope(points: list[tuple[float, float]]) -> float:
    """Of the least-squares line through (x, y)."""
    middle_x, middle_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    return sum((x - middle_x) * (y - middle_y) for x, y in points) / sum((x - middle_x) ** 2 for x, _ in points)


@pytest.mark.stress
def test_memory_and_descriptors_stay_flat_and_counts_exact(tmp_path: Path) -> None:
    server = Server(tmp_path)
    command = [sys.executable, "-m", "elfstream", "query", "--follow", SQL, f"{server.log}*", "-o", "json",
               "--format", "combined", "--since", "beginning", "--lateness", "10s", "--delay", "1s"]  # fmt: skip
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    counter = Counter(child)
    samples: list[tuple[float, float, float]] = []
    start = time.monotonic()
    try:
        rotate_at, sample_at = ROTATE_S, 1.0
        while (at := time.monotonic() - start) < SOAK_S:
            server.write()
            if at >= rotate_at:
                server.rotate()
                rotate_at += ROTATE_S
            if at >= sample_at:
                samples.append((at, *sample(child.pid)))
                sample_at += 1.0
            time.sleep(max(start + TURN_S * (server.lines // LINES_A_TURN) - time.monotonic(), 0.0))
        server.close()
        time.sleep(2.0)  # what was written last is read
        child.send_signal(signal.SIGTERM)
        child.wait(timeout=60)
    finally:
        child.kill()
        counter.close()
    assert child.returncode == 0
    assert sum(counter.counts.values()) == server.lines
    steady = [one for one in samples if one[0] >= WARM_UP * SOAK_S]
    span = steady[-1][0] - steady[0][0]
    growth = slope([(at, memory) for at, memory, _ in steady]) * span
    handles = slope([(at, count) for at, _, count in steady]) * span
    memory = [one[1] / 2**20 for one in steady]
    print(
        f"\n{server.lines:,} lines in {SOAK_S:.0f} s: memory {memory[0]:.1f} to {memory[-1]:.1f} MiB,"
        f" fitted growth {growth / 2**20:+.2f} MiB; {min(one[2] for one in steady):.0f} to"
        f" {max(one[2] for one in steady):.0f} descriptors, fitted growth {handles:+.2f}"
    )
    assert growth < GROWTH_BYTES_MAX
    assert handles < 2
    assert max(one[2] for one in steady) < 40

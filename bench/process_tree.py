"""CPU and memory of this process and all below it, while something runs (Linux).

Memory are proportional shares: a page that several processes have counts once. So forks of one interpreter, as Spark makes
many, do not count as if each had all of it.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

LOOK_S = 0.2
TICK = os.sysconf("SC_CLK_TCK")


class Tree:
    """Looks at the processes from now on, until `stop`."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        """The most that all of them had at once."""
        self._own_s = 0.0
        """What looking took."""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def cpu_s(self) -> float:
        """So far, those that have ended included."""
        ticks = 0
        for pid in _pids():
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended meanwhile
            ticks += sum(int(field) for field in fields[11:15])
        return ticks / TICK - self._own_s

    def stop(self) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(LOOK_S):
            self.peak_bytes = max(self.peak_bytes, sum(map(_memory, _pids())))
            self._own_s = time.thread_time()


def _pids() -> set[int]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _memory(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    return 0

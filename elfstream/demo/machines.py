"""What the live demonstration runs: the webservers as a process, and beside each of them a follower with its agent."""

from __future__ import annotations

import glob
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent.errors import InputError
from agent.follower import Follower
from agent.tail_events import Deliver, Gap
from agent.tail_options import TailOptions
from cbt.memory import Memory
from elfstream.demo.picture import SPARK_COLUMNS
from elfstream.demo.webservers import DECODER, Told
from elfstream.live_fleet import LiveAgent
from job.formats import Format
from job.plan import Plan
from job.watermark import Timing

TIMING = Timing(delay_us=1_000_000, idle_us=2_000_000, lateness_us=10_000_000)
"""Servers log in order of time, so little delay does; a renamed log holds windows open until it is idle."""


class Webservers:
    """The process that plays the shop. Raises InputError when it fails."""

    def __init__(self, folder: Path, seed: int, rate: float, play_s: float, keep: bool) -> None:
        command = [sys.executable, "-m", "elfstream.demo.webservers", str(folder), str(seed), str(rate), str(play_s),
                   "keep" if keep else "once"]  # fmt: skip
        # A session of its own: Ctrl-C is for us, and ends them by closing their input.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdout is not None
        self.fd = self._process.stdout.fileno()
        os.set_blocking(self.fd, False)
        self._half = b""
        self.ended = False

    def read(self) -> Iterator[Told]:
        """What they told since the last call."""
        while not self.ended:
            try:
                data = os.read(self.fd, 1 << 20)
            except BlockingIOError:
                return
            self.ended = not data
            *lines, self._half = (self._half + data).split(b"\n")
            yield from map(DECODER.decode, lines)
        if self._process.wait() != 0:
            assert self._process.stderr is not None
            message = self._process.stderr.read().decode().strip().splitlines()[-1:]
            raise InputError("the webservers of the demonstration", "".join(message) or "ended early")

    def stop(self) -> None:
        """Asks them to write what they hold and to end."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def close(self) -> None:
        """Ends the process if it still runs, and frees its pipes."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()


class Machine:
    """What runs beside one webserver: a follower of its logs and an agent that folds their lines."""

    def __init__(self, name: str, folder: Path, plans: Sequence[Plan], format: Format, memory: Memory) -> None:
        self.name = name
        self.agent = LiveAgent(plans, format, TIMING, memory)
        self.rates: deque[float] = deque(maxlen=SPARK_COLUMNS)
        self._pattern = str(folder / name / "access.log*")
        self.follower = Follower([self._pattern], TailOptions(read_from="beginning"))
        self._sampled = (time.monotonic(), 0)

    def poll(self) -> bool:
        """Reads what is new. Whether there was something."""
        found = self.follower.poll()
        for one in found:
            if isinstance(one, Deliver):
                self.agent.lines(one.key, one.data, one.start, one.stop, clock_us())
            elif isinstance(one, Gap):
                self.agent.gap(one.stop - one.start)
        return bool(found)

    @property
    def is_behind(self) -> bool:
        """Whether there is something to read, or to find out about a file."""
        tail = self.follower.tail
        return self.follower.wait(0.0) or tail.busy or tail.unsettled

    def sample(self) -> None:
        """Notes the rate since the last sample."""
        now, lines = time.monotonic(), self.agent.counts.lines
        then, before = self._sampled
        self.rates.append((lines - before) / max(now - then, 1e-9))
        self._sampled = now, lines

    def unread_bytes(self) -> int:
        """Bytes on disk that were not read yet, of plain files."""
        offsets = {log.place: log.offset for log in self.follower.tail.logs}
        unread = 0
        for path in glob.glob(self._pattern):
            try:
                found = os.stat(path)
            except FileNotFoundError:
                continue
            if not path.endswith(".gz"):
                unread += max(found.st_size - offsets.get((found.st_dev, found.st_ino), 0), 0)
        return unread


def clock_us() -> int:
    """The time in microseconds since 1970."""
    return time.time_ns() // 1000


def resident_bytes() -> int:
    """Memory of this process that is in RAM now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

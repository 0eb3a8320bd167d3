"""Three webservers of the shop, as a process of its own: they write access logs in real time, which are rotated and
compressed under them, and tell on standard output what they meant, second by second.

It ends after one play, or when its standard input is closed. Nothing here is shared with what reads the logs.
"""

from __future__ import annotations

import gzip
import os
import select
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import msgspec

from elfstream.demo.shop import Hit, endpoint
from elfstream.demo.traffic import SERVER_SHARES, TICK_S, Logged, Traffic

SERVERS = tuple(f"web{number + 1}" for number in range(len(SERVER_SHARES)))
ROTATIONS = (
    (0.30, 0, "rename"), (0.315, 0, "reopen"),
    (0.45, 1, "rename"), (0.465, 1, "reopen"), (0.60, 1, "compress"),
    (0.90, 2, "rename"), (0.915, 2, "reopen"),
)  # fmt: skip
"""When in a play what is done to the log of which server; a renamed log is written to until its server reopens it."""


class EndpointTruth(msgspec.Struct):
    """Requests to one endpoint; `millis` counts how often each time was taken."""

    requests: int = 0
    errors: int = 0
    millis: dict[int, int] = msgspec.field(default_factory=dict)


class Second(msgspec.Struct, tag=True):
    """What was logged at one second (since 1970); `clients` are addresses not logged before."""

    second: int
    lines: int = 0
    garbage: int = 0
    size: int = 0
    errors: int = 0
    clients: int = 0
    views: dict[str, int] = msgspec.field(default_factory=dict)
    endpoints: dict[str, EndpointTruth] = msgspec.field(default_factory=dict)
    logins: dict[str, int] = msgspec.field(default_factory=dict)
    """Attempts by address."""

    def add(self, hit: Hit) -> None:
        """Counts a request as it was meant."""
        self.size += hit.size
        self.errors += hit.status >= 500
        if hit.method is None or hit.status == 404:
            return
        name = endpoint(hit.target)
        if (truth := self.endpoints.get(name)) is None:
            truth = self.endpoints[name] = EndpointTruth()
        truth.requests += 1
        truth.errors += hit.status >= 500
        truth.millis[hit.millis] = truth.millis.get(hit.millis, 0) + 1
        if name == "/product" and hit.status == 200:
            product = hit.target[9:].partition("?")[0]
            self.views[product] = self.views.get(product, 0) + 1
        elif hit.method == "POST" and hit.target == "/login":
            self.logins[hit.address] = self.logins.get(hit.address, 0) + 1


class Happened(msgspec.Struct, tag=True):
    """Something was done to the log of a server."""

    second: int
    server: str
    what: str


Told = Second | Happened
ENCODER, DECODER = msgspec.json.Encoder(), msgspec.json.Decoder(Told)


class Webserver:
    """One server with its log. Writes end anywhere in a line, as buffered ones do."""

    def __init__(self, folder: Path, random: Random) -> None:
        self.log = folder / "access.log"
        self._random = random
        self._held = b""
        self._packing: threading.Thread | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._fd = self._opened()

    def _opened(self) -> int:
        return os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def write(self, data: bytes) -> None:
        """Logs whole lines; the end of the last one may wait for the next write."""
        data = self._held + data
        cut = len(data) - (self._random.randrange(60) if len(data) > 60 else 0)
        self._held = data[cut:]
        os.write(self._fd, data[:cut])

    def rename(self) -> str:
        """As logrotate does it: names move on, the oldest goes."""
        old = self.log.with_name("access.log.1")
        self._packed()
        for suffix in ("", ".gz"):
            if os.path.exists(f"{old}{suffix}"):
                os.replace(f"{old}{suffix}", self.log.with_name(f"access.log.2{suffix}"))
        self.log.rename(old)
        return "renamed access.log to access.log.1 and goes on writing to it"

    def reopen(self) -> str:
        """As after a signal: what is held goes to the old log, the rest to a new one."""
        self.flush()
        os.close(self._fd)
        self._fd = self._opened()
        return "opened a new access.log"

    def compress(self) -> str:
        """As gzip does it, beside the writing."""
        self._packed()
        self._packing = threading.Thread(target=_compress, args=[self.log.with_name("access.log.1")])
        self._packing.start()
        return "compressed access.log.1 to access.log.1.gz"

    def _packed(self) -> None:
        if self._packing is not None:
            self._packing.join()

    def flush(self) -> None:
        """Writes what is held."""
        os.write(self._fd, self._held)
        self._held = b""

    def close(self) -> None:
        """Writes everything and leaves the logs."""
        self.flush()
        os.close(self._fd)
        self._packed()


def _compress(path: Path) -> None:
    with open(path, "rb") as plain, gzip.open(f"{path}.gz", "wb", compresslevel=1) as packed:
        shutil.copyfileobj(plain, packed, 1 << 20)
    path.unlink()


class Play:
    """All three servers; the clock comes in with every tick."""

    def __init__(self, folder: Path, seed: int, rate: float, play_s: float) -> None:
        self._traffic = Traffic(seed, rate, play_s)
        self._servers = [Webserver(folder / name, Random(f"{seed} {name}")) for name in SERVERS]
        self._clients: set[str] = set()
        self._second: Second | None = None
        self._events = _rotations(play_s)
        self._due = next(self._events)

    def tick(self, at_s: float, second: int) -> Iterator[Told]:
        """Logs TICK_S seconds of requests at `second`, and yields what is now known of the seconds before."""
        if self._second is not None and second > self._second.second:
            yield self._second
            self._second = None
        if self._second is None:
            self._second = Second(second)
        stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(second))
        texts: list[list[str]] = [[] for _ in self._servers]
        for logged in self._traffic.tick(at_s, second, stamp):
            texts[logged.server].append(logged.text)
            self._count(self._second, logged)
        for server, text in zip(self._servers, texts, strict=True):
            server.write("".join(text).encode())
        while self._due[0] <= at_s:
            _, number, what = self._due
            self._due = next(self._events)
            does: Callable[[], str] = getattr(self._servers[number], what)
            yield Happened(second, SERVERS[number], does())

    def _count(self, truth: Second, logged: Logged) -> None:
        truth.lines += 1
        if logged.hit is None:
            truth.garbage += 1
            return
        truth.add(logged.hit)
        if logged.hit.address not in self._clients:
            self._clients.add(logged.hit.address)
            truth.clients += 1

    def close(self) -> Iterator[Told]:
        """Ends the logs and yields the last second."""
        for server in self._servers:
            server.close()
        if self._second is not None:
            yield self._second


def _rotations(play_s: float) -> Iterator[tuple[float, int, str]]:
    start = 0.0
    while True:
        for part, server, what in ROTATIONS:
            yield start + part * play_s, server, what
        start += play_s


def main(folder: Path, seed: int, rate: float, play_s: float, keep: bool) -> None:
    """Plays in real time until the end of one play (`keep`: for ever) or of standard input."""
    play, out = Play(folder, seed, rate, play_s), sys.stdout.buffer
    start, second, number = time.monotonic(), 0, 0
    while keep or number * TICK_S < play_s:
        second = max(second, int(time.time()))  # the clock may be set back, a log does not go back
        for told in play.tick(number * TICK_S, second):
            _tell(told)
        out.flush()
        number += 1
        pause = start + number * TICK_S - time.monotonic()
        if select.select([sys.stdin], [], [], max(pause, 0.0))[0]:
            break
    for told in play.close():
        _tell(told)
    out.flush()


def _tell(told: Told) -> None:
    sys.stdout.buffer.write(ENCODER.encode(told) + b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]), sys.argv[5] == "keep")

"""A made-up evening of a made-up shop, as three webservers would log it, with the exact answers kept beside it.

One seed gives one log. Shoppers browse, a flash sale starts at half past, crawlers crawl, scanners look for holes, two
clients guess passwords, TLS handshakes arrive at the plain port, and a full disk tears a few lines. The truth is counted
from what was meant, before a line is written: it shares nothing with the parser it checks.
"""

from __future__ import annotations

import gzip
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from random import Random

from elfstream.demo.shop import (
    NGINX_CONF,
    PAGES,
    PRODUCTS,
    SALE_PAGES,
    SALE_PRODUCTS,
    Hit,
    Page,
    crawl,
    endpoint,
    guess,
    line,
    probe,
    stray,
    torn,
    visits,
)

SERVERS = ("web1/access.log", "web2/access.log", "web3/access.log.gz")
START = datetime(2025, 11, 28, 19, 0, tzinfo=UTC)
SECONDS = 3600
SALE_START = 1800
SALE_SECONDS = 720
LINES_MIN = 1_000


@dataclass
class Truth:
    """What the log says, counted without reading it. Keys are those of the demonstration's questions."""

    lines: int = 0
    rejected: int = 0
    size: int = 0
    views: Counter[tuple[int, str]] = field(default_factory=Counter)
    """(20-minute slot, product)"""
    viewers: defaultdict[tuple[int, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    times: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Milliseconds of each request by endpoint."""
    errors: Counter[str] = field(default_factory=Counter)
    slot_requests: Counter[int] = field(default_factory=Counter)
    """5-minute slots."""
    slot_size: Counter[int] = field(default_factory=Counter)
    slot_clients: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    logins: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    kind_requests: Counter[str] = field(default_factory=Counter)
    kind_missing: Counter[str] = field(default_factory=Counter)
    kind_size: Counter[str] = field(default_factory=Counter)
    kind_clients: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def record(self, hit: Hit, kind: str) -> None:
        """Counts one request of a client of `kind`."""
        self.size += hit.size
        slot = hit.second // 300
        self.slot_requests[slot] += 1
        self.slot_size[slot] += hit.size
        self.slot_clients[slot].add(hit.address)
        self.kind_requests[kind] += 1
        self.kind_missing[kind] += hit.status == 404
        self.kind_size[kind] += hit.size
        self.kind_clients[kind].add(hit.address)
        if hit.method is None or hit.status == 404:
            return
        part = endpoint(hit.target)
        self.times[part].append(hit.millis)
        self.errors[part] += hit.status >= 500
        if part == "/product" and hit.status == 200:
            view = hit.second // 1200, hit.target[9:].partition("?")[0]
            self.views[view] += 1
            self.viewers[view].add(hit.address)
        elif hit.method == "POST" and hit.target == "/login":
            self.logins[hit.address] += 1
            self.refused[hit.address] += hit.status == 401


def _busy(start: int, seconds: int, peak: float) -> list[float]:
    """Cumulative weights of the seconds of a slow swell that is highest at `peak` (a share of the time)."""
    swell = (
        1.2 - abs((at - start) / seconds - peak) if start <= at < start + seconds else 0.0
        for at in range(SECONDS)
    )
    return list(accumulate(swell))


def _visitors(
    random: Random, count: int, pages: tuple[Page, ...], products: tuple[str, ...], when: list[float]
) -> Iterator[Hit]:
    yield from visits(random, random.choices(range(SECONDS), cum_weights=when, k=count), pages, products)


def _shoppers(random: Random, count: int) -> Iterator[Hit]:
    yield from _visitors(random, count, PAGES, PRODUCTS, _busy(0, SECONDS, 0.55))


def _sale(random: Random, count: int) -> Iterator[Hit]:
    yield from _visitors(random, count, SALE_PAGES, SALE_PRODUCTS, _busy(SALE_START, SALE_SECONDS, 0.2))


def _crawlers(random: Random, count: int) -> Iterator[Hit]:
    for number in range(count):
        yield crawl(random, number * SECONDS // count)


def _scanners(random: Random, count: int) -> Iterator[Hit]:
    for _ in range(count):
        scanner = random.randrange(3)
        yield probe(random, 600 + 1000 * scanner + random.randrange(240), scanner)


def _guessers(random: Random, count: int) -> Iterator[Hit]:
    """Two clients; the second one gets in with its last try."""
    for number in range(count):
        got_in = number == (count - 1) // 5 * 5
        yield guess(2_400 + number * 600 // count, int(number % 5 == 0), number, got_in)


def _strays(random: Random, count: int) -> Iterator[Hit]:
    for _ in range(count):
        yield stray(random, random.randrange(SECONDS))


CROWD = (
    ("browser", _sale, 0.14),
    ("crawler", _crawlers, 0.06),
    ("tool", _scanners, 0.012),
    ("tool", _guessers, 0.02),
    ("not HTTP", _strays, 0.003),
)
"""Everyone but the shoppers, with their share of the lines."""


def _stamps() -> list[str]:
    """Every second as nginx writes it, one hour east of UTC."""
    return [f"28/Nov/2025:20:{at // 60:02d}:{at % 60:02d} +0100" for at in range(SECONDS)]


def generate(folder: Path, lines: int, seed: int) -> tuple[list[Path], Truth]:
    """Writes the logs of the three servers below `folder`, `lines` in all, and nginx.conf. Returns the logs and the truth.

    O(lines) time and memory: about 5 us and 500 bytes a line. Raises ValueError below LINES_MIN lines.
    """
    if lines < LINES_MIN:
        raise ValueError(f"{lines} lines are too few for a shop; at least {LINES_MIN}")
    random, truth, stamps = Random(seed), Truth(lines=lines), _stamps()
    logs: tuple[list[tuple[int, str]], ...] = tuple([] for _ in SERVERS)
    torn_count = max(lines // 10_000, 2)
    counts = [int(lines * share) for _, _, share in CROWD]
    shoppers = ("browser", _shoppers, lines - torn_count - sum(counts))
    parts = [(kind, crowd, count) for (kind, crowd, _), count in zip(CROWD, counts, strict=True)]
    for kind, crowd, count in (shoppers, *parts):
        for hit in crowd(random, count):
            truth.record(hit, kind)
            logs[int(3 * random.random())].append((hit.second, line(hit, stamps[hit.second])))
    for hit in _shoppers(random, torn_count):
        logs[1].append((hit.second, torn(random, line(hit, stamps[hit.second]))))
    truth.rejected = torn_count
    return [_write(folder / name, log) for name, log in zip(SERVERS, logs, strict=True)], truth


def _write(path: Path, log: list[tuple[int, str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parents[1] / "nginx.conf").write_text(NGINX_CONF)
    log.sort()
    data = "".join(text for _, text in log).encode()
    path.write_bytes(gzip.compress(data, 1, mtime=0) if path.suffix == ".gz" else data)
    return path

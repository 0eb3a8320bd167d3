"""A made-up evening of a made-up shop, as three webservers would log it, with the exact answers kept beside it.

One seed gives one log. Shoppers browse, a flash sale starts at half past, crawlers crawl, scanners look for holes, two
clients guess passwords, TLS handshakes arrive at the plain port, and a full disk tears a few lines. The truth is counted
from what was meant, before a line is written: it shares nothing with the parser it checks.

Addresses are from ranges reserved for documentation and benchmarks (RFC 5737, RFC 2544).
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
from typing import NamedTuple

LOG_FORMAT = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent '
    '"$http_referer" "$http_user_agent" $request_time'
)
NGINX_CONF = f"""# The log format of the demonstration shop.
http {{
    log_format timed '{LOG_FORMAT}';
    access_log /var/log/nginx/access.log timed;
}}
"""
SERVERS = ("web1/access.log", "web2/access.log", "web3/access.log.gz")
START = datetime(2025, 11, 28, 19, 0, tzinfo=UTC)
SECONDS = 3600
SALE_START = 1800
SALE_SECONDS = 720
LINES_MIN = 1_000


class Hit(NamedTuple):
    """One request as it was meant; `second` counts from START."""

    second: int
    address: str
    method: str | None
    target: str
    status: int
    size: int
    referer: str
    agent: str
    millis: int


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
        endpoint = "/" + hit.target[1:].partition("?")[0].partition("/")[0]
        self.times[endpoint].append(hit.millis)
        self.errors[endpoint] += hit.status >= 500
        if endpoint == "/product" and hit.status == 200:
            view = hit.second // 1200, hit.target[9:].partition("?")[0]
            self.views[view] += 1
            self.viewers[view].add(hit.address)
        elif hit.method == "POST" and hit.target == "/login":
            self.logins[hit.address] += 1
            self.refused[hit.address] += hit.status == 401


class Page(NamedTuple):
    """An endpoint of the shop: how often it is asked, how large and how slow it is."""

    weight: int
    method: str
    target: str
    size: int
    millis: float


PAGES = (
    Page(9, "GET", "/", 18_000, 22),
    Page(14, "GET", "/category/{category}?page={page}", 26_000, 41),
    Page(26, "GET", "/product/{product}", 31_000, 35),
    Page(8, "GET", "/search?q={category}+{page}", 12_000, 120),
    Page(12, "GET", "/api/stock/{product}", 180, 9),
    Page(22, "GET", "/static/{product}.webp", 48_000, 2),
    Page(4, "POST", "/cart", 640, 28),
    Page(2, "POST", "/checkout", 2_100, 190),
    Page(1, "POST", "/login", 420, 85),
)
SALE_PAGES = (
    Page(60, "GET", "/product/{product}", 31_000, 90),
    Page(25, "POST", "/cart", 640, 160),
    Page(15, "POST", "/checkout", 2_100, 900),
)
CATEGORIES = ("lamps", "desks", "chairs", "rugs", "shelves", "mugs")
PRODUCTS = tuple(
    f"{wood}-{thing}"
    for thing in ("desk", "lamp", "chair", "stool", "shelf", "clock", "tray", "bench")
    for wood in ("oak", "walnut", "cherry", "birch", "ash", "maple", "teak", "elm")
)
SALE_PRODUCTS = ("walnut-desk", "teak-lamp", "ash-stool")
BROWSERS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 "
    "Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0",
    "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36",
)
CRAWLERS = (
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
    "Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)",
)
HOLES = (
    "/.env", "/.git/config", "/wp-login.php", "/wp-admin/setup-config.php", "/phpmyadmin/index.php", "/xmlrpc.php",
    "/cgi-bin/luci/;stok=/locale", "/vendor/phpunit/phpunit/src/Util/PHP/eval-stdin.php", "/actuator/gateway/routes",
    "/index.php?lang=../../../../../../../../etc/passwd", "/?q=%27%20OR%201%3D1--%20", "/backup.zip",
)  # fmt: skip
HANDSHAKES = (
    r"\x16\x03\x01\x00\xEE\x01\x00\x00\xEA\x03\x03\x1F\xAB\xCC\x22\x9D\xA4",
    r"\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03",
    r"\x03\x00\x00/*\xE0\x00\x00\x00\x00\x00Cookie: mstshash=Administr",
    "SSH-2.0-Go",
    "",
)


def _busy(start: int, seconds: int, peak: float) -> list[float]:
    """Cumulative weights of the seconds of a slow swell that is highest at `peak` (a share of the time)."""
    swell = (
        1.2 - abs((at - start) / seconds - peak) if start <= at < start + seconds else 0.0
        for at in range(SECONDS)
    )
    return list(accumulate(swell))


def _millis(random: Random, mean: float) -> int:
    """A skewed time: most are short, one in a hundred takes long."""
    slow = 8 if random.random() < 0.012 else 1
    return int(mean * slow * (0.4 + random.expovariate(1.6)))


def _visits(
    random: Random, count: int, pages: tuple[Page, ...], products: tuple[str, ...], when: list[float]
) -> Iterator[Hit]:
    weights = list(accumulate(page.weight for page in pages))
    popular = list(accumulate(1 / (rank + 3) for rank in range(len(products))))
    seconds = random.choices(range(SECONDS), cum_weights=when, k=count)
    chosen = random.choices(pages, cum_weights=weights, k=count)
    shown = random.choices(products, cum_weights=popular, k=count)
    is_sale = pages is SALE_PAGES
    draw = random.random
    for second, page, product in zip(seconds, chosen, shown, strict=True):
        visitor = int(24_000 * draw() ** 1.8)
        address = f"198.{18 + (visitor & 1)}.{visitor >> 8}.{visitor % 251 + 1}"
        target, status, referer = page.target, 200, "-"
        if "{" in target:
            target = target.format(
                product=product, category=CATEGORIES[visitor % 6], page=1 + int(9 * draw() ** 3)
            )
            referer = "https://shop.example/"
        if page.target == "/checkout":
            status = 503 if is_sale and draw() < 0.11 else 302
        elif page.target == "/login":
            status = 401 if draw() < 0.1 else 302
        elif draw() < 0.0015:
            status = 500
        elif page.size > 40_000 and draw() < 0.3:
            status = 304
        size = 0 if status == 304 else 497 if status >= 500 else int(page.size * (0.75 + draw() / 2))
        yield Hit(
            second,
            address,
            page.method,
            target,
            status,
            size,
            referer,
            BROWSERS[visitor % 4],
            _millis(random, page.millis),
        )


def _shoppers(random: Random, count: int) -> Iterator[Hit]:
    yield from _visits(random, count, PAGES, PRODUCTS, _busy(0, SECONDS, 0.55))


def _sale(random: Random, count: int) -> Iterator[Hit]:
    yield from _visits(random, count, SALE_PAGES, SALE_PRODUCTS, _busy(SALE_START, SALE_SECONDS, 0.2))


def _crawlers(random: Random, count: int) -> Iterator[Hit]:
    for number in range(count):
        second, robot = number * SECONDS // count, random.randrange(48)
        target = f"/product/{random.choice(PRODUCTS)}" if random.random() < 0.9 else "/robots.txt"
        yield Hit(
            second,
            f"192.0.2.{robot + 1}",
            "GET",
            target,
            200,
            random.randrange(20_000, 32_000),
            "-",
            CRAWLERS[robot % 3],
            30,
        )


def _scanners(random: Random, count: int) -> Iterator[Hit]:
    for _ in range(count):
        scanner = random.randrange(3)
        second = 600 + 1000 * scanner + random.randrange(240)
        agent = ("python-requests/2.32.5", "Go-http-client/1.1", "zgrab/0.x")[scanner]
        yield Hit(second, f"203.0.113.{66 + scanner}", "GET", random.choice(HOLES), 404, 162, "-", agent, 1)


def _guessers(random: Random, count: int) -> Iterator[Hit]:
    """Two clients; the second one gets in with its last try."""
    for number in range(count):
        guesser = int(number % 5 == 0)
        status = 302 if number == (count - 1) // 5 * 5 else 401
        second = 2_400 + number * 600 // count
        yield Hit(
            second,
            f"203.0.113.{9 + guesser}",
            "POST",
            "/login",
            status,
            420,
            "-",
            "curl/8.5.0",
            70 + number % 30,
        )


def _strays(random: Random, count: int) -> Iterator[Hit]:
    for _ in range(count):
        address = f"203.0.113.{128 + random.randrange(100)}"
        yield Hit(random.randrange(SECONDS), address, None, random.choice(HANDSHAKES), 400, 157, "-", "-", 0)


CROWD = (
    ("browser", _sale, 0.14),
    ("crawler", _crawlers, 0.06),
    ("tool", _scanners, 0.012),
    ("tool", _guessers, 0.02),
    ("not HTTP", _strays, 0.003),
)
"""Everyone but the shoppers, with their share of the lines."""


def _line(hit: Hit, stamps: list[str]) -> str:
    request = hit.target if hit.method is None else f"{hit.method} {hit.target} HTTP/1.1"
    return (
        f'{hit.address} - - [{stamps[hit.second]}] "{request}" {hit.status} {hit.size} '
        f'"{hit.referer}" "{hit.agent}" {hit.millis // 1000}.{hit.millis % 1000:03d}\n'
    )


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
    torn = max(lines // 10_000, 2)
    counts = [int(lines * share) for _, _, share in CROWD]
    shoppers = ("browser", _shoppers, lines - torn - sum(counts))
    parts = [(kind, crowd, count) for (kind, crowd, _), count in zip(CROWD, counts, strict=True)]
    for kind, crowd, count in (shoppers, *parts):
        for hit in crowd(random, count):
            truth.record(hit, kind)
            logs[int(3 * random.random())].append((hit.second, _line(hit, stamps)))
    for hit in _shoppers(random, torn):
        text = _line(hit, stamps)
        logs[1].append((hit.second, text[: text.index('HTTP/1.1"') + random.randrange(4, 30)] + "\n"))
    truth.rejected = torn
    return [_write(folder / name, log) for name, log in zip(SERVERS, logs, strict=True)], truth


def _write(path: Path, log: list[tuple[int, str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parents[1] / "nginx.conf").write_text(NGINX_CONF)
    log.sort()
    data = "".join(text for _, text in log).encode()
    path.write_bytes(gzip.compress(data, 1, mtime=0) if path.suffix == ".gz" else data)
    return path

"""The shop of the demonstrations: its log format, pages, products and clients, and what a visit to it looks like.

Addresses are from ranges reserved for documentation and benchmarks (RFC 5737, RFC 2544).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
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
SCANNERS = ("python-requests/2.32.5", "Go-http-client/1.1", "zgrab/0.x")
HANDSHAKES = (
    r"\x16\x03\x01\x00\xEE\x01\x00\x00\xEA\x03\x03\x1F\xAB\xCC\x22\x9D\xA4",
    r"\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03",
    r"\x03\x00\x00/*\xE0\x00\x00\x00\x00\x00Cookie: mstshash=Administr",
    "SSH-2.0-Go",
    "",
)


def _millis(random: Random, mean: float) -> int:
    """A skewed time: most are short, one in a hundred takes long."""
    slow = 8 if random.random() < 0.012 else 1
    return int(mean * slow * (0.4 + random.expovariate(1.6)))


def visits(
    random: Random, seconds: Sequence[int], pages: tuple[Page, ...], products: tuple[str, ...]
) -> Iterator[Hit]:
    """One shopper's request for each of `seconds`; `products` are sorted, the most popular first."""
    weights = list(accumulate(page.weight for page in pages))
    popular = list(accumulate(1 / (rank + 3) for rank in range(len(products))))
    chosen = random.choices(pages, cum_weights=weights, k=len(seconds))
    shown = random.choices(products, cum_weights=popular, k=len(seconds))
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


def crawl(random: Random, second: int) -> Hit:
    """A request of one of 48 crawlers."""
    robot = random.randrange(48)
    target = f"/product/{random.choice(PRODUCTS)}" if random.random() < 0.9 else "/robots.txt"
    size = random.randrange(20_000, 32_000)
    return Hit(second, f"192.0.2.{robot + 1}", "GET", target, 200, size, "-", CRAWLERS[robot % 3], 30)


def probe(random: Random, second: int, scanner: int) -> Hit:
    """A request of one of 3 scanners that look for holes."""
    target, agent = random.choice(HOLES), SCANNERS[scanner]
    return Hit(second, f"203.0.113.{66 + scanner}", "GET", target, 404, 162, "-", agent, 1)


def guess(second: int, guesser: int, number: int, got_in: bool = False) -> Hit:
    """The try of a client that guesses passwords."""
    status = 302 if got_in else 401
    address, millis = f"203.0.113.{9 + guesser}", 70 + number % 30
    return Hit(second, address, "POST", "/login", status, 420, "-", "curl/8.5.0", millis)


def stray(random: Random, second: int) -> Hit:
    """Something that is no HTTP at the plain port."""
    address = f"203.0.113.{128 + random.randrange(100)}"
    return Hit(second, address, None, random.choice(HANDSHAKES), 400, 157, "-", "-", 0)


def endpoint(target: str) -> str:
    """The first part of a request's path, as the demonstrations group by it."""
    return "/" + target[1:].partition("?")[0].partition("/")[0]


def line(hit: Hit, stamp: str) -> str:
    """`hit` as nginx logs it at the time `stamp`, with LF."""
    request = hit.target if hit.method is None else f"{hit.method} {hit.target} HTTP/1.1"
    return (
        f'{hit.address} - - [{stamp}] "{request}" {hit.status} {hit.size} '
        f'"{hit.referer}" "{hit.agent}" {hit.millis // 1000}.{hit.millis % 1000:03d}\n'
    )


def torn(random: Random, text: str) -> str:
    """A line of a request cut off in the middle, as a full disk leaves it."""
    return text[: text.index('HTTP/1.1"') + random.randrange(4, 30)] + "\n"

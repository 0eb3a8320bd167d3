"""Seeded logs to measure with: combined lines of about 258 bytes, as a busy shop writes them.

URLs by Zipf(1.1) over a million, clients by Zipf(0.8) over 200,000, rising times (1,500 lines a second), one line in a
hundred odd: blank, TLS bytes, `-` as request, a target with blanks, torn, IPv6, garbage. The same number of lines gives
the same bytes on every machine; a log is written once and kept in build/bench. O(lines); about 4 us a line.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from random import Random

CACHE = Path(__file__).resolve().parent.parent / "build" / "bench"
SEED = 20140619
URL_COUNT, CLIENT_COUNT, AGENT_COUNT, REFERER_COUNT = 1_000_000, 200_000, 400, 20_000
LINES_A_SECOND = 1500
ODD_SHARE = 0.01
EPOCH_S = 1_403_136_000  # 2014-06-19T00:00:00Z
CHUNK_LINES = 50_000

SECTIONS = ("catalog", "blog", "api/v1/items", "static/js", "img/products", "user", "search", "docs/guide", "cart")
WORDS = (
    "red", "blue", "small", "large", "classic", "summer", "winter", "kids", "travel", "sport", "garden", "kitchen",
    "music", "audio", "camera", "phone", "laptop", "desk", "chair", "lamp", "book", "paper", "glass", "metal",
)  # fmt: skip
PLATFORMS = (
    "Windows NT 10.0; Win64; x64", "Macintosh; Intel Mac OS X 10_15_7", "X11; Linux x86_64",
    "Linux; Android 13; SM-S901B", "iPhone; CPU iPhone OS 16_5 like Mac OS X",
)  # fmt: skip
METHODS = ("GET",) * 93 + ("POST",) * 5 + ("HEAD",) * 2
STATUSES = (200,) * 176 + (304,) * 10 + (301, 301, 302, 302) + (404,) * 7 + (403, 500, 503)
ODD = (
    "",
    '{client} - - [{clock}] "\\x16\\x03\\x01\\x02\\x00\\x01" 400 157 "-" "-"',
    '{client} - - [{clock}] "-" 408 0 "-" "-"',
    '{client} - - [{clock}] "GET /a b c HTTP/1.1" 400 150 "-" "probe \\"quoted\\" agent"',
    '{client} - - [{clock}] "GET /trunc',
    '2001:db8::{client} - bob [{clock}] "GET /v6 HTTP/2.0" 200 512 "-" "curl/8.0"',
    "{client} garbage {clock} line here",
)


def warm(path: str | os.PathLike[str]) -> None:
    """Reads a file once: other work on the machine may have taken its pages from memory."""
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass


def combined_log(lines: int) -> Path:
    """The path of a combined log of that many lines, written if it is not there yet."""
    path = CACHE / f"combined-{SEED}-{lines}.log"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        with part.open("w", encoding="ascii", newline="\n") as out:
            for chunk in combined_chunks(lines):
                out.write(chunk)
        part.replace(path)
    return path


def json_log(lines: int) -> Path:
    """The path of a log of JSON objects, one a line, with the values of `combined_log`'s good lines."""
    path = CACHE / f"json-{SEED}-{lines}.log"
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}")
        with combined_log(lines).open(encoding="ascii") as source, part.open("w", encoding="ascii") as out:
            out.writelines(_json_line(line) for line in source)
        part.replace(path)
    return path


def combined_chunks(lines: int) -> Iterator[str]:
    """The log in chunks of whole lines."""
    random = Random(SEED)
    urls = list(_zipf(URL_COUNT, 1.1))
    clients = list(_zipf(CLIENT_COUNT, 0.8))
    agents = list(_zipf(AGENT_COUNT, 0.9))
    referers = list(_zipf(REFERER_COUNT, 0.8))
    for first in range(0, lines, CHUNK_LINES):
        count = min(CHUNK_LINES, lines - first)
        picks = zip(
            random.choices(range(URL_COUNT), cum_weights=urls, k=count),
            random.choices(range(CLIENT_COUNT), cum_weights=clients, k=count),
            random.choices(range(AGENT_COUNT), cum_weights=agents, k=count),
            random.choices(range(REFERER_COUNT), cum_weights=referers, k=count),
            strict=True,
        )
        yield "".join(_line(random, first + row, *pick) for row, pick in enumerate(picks))


def _zipf(count: int, exponent: float) -> Iterator[float]:
    return accumulate(rank**-exponent for rank in range(1, count + 1))


def _line(random: Random, row: int, url: int, client: int, agent: int, referer: int) -> str:
    clock = _clock(row // LINES_A_SECOND)
    dice = random.random()
    if dice < ODD_SHARE:
        return ODD[row % len(ODD)].format(client=_client(client), clock=clock) + "\n"
    status = STATUSES[random.getrandbits(30) % len(STATUSES)]
    size = 0 if status == 304 else int(random.lognormvariate(8.2, 1.6))
    method = METHODS[random.getrandbits(30) % len(METHODS)]
    shown = _referer(referer) if dice > 0.4 else "-"
    return (
        f'{_client(client)} - - [{clock}] "{method} {_url(url)} HTTP/1.1" {status} {size} '
        f'"{shown}" "{_agent(agent)}"\n'
    )


@cache
def _clock(second: int) -> str:
    return time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(EPOCH_S + second))


def _scatter(number: int) -> int:
    return (number * 2_654_435_761) & 0xFFFFFFFF


@cache
def _url(rank: int) -> str:
    page = (rank * 617_411 + 97) % URL_COUNT  # so that hot pages lie anywhere
    h = _scatter(page)
    url = f"/{_pick(SECTIONS, h)}/{_pick(WORDS, h >> 4)}-{_pick(WORDS, h >> 10)}-{page}"
    kind = (h >> 20) % 8
    if kind == 0:
        return f"{url}?page={h % 37}&sort=price&session={h:08x}"
    if kind == 1:
        return url + ".html"
    if kind == 2:
        return f"{url}?utm_source=newsletter&utm_campaign={_pick(WORDS, h)}"
    return url


@cache
def _client(rank: int) -> str:
    h = (rank * 2_246_822_519 + 97) & 0xFFFFFFFF
    return f"{10 + (h >> 24) % 200}.{(h >> 16) & 255}.{(h >> 8) & 255}.{h & 255}"


@cache
def _agent(rank: int) -> str:
    browser = ("Chrome", "Edg", "OPR")[rank % 3]
    version = f"{100 + rank % 31}.0.{rank * 7919 % 6000}.{rank % 200}"
    return (
        f"Mozilla/5.0 ({PLATFORMS[rank % 5]}) AppleWebKit/537.36 (KHTML, like Gecko) {browser}/{version} Safari/537.36"
    )


@cache
def _referer(rank: int) -> str:
    return f"https://www.example{rank % 50}.com/{_pick(SECTIONS, rank)}/{_pick(WORDS, rank)}-{rank}"


def _pick(names: Sequence[str], number: int) -> str:
    return names[number % len(names)]


def _json_line(line: str) -> str:
    import json

    parts = line.rstrip("\n").split('"')
    if len(parts) != 7 or not parts[2].split():
        return line
    address, _, user, clock, zone = parts[0].split()[:5]
    status, size = parts[2].split()[:2]
    method, uri, protocol = [*parts[1].split(" "), "", ""][:3]
    document = {
        "time_local": f"{clock[1:]} {zone[:-1]}",
        "remote_addr": address,
        "remote_user": user,
        "request": {"method": method, "uri": uri, "protocol": protocol, "headers": {"Referer": [parts[3]]}},
        "status": int(status),
        "body_bytes_sent": int(size),
        "http_user_agent": parts[5],
    }
    return json.dumps(document, separators=(",", ":")) + "\n"

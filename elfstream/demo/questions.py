"""The demonstration: five questions about a shop's evening, and a check of every answer against the generator's truth."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import elfstream as elf
from elfstream.demo.checks import QUANTILE_ERROR, Check, figure, percentile_bounds, show
from elfstream.demo.evening import START, Truth, generate
from elfstream.demo.shop import LOG_FORMAT, NGINX_CONF
from elfstream.output import write
from elfstream.progress import rate_text
from elfstream.terminal import BOLD, DIM, has_colour, paint, quantity

Rows = list[tuple[Any, ...]]


class Question(NamedTuple):
    """A question in words and in SQL. `expected` gives the rows by the truth; `figures` names the summed columns that
    the final check prints; `within` are columns that may be off by QUANTILE_ERROR."""

    words: str
    sql: str
    expected: Callable[[Truth], Rows]
    figures: dict[str, int]
    within: tuple[int, ...] = ()


def _window(slot: int, minutes: int) -> tuple[Any, Any]:
    start = START + timedelta(minutes=slot * minutes)
    return start, start + timedelta(minutes=minutes)


def _hot_products(truth: Truth) -> Rows:
    rows: Rows = []
    for slot in range(3):
        ranked = sorted((-views, product) for (at, product), views in truth.views.items() if at == slot)
        for views, product in ranked[:3]:
            rows.append((_window(slot, 20), product, -views, len(truth.viewers[slot, product])))
    return rows


def _endpoints(truth: Truth) -> Rows:
    rows: Rows = []
    for endpoint, times in truth.times.items():
        if len(times) >= 1000 * truth.lines // 300_000:
            bounds = [
                tuple(bound / 1000 for bound in percentile_bounds(Counter(times), p)) for p in (0.5, 0.99)
            ]
            rows.append((endpoint, len(times), truth.errors[endpoint], *bounds))
    return sorted(rows, key=lambda row: (-row[2], row[0]))


def _evening(truth: Truth) -> Rows:
    return [
        (_window(slot, 5), requests, len(truth.slot_clients[slot]), truth.slot_size[slot])
        for slot, requests in sorted(truth.slot_requests.items())
    ]


def _guessers(truth: Truth) -> Rows:
    rows = [
        (address, count, truth.refused[address]) for address, count in truth.logins.items() if count >= 30
    ]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def _kinds(truth: Truth) -> Rows:
    rows = [
        (kind, count, len(truth.kind_clients[kind]), truth.kind_missing[kind], truth.kind_size[kind])
        for kind, count in truth.kind_requests.items()
    ]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


QUESTIONS = (
    Question(
        "Which products are hot, and does that change?  (LIMIT counts per window)",
        """\
SELECT window(time, '20 minutes') AS w, split_part(path, '/', 3) AS product,
       count(*) AS views, count(DISTINCT remote_addr) AS visitors
FROM access
WHERE path LIKE '/product/%' AND status = 200
GROUP BY window(time, '20 minutes'), split_part(path, '/', 3)
ORDER BY views DESC
LIMIT 3""",
        _hot_products,
        {"views": 2, "visitors": 3},
    ),
    Question(
        "Which endpoint hurts?  Errors and response times in seconds",
        """\
SELECT concat('/', split_part(path, '/', 2)) AS endpoint,
       count(*) AS requests, count_if(status >= 500) AS errors,
       approx_percentile(request_time, 0.5) AS p50, approx_percentile(request_time, 0.99) AS p99
FROM access
WHERE method IS NOT NULL AND status <> 404
GROUP BY concat('/', split_part(path, '/', 2))
HAVING count(*) >= :least
ORDER BY errors DESC""",
        _endpoints,
        {"requests": 1, "errors": 2},
        within=(3, 4),
    ),
    Question(
        "How did the evening go?  The sale started at 19:30 UTC",
        """\
SELECT window(time, '5 minutes') AS w,
       count(*) AS requests, count(DISTINCT remote_addr) AS clients, sum(bytes) AS bytes
FROM access
GROUP BY window(time, '5 minutes')""",
        _evening,
        {"requests": 1, "bytes": 3},
    ),
    Question(
        "Who hammers the login page, and did anyone get in?",
        """\
SELECT remote_addr, count(*) AS attempts, count_if(status = 401) AS refused
FROM access
WHERE method = 'POST' AND path = '/login'
GROUP BY remote_addr
HAVING count(*) >= 30
ORDER BY attempts DESC""",
        _guessers,
        {"attempts": 1, "refused": 2},
    ),
    Question(
        "Who are all these clients?  (requests that are no HTTP have no method)",
        """\
SELECT CASE WHEN method IS NULL THEN 'not HTTP'
            WHEN lower(user_agent) LIKE '%bot%' THEN 'crawler'
            WHEN user_agent LIKE 'Mozilla/%' THEN 'browser'
            ELSE 'tool' END AS kind,
       count(*) AS requests, count(DISTINCT remote_addr) AS clients,
       count_if(status = 404) AS not_found, sum(bytes) AS bytes
FROM access
GROUP BY CASE WHEN method IS NULL THEN 'not HTTP'
              WHEN lower(user_agent) LIKE '%bot%' THEN 'crawler'
              WHEN user_agent LIKE 'Mozilla/%' THEN 'browser'
              ELSE 'tool' END
ORDER BY requests DESC""",
        _kinds,
        {"requests": 1, "clients": 2, "not found": 3},
    ),
)


def run(folder: Path, lines: int, seed: int) -> bool:
    """Generates, asks, shows and checks. Returns whether every answer equals the truth."""
    colour = has_colour(sys.stdout)
    print(f"Writing {lines:,} lines of three webservers to {folder} ... ", end="", flush=True)
    started = time.perf_counter()
    logs, truth = generate(folder, lines, seed)
    size = sum(path.stat().st_size for path in logs)
    print(f"{quantity(size, 'B')} in {_since(started)}.")
    print("Their nginx log_format is all that elfstream is told:")
    print(paint("  " + LOG_FORMAT.replace(' "$http', '\n  "$http', 1) + "\n", DIM, colour))
    checks: list[Check] = []
    for number, question in enumerate(QUESTIONS, 1):
        result = _ask(question, number, logs, truth, colour)
        if number == 1:
            checks += [figure("lines", truth.lines, result.stats.lines)]
            checks += [figure("lines rejected (torn)", truth.rejected, result.stats.rejected)]
        checks += compare(question, number, truth, [tuple(row) for row in result])
    return show(checks, colour)


def _since(started: float) -> str:
    return f"{time.perf_counter() - started:.1f} s"


def _ask(question: Question, number: int, logs: Sequence[Path], truth: Truth, colour: bool) -> elf.Result:
    print(paint(f"{number}. {question.words}", BOLD, colour))
    print(paint("\n".join("   " + line for line in question.sql.splitlines()), DIM, colour) + "\n")
    least = {"least": 1000 * truth.lines // 300_000} if ":least" in question.sql else None
    result = elf.query(question.sql, logs, format=LOG_FORMAT, params=least)
    write("table", result.columns, result, sys.stdout)
    stats = result.stats
    rate = rate_text(stats.lines, stats.seconds)
    print(paint(f"{stats.lines:,} lines in {stats.seconds:.2f} s, {rate}\n", DIM, colour), flush=True)
    return result


def compare(question: Question, number: int, truth: Truth, rows: Rows) -> list[Check]:
    """Every row and every value against the truth; sums of some columns stand for them in print."""
    expected = question.expected(truth)
    checks = [
        figure(f"{number}. {name}", sum(row[at] for row in expected), sum(row[at] for row in rows))
        for name, at in question.figures.items()
    ]
    same = sum(map(_equal_rows, expected, rows)) if len(expected) == len(rows) else 0
    of = "rows, value by value" if not question.within else f"rows (percentiles within {QUANTILE_ERROR:.0%})"
    is_same = len(expected) == len(rows) == same
    return [*checks, Check(f"{number}. {of}", f"{len(expected)}", f"{same} equal", is_same)]


def _equal_rows(expected: Sequence[Any], row: Sequence[Any]) -> bool:
    return all(map(_equal, expected, row))


def _equal(expected: Any, value: Any) -> bool:
    if isinstance(expected, tuple) and isinstance(value, float):
        return bool(expected[0] <= value <= expected[1])
    return bool(expected == value)


def farewell(folder: Path) -> str:
    """What to try next with a kept log."""
    name = NGINX_CONF.partition("log_format ")[2].split()[0]
    logs, config = quote(f"{folder}/web*/access.log*"), quote(f"{folder}/nginx.conf")
    return (
        "Ask your own questions:\n"
        '  elfstream query "SELECT status, count(*) AS n FROM access GROUP BY status" \\\n'
        f"    {logs} --server-config {config} --format {name}"
    )

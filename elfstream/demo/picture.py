"""The live view of the demonstration as lines of text: rates, hot products, endpoints, what happened. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from elfstream.demo.referee import WINDOW_S
from elfstream.screen import sparkline
from elfstream.terminal import BOLD, DIM, GREEN, RED, YELLOW, cut, pad, paint, quantity, visible

COLUMNS_MAX = 110
SPARK_COLUMNS = 40
"""A play of 20 s, two samples a second."""
_SLOW_S, _FAILING = 1.0, 0.02
"""What an operator would look at: p99 and share of server errors."""


class ServerState(NamedTuple):
    """One webserver's agent: its rates (lines/s, oldest first), lines so far, bytes of its logs not read yet."""

    name: str
    rates: Sequence[float]
    lines: int
    unread_bytes: int


class State(NamedTuple):
    """Everything the view shows. `hot` and `endpoints` are rows of the newest window; `until_s` is None with --keep."""

    servers: Sequence[ServerState]
    rejected: int
    lag_s: float | None
    memory_bytes: int
    cpu_share: float
    hot: Sequence[Sequence[Any]]
    endpoints: Sequence[Sequence[Any]]
    logins: Sequence[Sequence[Any]]
    page: str
    """Where a browser sees the same."""
    events: Sequence[str]
    windows_right: int
    windows_wrong: int
    at_s: float
    until_s: float | None


def picture(state: State, columns: int, lines: int, colour: bool) -> list[str]:
    """The view, at most `columns` wide; tables give way when there are few `lines`."""
    columns = min(columns, COLUMNS_MAX)
    head = [
        _title(state, columns, colour),
        "",
        *_rates(state, columns, colour),
        _status(state, columns, colour),
        "",
    ]
    tail = [
        "",
        _logins(state, columns, colour),
        *(paint(cut(visible(text), columns), DIM, colour) for text in state.events),
        _verdict(state, colour),
    ]
    room = max(lines - 1 - len(head) - len(tail) - 2, 3)
    return [*head, *_tables(state, columns, room, colour), *tail]


def _title(state: State, columns: int, colour: bool) -> str:
    left = f"a fleet of four nodes answers; in a browser: {state.page}"
    at, until = state.at_s, state.until_s
    clock = f"{at:.0f} s" if until is None else f"{min(at, until):.0f} of {until:.0f} s"
    left = cut(left, columns - len(clock) - 2)
    return paint(pad(left, columns - len(clock)), BOLD, colour) + paint(clock, DIM, colour)


def _rates(state: State, columns: int, colour: bool) -> list[str]:
    """A line for each server and one for all, their bars on one scale each."""
    spark = max(min(SPARK_COLUMNS, columns - 45), 8)
    top = max((rate for server in state.servers for rate in server.rates), default=0.0)
    rows = [(server.name, server.rates, top, server.lines) for server in state.servers]
    longest = max((len(server.rates) for server in state.servers), default=0)
    padded = [[0.0] * (longest - len(server.rates)) + list(server.rates) for server in state.servers]
    together = [sum(rates) for rates in zip(*padded, strict=True)]
    rows.append(("all", together, 0.0, sum(server.lines for server in state.servers)))
    lines = []
    for name, rates, scale, count in rows:
        rate = quantity(rates[-1] if rates else 0.0)
        bars = paint(sparkline(rates, spark, scale), GREEN, colour)
        lines.append(
            f"{pad(name, 5)} {bars} {pad(rate, 7, True)} lines/s {pad(f'{count:,}', 14, True)} lines"
        )
    return lines


def _status(state: State, columns: int, colour: bool) -> str:
    lag = "-" if state.lag_s is None else f"{state.lag_s:.1f} s"
    parts = [
        f"unread {quantity(sum(server.unread_bytes for server in state.servers), 'B')}",
        f"windows final {lag} behind",
        f"rejected {state.rejected:,}",
        f"{quantity(state.memory_bytes, 'B')}",
        f"cpu {state.cpu_share:.0%}",
    ]
    return paint(cut(" · ".join(parts), columns), DIM, colour)


def _tables(state: State, columns: int, room: int, colour: bool) -> list[str]:
    """Hot products and endpoints side by side."""
    right_width = 50 if _has_slowest(state) else 41
    left_width = columns - right_width - 3
    left = _hot(state, left_width, colour)
    right = _endpoints(state, colour)
    height = min(max(len(left), len(right)), room + 2)
    blank = " " * left_width
    left += [blank] * (height - len(left))
    right += [""] * (height - len(right))
    return [f"{one}   {other}".rstrip() for one, other in zip(left[:height], right[:height], strict=True)]


def _hot(state: State, width: int, colour: bool) -> list[str]:
    name = 14
    bar = max(width - name - 9, 0)
    title = f"hot products, last {WINDOW_S} s"
    lines = [
        paint(pad(title, width), BOLD, colour),
        paint(pad("", name) + pad("views", 8, True), DIM, colour),
    ]
    lines[1] += " " * (width - name - 8)
    most = max((row[1] for row in state.hot), default=1)
    for product, views in state.hot:
        eighths = round(views / most * bar * 8)
        drawn = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
        text = pad(cut(visible(str(product)), name), name) + pad(f"{views:,}", 8, True)
        lines.append(text + " " + paint(pad(drawn, bar), GREEN, colour))
    return lines


def _has_slowest(state: State) -> bool:
    """Whether the job of the endpoints has been changed."""
    return bool(state.endpoints) and len(state.endpoints[0]) > 4


def _endpoints(state: State, colour: bool) -> list[str]:
    names = ["requests", "errors", "p99 s"]
    if _has_slowest(state):
        names.append("slowest")
    lines = [
        paint(f"endpoints, last {WINDOW_S} s", BOLD, colour),
        paint(pad("", 13) + "".join(pad(name, 9, True) for name in names), DIM, colour),
    ]
    for endpoint, requests, errors, p99, *slowest in state.endpoints:
        share = errors / requests
        failing = pad(f"{share:.1%}" if errors else "-", 9, True)
        slow = pad("NULL" if p99 is None else f"{p99:.3f}", 9, True)
        lines.append(
            pad(cut(visible(str(endpoint)), 13), 13)
            + pad(f"{requests:,}", 9, True)
            + paint(failing, RED if share >= _FAILING else "", colour and share >= _FAILING)
            + paint(slow, YELLOW, colour and p99 is not None and p99 >= _SLOW_S)
            + "".join(pad(f"{value:.3f}", 9, True) for value in slowest)
        )
    return lines


def _logins(state: State, columns: int, colour: bool) -> str:
    found = ", ".join(f"{visible(str(client))} {attempts:,}" for client, attempts in state.logins[:3])
    text = cut(f"hammering the login page: {found or 'nobody'}", columns)
    return paint(text, RED if state.logins else DIM, colour)


def _verdict(state: State, colour: bool) -> str:
    if state.windows_wrong:
        return paint(f"{state.windows_wrong} windows differ from what the generator meant", RED, colour)
    text = f"{state.windows_right} final windows compared with what the generator meant: all equal"
    return paint(text, GREEN, colour and state.windows_right > 0)


def summary(start: str, end: str, hot: Sequence[Sequence[Any]], endpoints: Sequence[Sequence[Any]]) -> str:
    """One window in one line, for pipes and logs; `endpoints` are those of the window or of the newest one before."""
    products = ", ".join(f"{visible(str(product))} {views:,}" for product, views in hot[:3])
    requests = sum(row[1] for row in endpoints)
    errors = sum(row[2] for row in endpoints)
    slowest = max(endpoints, key=lambda row: row[3] or 0.0, default=None)
    slow = "" if slowest is None else f", slowest {visible(str(slowest[0]))} p99 {slowest[3]:.3f} s"
    share = errors / requests if requests else 0.0
    return f"{start} to {end}  hot: {products}; {requests:,} requests, {share:.2%} errors{slow}"

"""`elfstream query --follow`: its options, and the choice between a live table and a pipe."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from elfstream.terminal import is_terminal

Command = TypeVar("Command", bound=Callable[..., Any])
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Duration(click.ParamType):  # type: ignore[type-arg]
    """500ms, 10s, 5m, 1h, 1d: seconds as float. `words` are accepted as they stand."""

    name = "duration"

    def __init__(self, *words: str) -> None:
        self._words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or value in self._words:
            return value
        digits = value.rstrip("abcdefghijklmnopqrstuvwxyz")
        unit = _UNITS.get(value[len(digits) :])
        try:
            seconds = float(digits) * (unit or 0.0)
        except ValueError:
            unit, seconds = None, 0.0
        if unit is None or not 0 <= seconds < 10 * 365 * 86400:
            also = "".join(f" or {word}" for word in self._words)
            self.fail(f"{value!r} is no duration; write 500ms, 10s, 5m, 1h or 1d{also}", param, ctx)
        return seconds


def follow_options(command: Command) -> Command:
    """--follow and what goes with it."""
    options = [
        click.option("--follow", "-F", is_flag=True, help="Go on with what is appended; on a terminal a live table."),
        click.option("--since", type=Duration("beginning"), metavar="1h|beginning",
                     help="With --follow: begin with lines of that age, or with all; default: new lines only."),
        click.option("--emit", type=Duration(), default="500ms", show_default=True,
                     help="With --follow: how often results are shown."),
        click.option("--delay", type=Duration(), default="2s", show_default=True,
                     help="With --follow: how far lines may be out of order."),
        click.option("--lateness", type=Duration(), default="1m", show_default=True,
                     help="With --follow: how late lines may revise a final window."),
        click.option("--idle", type=Duration(), default="5s", show_default=True,
                     help="With --follow: after so long without lines, windows close without them."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def run(
    sql: str,
    files: list[str],
    *,
    format_: str,
    server_config: Path | None,
    timezone: str | None,
    source: str,
    params: Mapping[str, object],
    output: str,
    timing: Mapping[str, Any],
) -> None:
    """Follows until Ctrl-C (or SIGTERM), then shows what is still open. Raises JobError, InputError."""
    from agent.files import Inputs
    from elfstream.embedded import compile_plan, resolve_format
    from elfstream.follow import FollowOptions, follow
    from elfstream.watchers import PipeWatcher, TableWatcher
    from job.watermark import Timing

    if "-" in files:
        raise click.UsageError("--follow follows files; standard input ends by itself, leave --follow out")
    format, _ = resolve_format(format_, Inputs(_present(files)), server_config, timezone)
    plan = compile_plan(sql, format, source, params)
    since = timing["since"]
    options = FollowOptions(
        emit_s=max(timing["emit"], 0.01),
        read_from="beginning" if since == "beginning" else "end",
        since_s=since if isinstance(since, float) else None,
        timing=Timing(**{f"{name}_us": int(timing[name] * 1e6) for name in ("delay", "idle", "lateness")}),
    )
    stopped = _on_signal()
    if output == "table" and is_terminal(sys.stdout):
        with TableWatcher(plan, sys.stdout) as watcher:
            query = follow(plan, format, files, watcher, options, stopped)
            watcher.emitted(query)
        return
    pipe = PipeWatcher(plan, output, sys.stdout)
    query = follow(plan, format, files, pipe, options, stopped)
    pipe.published(list(query.open_windows()))


def _present(files: list[str]) -> list[str]:
    """The files that are there already; a format cannot be found in those that may come."""
    from agent.errors import InputError
    from agent.files import expand

    present: list[str] = []
    for pattern in files:
        try:
            present += expand([pattern])
        except InputError:
            continue
    return present


def _on_signal() -> Callable[[], bool]:
    """A function that tells whether Ctrl-C or SIGTERM came."""
    heard: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda signum, _frame: heard.append(signum))
    return lambda: bool(heard)

"""`elfstream query --follow`: its options, and the choice between a live table and a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from elfstream.terminal import is_terminal
from job.durations import duration_s, duration_text

Command = TypeVar("Command", bound=Callable[..., Any])


class Duration(click.ParamType):  # type: ignore[type-arg]
    """500ms, 10s, 5m, 1h, 1d: seconds as float. `words` are accepted as they stand."""

    name = "duration"

    def __init__(self, *words: str) -> None:
        self._words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str) or value in self._words:
            return value
        try:
            return duration_s(value)
        except ValueError as error:
            also = "".join(f" or {word}" for word in self._words)
            self.fail(f"{error}{also}", param, ctx)


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
    stats: bool,
    quiet: bool,
    timing: Mapping[str, Any],
    memory: Mapping[str, Any],
) -> None:
    """Follows until Ctrl-C (or SIGTERM), then shows what is still open and what was read. `memory` are the arguments of
    `open_memory`. Raises JobError, InputError, CbtError."""
    from agent.files import Inputs
    from agent.log_format import AUTO, resolve_format
    from elfstream.awaiting import has_line, missing, present, wait_for_line
    from elfstream.embedded import compile_plan
    from elfstream.follow import FollowOptions, follow
    from elfstream.memory import open_memory
    from elfstream.report import report_follow
    from elfstream.stopping import stop_on_signals
    from elfstream.watchers import PipeWatcher, TableWatcher
    from job.settings import EMIT_MAX_US, EMIT_MIN_US
    from job.watermark import Timing

    emit_us = round(timing["emit"] * 1e6)
    if not EMIT_MIN_US <= emit_us <= EMIT_MAX_US:
        given, least, most = map(duration_text, (emit_us, EMIT_MIN_US, EMIT_MAX_US))
        raise click.BadParameter(f"{given} is not between {least} and {most}", param_hint="'--emit'")
    if not files or "-" in files:
        raise click.UsageError("--follow follows files; standard input ends by itself, leave --follow out")
    kept = open_memory(**memory)
    stopped, started = stop_on_signals(), time.monotonic()
    since, is_auto = timing["since"], format_.lower() == AUTO and server_config is None
    # What comes after this look is new, also when it is there by the time the tail looks.
    is_new = not (has_line(files) if is_auto else present(files))
    waited_for = missing(files)
    for note in waited_for:
        tell(note)
    if is_auto and is_new:
        if not waited_for:
            tell(f"waiting for the first line of {', '.join(files)}, to find its format; --format says it at once")
        wait_for_line(files, stopped)
        if stopped():
            return
    format, _ = resolve_format(format_, Inputs(present(files)), server_config, timezone)
    plan = compile_plan(sql, format, source, params)
    options = FollowOptions(
        emit_s=timing["emit"],
        read_from="beginning" if since == "beginning" or is_new else "end",
        since_s=since if isinstance(since, float) else None,
        timing=Timing(**{f"{name}_us": int(timing[name] * 1e6) for name in ("delay", "idle", "lateness")}),
    )
    if output == "table" and is_terminal(sys.stdout):
        with TableWatcher(plan, sys.stdout) as watcher:
            query = follow(plan, format, files, watcher, options, stopped, kept)
            watcher.emitted(query)
    else:
        pipe = PipeWatcher(plan, output, sys.stdout)
        query = follow(plan, format, files, pipe, options, stopped, kept)
        pipe.published(list(query.open_windows()))
    report_follow(query, time.monotonic() - started, stats, quiet)


def tell(text: str) -> None:
    """Says on standard error what people should know."""
    print(f"elfstream: {text}", file=sys.stderr, flush=True)

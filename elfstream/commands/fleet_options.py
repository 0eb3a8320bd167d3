"""Options of all commands that talk to a fleet, and of those about a job."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from elfstream.fleet_session import Fleet
from job.durations import duration_s
from master.asking import URL

EXIT_CODES = """
\b
The fleet is asked at --url or ELFSTREAM_URL (http://127.0.0.1:7117): any node will do.
Exit codes: 0 done, 1 failed, 2 wrong usage (also SQL and settings), 130 interrupted.
"""
"""The end of the help of every command that talks to a fleet."""

COMPLETION_S = 1.0
"""Whoever presses Tab waits no longer."""

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = [
    click.option("--url", envvar="ELFSTREAM_URL", default=URL, show_default=True, metavar="URL[,URL]",
                 help="A node of the fleet, or several: the first that answers is asked."),
    click.option("--token-file", envvar="ELFSTREAM_TOKEN_FILE", metavar="FILE",
                 help="Holds the fleet's token, where it wants one."),
    click.option("--cacert", envvar="ELFSTREAM_CACERT", metavar="FILE", help="The authority of the fleet's certificates."),
    click.option("--cert", envvar="ELFSTREAM_CERT", metavar="FILE", help="A certificate, where the fleet wants one."),
    click.option("--key", envvar="ELFSTREAM_KEY", metavar="FILE", help="Its key, unless it is in the same file."),
]  # fmt: skip


def _fleet(options: dict[str, Any]) -> Fleet:
    """Takes the options of a fleet out of all options of a command. Raises click.UsageError."""
    urls = tuple(part for part in (one.strip() for one in options.pop("url").split(",")) if part)
    if not urls:
        raise click.UsageError(f"--url names no node; write --url {URL}")
    return Fleet(
        urls, **{name: options.pop(name) or None for name in ("token_file", "cacert", "cert", "key")}
    )


def fleet_options(command: Command) -> Command:
    """--url, --token-file, --cacert, --cert, --key: the command gets them as `fleet`."""

    @functools.wraps(command)
    def with_fleet(**options: Any) -> Any:
        return command(fleet=_fleet(options), **options)

    wrapped: Any = with_fleet
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


def complete_job(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of jobs, where a node answers at once."""
    import asyncio

    values = {parameter.name: parameter.get_default(ctx) for parameter in ctx.command.params} | ctx.params
    fleet = _fleet(
        {name: values.get(name) for name in ("token_file", "cacert", "cert", "key")}
        | {"url": values["url"] or URL}
    )

    async def names() -> list[str]:
        async with asyncio.timeout(COMPLETION_S):
            return [one["name"] for one in await fleet.ask(lambda client: client.jobs(), patience_s=0.0)]

    try:
        return [CompletionItem(name) for name in asyncio.run(names()) if name.startswith(incomplete)]
    except (click.ClickException, TimeoutError):
        return []


def job_argument(command: Command) -> Command:
    """NAME: of a job that is there."""
    return click.argument("name", shell_complete=complete_job)(command)


def output_option(*styles: str, default: str = "table") -> Callable[[Command], Command]:
    """-o."""
    return click.option(
        "--output", "-o", type=click.Choice(styles or ("table", "json")), default=default, show_default=True,
        help="How it is written.",
    )  # fmt: skip


class Moment(click.ParamType):  # type: ignore[type-arg]
    """2025-11-28T19:30:00Z (without an offset: UTC), or -10m for so long ago: a datetime with its time zone."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            if value.startswith("-"):
                return datetime.now(UTC) - timedelta(seconds=duration_s(value[1:]))
            stamp = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is no time; write 2025-11-28T19:30:00Z, or -10m for ten minutes ago", param, ctx
            )
        return stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)


def setting_values(assignments: tuple[str, ...]) -> dict[str, bool | int | str | None]:
    """`name=value` texts as settings of a job; nothing behind the `=` is None: the default. Raises click.UsageError."""
    values: dict[str, bool | int | str | None] = {}
    for assignment in assignments:
        name, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals or not name:
            raise click.UsageError(f"--set {assignment}: write name=value, such as --set emit=1s")
        if name in values:
            raise click.UsageError(f"--set {name} is given twice")
        words: dict[str, bool | None] = {"": None, "true": True, "false": False}
        values[name] = (
            words[text] if text in words else int(text) if text.isascii() and text.isdigit() else text
        )
    return values

"""`elfstream job submit`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from elfstream.commands.fleet_options import EXIT_CODES, fleet_options, output_option, setting_values
from elfstream.commands.following import Duration
from elfstream.commands.job_text import api_parameters, job_text_options, sql_text

if TYPE_CHECKING:
    from elfstream.client import AsyncClient, AsyncJob
    from elfstream.fleet_session import Fleet

EPILOG = """\b
Examples:
  elfstream job submit errors "SELECT path, count(*) AS n FROM access WHERE status >= :least GROUP BY path" \\
      --param least=500 --set emit=1s
  elfstream job submit hot --file hot.sql --wait
  elfstream job submit hot --file hot.sql --set since=1h --url http://web1:7117,http://web2:7117
"""
ASK_S = 0.3


@click.command("submit", epilog=EPILOG + EXIT_CODES, short_help="Make a job.")
@click.argument("name")
@click.argument("sql", required=False)
@job_text_options
@click.option("--wait", is_flag=True, help="Come back when all agents that have the source have read of it.")
@click.option(
    "--wait-max",
    type=Duration(),
    default="30s",
    show_default=True,
    metavar="TIME",
    help="Wait no longer; exit code 1.",
)
@output_option()
@fleet_options
def command(
    fleet: Fleet, name: str, sql: str | None, file: str | None, set_: tuple[str, ...], param: tuple[str, ...],
    wait: bool, wait_max: float, output: str,
) -> None:  # fmt: skip
    """Make the job NAME, which answers SQL from now on. The same job once more is no error.

    Settings are emit, deadline, delay, idle, lateness, retain, since (durations: 500ms, 10s, 24h), expect, partitions
    (numbers), empty (true or false) and webhook (an address); docs/CLI.md says what each does.
    """
    text, settings, parameters = sql_text(sql, file), setting_values(set_), api_parameters(param)

    async def work(client: AsyncClient) -> tuple[Mapping[str, Any], int, list[str]]:
        checked = await client.validate(text, settings=settings, parameters=parameters)
        job = await client.submit(name, text, settings=settings, parameters=parameters)
        if wait:
            await taken_up(client, job, wait_max)
        shown = await job.show()
        return shown, await agents_with(client, shown["source"]), checked["warnings"]

    shown, able, warnings = fleet.run(work, job=name, sql=text)
    if output == "json":
        from elfstream.json_output import write_document

        write_document(shown)
        return
    from elfstream.views.jobs import joining_text, state_text

    for warning in warnings:
        click.echo(f"elfstream: note: {warning}", err=True)
    click.echo(f"{name}: {state_text(shown)}, revision {shown['revision']}, {joining_text(shown, able)}")
    if sys.stdout.isatty():
        click.echo(f"'elfstream job watch {name}' shows its results")


async def agents_with(client: AsyncClient, source: str) -> int:
    """How many are known to have it. Raises ApiError, UnreachableError."""
    return next((len(one["agents"]) for one in await client.sources() if one["name"] == source), 0)


async def taken_up(client: AsyncClient, job: AsyncJob, wait_s: float) -> None:
    """Until as many agents take part as have the source, or as the job expects. Nodes that do not answer, and jobs that
    nobody leads at the moment, are waited for, too. Raises FleetError, ApiError."""
    import asyncio

    from elfstream.client_errors import ApiError, UnreachableError
    from elfstream.fleet_session import FleetError, reason
    from elfstream.terminal import visible
    from elfstream.views.words import count, span
    from master.asking import RETRY_STATUSES

    loop = asyncio.get_running_loop()
    until = loop.time() + wait_s
    while True:
        try:
            shown = await job.show()
            able = await agents_with(client, shown["source"])
        except (ApiError, UnreachableError) as error:
            if isinstance(error, ApiError) and error.status not in RETRY_STATUSES:
                raise
            standing = f"not known to be taken up: {reason(error)}"
        else:
            wanted = shown["settings"]["expect"] or max(able, 1)
            there = shown["coverage"]["agents"] - len(shown["coverage"]["missing"])
            if there >= wanted and shown["state"] == "running":
                return
            standing = f"{shown['state']} with {there} of {count(wanted, 'agent')}"
            if shown["coverage"]["missing"]:
                quiet = ", ".join(visible(name or "an agent") for name in shown["coverage"]["missing"])
                standing += f" (nothing was read yet by {quiet})"
        if loop.time() >= until:
            raise FleetError(
                f"{job.name} is {standing} after {span(wait_s)}; it stays. "
                f"'elfstream nodes' shows who is there, 'elfstream job show {job.name}' how it goes on."
            )
        await asyncio.sleep(ASK_S)

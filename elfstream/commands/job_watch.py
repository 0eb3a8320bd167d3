"""`elfstream job watch`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from elfstream.commands.fleet_options import EXIT_CODES, fleet_options, job_argument, output_option

if TYPE_CHECKING:
    from elfstream.client import AsyncClient
    from elfstream.fleet_session import Fleet

EPILOG = """\b
Examples:
  elfstream job watch hot
  elfstream job watch hot --status final -o json | jq -c '.rows[]'
  elfstream job watch hot --after 0 -o json           everything that is kept first
"""
PATIENCE_S = 2.0
"""Of a live picture, which rather says that nobody answers."""


@click.command("watch", epilog=EPILOG + EXIT_CODES, short_help="Show results of a job as they are published.")
@job_argument
@click.option(
    "--after",
    type=click.IntRange(min=0),
    metavar="ID",
    help="Begin behind the result of that id; 0: with all that are kept.",
)
@click.option(
    "--status", type=click.Choice(["tentative", "final", "withdrawn"]), help="In a pipe: only such results."
)
@output_option()
@fleet_options
def command(fleet: Fleet, name: str, after: int | None, status: str | None, output: str) -> None:
    """Show the results of the job NAME as they are published, until Ctrl-C or until the job is removed.

    On a terminal the newest window is a table that is redrawn in place. In a pipe each result is a line; with -o json a
    document with its id, behind which --after goes on. Nodes may restart meanwhile: nothing is repeated or left out.
    """
    from elfstream.screen import can_draw

    if output == "table" and can_draw(sys.stdout):
        if status is not None:
            raise click.UsageError(
                "--status is for pipes; the table on a terminal shows the newest window, whatever it is"
            )
        from elfstream.fleet_watch import show_job

        fleet.run(lambda client: show_job(client, name, after, full=False), job=name, patience_s=PATIENCE_S)
        return
    fleet.run(lambda client: _lines(client, name, after, status, output), job=name)


async def _lines(client: AsyncClient, name: str, after: int | None, status: str | None, output: str) -> None:
    from elfstream.stopping import until_stopped
    from elfstream.views.windows import window_line
    from elfstream.window_writer import writer

    out = writer("ndjson", sys.stdout)

    async def write() -> None:
        async for result in client.job(name).watch(after=after, status=status):
            if output == "json":
                out.add(result)
            else:
                print(window_line(result))
            out.end()

    await until_stopped(write())

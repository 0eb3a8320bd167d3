"""`elfstream top`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from elfstream.commands.fleet_options import EXIT_CODES, complete_job, fleet_options, output_option

if TYPE_CHECKING:
    from elfstream.client import AsyncClient, Document
    from elfstream.fleet_session import Fleet

PATIENCE_S = 2.0
"""A live picture rather says that nobody answers."""


@click.command("top", epilog=EXIT_CODES, short_help="Watch all jobs of a fleet, or one, full screen.")
@click.argument("name", required=False, metavar="[JOB]", shell_complete=complete_job)
@output_option()
@fleet_options
def command(fleet: Fleet, name: str | None, output: str) -> None:
    """Watch all jobs of a fleet with their rates and lag; or the newest window of JOB, with the trend of each row over the
    last windows. q or Ctrl-C ends it. In a pipe, and with -o json, it is shown once.
    """
    from elfstream.screen import can_draw

    if output == "json":
        from elfstream.json_output import write_document

        write_document(fleet.run(lambda client: _documents(client, name), job=name or ""))
        return
    from elfstream import fleet_watch

    if not can_draw(sys.stdout):
        lines = fleet.run(lambda client: fleet_watch.picture(client, name), job=name or "")
        click.echo("\n".join(line.rstrip() for line in lines))
    elif name is None:
        fleet.run(fleet_watch.show_fleet, patience_s=PATIENCE_S)
    else:
        fleet.run(lambda client: fleet_watch.show_job(client, name), job=name, patience_s=PATIENCE_S)


async def _documents(client: AsyncClient, name: str | None) -> list[Document]:
    """All jobs in full, or one."""
    names = [one["name"] for one in await client.jobs()] if name is None else [name]
    return [await client.job(one).show() for one in names]

"""`elfstream job list`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from elfstream.commands.fleet_options import EXIT_CODES, fleet_options, output_option

if TYPE_CHECKING:
    from elfstream.fleet_session import Fleet


@click.command("list", epilog=EXIT_CODES, short_help="List all jobs.")
@output_option()
@fleet_options
def command(fleet: Fleet, output: str) -> None:
    """List all jobs of the fleet. 'elfstream top' shows their rates."""
    jobs = fleet.run(lambda client: client.jobs())
    if output == "json":
        from elfstream.json_output import write_document

        write_document(jobs)
        return
    if not jobs:
        click.echo("no job yet; 'elfstream job submit' makes one", err=True)
        return
    from elfstream.output import write
    from elfstream.views.jobs import LIST_COLUMNS, list_rows

    write("table", LIST_COLUMNS, list_rows(jobs, datetime.now(UTC)), sys.stdout)

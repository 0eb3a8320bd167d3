"""`elfstream job show`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from elfstream.commands.fleet_options import EXIT_CODES, fleet_options, job_argument, output_option

if TYPE_CHECKING:
    from elfstream.fleet_session import Fleet


@click.command("show", epilog=EXIT_CODES, short_help="Show one job: state, coverage, rates, lag, plan.")
@job_argument
@output_option()
@fleet_options
def command(fleet: Fleet, name: str, output: str) -> None:
    """Show the job NAME: SQL and settings, what its answers rest on, how far behind it is, who keeps it, and its plan."""
    job = fleet.run(lambda client: client.job(name).show(), job=name)
    if output == "json":
        from elfstream.json_output import write_document

        write_document(job)
        return
    from elfstream.terminal import has_colour, is_terminal, width
    from elfstream.views.jobs import job_lines

    columns = width() if is_terminal(sys.stdout) else None
    for line in job_lines(job, datetime.now(UTC), has_colour(sys.stdout), columns):
        click.echo(line)

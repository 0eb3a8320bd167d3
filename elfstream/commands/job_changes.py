"""`elfstream job changes`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from elfstream.commands.fleet_options import EXIT_CODES, fleet_options, job_argument, output_option

if TYPE_CHECKING:
    from elfstream.fleet_session import Fleet


@click.command("changes", epilog=EXIT_CODES, short_help="List the revisions of a job.")
@job_argument
@output_option()
@fleet_options
def command(fleet: Fleet, name: str, output: str) -> None:
    """List the revisions of the job NAME: when each was made, what it changed, and from which window on it counts."""
    changes = fleet.run(lambda client: client.job(name).changes(), job=name)
    if output == "json":
        from elfstream.json_output import write_document

        write_document(changes)
        return
    from elfstream.output import write
    from elfstream.views.jobs import CHANGE_COLUMNS, CHANGE_WHOLE, change_rows

    write("table", CHANGE_COLUMNS, change_rows(changes, datetime.now(UTC)), sys.stdout, CHANGE_WHOLE)

"""`elfstream job remove`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from elfstream.commands.fleet_options import EXIT_CODES, fleet_options, job_argument, output_option

if TYPE_CHECKING:
    from elfstream.fleet_session import Fleet


@click.command("remove", epilog=EXIT_CODES, short_help="Remove a job with its results.")
@job_argument
@output_option()
@fleet_options
def command(fleet: Fleet, name: str, output: str) -> None:
    """Remove the job NAME with all its results. Its name may be used again."""
    fleet.run(lambda client: client.job(name).remove(), job=name)
    if output == "json":
        from elfstream.json_output import write_document

        write_document({"name": name, "state": "removed"})
    else:
        click.echo(f"{name}: removed with its results")

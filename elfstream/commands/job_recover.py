"""`elfstream job recover`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from elfstream.commands.fleet_options import EXIT_CODES, fleet_options, job_argument, output_option
from elfstream.fleet_session import USAGE, FleetError

if TYPE_CHECKING:
    from elfstream.fleet_session import Fleet


@click.command("recover", epilog=EXIT_CODES, short_help="Go on from one node's log when the others are lost.")
@job_argument
@click.option("--confirm", default="", metavar="NAME", help="The name of the job once more.")
@output_option()
@fleet_options
def command(fleet: Fleet, name: str, confirm: str, output: str) -> None:
    """Let the job NAME go on from the log of the node at --url alone.

    For a job without a leader of whose members a majority is lost for good. What only they had is lost: lines that the
    agents' logs do not have any more are missing in its results. Where others come back after all, they begin anew.
    """
    if confirm != name:
        lost = "entries that only other members have are lost for good, and lines in them with those"
        advice = f"If they do not come back, write --confirm {name}."
        raise FleetError(f"--confirm: {lost}. {advice}", USAGE)
    if len(fleet.urls) != 1:
        raise FleetError("--url: name the one node whose log it is that the job goes on from", USAGE)
    shown = fleet.run(lambda client: client.job(name).recover(confirm), job=name)
    if output == "json":
        from elfstream.json_output import write_document

        write_document(shown)
        return
    click.echo(f"{name}: {shown['state']}, led by {shown['master']['address']}")

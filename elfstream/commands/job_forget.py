"""`elfstream job forget`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from elfstream.commands.fleet_options import EXIT_CODES, fleet_options, job_argument, output_option

if TYPE_CHECKING:
    from elfstream.fleet_session import Fleet


@click.command("forget", epilog=EXIT_CODES, short_help="Wait no longer for an agent that is gone.")
@job_argument
@click.argument("agent")
@output_option()
@fleet_options
def command(fleet: Fleet, name: str, agent: str, output: str) -> None:
    """Let the job NAME wait no longer for AGENT: a machine that does not come back holds up no window.

    What it has not sent is not in the results; when it does come back it begins anew.
    """
    shown = fleet.run(lambda client: client.job(name).forget(agent), job=name)
    if output == "json":
        from elfstream.json_output import write_document

        write_document(shown)
        return
    from elfstream.views.jobs import agents_text

    click.echo(f"{name}: goes on without {agent}; {agents_text(shown)}")

"""`elfstream nodes`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from elfstream.commands.fleet_options import EXIT_CODES, fleet_options, output_option

if TYPE_CHECKING:
    from elfstream.fleet_session import Fleet


@click.command("nodes", epilog=EXIT_CODES, short_help="List the nodes of a fleet.")
@output_option()
@fleet_options
def command(fleet: Fleet, output: str) -> None:
    """List the nodes of the fleet, as the one that is asked knows them."""
    nodes = fleet.run(lambda client: client.nodes())
    if output == "json":
        from elfstream.json_output import write_document

        write_document(nodes)
        return
    if not nodes:
        click.echo("no node is known yet: the one that answers has just begun and tells of itself soon")
        return
    from elfstream.output import write
    from elfstream.views.nodes import COLUMNS, node_rows

    write("table", COLUMNS, node_rows(nodes, datetime.now(UTC)), sys.stdout)

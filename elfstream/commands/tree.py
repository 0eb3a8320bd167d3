"""`elfstream tree`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from elfstream.commands.fleet_options import EXIT_CODES, fleet_options, job_argument, output_option

if TYPE_CHECKING:
    from elfstream.client import AsyncClient, Document
    from elfstream.fleet_session import Fleet


@click.command("tree", epilog=EXIT_CODES, short_help="Draw the reducer tree of a job.")
@job_argument
@click.option(
    "--depth",
    type=click.IntRange(min=0),
    metavar="N",
    help="Levels below the master; default: all that the node tells.",
)
@output_option()
@fleet_options
def command(fleet: Fleet, name: str, depth: int | None, output: str) -> None:
    """Draw the tree in which the nodes merge what the agents of the job NAME send: the master first, and who is missing."""

    async def work(client: AsyncClient) -> tuple[Document, Document, list[Document]]:
        job = client.job(name)
        return await job.tree(depth), await job.show(), await client.nodes()

    root, job, nodes = fleet.run(work, job=name)
    if output == "json":
        from elfstream.json_output import write_document

        write_document(root)
        return
    from elfstream.terminal import has_colour, is_terminal, width
    from elfstream.views.tree import tree_lines

    columns = width() if is_terminal(sys.stdout) else None
    kinds = {node["id"]: node["kind"] for node in nodes}
    for line in tree_lines(root, kinds, job["coverage"]["missing"], columns, has_colour(sys.stdout)):
        click.echo(line)

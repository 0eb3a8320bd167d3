"""`elfstream job results`."""

from __future__ import annotations

import sys
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from elfstream.commands.fleet_options import EXIT_CODES, Moment, fleet_options, job_argument, output_option

if TYPE_CHECKING:
    from elfstream.client import AsyncClient
    from elfstream.fleet_session import Fleet

EPILOG = """\b
Examples:
  elfstream job results hot --from -10m
  elfstream job results hot --from 2025-11-28T19:30:00Z --to 2025-11-28T20:00:00Z --status final -o csv
  elfstream job results hot --all -o ndjson | jq -c '{window, revision, status}'
"""


@click.command("results", epilog=EPILOG + EXIT_CODES, short_help="Write the windows of a job.")
@job_argument
@click.option(
    "--from",
    "start",
    type=Moment(),
    metavar="TIME",
    help="Windows that start at TIME or later; -10m: ten minutes ago.",
)
@click.option("--to", "end", type=Moment(), metavar="TIME", help="Windows that start before TIME.")
@click.option("--status", type=click.Choice(["tentative", "final", "withdrawn"]), help="Only such windows.")
@click.option("--all", "all_", is_flag=True, help="All editions of a window, not the latest alone.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="The first N windows.")
@output_option("table", "json", "csv", "ndjson", "markdown", "arrow")
@fleet_options
def command(
    fleet: Fleet, name: str, start: datetime | None, end: datetime | None, status: str | None, all_: bool,
    limit: int | None, output: str,
) -> None:  # fmt: skip
    """Write the windows of the job NAME that are kept, in order of time, the latest edition of each.

    json is one array of results, ndjson a result a line; csv and arrow begin each row with _start, _end, _revision and
    _status.
    """
    if output == "arrow":
        if sys.stdout.isatty():
            raise click.UsageError("-o arrow is no text; write it to a file or a pipe")
        if find_spec("pyarrow") is None:
            raise click.UsageError("-o arrow needs pyarrow: pip install 'elfstream[arrow]'")
    from elfstream.fleet_session import FleetError
    from elfstream.window_writer import ColumnsChangedError, writer

    async def work(client: AsyncClient) -> None:
        out = writer(output, sys.stdout)
        try:
            async for result in client.job(name).results(start, end, status=status, all=all_, limit=limit):
                out.add(result)
        except ColumnsChangedError as error:
            out.end()
            raise FleetError(str(error)) from None
        out.end()

    fleet.run(work, job=name)

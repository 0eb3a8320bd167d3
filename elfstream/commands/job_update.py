"""`elfstream job update`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from elfstream.commands.fleet_options import (
    EXIT_CODES,
    Moment,
    fleet_options,
    job_argument,
    output_option,
    setting_values,
)
from elfstream.commands.job_text import api_parameters, given_sql, job_text_options

if TYPE_CHECKING:
    from elfstream.client import AsyncClient, AsyncJob
    from elfstream.fleet_session import Fleet

EPILOG = """\b
Examples:
  elfstream job update errors --param least=400
  elfstream job update hot --file hot.sql --set emit=        (emit takes its default)
  elfstream job update hot --set lateness=5m --revision 3    (only if 3 is the current one)
"""
SETTLED_S = 10.0
ASK_S = 0.2


@click.command("update", epilog=EPILOG + EXIT_CODES, short_help="Change a job: SQL, settings, parameters.")
@job_argument
@click.argument("sql", required=False)
@job_text_options
@click.option(
    "--revision", type=click.IntRange(min=1), metavar="N", help="Refuse unless N is the current revision."
)
@click.option(
    "--start",
    type=Moment(),
    metavar="TIME",
    help="The first window of the change; default: the next that no line was read of.",
)
@output_option()
@fleet_options
def command(
    fleet: Fleet, name: str, sql: str | None, file: str | None, set_: tuple[str, ...], param: tuple[str, ...],
    revision: int | None, start: datetime | None, output: str,
) -> None:  # fmt: skip
    """Change the job NAME while it runs. What is not given stays.

    The change is a new revision that owns the windows from a time on; those before stay with the revisions that they have.
    What changed is shown.
    """
    text, settings, parameters = given_sql(sql, file), setting_values(set_), api_parameters(param)
    if text is None and not settings and not parameters:
        raise click.UsageError("say what shall change: SQL or --file, --set, --param")

    async def work(client: AsyncClient) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        job = client.job(name)
        before = await job.show()
        after = await job.change(
            sql=text, settings=settings or None, parameters=parameters or None, start=start,
            revision=before["revision"] if revision is None else revision,
        )  # fmt: skip
        return before, await _settled(job, after["revision"])

    before, change = fleet.run(work, job=name, sql=text or "")
    if output == "json":
        from elfstream.json_output import write_document

        write_document(change)
    else:
        _tell(name, before, change)
    if change["state"] == "failed":
        from elfstream.fleet_session import FleetError

        raise FleetError(
            f"revision {change['revision']} cannot run: {change['problem']}. The revision before goes on; "
            f"'elfstream job show {name}' shows it."
        )


async def _settled(job: AsyncJob, revision: int) -> Mapping[str, Any]:
    """The revision, once the agents have taken it up or it failed; at most SETTLED_S later."""
    import asyncio

    loop = asyncio.get_running_loop()
    until = loop.time() + SETTLED_S
    while True:
        state = (await job.show())["state"]
        change = next(one for one in await job.changes() if one["revision"] == revision)
        if state != "changing" or change["problem"] or loop.time() >= until:
            return change
        await asyncio.sleep(ASK_S)


def _tell(name: str, before: Mapping[str, Any], change: Mapping[str, Any]) -> None:
    from elfstream.terminal import has_colour
    from elfstream.views.jobs import differences
    from elfstream.views.words import moment

    found = differences(before, change, has_colour(sys.stdout))
    for line in found:
        click.echo(line)
    if change["revision"] == before["revision"]:
        click.echo(f"{name}: nothing changes, revision {change['revision']} stays")
        return
    start = "all windows" if change["start"] is None else f"windows from {moment(change['start'])} on"
    click.echo(
        f"{name}: revision {change['revision']}, for {start}"
        + ("" if found else "; nothing else than revision before")
    )

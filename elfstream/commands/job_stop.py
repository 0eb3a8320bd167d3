"""`elfstream job stop`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from elfstream.commands.fleet_options import EXIT_CODES, fleet_options, job_argument, output_option

if TYPE_CHECKING:
    from elfstream.client import AsyncClient, AsyncJob, Document
    from elfstream.fleet_session import Fleet

ASK_S = 0.3


@click.command("stop", epilog=EXIT_CODES, short_help="Stop a job; its results stay.")
@job_argument
@click.option(
    "--drain", is_flag=True, help="Read to the end as of now first, and wait until all windows are final."
)
@output_option()
@fleet_options
def command(fleet: Fleet, name: str, drain: bool, output: str) -> None:
    """Stop the job NAME: no agent reads for it any more, its results stay.

    With --drain the agents first read to the end of their logs as of now, and all windows become final. Ctrl-C ends the
    waiting, not the draining.
    """

    async def work(client: AsyncClient) -> Document:
        job = client.job(name)
        shown = await job.stop(drain=drain)
        return await _drained(job, shown) if drain else shown

    shown = fleet.run(work, job=name)
    if output == "json":
        from elfstream.json_output import write_document

        write_document(shown)
    elif drain:
        click.echo(f"{name}: stopped, all windows are final, {shown['results']:,} results published")
    else:
        click.echo(f"{name}: {shown['state']}")


async def _drained(job: AsyncJob, shown: Document) -> Document:
    """The job, once all is final. How far it is stands on standard error where that is a terminal."""
    import asyncio

    from elfstream.screen import Screen, can_draw
    from elfstream.terminal import cut

    seen = can_draw(sys.stderr)
    screen: Any = Screen(sys.stderr) if seen else nullcontext()
    with screen:
        while shown["state"] != "stopped":
            if seen:
                screen.draw([cut(line, screen.size[0]) for line in progress(job.name, shown)])
            await asyncio.sleep(ASK_S)
            shown = await job.show()
        if seen:
            screen.draw([])
    return shown


def progress(name: str, job: Document) -> list[str]:
    """How far the draining is, and whom it waits for."""
    from elfstream.terminal import visible
    from elfstream.views.words import count, moment

    upto = f", final up to {moment(job['watermark'])}" if job["watermark"] else ""
    lines = [f"{name}: {job['state']}, {count(job['windows_open'], 'window')} open{upto}"]
    for agent in (*job["coverage"]["missing"], *(one["agent"] for one in job["waits_for"])):
        lines.append(
            f"  waits for {visible(agent)}; 'elfstream job forget {name} {visible(agent)}' goes on without it"
        )
    return lines

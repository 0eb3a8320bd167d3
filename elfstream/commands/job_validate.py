"""`elfstream job validate`."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from elfstream.commands.fleet_options import EXIT_CODES, fleet_options, output_option, setting_values
from elfstream.commands.job_text import api_parameters, given_sql, job_text_options

if TYPE_CHECKING:
    from elfstream.client import AsyncClient, Document
    from elfstream.fleet_session import Fleet

EPILOG = """\b
Examples:
  elfstream job validate "SELECT path, count(*) AS n FROM access GROUP BY path"
  elfstream job validate --file hot.sql --set emit=1s
  elfstream job validate hot --set emit=50ms          what 'job update' would make of a job
"""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@click.command(
    "validate", epilog=EPILOG + EXIT_CODES, short_help="Say what a job would do, or what is wrong with it."
)
@click.argument("name_or_sql", required=False, metavar="[NAME|SQL]")
@job_text_options
@output_option()
@fleet_options
def command(
    fleet: Fleet,
    name_or_sql: str | None,
    file: str | None,
    set_: tuple[str, ...],
    param: tuple[str, ...],
    output: str,
) -> None:
    """Say what a job would do, without making it: its columns and plan, and what is seldom meant. NAME is a job that is
    there: what would the options make of it?

    The exit code is 2 when it cannot be compiled.
    """
    is_name = name_or_sql is not None and _NAME.fullmatch(name_or_sql) is not None
    text = given_sql(None if is_name else name_or_sql, file)
    if text is None and not is_name:
        raise click.UsageError('say what to look at: "SELECT ...", --file FILE, or the name of a job')
    settings, parameters = setting_values(set_), api_parameters(param)

    async def work(client: AsyncClient) -> tuple[Document, str]:
        if not is_name:
            assert text is not None
            return await client.validate(text, settings=settings, parameters=parameters), text
        job = client.job(name_or_sql or "")
        given = {"sql": text, "settings": settings or None, "parameters": parameters or None}
        shown = await job.validate({name: value for name, value in given.items() if value is not None})
        return shown, text or (await job.show())["sql"] or ""

    shown, asked = fleet.run(work, job=name_or_sql if is_name else "", sql=text or "")  # type: ignore[arg-type]
    if output == "json":
        from elfstream.json_output import write_document

        write_document(shown)
        if not shown["valid"]:
            sys.exit(2)
        return
    if not shown["valid"]:
        raise _wrong(shown, asked)
    _tell(shown)


def _wrong(shown: Mapping[str, Any], sql: str) -> click.ClickException:
    from elfstream.fleet_session import USAGE, FleetError, blamed
    from job.errors import SqlError

    texts = []
    for error in shown["errors"]:
        position, advice = error["position"], error["advice"] or ""
        if error["field"] == "sql":
            texts.append(str(SqlError(error["detail"], sql, position, advice)))
        else:
            texts.append(blamed(error["field"], error["detail"], advice))
    return FleetError("\n".join(texts), USAGE)


def _tell(shown: Mapping[str, Any]) -> None:
    from elfstream.terminal import DIM, has_colour, paint, visible
    from elfstream.views.words import count

    colour = has_colour(sys.stdout)
    click.echo(paint("plan", DIM, colour))
    for line in shown["plan"].rstrip("\n").splitlines():
        click.echo(f"  {visible(line)}")
    for warning in shown["warnings"]:
        click.echo(f"note: {warning}")
    click.echo(f"good: {count(len(shown['columns']), 'column')} from {shown['source']}")

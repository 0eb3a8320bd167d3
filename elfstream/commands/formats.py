"""`elfstream formats`: which formats have a name, and which fields a format has."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elfstream.commands.options import EXIT_CODES
from elfstream.terminal import BOLD, DIM, cut, has_colour, is_terminal, paint, visible, width

if TYPE_CHECKING:
    from job.formats import Format

EPILOG = """\b
Examples:
  elfstream formats
  elfstream formats combined                  the fields of one format
  elfstream formats '$remote_addr [$time_local] "$request" $status'
  elfstream formats haproxy -o json
  elfstream formats timed --server-config /etc/nginx/nginx.conf
"""


@click.command("formats", epilog=EPILOG + EXIT_CODES, short_help="List the formats that have a name.")
@click.argument("name", required=False, metavar="[F]")
@click.option(
    "--server-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="nginx.conf or httpd.conf; F is then the name of a log_format or LogFormat of it.",
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How formats are written; json is one object per line.",
)
def command(name: str | None, server_config: Path | None, output: str) -> None:
    """List the formats that have a name, with their other names and a sample line each; or the fields of the format F.

    F is a name or a verbatim nginx log_format, Apache LogFormat or Envoy format string.
    """
    from job import formats

    if name is None:
        if server_config is not None:
            raise click.UsageError("--server-config needs the name of a format in that file")
        shown = formats.names()
    else:
        shown = [formats.find(name, server_config=server_config)]
    if output == "json":
        for format in shown:
            click.echo(_json(format))
    elif name is None:
        _list(shown)
    else:
        _fields(shown[0])


def _json(format: Format) -> str:
    from msgspec.json import encode

    fields = {name: str(type) for name, type in format.fields.items()}
    row = {
        "name": format.name,
        "aliases": _aliases(format),
        "description": format.title,
        "sample": format.sample,
        "fields": fields,
    }
    return encode(row).decode()


def _aliases(format: Format) -> list[str]:
    """Other names of a format of the catalogue."""
    from job.formats.catalogue import ENTRIES

    return list(ENTRIES[format.name].aliases) if format.name in ENTRIES and not format.text else []


def _list(shown: list[Format]) -> None:
    colour = has_colour(sys.stdout)
    names_width = max(len(format.name) for format in shown) + 2
    for format in shown:
        also = f" (also {', '.join(_aliases(format))})" if _aliases(format) else ""
        click.echo(paint(format.name.ljust(names_width), BOLD, colour) + format.title + also)
        for line in format.sample.splitlines():
            text = "  " + line
            click.echo(paint(cut(visible(text), width()) if is_terminal(sys.stdout) else text, DIM, colour))


def _fields(format: Format) -> None:
    from elfstream.output import write
    from job.plan import Field
    from job.types import STRING

    rows = [(name, str(type)) for name, type in format.fields.items()]
    write("table", [Field("field", STRING), Field("type", STRING)], rows, sys.stdout)
    if format.open_fields:
        click.echo("and any other name: a dotted path into the document, as STRING")

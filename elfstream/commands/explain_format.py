"""`elfstream explain-format`: what a format sees in one line."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elfstream.commands.options import EXIT_CODES, format_option, server_config_option, timezone_option
from elfstream.terminal import BOLD, RED, has_colour, paint, pointed, readable, visible

if TYPE_CHECKING:
    from job.formats import Explanation, Format

EPILOG = """\b
Examples:
  elfstream explain-format "$(tail -n 1 access.log)"
  grep -m 1 odd access.log | elfstream explain-format --format combined -
  printf '#Fields: date time c-ip\\n2024-03-14 09:26:53 192.0.2.1' | elfstream explain-format -
  elfstream explain-format --format '$remote_addr "$request" $status' '192.0.2.1 "GET / HTTP/1.1" 200'
"""


@click.command("explain-format", epilog=EPILOG + EXIT_CODES, short_help="Show which field each part of a line is.")
@click.argument("line")
@format_option
@server_config_option
@timezone_option
def command(line: str, format_: str, server_config: Path | None, timezone: str | None) -> None:
    """Show which field each part of a line is, or where and why it stops fitting.

    LINE is the log line, quoted for the shell, or - for standard input. For formats whose columns are named by a #Fields
    line (w3c), that line goes in front. A line that does not fit is a failure.
    """
    data = sys.stdin.buffer.read() if line == "-" else os.fsencode(line)
    from job import formats

    format = _format(data, format_, server_config)
    if timezone is not None:
        format = formats.in_zone(format, timezone)
    explanation = formats.explain(format, data)
    _show(explanation)
    if not explanation.ok:
        sys.exit(1)


def _format(data: bytes, name: str, server_config: Path | None) -> Format:
    from job import formats
    from job.errors import FormatError

    if name.lower() != "auto":
        return formats.find(name, server_config=server_config)
    if server_config is not None:
        raise click.UsageError("--server-config needs the name of a format in that file: add --format NAME")
    try:
        return formats.detect(data).format
    except FormatError as error:
        raise click.ClickException(str(error)) from error


def _show(explanation: Explanation) -> None:
    from elfstream.output import write
    from job.plan import Field
    from job.types import STRING

    colour = has_colour(sys.stdout)
    format = explanation.format
    click.echo(
        f"{paint(format.name, BOLD, colour)}: {format.title}\n" if format.title else format.name + "\n"
    )
    columns = [Field(name, STRING) for name in ("field", "type", "columns", "value")]
    rows = _rows(explanation)
    if explanation.ok and format.open_fields:
        shown = {row[0] for row in rows}
        rows += [row for row in _document_rows(explanation.line) if row[0] not in shown]
    if rows:
        write("table", columns, rows, sys.stdout)
    if not explanation.ok:
        if rows:
            click.echo()
        label = f"rejected as {explanation.reason}: "
        click.echo(paint(label, RED, colour) + explanation.message)
        click.echo(pointed(explanation.line, explanation.position))


def _rows(explanation: Explanation) -> list[tuple[str, str, str, str | None]]:
    """A row per field; of a line that does not fit, the text that each step before the stop took."""
    fields = explanation.format.fields
    rows: list[tuple[str, str, str, str | None]] = []
    for step in explanation.steps:
        place = f"{step.start + 1}-{step.end}" if step.end > step.start + 1 else f"{step.start + 1}"
        if not step.values:
            rows.append((step.name, str(fields.get(step.name, "")), place, readable(step.text)))
        for name, value in step.values.items():
            type = fields.get(name)
            rows.append((name, "" if type is None else str(type), place, value_text(value, type)))
    return rows


def _document_rows(line: bytes) -> list[tuple[str, str, str, str | None]]:
    """The dotted paths of a JSON document, which a query may name like fields."""
    from msgspec import json

    rows: list[tuple[str, str, str, str | None]] = []

    def walk(path: str, value: Any) -> None:
        if isinstance(value, dict) and value:
            for key, inner in value.items():
                walk(f"{path}.{key}" if path else key, inner)
            return
        text = value if isinstance(value, str) else json.encode(value).decode()
        rows.append((path, "STRING", "", None if value is None else visible(text)))

    walk("", json.decode(line.decode("utf-8", "backslashreplace")))
    return rows


def value_text(value: Any, type: Any) -> str | None:
    """A value of a scan as text; None for NULL."""
    from job.times import time_of
    from job.types import Kind
    from job.value_texts import READABLE_TEXTS

    if value is None:
        return None
    if type is not None and type.kind is Kind.TIMESTAMP:
        value = time_of(value)
    return str(value) if type is None else READABLE_TEXTS[type.kind](value)

"""`elfstream parse`: logs to records."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elfstream.commands.options import (
    EXIT_CODES,
    files_or_stdin,
    format_option,
    kept_rejects,
    rejects_option,
    server_config_option,
    strict_option,
    timezone_option,
)
from elfstream.terminal import is_terminal

if TYPE_CHECKING:
    from elfstream.records import RecordReader

EPILOG = """\b
Examples:
  elfstream parse access.log | jq .user_agent
  elfstream parse --fields time,remote_addr,path -o csv *.gz > requests.csv
  elfstream parse --rejects bad.log access.log > /dev/null
  elfstream parse --format '$remote_addr "$request" $status' - < custom.log
"""


@click.command("parse", epilog=EPILOG + EXIT_CODES)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@format_option
@server_config_option
@timezone_option
@click.option(
    "--fields",
    default="",
    metavar="A,B",
    help="Only these fields, in this order, by any name that SQL takes; default: all.",
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["json", "csv"]),
    default="json",
    show_default=True,
    help="How records are written; json is one object per line.",
)
@strict_option
@rejects_option
@click.option("--quiet", "-q", is_flag=True, help="No progress and no warning about empty logs.")
def command(
    files: tuple[str, ...],
    format_: str,
    server_config: Path | None,
    timezone: str | None,
    fields: str,
    output: str,
    strict: bool,
    rejects: Path | None,
    quiet: bool,
) -> None:
    """Turn log lines into records with canonical field names.

    One record a line, in the order of the log. A FILE may be compressed (gzip, zstd, bzip2, xz), a glob in quotes, or -
    for standard input, which is read without any FILE too. Documents of the format json come out whole unless --fields
    are named.
    """
    paths = files_or_stdin(files)
    from agent.files import Inputs
    from agent.log_format import UNDETECTED, resolve_format
    from elfstream.embedded import paths_of
    from elfstream.output import csv_lines, json_lines, write_lines
    from elfstream.progress import ProgressBar
    from elfstream.records import RecordReader, chosen_fields

    inputs = Inputs(paths_of(paths))
    format, why = resolve_format(format_, inputs, server_config, timezone)
    names = [name.strip() for name in fields.split(",") if name.strip()]
    columns = chosen_fields(format, names, inputs)
    # Records on the terminal would run through the bar.
    is_bar_wanted = not quiet and not is_terminal(sys.stdout)
    with ProgressBar(is_bar_wanted) as bar, kept_rejects(rejects, paths) as kept:
        reader = RecordReader(inputs, format, columns, strict, kept, bar.listener)
        if output == "csv":
            lines = csv_lines(columns, reader.rows())
        elif format.name == "json" and not names:
            lines = reader.documents()
        else:
            lines = json_lines(columns, reader.rows(), decimals_as_numbers=True)
        write_lines(lines, sys.stdout)
    _report(reader, format.name, rejects is not None, why == UNDETECTED and not quiet)


def _report(reader: RecordReader, format_name: str, is_kept: bool, is_undetected: bool) -> None:
    from elfstream.report import misfit, rejected_text, undetected

    rejected = reader.counts.rejected
    if is_undetected:
        print(undetected(), file=sys.stderr)
    elif rejected.total() > reader.counts.parsed:
        print(misfit(format_name, rejected.total(), reader.counts.lines, reader.samples), file=sys.stderr)
    if rejected:
        print(rejected_text(rejected, is_kept), file=sys.stderr)

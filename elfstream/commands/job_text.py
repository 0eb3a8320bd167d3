"""The text of a job on the command line: SQL or --file, --set, --param."""

from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import click

from elfstream.commands.options import parameter_values

Command = TypeVar("Command", bound=Callable[..., Any])


def job_text_options(command: Command) -> Command:
    """--file, --set, --param."""
    options = [
        click.option("--file", "-f", metavar="FILE", help="Read the SQL from FILE; - is standard input."),
        click.option("--set", "-s", "set_", multiple=True, metavar="NAME=VALUE",
                     help="A setting, such as emit=1s; may be repeated. Nothing behind the = is the default."),
        click.option("--param", "-p", multiple=True, metavar="NAME=VALUE",
                     help="The value of :NAME in the SQL; may be repeated."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def sql_text(sql: str | None, file: str | None) -> str:
    """The SQL that is given in one of two ways. Raises click.UsageError, OSError."""
    text = given_sql(sql, file)
    if text is None:
        raise click.UsageError('say what the job shall answer: "SELECT ...", or --file FILE')
    return text


def given_sql(sql: str | None, file: str | None) -> str | None:
    """As `sql_text`; None when none is given."""
    if file is None:
        return sql
    if sql is not None:
        raise click.UsageError("the SQL is given twice: as an argument and with --file")
    try:
        return (sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()).decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"--file {file}: not UTF-8 at byte {error.start}") from None


def api_parameters(assignments: tuple[str, ...]) -> dict[str, int | float | str]:
    """`n=v` texts as JSON values: a number with a point is a DOUBLE, as JSON has no DECIMAL. Raises click.UsageError."""
    return {
        name: float(value) if isinstance(value, Decimal) else value
        for name, value in parameter_values(assignments).items()
    }

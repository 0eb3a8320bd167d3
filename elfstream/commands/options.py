"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import click
from click.shell_completion import CompletionItem

from elfstream.sizes import MEMORY_MAX, SPILL_MAX
from elfstream.terminal import is_terminal

EXIT_CODES = """
\b
Exit codes: 0 done, 1 failed, 2 wrong usage (also SQL and formats), 130 interrupted.
"""
"""The end of every command's help; docs/CLI.md has the whole story."""

Command = TypeVar("Command", bound=Callable[..., Any])


def _complete_format(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from job import formats

    names = ["auto", *(format.name for format in formats.names())]
    return [CompletionItem(name) for name in names if name.startswith(incomplete.lower())]


def format_option(command: Command) -> Command:
    """--format: a name, a verbatim format string, or auto."""
    return click.option(
        "--format",
        "-f",
        "format_",
        default="auto",
        show_default=True,
        metavar="F",
        shell_complete=_complete_format,
        help="A name ('elfstream formats' lists them) or a verbatim nginx log_format, Apache LogFormat or Envoy format "
        "string; auto finds it from the first lines.",
    )(command)


def server_config_option(command: Command) -> Command:
    """--server-config: where --format's name is defined."""
    return click.option(
        "--server-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="nginx.conf or httpd.conf; --format then names a log_format or LogFormat of it.",
    )(command)


def timezone_option(command: Command) -> Command:
    """--timezone: of times that are logged without an offset."""
    text = "Time zone of times logged without an offset: Europe/Berlin, +02:00; default: UTC."
    return click.option("--timezone", metavar="TZ", help=text)(command)


def strict_option(command: Command) -> Command:
    """--strict: no line may be rejected."""
    text = "Fail at the first line that does not fit the format."
    return click.option("--strict", is_flag=True, help=text)(command)


class Size(click.ParamType):  # type: ignore[type-arg]
    """64MiB, 1GiB, 500000: bytes as int."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from job.sizes import size_bytes

        try:
            return size_bytes(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def memory_options(command: Command) -> Command:
    """--memory-max, --spill-dir and --spill-max: where groups are kept."""
    options = [
        click.option("--memory-max", type=Size(), default=MEMORY_MAX, show_default=True, metavar="SIZE",
                     help="Memory for groups and rows; groups that do not fit go to disk."),
        click.option("--spill-dir", type=click.Path(path_type=str), metavar="DIR",
                     help="Where they go; default: the system's directory for temporary files."),
        click.option("--spill-max", type=Size(), default=SPILL_MAX, show_default=True, metavar="SIZE",
                     help="Disk that they may take."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def rejects_option(command: Command) -> Command:
    """--rejects: where rejected lines go."""
    path = click.Path(dir_okay=False, path_type=Path)
    text = "Write rejected lines to FILE, as they are."
    return click.option("--rejects", type=path, metavar="FILE", help=text)(command)


def kept_rejects(path: Path | None, files: tuple[str, ...]) -> AbstractContextManager[BinaryIO | None]:
    """The file that receives rejected lines, opened; None when they are only counted. Raises click.UsageError where it is
    one of the logs `files`: opening it would empty the log."""
    if path is None:
        return nullcontext()
    if path.exists():
        from agent.files import STDIN, expand

        if any(name != STDIN and path.samefile(name) for name in expand(files)):
            raise click.UsageError(f"--rejects {path} is one of the logs to read; name another file")
    return open(path, "wb")


def files_or_stdin(files: tuple[str, ...]) -> tuple[str, ...]:
    """`files`, or standard input when there are none and something is piped in. Raises click.UsageError."""
    if files:
        return files
    if is_terminal(sys.stdin):
        raise click.UsageError("name the log files to read, or - for standard input")
    return ("-",)


def parameter_values(assignments: tuple[str, ...]) -> dict[str, int | Decimal | str]:
    """`n=v` texts to values, by `parameter_value`. Raises click.UsageError."""
    values: dict[str, int | Decimal | str] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip().removeprefix(":")
        if not equals or not name.isidentifier():
            raise click.UsageError(f"--param {assignment}: write name=value, such as --param status=404")
        if name in values:
            raise click.UsageError(f"--param {name} is given twice")
        values[name] = parameter_value(text)
    return values


def parameter_value(text: str) -> int | Decimal | str:
    """An integer, else a decimal number with a point, else a string; quotes around it force a string and are dropped."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii():
        return text
    if digits.isdigit():
        return int(text)
    whole, point, fraction = digits.partition(".")
    if point and (whole + fraction).isdigit():
        return Decimal(text)
    return text


def spark_settings(assignments: tuple[str, ...]) -> dict[str, str]:
    """`spark.NAME=VALUE` texts of --conf. Raises click.UsageError."""
    found = dict(assignment.partition("=")[::2] for assignment in assignments)
    for name, value in found.items():
        if not name.startswith("spark.") or not value:
            raise click.UsageError(f"--conf {name}: write spark.NAME=VALUE, such as --conf spark.executor.memory=2g")
    return found

"""The command line: which commands there are, and how failures are told.

`elfstream --help` answers fast because this module imports click only; each command lives in a module of
`elfstream.commands` that is imported when it is named, and imports the machinery when it runs.

Exit codes: 0 done (also when the reader of a pipe had enough), 1 failed, 2 the command line, the SQL, a format or a
parameter is wrong, 130 interrupted.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import click

from elfstream.lazy_group import LazyGroup
from elfstream.terminal import BOLD, RED, has_colour, paint, pointed

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

SECTIONS = {
    "One machine": {
        "query": "elfstream.commands.query",
        "parse": "elfstream.commands.parse",
        "explain": "elfstream.commands.explain",
        "explain-format": "elfstream.commands.explain_format",
        "formats": "elfstream.commands.formats",
    },
    "Old logs, by Spark": {
        "backfill": "elfstream.commands.backfill",
    },
    "A fleet": {
        "job": "elfstream.commands.job",
        "nodes": "elfstream.commands.nodes",
        "tree": "elfstream.commands.tree",
        "top": "elfstream.commands.top",
        "sink": "elfstream.commands.sink",
        "join": "elfstream.commands.join",
    },
    "A node of it": {
        "node": "elfstream.commands.node",
        "check": "elfstream.commands.check",
        "certs": "elfstream.commands.certs",
    },
    "All the rest": {
        "demo": "elfstream.commands.demo",
        "version": "elfstream.commands.version",
    },
}
COMMANDS = {name: module for section in SECTIONS.values() for name, module in section.items()}


class Face(LazyGroup):
    """The group of all commands, in sections, whose failures are one plain message on standard error."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in SECTIONS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            rows = [(name, command.get_short_help_str(80)) for name, command in commands if command is not None]
            with formatter.section(title):
                formatter.write_dl(rows, col_max=max(map(len, COMMANDS)) + 2)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0].lstrip().upper().startswith("SELECT "):
            raise click.UsageError('to ask a question, write: elfstream query "SELECT ..." FILE...', ctx)
        return super().resolve_command(ctx, args)

    def main(  # type: ignore[override]  # the base has overloads by standalone_mode, which we always take over
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> Any:
        extra.pop("standalone_mode", None)
        try:
            code = super().main(args, prog_name or "elfstream", standalone_mode=False, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.ctx.get_help() if error.ctx else "", err=True)
            code = USAGE
        except click.UsageError as error:
            code = _told_usage(error)
        except click.ClickException as error:
            code = told(error.format_message(), error.exit_code)
        except click.Abort:
            code = INTERRUPTED
        sys.exit(code if isinstance(code, int) else DONE)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            value = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _silence_stdout()
            return DONE
        except KeyboardInterrupt:
            return INTERRUPTED
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            blamed = blame(error)
            if blamed is None:
                raise
            return told(*blamed)
        return value


def blame(error: Exception) -> tuple[str, int] | None:
    """What to say about a failure that is no bug of ours, and the exit code: USAGE for what was asked, FAILED for what
    was met."""
    from agent.errors import InputError
    from cbt.errors import CbtError, RunError
    from job.errors import JobError

    if isinstance(error, JobError):
        return str(error), USAGE
    if isinstance(error, InputError):
        return str(error), FAILED
    if _is_about_spark(error):
        return str(error), FAILED
    if isinstance(error, CbtError | RunError):
        return _as_options(str(error)), FAILED
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror, FAILED
    from elfstream import RejectedLineError

    if isinstance(error, RejectedLineError):
        return f"{error}\n{pointed(error.sample.text, error.sample.position)}", FAILED
    return None


def _is_about_spark(error: Exception) -> bool:
    """Whether it says itself what Spark or a work folder could not do. What never loaded them did not raise that."""
    places = ("master.spark.session", "master.spark.backfill", "master.spark.work_folder")
    names = ("SparkMissingError", "BackfillError", "WorkFolderError")
    return any(
        isinstance(error, getattr(sys.modules[place], name))
        for place, name in zip(places, names, strict=True)
        if place in sys.modules
    )


def _as_options(message: str) -> str:
    """A message about settings, with their names on the command line."""
    return re.sub(r"\b(memory|spill)_(max|dir)\b", r"--\1-\2", message)


def told(message: str, code: int) -> int:
    """Writes `elfstream: error: message` to standard error and returns `code`."""
    colour = has_colour(sys.stderr)
    label = paint("elfstream:", BOLD, colour) + " " + paint("error:", RED, colour)
    print(f"{label} {message}", file=sys.stderr)
    return code


def _told_usage(error: click.UsageError) -> int:
    told(error.format_message(), USAGE)
    if error.ctx is not None:
        print(f"try '{error.ctx.command_path} --help'", file=sys.stderr)
    return USAGE


def _silence_stdout() -> None:
    """The reader is gone: what is left in the buffer must not raise again when the interpreter flushes it."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from elfstream.commands.version import version_text

        click.echo(version_text())
        ctx.exit()


EPILOG = """\b
First steps:
  elfstream demo
  elfstream query "SELECT path, count(*) AS hits FROM access
                   GROUP BY path ORDER BY hits DESC LIMIT 10" access.log*

\b
Exit codes: 0 done, 1 failed, 2 wrong usage (also SQL and formats), 130 interrupted.
"""


@click.group(
    "elfstream",
    cls=Face,
    commands_at=COMMANDS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Exact SQL over web access logs.

    Reads plain, gzip, zstd, bzip2 and xz logs of nginx, Apache, IIS, HAProxy, Envoy, load balancers and more, finds the
    format by itself, and answers in seconds what you ask in SQL.
    """

"""`elfstream query`: a question in SQL, answered from files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from elfstream.commands import following
from elfstream.commands.following import follow_options
from elfstream.commands.options import (
    EXIT_CODES,
    files_or_stdin,
    format_option,
    kept_rejects,
    memory_options,
    parameter_values,
    rejects_option,
    server_config_option,
    strict_option,
    timezone_option,
)

EPILOG = """\b
Examples:
  elfstream query "SELECT status, count(*) FROM access GROUP BY status" access.log*
  elfstream query "SELECT path, sum(bytes) AS bytes FROM access WHERE status = :s
                   GROUP BY path ORDER BY bytes DESC LIMIT 5" --param s=200 -o csv *.gz
  zcat access.log.gz | elfstream query "SELECT count(DISTINCT remote_addr) FROM access" -
  elfstream query "SELECT window(time, '1 minute') AS w, count(*) AS hits FROM access
                   GROUP BY window(time, '1 minute')" access.log
  elfstream query --follow "SELECT path, count(*) AS hits FROM access GROUP BY path
                   ORDER BY hits DESC LIMIT 10" /var/log/nginx/access.log
  elfstream query "SELECT max(time) AS t FROM access" --format haproxy --timezone Europe/Berlin ha.log

\b
A --param value is an integer (7), a decimal (0.25) or a string (anything else); quote it
twice to keep digits a string: --param "zip='01234'".
docs/SQL.md has the functions, docs/FORMATS.md the fields, docs/CLI.md the output formats.
"""


@click.command("query", epilog=EPILOG + EXIT_CODES)
@click.argument("sql")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@format_option
@server_config_option
@timezone_option
@click.option(
    "--source", default="access", show_default=True, metavar="NAME", help="The table's name after FROM."
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json", "csv", "markdown"]),
    default="table",
    show_default=True,
    help="How rows are written; json is one object per line.",
)
@click.option("--param", multiple=True, metavar="N=V", help="The value of :n in the SQL; may be repeated.")
@click.option(
    "--stats", is_flag=True, help="Write what was read and rejected as one JSON object to standard error."
)
@click.option(
    "--threads",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Threads that read and count; default: one per core.",
)
@strict_option
@rejects_option
@follow_options
@memory_options
@click.option("--quiet", "-q", is_flag=True, help="No progress and no summary on a terminal.")
def command(
    sql: str,
    files: tuple[str, ...],
    format_: str,
    server_config: Path | None,
    timezone: str | None,
    source: str,
    output: str,
    param: tuple[str, ...],
    stats: bool,
    threads: int | None,
    strict: bool,
    rejects: Path | None,
    quiet: bool,
    follow: bool,
    memory_max: int,
    spill_dir: str | None,
    spill_max: int,
    **timing: Any,
) -> None:
    """Answer a question in SQL from log files.

    A FILE may be compressed (gzip, zstd, bzip2, xz), a glob in quotes, or - for standard input, which is read without
    any FILE too. The table is called access and has the log's fields as columns: remote_addr, time, method, path, status,
    bytes, user_agent, ...
    """
    if " " not in sql.strip() and os.path.exists(sql):
        raise click.UsageError(f'the SQL comes before the files: elfstream query "SELECT ..." {sql}')
    parameters = parameter_values(param)
    memory: dict[str, Any] = {"memory_max": memory_max, "spill_dir": spill_dir, "spill_max": spill_max}
    if follow:
        _refuse_with_follow(strict=strict, rejects=rejects, threads=threads)
        following.run(
            sql, list(files), format_=format_, server_config=server_config, timezone=timezone, source=source,
            params=parameters, output=output, stats=stats, quiet=quiet, timing=timing, memory=memory,
        )  # fmt: skip
        return
    _refuse_without_follow(timing)
    paths = files_or_stdin(files)
    import elfstream as elf
    from elfstream.output import write
    from elfstream.progress import ProgressBar
    from elfstream.report import report_query

    with ProgressBar(not quiet) as bar, kept_rejects(rejects, paths) as kept:
        result = elf.query(
            sql,
            paths,
            format=format_,
            source=source,
            params=parameters,
            server_config=server_config,
            timezone=timezone,
            threads=threads,
            strict=strict,
            rejects=kept,
            progress=bar.listener,
            **memory,
        )
    write(output, result.columns, result, sys.stdout)
    report_query(result, stats, quiet, rejects is not None)


def _refuse_without_follow(names: Iterable[str]) -> None:
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} is for logs that grow; add --follow, or leave it out")


def _refuse_with_follow(**options: object) -> None:
    for name, value in options.items():
        if value:
            raise click.UsageError(f"--{name} is for files that end; leave it out with --follow")

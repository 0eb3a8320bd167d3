"""`elfstream backfill`: a question about old logs, answered by Spark."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from elfstream.commands.fleet_options import Moment, fleet_options
from elfstream.commands.following import Duration
from elfstream.commands.options import (
    EXIT_CODES,
    format_option,
    memory_options,
    parameter_values,
    server_config_option,
    spark_settings,
    timezone_option,
)

if TYPE_CHECKING:
    from elfstream.backfill_targets import JobTarget
    from elfstream.backfilled import BackfillScope
    from elfstream.fleet_session import Fleet
    from elfstream.prepared_backfill import PreparedBackfill

EPILOG = """\b
Examples:
  elfstream backfill "SELECT path, count(*) AS hits FROM access GROUP BY path
                      ORDER BY hits DESC LIMIT 10" "/srv/logs/access.log*"
  elfstream backfill "SELECT window(time, '1 day') AS day, count(*) AS hits FROM access
                      GROUP BY window(time, '1 day')" --from 2025-01-01 --to 2025-04-01
                     --work-dir /srv/work -o csv "/srv/logs/*.gz"
  elfstream backfill "SELECT count(*) FROM access" --spark-master spark://big:7077 /mnt/logs/access.log
  elfstream backfill hot --from -30d "/srv/logs/*.gz"        the windows of the job hot that are older than it

\b
Spark needs Java 17 and pip install 'elfstream[spark]'; docs/SPARK.md has recipes for clusters.
A job is asked for at --url or ELFSTREAM_URL (http://127.0.0.1:7117): any node of its fleet will do.
"""


@click.command("backfill", epilog=EPILOG + EXIT_CODES, short_help="Answer a question about old logs, by Spark.")
@click.argument("question", metavar="SQL|JOB")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--from", "start", type=Moment(), metavar="TIME", help="Only windows that start then or later.")
@click.option("--to", "end", type=Moment(), metavar="TIME", help="Only windows that start earlier.")
@click.option(
    "--disorder", type=Duration(), metavar="TIME",
    help="A promise: lines are at most so much older than lines before them. With it, bytes that cannot have lines of "
    "--from to --to are not read.",
)
@format_option
@server_config_option
@timezone_option
@click.option("--source", default="access", show_default=True, metavar="NAME", help="The table's name after FROM.")
@click.option("--param", multiple=True, metavar="N=V", help="The value of :n in the SQL; may be repeated.")
@click.option(
    "--spark-master", default="local[*]", show_default=True, metavar="URL",
    help="Where Spark runs: local[N], spark://HOST:7077, yarn, k8s://...",
)
@click.option("--ship", is_flag=True, help="Send this program to executors where it is not installed.")
@click.option("--conf", multiple=True, metavar="K=V", help="A setting of Spark's own; may be repeated.")
@click.option(
    "--work-dir", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Keep there what is finished; the same command again goes on where a run was stopped.",
)
@click.option(
    "--parquet", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Write the windows as Parquet files below DIR; rows are shown only with -o.",
)
@click.option(
    "--output", "-o", type=click.Choice(["table", "json", "csv", "markdown"]), default="table", show_default=True,
    help="How rows are written; json is one object per line.",
)
@click.option("--stats", is_flag=True, help="Write what was read and rejected as one JSON object to standard error.")
@memory_options
@click.option("--quiet", "-q", is_flag=True, help="No progress and no summary on a terminal.")
@fleet_options
def command(
    fleet: Fleet, question: str, files: tuple[str, ...], output: str, stats: bool, quiet: bool, **given: Any
) -> None:
    """Answer a question in SQL from old log files, on all cores or machines that Spark has.

    The answer is that of 'elfstream query', row for row. Files are split among tasks; each may take --memory-max, and
    the executors must see the files under the same paths. Ctrl-C ends the work on all of them.

    With the name of a JOB, the windows from before it was made are computed from the files and become its results.
    """
    from elfstream.output import write
    from elfstream.progress import ProgressBar
    from elfstream.report import report_query
    from elfstream.spark_query import is_job, run

    settings = spark_settings(given["conf"])
    if given["ship"]:
        from master.spark.session import archive, archive_settings

        settings = {**archive_settings(archive()), **settings}
    are_rows_wanted = _is_given("output") or not (given["parquet"] or is_job(question))
    prepared, why, target = _prepared(fleet, question, files, given)
    try:
        with ProgressBar(not quiet) as bar:
            result = run(
                prepared,
                why,
                [] if target is None else [target],
                parquet=given["parquet"],
                spark_master=given["spark_master"],
                spark_conf=settings,
                progress=bar.listener,
                are_rows_wanted=are_rows_wanted,
            )
    except KeyboardInterrupt:
        _tell_kept(prepared, given["work_dir"])
        raise
    if are_rows_wanted:
        write(output, result.columns, result, sys.stdout)
    if prepared.run.report.plain_tasks:
        text = "executors lack the compiled kernels, so plain Python scanned the lines, slowly; see --ship"
        click.echo(f"elfstream: warning: {text}", err=True)
    if target is not None:
        click.echo(f"{question}: " + ", ".join(f"{count} {name}" for name, count in target.told.items()))
    report_query(result, stats, quiet, False)


def _prepared(
    fleet: Fleet, question: str, files: tuple[str, ...], given: dict[str, Any]
) -> tuple[PreparedBackfill, str, JobTarget | None]:
    """The backfill, why the format of the logs was chosen, and where windows of a job go."""
    from elfstream.embedded import compile_plan
    from elfstream.prepared_backfill import PreparedBackfill, range_us
    from elfstream.spark_query import format_of, is_job, prepared_for

    disorder = given["disorder"]
    options: dict[str, Any] = {name: given[name] for name in ("work_dir", "memory_max", "spill_dir", "spill_max")}
    options["disorder_us"] = None if disorder is None else round(disorder * 1e6)
    format, why = format_of(list(files), given["format_"], given["server_config"], given["timezone"])
    start, end = given["start"], given["end"]
    if not is_job(question):
        plan = compile_plan(question, format, given["source"], parameter_values(given["param"]))
        return PreparedBackfill(plan, format, list(files), asked_us=range_us(start, end), **options), why, None
    for name in ("source", "param"):
        if _is_given(name):
            raise click.UsageError(f"--{name} belongs to SQL; the job {question} has its own")
    scope = _scope(fleet, question, start, end)
    prepared = prepared_for(scope, format, list(files), **options)
    return prepared, why, _target(fleet, scope, prepared)


def _scope(fleet: Fleet, job: str, start: datetime | None, end: datetime | None) -> BackfillScope:
    return fleet.run(lambda client: client.job(job).backfill_scope(start, end), job=job)


def _target(fleet: Fleet, scope: BackfillScope, prepared: PreparedBackfill) -> JobTarget:
    from elfstream.backfill_targets import JobTarget

    return JobTarget(
        lambda windows: fleet.run(lambda client: client.job(scope.job).put_windows(windows), job=scope.job),
        scope.revision,
        prepared.columns,
    )


def _is_given(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def _tell_kept(prepared: PreparedBackfill, work_dir: Path | None) -> None:
    """What a run that was stopped leaves."""
    if work_dir is not None:
        tasks, stretches = prepared.run.kept_pieces()
        text = f"stopped; {work_dir} keeps {tasks} tasks of the scan and {stretches} stretches of time"
        click.echo(f"elfstream: {text}: the same command goes on from there", err=True)

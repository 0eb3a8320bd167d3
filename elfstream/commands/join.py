"""`elfstream join`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elfstream.commands.fleet_options import EXIT_CODES, Moment, fleet_options
from elfstream.commands.following import Duration
from elfstream.commands.options import spark_settings
from elfstream.fleet_session import FleetError

if TYPE_CHECKING:
    from elfstream.fleet_session import Fleet
    from master.spark.catalog import JobsCatalog
    from master.spark.joins import Change

EPILOG = """\b
Examples:
  elfstream join "SELECT h._start, h.path, h.hits, e.n FROM jobs.hot h JOIN jobs.errors e
                  ON h._start = e._start AND h.path = e.path ORDER BY 1, 2"
  elfstream join "SELECT h.w, h.path, e.n / h.hits AS share FROM jobs.hot h JOIN jobs.errors e
                  ON h.w = e.w AND h.path = e.path" --continuous --job share --checkpoint /var/lib/share

\b
Spark needs Java 17 and pip install 'elfstream[spark]'; docs/SPARK.md has recipes.
"""

FIRST, LAST = datetime(1900, 1, 1, tzinfo=UTC), datetime(9900, 1, 1, tzinfo=UTC)
"""Of windows that --from and --to leave open."""


@click.command("join", epilog=EPILOG + EXIT_CODES, short_help="Ask over results of several jobs, by Spark.")
@click.argument("sql")
@click.option("--from", "start", type=Moment(), metavar="TIME", help="Only windows of jobs that start then or later.")
@click.option("--to", "end", type=Moment(), metavar="TIME", help="Only windows of jobs that start earlier.")
@click.option("--continuous", is_flag=True, help="Go on with what the jobs publish, until Ctrl-C.")
@click.option("--once", is_flag=True, help="With --continuous: end when all that is there now is taken.")
@click.option("--every", type=Duration(), default="5s", show_default=True, metavar="TIME", help="How often it is looked.")
@click.option(
    "--checkpoint", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Where --continuous keeps how far it is; with --parquet DIR in DIR, unless given.",
)  # fmt: skip
@click.option(
    "--parquet", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Write windows as Parquet files, as 'elfstream sink' does.",
)  # fmt: skip
@click.option("--job", metavar="NAME", help="Make the answer the results of a job of that name, which has no sources.")
@click.option(
    "--output", "-o", type=click.Choice(["table", "json", "csv", "markdown"]), default="table", show_default=True,
    help="How rows are written that go to no other place.",
)  # fmt: skip
@click.option(
    "--spark-master", default="local[*]", show_default=True, metavar="URL",
    help="Where Spark runs: local[N], spark://HOST:7077, yarn, k8s://...",
)  # fmt: skip
@click.option("--conf", multiple=True, metavar="K=V", help="A setting of Spark's own; may be repeated.")
@fleet_options
def command(
    fleet: Fleet, sql: str, start: datetime | None, end: datetime | None, continuous: bool, once: bool, every: float,
    checkpoint: Path | None, parquet: Path | None, job: str | None, output: str, spark_master: str, conf: tuple[str, ...],
) -> None:  # fmt: skip
    """Ask in Spark's SQL over final results of jobs, each the table jobs.NAME, live and backfilled windows alike.

    Rows have _start, _end, _revision and _id of their window before the job's own columns. The window of an answer is its
    first window column, or its _start and _end: by it rows are replaced when a job revises its results.
    """
    _check(start, end, continuous, once, checkpoint, parquet, job)
    fleet.run(lambda client: client.jobs())
    with ExitStack() as stack:
        catalog = _catalog(stack, fleet, spark_master, conf)
        try:
            take = _taker(stack, fleet, sql, parquet, job, output)
            if continuous:
                folder = checkpoint or (parquet and parquet / "_elfstream" / "checkpoint")
                _follow(stack, catalog, sql, take, folder, None if once else every)
            else:
                from master.spark.joins import Change, joined

                spans = None if start is None and end is None else ((start or FIRST, end or LAST),)
                take(Change(joined(catalog.sql(sql, start=start, end=end)), spans))
        except Exception as error:
            message = failure(error)
            if message is None:
                raise
            raise FleetError(message) from None


def _check(
    start: datetime | None, end: datetime | None, continuous: bool, once: bool, checkpoint: Path | None,
    parquet: Path | None, job: str | None,
) -> None:  # fmt: skip
    if parquet is not None and job is not None:
        raise click.UsageError("--parquet and --job are two places: name one")
    if not continuous and (once or checkpoint is not None):
        raise click.UsageError("--once and --checkpoint are for --continuous")
    if continuous and (start is not None or end is not None):
        raise click.UsageError("--from and --to are for an answer at once; --continuous takes all windows")
    if continuous and job is not None and checkpoint is None:
        raise click.UsageError("--continuous --job needs --checkpoint DIR, where it is kept how far the join is")


def _catalog(stack: ExitStack, fleet: Fleet, spark_master: str, conf: tuple[str, ...]) -> JobsCatalog:
    settings = spark_settings(conf)
    try:
        from master.spark.lent_session import session_at
    except ImportError as error:
        raise FleetError(f"join needs Spark: pip install 'elfstream[spark]' ({error})") from None
    session = stack.enter_context(session_at(spark_master, settings, "elfstream join"))
    from master.spark.catalog import jobs_catalog

    given = {"tokenFile": fleet.token_file, "cacert": fleet.cacert, "cert": fleet.cert, "key": fleet.key}
    return jobs_catalog(session, ",".join(fleet.urls), **{name: value for name, value in given.items() if value})


def _taker(
    stack: ExitStack, fleet: Fleet, sql: str, parquet: Path | None, job: str | None, output: str
) -> Callable[[Change], None]:
    from elfstream.join_output import DerivedJobJoin, ParquetJoin, WrittenJoin

    if parquet is not None:
        from master.spark.parquet_sink import ParquetSink

        return ParquetJoin(stack.enter_context(ParquetSink(parquet))).take
    if job is not None:
        return DerivedJobJoin(stack.enter_context(fleet.connect()), job, sql).take
    return WrittenJoin(output, sys.stdout).take


def _follow(
    stack: ExitStack, catalog: JobsCatalog, sql: str, take: Callable[[Any], None], folder: Path | None,
    every_s: float | None,
) -> None:  # fmt: skip
    import tempfile

    from elfstream.stopping import stop_on_signals
    from master.spark.joins import ContinuousJoin

    if folder is None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="elfstream-join-")))
    is_stopped = stop_on_signals()
    try:
        query = ContinuousJoin(catalog, sql, take).start(folder, every_s)
        while not query.awaitTermination(1) and not is_stopped():
            pass
        query.stop()
    except Exception:
        if not is_stopped():  # else Java was ended together with us, as service managers do
            raise


def failure(error: Exception) -> str | None:
    """What to say of an error of Spark, the fleet or ours; None: it is none of these."""
    from elfstream.client_errors import ApiError, UnreachableError
    from master.spark.failures import told

    return str(error) if isinstance(error, ApiError | UnreachableError) else told(error)

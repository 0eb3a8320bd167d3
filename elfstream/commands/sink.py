"""`elfstream sink`."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from elfstream.commands.fleet_options import EXIT_CODES, complete_job, fleet_options
from elfstream.fleet_session import USAGE, FleetError
from job.durations import duration_s

if TYPE_CHECKING:
    from elfstream.client import AsyncClient
    from elfstream.fleet_session import Fleet
    from elfstream.lake_sink import SinkCounts
    from master.spark.parquet_sink import ParquetSink

EPILOG = """\b
Examples:
  elfstream sink hot /var/lake/hot                    until Ctrl-C; started again it goes on where it was
  elfstream sink hot /var/lake/hot --once             what there is by now, for cron
  duckdb -c "SELECT * FROM read_parquet('/var/lake/hot/date=*/hour=*/*.parquet', hive_partitioning = true)"
"""


class Age(click.ParamType):  # type: ignore[type-arg]
    """1h, or never."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta | None:
        if value == "never":
            return None
        try:
            return timedelta(seconds=duration_s(value))
        except ValueError as error:
            self.fail(f"{error} or never", param, ctx)


@click.command("sink", epilog=EPILOG + EXIT_CODES, short_help="Write final windows of a job as Parquet files.")
@click.argument("name", metavar="JOB", shell_complete=complete_job)
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--once", is_flag=True, help="End when all results that are there now are written.")
@click.option(
    "--by", type=click.Choice(["hour", "day"]), help="A folder an hour or a day; for a new DIR, default hour."
)
@click.option(
    "--compact-after", type=Age(), default="1h", show_default=True, metavar="DURATION",
    help="Put the small files of an hour (a day) together so long after its end, or never.",
)  # fmt: skip
@click.option(
    "--after", type=click.IntRange(min=0), metavar="ID",
    help="Begin behind the result of that id, not where DIR ends (a new DIR: with all that are kept).",
)  # fmt: skip
@fleet_options
def command(
    fleet: Fleet, name: str, folder: Path, once: bool, by: str | None, compact_after: timedelta | None, after: int | None
) -> None:
    """Write the final windows of the job JOB as Parquet files below DIR, as they are published, until Ctrl-C.

    Spark, DuckDB and polars read DIR at any time and find each window once, in its last edition, whatever was killed
    meanwhile. Where DIR ends is kept in it.
    """
    try:
        from elfstream.lake_sink import OtherJobError, SinkCounts
        from master.spark.errors import SinkError
        from master.spark.parquet_sink import ParquetSink
    except ImportError as error:
        raise FleetError(f"sink needs pyarrow: pip install 'elfstream[arrow]' ({error})") from None
    counts = SinkCounts()
    fleet.run(lambda client: client.job(name).show(), job=name)  # no folder is made for a job that is not there
    try:
        with ParquetSink(folder, by=by) as sink:
            fleet.run(
                lambda client: _follow(client, name, sink, counts, after=after, once=once, compact_after=compact_after),
                job=name,
            )
            click.echo(_summary(name, sink, counts), err=True)
    except OtherJobError as error:
        raise FleetError(str(error), USAGE) from None
    except SinkError as error:
        raise FleetError(str(error)) from None


async def _follow(client: AsyncClient, name: str, sink: ParquetSink, counts: SinkCounts, **options: Any) -> None:
    from elfstream.lake_sink import sink_results
    from elfstream.stopping import until_stopped

    await until_stopped(sink_results(client.job(name), sink, counts, **options))


def _summary(name: str, sink: ParquetSink, counts: SinkCounts) -> str:
    parts = [f"{counts.windows:,} windows"]
    parts += [f"{counts.withdrawn:,} withdrawn"] if counts.withdrawn else []
    parts += [f"{counts.compacted:,} small files put together"] if counts.compacted else []
    parts += [f"up to result {sink.position.after}"] if sink.position else []
    return f"{name}: {', '.join(parts)}" + (f"\n{counts.problem}" if counts.problem else "")

"""`elf.backfill`: a query over old logs on Spark, answered as `elf.query` answers it; or the old windows of a live job."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import InputError
from agent.files import Inputs
from agent.log_format import AUTO, resolve_format
from elfstream.embedded import Paths, Progress, compile_plan
from elfstream.prepared_backfill import Moment, PreparedBackfill, logs_of, range_us
from elfstream.result import Result
from elfstream.sizes import MEMORY_MAX, SPILL_MAX
from job.errors import FormatError, ParameterError
from job.formats import Format
from job.plan import Plan
from job.times import time_of
from job.types import STRING
from master.spark.backfill import SIZES, Sizes
from master.spark.lent_session import backfill_session
from master.spark.stretches import ALL_TIME
from master.stages import innermost

if TYPE_CHECKING:
    from elfstream.backfill_targets import Target
    from elfstream.backfilled import BackfillScope
    from elfstream.client_sync import Client

LOCAL = "local[*]"
SETTINGS = {"spark.driver.maxResultSize": "0"}
"""The rows of a result are bounded by memory_max."""


def is_job(question: str) -> bool:
    """Whether a question is the name of a job, not SQL: it is one word."""
    return len(question.split()) == 1


def backfill(
    question: str,
    paths: Paths,
    *,
    format: str = AUTO,
    source: str = "access",
    params: Mapping[str, object] | None = None,
    server_config: str | os.PathLike[str] | None = None,
    timezone: str | None = None,
    start: Moment | None = None,
    end: Moment | None = None,
    disorder_s: float | None = None,
    fleet: Client | None = None,
    parquet: str | os.PathLike[str] | None = None,
    spark_master: str = LOCAL,
    spark: Any = None,
    spark_conf: Mapping[str, str] | None = None,
    work_dir: str | os.PathLike[str] | None = None,
    progress: Callable[[Progress], None] | None = None,
    memory_max: str | int = MEMORY_MAX,
    spill_dir: str | os.PathLike[str] | None = None,
    spill_max: str | int = SPILL_MAX,
    sizes: Sizes = SIZES,
) -> Result:
    """Answers SQL over the log files `paths` on Spark: the rows of `query`, in its order, with its report of rejects.

    With the name of a job of `fleet` (`elf.connect`), computes the windows from before the job was made, of them those in
    [start, end), and makes them results of the job; sending them twice changes nothing.

    `spark` is a session to use; without one, one at `spark_master` is started with the settings `spark_conf`, and stopped at
    the end. Executors must see the files under the same paths. With `start` and `end` (datetime, or ISO text; UTC without
    an offset) only the windows that start in [start, end) are computed; `disorder_s` promises that no line is more than so
    much older than one before it, so that bytes outside may be left out. With `parquet` the windows are written to that
    folder, too. What is finished is kept in `work_dir`: the same call again goes on where one that was killed ended, and
    removes it at its end. Each task may take `memory_max` and, beyond it, `spill_max` in `spill_dir` of its executor;
    `sizes` is how the work is cut into tasks.

    Raises what `query` raises, SparkMissingError, WorkFolderError, BackfillError for what Spark fails with, SinkError, and
    what `fleet` raises; KeyboardInterrupt ends the Spark job.
    """
    asked_us = range_us(start, end)
    options: dict[str, Any] = {
        "disorder_us": None if disorder_s is None else round(disorder_s * 1e6), "work_dir": work_dir,
        "memory_max": memory_max, "spill_dir": spill_dir, "spill_max": spill_max, "sizes": sizes,
    }  # fmt: skip
    chosen, why = format_of(paths, format, server_config, timezone)
    targets: list[Target] = []
    if is_job(question):
        if fleet is None:
            raise ParameterError(
                f"{question!r} is the name of a job: say where with fleet=elf.connect(...), or write SQL"
            )
        from elfstream.backfill_targets import JobTarget

        job = fleet.job(question)
        scope = job.backfill_scope(_moment(asked_us[0]), _moment(asked_us[1]))
        prepared = prepared_for(scope, chosen, paths, **options)
        targets.append(JobTarget(job.put_windows, scope.revision, prepared.columns))
    else:
        plan = compile_plan(question, chosen, source, params)
        prepared = PreparedBackfill(plan, chosen, paths, asked_us=asked_us, **options)
    return run(prepared, why, targets, parquet, spark_master, spark, spark_conf, progress)


def format_of(
    paths: Paths, format: str, server_config: str | os.PathLike[str] | None, timezone: str | None
) -> tuple[Format, str]:
    """The format of the logs, and why it was chosen. Raises InputError, FormatError."""
    inputs = Inputs(logs_of(paths))
    if not inputs.paths:
        raise InputError(str(paths), "no files to read")
    return resolve_format(format, inputs, None if server_config is None else Path(server_config), timezone)


def prepared_for(scope: BackfillScope, format: Format, paths: Paths, **options: Any) -> PreparedBackfill:
    """The backfill of a job, as a node told it. Raises FormatError where the logs lack what the job reads, and as
    PreparedBackfill."""
    check_fields(scope.job, scope.plan, format)
    asked_us = range_us(scope.start, scope.end)
    return PreparedBackfill(scope.plan, format, paths, asked_us=asked_us, is_live=True, **options)


def check_fields(job: str, plan: Plan, format: Format) -> None:
    """Raises FormatError unless lines of `format` have what the plan of `job` reads."""
    known = format.fields
    for field in innermost(plan).fields:
        found = known.get(field.name, STRING if format.open_fields else None)
        if found != field.type:
            has = "has no such field" if found is None else f"has it as {found}"
            raise FormatError(
                f"job {job} reads {field.name} as {field.type}, and format {format.name} {has}: "
                "name the format that the agents of the job read these logs with"
            )


def run(
    prepared: PreparedBackfill,
    why: str,
    targets: Sequence[Target] = (),
    parquet: str | os.PathLike[str] | None = None,
    spark_master: str = LOCAL,
    spark: Any = None,
    spark_conf: Mapping[str, str] | None = None,
    progress: Callable[[Progress], None] | None = None,
    are_rows_wanted: bool = True,
) -> Result:
    """Runs the backfill; each window goes to the targets as soon as it is done, and into the result where its rows are
    wanted. Raises as `backfill`."""
    windows = []
    with ExitStack() as stack:
        targets = list(targets)
        if parquet is not None:
            from elfstream.backfill_targets import ParquetTarget

            target = ParquetTarget(Path(parquet), prepared.columns)
            stack.callback(target.close)
            targets.append(target)
        settings = {**SETTINGS, **(spark_conf or {})}
        live = spark or stack.enter_context(backfill_session(spark_master, settings))
        for done in prepared.windows(live, progress):
            for each in targets:
                each.put(done)
            if are_rows_wanted:
                windows.append(done.window)
        for each in targets:
            each.finish()
    stats = prepared.stats
    prepared.run.remove_kept()
    return Result(prepared.columns, windows, stats, prepared.format.name, why)


def _moment(micros: int) -> Any:
    """For a node; None is no bound."""
    return None if micros in ALL_TIME else time_of(micros)

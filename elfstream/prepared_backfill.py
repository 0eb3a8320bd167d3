"""A backfill ready to run: its question compiled, its logs found, its splits planned."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from agent.files import expand
from elfstream.embedded import Paths, Progress
from elfstream.memory import open_memory
from elfstream.result import RejectSample, ResultColumn, Stats
from elfstream.sizes import MEMORY_MAX, SPILL_MAX
from job.errors import ParameterError
from job.formats import Format
from job.plan import ColumnRef, Plan
from job.sizes import size_bytes
from job.times import micros_of
from job.types import TIMESTAMP
from master.spark.backfill import SIZES, Backfill, DoneWindow, Sizes
from master.spark.backfill_counts import Report
from master.spark.orders import Job
from master.spark.partials import kept_panes
from master.spark.splits import TimeRange, local_files, local_path, plan_splits
from master.spark.stretches import ALL_TIME
from master.stages import innermost

Moment = datetime | str


class PreparedBackfill:
    """A backfill whose logs are found and whose splits are planned; nothing runs yet.

    `is_live`: as a live job does it, the outer plans of nested ones see one window of the log at a time.
    Raises FormatError, ParameterError, InputError, MemoryCapError, SpillError, WorkFolderError.
    """

    def __init__(
        self,
        plan: Plan,
        format: Format,
        paths: Paths,
        *,
        asked_us: tuple[int, int] = ALL_TIME,
        disorder_us: int | None = None,
        is_live: bool = False,
        work_dir: str | os.PathLike[str] | None = None,
        memory_max: str | int = MEMORY_MAX,
        spill_dir: str | os.PathLike[str] | None = None,
        spill_max: str | int = SPILL_MAX,
        sizes: Sizes = SIZES,
    ) -> None:
        self.plan, self.format = plan, format
        self._names = {os.path.abspath(path): path for path in logs_of(paths)}
        files = local_files(list(self._names))
        spill = None if spill_dir is None else os.fspath(spill_dir)
        open_memory(memory_max, spill, spill_max)  # what it refuses is told before anything starts
        job = Job(plan, format, is_live, asked_us, size_bytes(memory_max), spill, size_bytes(spill_max), None)
        times = _times(plan, asked_us, disorder_us)
        splits = plan_splits(files, format, split_bytes=sizes.split_bytes, times=times)
        self.bytes_total = sum(split.stop - split.start for split in splits)
        self.run = Backfill(job, splits, None if work_dir is None else os.fspath(work_dir), sizes)
        self.columns = tuple(ResultColumn(output.name, output.expr.type) for output in plan.outputs)
        self._started = time.monotonic()

    def windows(self, spark: Any, progress: Callable[[Progress], None] | None = None) -> Iterator[DoneWindow]:
        """The finished windows, oldest first. `spark` is a session (master/spark/session.py)."""
        self._started = time.monotonic()

        def told(lines: int, done: int) -> None:
            if progress is not None:
                seconds = time.monotonic() - self._started
                progress(Progress(done, self.bytes_total, lines, seconds, ""))

        return self.run.windows(spark.sparkContext, told)

    @property
    def stats(self) -> Stats:
        """What was read, once the windows have come to their end."""
        report: Report = self.run.report
        return Stats(
            lines=report.lines,
            parsed=report.parsed,
            directives=report.directives,
            rejected_by=report.rejected,
            eval_errors=report.eval_errors,
            overflow=report.overflow,
            bytes=report.bytes,
            seconds=time.monotonic() - self._started,
            groups=report.groups,
            peak_memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            peak_tree_memory=report.peak_tree_memory,
            spilled_bytes=report.spilled_bytes,
            trailing_garbage=[self._names[path] for path in report.trailing_garbage],
            samples=[
                RejectSample(
                    self._names[reject.path], reject.line, reject.found.offset, reject.found.reason,
                    reject.found.position, reject.found.text, reject.found.size_bytes,
                )
                for reject in report.samples
            ],
        )  # fmt: skip


def _times(plan: Plan, asked_us: tuple[int, int], disorder_us: int | None) -> TimeRange | None:
    """The lines to read for windows that start in [first, end); None: all."""
    if asked_us == ALL_TIME:
        if disorder_us is not None:
            raise ParameterError(
                "disorder says which lines may be left out for a range of time; give start or end (--from, --to) as well"
            )
        return None
    window = innermost(plan).window
    if window is None:
        raise ParameterError(
            "start and end (--from, --to) choose windows of the log, and this query has none: "
            "write WHERE time >= ... AND time < ..., or GROUP BY window(time, ...)"
        )
    first, end = kept_panes(asked_us, window)
    if asked_us[1] <= asked_us[0]:
        raise ParameterError("end (--to) is not after start (--from), so there is no window between them")
    if window.time != ColumnRef("time", TIMESTAMP):
        return None
    return TimeRange(
        None if asked_us[0] == ALL_TIME[0] else first,
        None if asked_us[1] == ALL_TIME[1] else end,
        disorder_us,
    )


def logs_of(paths: Paths) -> list[str]:
    """The files that `paths` name: paths, globs and `file:` addresses. Raises InputError."""
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    return expand(local_path(one) for one in given)


def range_us(start: Moment | None, end: Moment | None) -> tuple[int, int]:
    """[start, end) as microseconds since 1970; None leaves it open. One without an offset is UTC. Raises ParameterError."""
    return _micros(start, "start", ALL_TIME[0]), _micros(end, "end", ALL_TIME[1])


def _micros(moment: Moment | None, name: str, default: int) -> int:
    if moment is None:
        return default
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise ParameterError(
                f"{name} is {moment!r}; write a time such as 2025-03-01 or 2025-03-01T06:00:00Z"
            ) from None
    return micros_of(moment)

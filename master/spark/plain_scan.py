"""The scan of a backfill where the kernels are not compiled (kernels.py): plain Python reads the same lines as the same
values, and the driver does all that follows. Some hundred times slower; nothing here imports a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from agent.errors import InputError
from job.errors import JobError
from master.spark.orders import Job, SplitTask
from master.spark.records import Failed, PaneCounts, PlainRows, encode, split_counts
from master.spark.split_scan import SplitScan


def scan(job: Job, tasks: Iterable[SplitTask], told: Callable[[int, int], None]) -> Iterator[bytes]:
    """The rows and the counts of tasks, as tasks.scan; failures are its last record."""
    try:
        for task in tasks:
            yield from _scanned(job, task, told)
    except (InputError, JobError) as error:
        yield encode(Failed(type(error).__name__, str(error), getattr(error, "path", "")))


def _scanned(job: Job, task: SplitTask, told: Callable[[int, int], None]) -> Iterator[bytes]:
    wanted = [field.name for field in job.chain[0].fields]
    for number, split in enumerate(task.splits, task.first):
        lines = SplitScan(split, job.format, wanted)
        for found in lines:
            yield encode(PlainRows(tuple(found.columns[name].to_list() for name in wanted), found.rows))
        told(lines.counts.lines, split.stop - split.start)
        yield encode(split_counts(number, lines))
    yield encode(PaneCounts({}, {}, 0, 0, 0, is_plain=True))

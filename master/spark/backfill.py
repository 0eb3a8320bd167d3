"""The driver of a backfill: scans in tasks, cuts by what they found, merges behind a shuffle, joins windows as they come.

Each plan of a nested query is a stage behind a shuffle of its own; the last one's rows come here, one stretch of time after
the other. What tasks and stretches made is kept in the work folder, if there is one: what it has is not done again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import msgspec

from agent.errors import InputError
from cbt.errors import MemoryCapError, RunError, SpillError
from job.errors import FormatError, JobError
from master.errors import MasterError
from master.spark import executor
from master.spark.actions import Actions
from master.spark.backfill_counts import BackfillCounts, Report
from master.spark.driver_merge import DriverMerge
from master.spark.merging import Joined
from master.spark.orders import Job, SplitTask
from master.spark.records import Failed, PartCounts, WindowRows, decode
from master.spark.splits import SPLIT_BYTES, Split
from master.spark.splits import tasks as split_tasks
from master.spark.stretches import ALL_TIME, PART_BYTES, Stretch, assignments, may_be_cut, stretches
from master.spark.tasks import memory_of
from master.spark.work_folder import WorkFolder, WorkFolderError, identity
from master.windows import FinishedWindow
from srt.frame_messages import PaneRun

TASK_BYTES_MAX = 512 << 20
"""Of log in one task: what a task that is lost costs, and how often progress is told."""
HERE_BYTES = 32 << 20
"""Packed groups of all tasks that the driver merges by itself: two or three seconds, less than Spark's own work for it."""
PLACES_MAX = 1000
"""Partitions in which large tasks leave their groups."""
_ERRORS: dict[str, type[Exception]] = {
    kind.__name__: kind for kind in (MemoryCapError, SpillError, RunError, FormatError, WorkFolderError)
}


class BackfillError(MasterError):
    """A backfill could not be done; says why."""


class Sizes(NamedTuple):
    """How the work is cut: bytes of log of a split, packed bytes of a task behind the shuffle, and up to which packed bytes
    there is none, since the driver merges them."""

    split_bytes: int = SPLIT_BYTES
    part_bytes: int = PART_BYTES
    here_bytes: int = HERE_BYTES


SIZES = Sizes()


class DoneWindow(NamedTuple):
    """A finished window and how many rows of the log are in it; 0 where it is one of an outer plan."""

    window: FinishedWindow
    lines: int


class Backfill:
    """One backfill. `report` and `kept` tell of it once `windows` has come to its end."""

    def __init__(
        self, job: Job, splits: Sequence[Split], work_dir: str | None = None, sizes: Sizes = SIZES
    ) -> None:
        """With `work_dir`, what is finished is kept there and taken from there. Raises WorkFolderError."""
        self.counts = BackfillCounts(job.chain[0].window)
        self.kept_stretches = 0
        """Stretches whose rows were there already."""
        self._folder = None
        if work_dir is not None:
            answer = msgspec.structs.replace(job, memory_max=0, spill_dir=None, spill_max=0)
            self._folder = WorkFolder.made(os.path.abspath(work_dir), identity(answer))
        self.job = msgspec.structs.replace(
            job, folder=None if self._folder is None else str(self._folder.path)
        )
        self._sizes = sizes
        self._splits = splits
        self._tasks = _numbered(splits, sizes.split_bytes)
        self._scan_id = identity([task.name for task in self._tasks])

    @property
    def report(self) -> Report:
        return self.counts.report

    def windows(
        self, context: Any, progress: Callable[[int, int], None] | None = None
    ) -> Iterator[DoneWindow]:
        """The windows, oldest first, as they are done. `progress` is called with the lines and bytes scanned so far.

        Raises InputError, MemoryCapError, SpillError, WorkFolderError as a query over the files would, BackfillError for
        what Spark failed with.
        """
        from pyspark import StorageLevel

        lines, size = context.accumulator(0), context.accumulator(0)
        actions = Actions(context, lambda: None if progress is None else progress(lines.value, size.value))
        if self._folder is None:  # else tasks are the same wherever they run, so that a rerun knows them
            self._tasks = _numbered(self._splits, self._task_bytes(context.defaultParallelism))
        data, packed = self.orders()
        small = self._sizes.here_bytes // max(1, len(packed))
        places = min(max(1, len(packed)), PLACES_MAX)
        scanned = (
            context.parallelize(packed, max(1, len(packed)))
            .mapPartitionsWithIndex(partial(executor.scan_placed, data, lines, size, small, places))
            .partitionBy(1 + places, executor.as_it_is)
            .map(executor.record_of)
        )
        sizes, here = self._scanned(actions, scanned)
        if self.report.plain_tasks:
            yield from self._merged_here(actions, scanned)
        elif here is not None:
            yield from self.merged_by(here)
        else:
            held: list[Any] = []
            try:
                last, records = len(self.job.chain) - 1, scanned
                for stage, plan in enumerate(self.job.chain):
                    if stage:
                        records = records.persist(StorageLevel.DISK_ONLY)
                        held.append(records)
                        sizes = self._count(actions, records, stage)
                    ranges = context.defaultParallelism * 4 if may_be_cut(plan, stage == last) else 1
                    asked = ALL_TIME if stage else self.job.asked_us
                    cuts = stretches(sizes, plan.window, ranges, self._sizes.part_bytes, asked)
                    if stage < last:
                        records = self._merged(data, records, stage, cuts)
                yield from self._finished(actions, data, records, cuts)
            finally:
                for each in held:
                    each.unpersist()

    def _task_bytes(self, parallel: int) -> int:
        """Of log for a task: two tasks for each core, since large tasks pass on fewer groups, within bounds."""
        share = sum(split.weight for split in self._splits) // (2 * parallel) + 1
        return max(self._sizes.split_bytes, min(share, TASK_BYTES_MAX))

    def orders(self) -> tuple[bytes, list[bytes]]:
        """What tasks are told: the job, and each its splits."""
        return msgspec.msgpack.encode(self.job), [msgspec.msgpack.encode(task) for task in self._tasks]

    def kept_pieces(self) -> tuple[int, int]:
        """How many tasks and stretches the work folder has now."""
        return (0, 0) if self._folder is None else (self._folder.count("task"), self._folder.count("windows"))

    def remove_kept(self) -> None:
        """Removes what the work folder has of this backfill: to be called once its answer is safe elsewhere."""
        if self._folder is not None:
            self._folder.remove()

    # stages

    def _scanned(self, actions: Actions, scanned: Any) -> tuple[dict[int, int], DriverMerge | None]:
        """Has the logs read; the packed bytes of panes, and all groups, where these came along."""
        found = self._known(
            actions,
            lambda: actions.context.runJob(scanned, executor.listed, [executor.TOLD])[0],
            0,
            "elfstream: reading logs",
        )
        sizes = self.counts.stage((decode(record) for record in found if executor.is_told(record)), 0)
        if self.report.plain_tasks:
            return sizes, None
        groups = [record for record in found if executor.is_content(record)]
        if sum(len(run.run) for run in map(decode, groups) if isinstance(run, PaneRun)) < sum(sizes.values()):
            return sizes, None
        here = DriverMerge(self.job, self._sizes.part_bytes)
        for record in groups:
            here.add(record)
        return sizes, here

    def _count(self, actions: Actions, records: Any, stage: int) -> dict[int, int]:
        """Has a later stage run; the packed bytes of its panes."""
        told = records.filter(executor.is_told)
        found = self._known(actions, told.collect, stage, f"elfstream: stage {stage + 1}")
        return self.counts.stage(map(decode, found), stage)

    def _known(
        self, actions: Actions, action: Callable[[], list[bytes]], stage: int, text: str
    ) -> list[bytes]:
        """What the work folder knows of a stage, or else what the action finds. Raises what a task failed with."""
        name = f"counts-{stage}-{self._scan_id}"
        known = None if self._folder is None else self._folder.read(name)
        if known is not None:
            return known
        found: list[bytes] = _run(actions, action, text)
        _raise_failed(decode(record) for record in found if executor.is_told(record))
        if self._folder is not None:
            self._folder.write(name, found)
        return found

    def _merged(self, data: bytes, records: Any, stage: int, cuts: Sequence[Stretch]) -> Any:
        parts = [msgspec.msgpack.encode(one) for one in assignments(cuts)]
        stretches_data = msgspec.msgpack.encode(cuts)
        routed = records.mapPartitions(partial(executor.route, data, stage, stretches_data))
        shuffled = routed.partitionBy(max(1, len(parts)), executor.as_it_is)
        return shuffled.mapPartitionsWithIndex(partial(executor.merge, data, stage, parts))

    # the last stage

    def _finished(
        self, actions: Actions, data: bytes, records: Any, cuts: Sequence[Stretch]
    ) -> Iterator[DoneWindow]:
        stage = len(self.job.chain) - 1
        joined = Joined(self.job.plan, memory_of(self.job))
        kept = {cut.name for cut in cuts if self._kept(cut) is not None}  # read again in its turn: all may be too much
        self.kept_stretches = len(kept)
        waves = self._waves(actions, data, records, [cut for cut in cuts if cut.name not in kept])
        ready: dict[str, list[bytes]] = {}
        for cut in cuts:
            while cut.name not in kept and cut.name not in ready:
                ready.update(next(waves))
            found = self._kept(cut) if cut.name in kept else ready.pop(cut.name)
            if found is None:
                raise WorkFolderError(f"{self._kept_name(cut.name)} is gone from the work folder: run the backfill again")
            yield from self._joined(joined, cut, found, stage)
        self.report.eval_errors += joined.eval_errors

    def _merged_here(self, actions: Actions, scanned: Any) -> Iterator[DoneWindow]:
        """Some executors have no kernels: what they scanned comes here, and all else with it."""
        merge = DriverMerge(self.job, self._sizes.part_bytes)

        def collect() -> None:
            for record in scanned.filter(executor.is_collected).toLocalIterator():
                _raise_failed([decode(record)] if not executor.is_content(record) else [])
                merge.add(record)

        _run(actions, collect, "elfstream: collecting rows")
        yield from self.merged_by(merge)

    def merged_by(self, merge: DriverMerge) -> Iterator[DoneWindow]:
        """The windows of content that was collected here."""
        joined = Joined(self.job.plan, memory_of(self.job))
        for cut, found in merge.finish(self.counts.stage):
            yield from self._joined(joined, cut, found, len(self.job.chain) - 1)
        self.report.eval_errors += joined.eval_errors

    def _joined(
        self, joined: Joined, cut: Stretch, found: Sequence[bytes], stage: int
    ) -> Iterator[DoneWindow]:
        rows: dict[int | None, list[bytes]] = {start: [] for start in cut.starts}
        for record in map(decode, found):
            if isinstance(record, WindowRows):
                rows[record.start_us].append(record.run)
            elif isinstance(record, PartCounts):
                self.counts.part(record, stage)
        for start, runs in rows.items():
            yield DoneWindow(joined.window(start, runs), 0 if stage else self.counts.rows(start))

    def _waves(
        self, actions: Actions, data: bytes, records: Any, cuts: Sequence[Stretch]
    ) -> Iterator[dict[str, list[bytes]]]:
        """The records of some stretches after others, by name; kept as soon as they are there."""
        numbered, part = [], 0
        for cut in cuts:
            numbered.append(msgspec.structs.replace(cut, part=part))
            part += cut.ranges
        merged = self._merged(data, records, len(self.job.chain) - 1, numbered)
        parallel = 2 * actions.context.defaultParallelism
        at = 0
        while at < len(numbered):
            wave = [numbered[at]]
            while at + len(wave) < len(numbered) and sum(cut.ranges for cut in wave) < parallel:
                wave.append(numbered[at + len(wave)])
            at += len(wave)
            parts = [cut.part + number for cut in wave for number in range(cut.ranges)]
            found = iter(
                _run(
                    actions,
                    partial(actions.context.runJob, merged, executor.listed, parts),
                    "elfstream: windows",
                )
            )
            done = {cut.name: [record for _ in range(cut.ranges) for record in next(found)] for cut in wave}
            for name, made in done.items():
                _raise_failed(decode(record) for record in made)
                if self._folder is not None:
                    self._folder.write(self._kept_name(name), made)
            yield done

    def _kept_name(self, stretch: str) -> str:
        return f"windows-{self._scan_id}-{stretch}"

    def _kept(self, cut: Stretch) -> list[bytes] | None:
        return None if self._folder is None else self._folder.read(self._kept_name(cut.name))


def _numbered(splits: Sequence[Split], task_bytes: int) -> list[SplitTask]:
    """Tasks of neighbouring splits; named by all that tells whether a file is still the same."""
    made, first = [], 0
    for group in split_tasks(splits, task_bytes):
        times = [_changed_ns(split.path) for split in group]
        made.append(SplitTask(f"task-{identity(group, times)}", first, group))
        first += len(group)
    return made


def _changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError as error:
        raise InputError(path, error.strerror or str(error)) from error


def _run(actions: Actions, action: Callable[[], Any], text: str) -> Any:
    with _spark_failures():
        return actions.run(action, text)


@contextmanager
def _spark_failures() -> Iterator[None]:
    """What Spark fails with becomes BackfillError."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise BackfillError(f"Spark could not do it: {_cause(str(error))}") from error


def _cause(text: str) -> str:
    """What Spark says it failed with, without the stacks."""
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")
    ]
    told = [line for line in lines if "Error" in line or "Exception" in line]
    return (told or lines or ["no reason was given"])[-1][:1000]


def _raise_failed(found: Iterable[Any]) -> None:
    for one in found:
        if isinstance(one, Failed):
            if one.kind == "InputError":
                raise InputError(one.path, one.message.removeprefix(f"{one.path}: "))
            raise _ERRORS.get(one.kind, JobError)(one.message)

"""What follows the scan of a backfill, done in the driver: for executors without kernels, which hand on plain rows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from cython_ext.column import Column
from master.spark import tasks
from master.spark.orders import Job
from master.spark.partials import pane_sizes
from master.spark.records import Failed, PlainRows, decode, encode
from master.spark.stretches import ALL_TIME, Stretch, assignments, stretches
from srt.frame_messages import PaneRun

Told = Callable[[Sequence[Any], int], Any]
"""Takes what the tasks of a stage counted, and the number of the stage."""


class DriverMerge:
    """Takes the content of all scans, then gives the rows of the last stage, one stretch after the other."""

    def __init__(self, job: Job, part_bytes: int) -> None:
        self._job, self._part_bytes = job, part_bytes
        self._memory = tasks.memory_of(job)
        self._phase = tasks.row_phase(job, self._memory)
        self._runs: list[bytes] = []

    def add(self, record: bytes) -> None:
        """Rows or groups of a task. Raises MemoryCapError, SpillError."""
        found = decode(record)
        if isinstance(found, PlainRows):
            fields = self._phase.plan.fields
            columns = {
                field.name: Column.from_list(int(field.type.kind), values)
                for field, values in zip(fields, found.columns, strict=True)
            }
            self._phase.process(columns, found.rows)
        elif isinstance(found, PaneRun):
            self._runs.append(record)

    def finish(self, told: Told) -> Iterator[tuple[Stretch, list[bytes]]]:
        """The stretches of the last stage, and the records of each. Raises as tasks do."""
        records = [*self._runs, *tasks.packed_panes(self._phase, self._memory)]
        for stage in range(len(self._job.chain) - 1):
            told(counted(records), stage)
            records = [record for _, part in self._parts(records, stage) for record in part]
        last = len(self._job.chain) - 1
        told(counted(records), last)
        yield from self._parts(records, last)

    def _parts(self, records: Sequence[bytes], stage: int) -> Iterator[tuple[Stretch, list[bytes]]]:
        runs = [run for run in map(decode, records) if isinstance(run, PaneRun)]
        asked = ALL_TIME if stage else self._job.asked_us
        cuts = stretches(pane_sizes(runs), self._job.chain[stage].window, 1, self._part_bytes, asked)
        parts: list[list[bytes]] = [[] for _ in cuts]
        for number, run in tasks.route(self._job, stage, tuple(cuts), map(encode, runs)):
            parts[number].append(run)
        for one in assignments(cuts):
            yield one.stretch, list(tasks.merge(self._job, stage, one, parts[one.stretch.part]))


def counted(records: Iterable[bytes]) -> list[Any]:
    """The records that say what was counted."""
    found = [decode(record) for record in records]
    return [one for one in found if not isinstance(one, PaneRun | PlainRows | Failed)]

"""What the tasks of a backfill do, as functions over bytes: the only part that runs on executors. Needs no session.

What they must know (orders.py) travels as msgpack: what a task does is told by data, and not by code that was pickled.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator

from agent.errors import InputError
from cbt.errors import CbtError, RunError
from cbt.memory import Memory, capped
from job.errors import JobError
from job.row_phase import RowPhase
from master.spark.merging import FinalMerge, StageMerge, WindowMerge
from master.spark.orders import Job, SplitTask
from master.spark.partials import kept_panes, packed, routed
from master.spark.records import Failed, PaneCounts, decode, encode, split_counts
from master.spark.split_scan import SplitScan
from master.spark.stretches import ALL_TIME, Assignment, Router, Stretch
from master.spark.work_folder import WorkFolder, WorkFolderError
from srt.frame_messages import PaneRun


class LostError(Exception):
    """A task whose work was lost cannot do it again."""


def memory_of(job: Job) -> Memory:
    """What one task may take."""
    return capped(job.memory_max, job.spill_dir or tempfile.gettempdir(), job.spill_max)


_BLAMED = (InputError, CbtError, RunError, JobError, WorkFolderError)


def guarded(records: Iterator[bytes]) -> Iterator[bytes]:
    """`records`, and where they end in an error that is no bug of ours, that as their last."""
    try:
        yield from records
    except _BLAMED as error:
        path = error.path if isinstance(error, InputError) else ""
        yield encode(Failed(type(error).__name__, str(error), path))


def scan(job: Job, tasks: Iterable[SplitTask], told: Callable[[int, int], None]) -> Iterator[bytes]:
    """The panes and the counts of tasks. `told` is called with the lines and bytes of each split that is done."""
    folder = None if job.folder is None else WorkFolder(job.folder)
    for task in tasks:
        kept = None if folder is None or not folder.is_here else folder.read(task.name)
        if kept is None:
            kept = [] if folder is not None and folder.is_here else None
            for record in _scanned(job, task, told):
                if kept is not None:
                    kept.append(record)
                yield record
            if folder is not None and kept is not None:
                folder.write(task.name, kept)
        else:
            told(0, sum(split.stop - split.start for split in task.splits))
            yield from kept


def _scanned(job: Job, task: SplitTask, told: Callable[[int, int], None]) -> Iterator[bytes]:
    memory = memory_of(job)
    phase = row_phase(job, memory)
    wanted = [field.name for field in phase.plan.fields]
    for number, split in enumerate(task.splits, task.first):
        lines = SplitScan(split, job.format, wanted)
        for rows in lines:
            phase.process(rows.columns, rows.rows)
        told(lines.counts.lines, split.stop - split.start)
        yield encode(split_counts(number, lines))
    yield from packed_panes(phase, memory)


def row_phase(job: Job, memory: Memory) -> RowPhase:
    """The row phase of the plan that reads the log, for the panes that are wanted."""
    phase = RowPhase(job.chain[0], memory)
    if phase.plan.window is not None and job.asked_us != ALL_TIME:
        phase.kept_us = kept_panes(job.asked_us, phase.plan.window)
    return phase


def packed_panes(phase: RowPhase, memory: Memory) -> Iterator[bytes]:
    """The panes of a phase as runs, and what it counted."""
    sizes: dict[int, int] = {}
    for run in packed(phase.take()):
        sizes[run.start_us] = sizes.get(run.start_us, 0) + len(run.run)
        yield encode(run)
    budget = memory.budget
    yield encode(
        PaneCounts(sizes, phase.pane_rows, phase.eval_errors, budget.peak_bytes, budget.spilled_bytes)
    )


def route(
    job: Job, stage: int, stretches: tuple[Stretch, ...], records: Iterable[bytes]
) -> Iterator[tuple[int, bytes]]:
    """The runs of `records` for the parts that need them: (number of the part, run).

    Raises LostError where a task that Spark ran again failed then: its counts are known, so its groups would be missing.
    """
    router = Router(stretches, job.chain[stage].window)
    for record in records:
        run = decode(record)
        if isinstance(run, Failed):
            raise LostError(f"{run.kind} in a task that ran again: {run.message}")
        if isinstance(run, PaneRun):
            for number, piece in routed(run, router):
                yield number, record if piece is run else encode(piece)


def merge(job: Job, stage: int, assignment: Assignment, runs: Iterable[bytes]) -> Iterator[bytes]:
    """What one part of a stage makes of its runs: panes of the next stage, or the rows of windows; and the counts."""
    memory, chain = memory_of(job), job.chain
    found = (run for run in map(decode, runs) if isinstance(run, PaneRun))
    starts = assignment.stretch.starts
    if stage + 1 < len(chain):
        merge = StageMerge(chain[stage], chain[stage + 1], memory)
        merge.reduce(found, starts)
        yield from packed_panes(merge.phase, memory)
        yield encode(merge.counts)
        return
    is_nested = job.plan.inner is not None
    final = WindowMerge(job.plan, memory) if job.is_per_window and is_nested else FinalMerge(job.plan, memory)
    yield from map(encode, final.rows(found, starts))
    yield encode(final.counts)

"""The whole system in one process: a query over files, from bytes to rows.

Threads share one reader behind a lock and nothing else: each has its own scanner, evaluator and panes, merged at the
end. The kernels run without the interpreter's lock, so threads scale while the reading is not the limit.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from agent.errors import InputError
from agent.files import Block, Inputs, expand
from agent.line_counts import LineCounts
from agent.log_format import AUTO, resolve_format
from agent.pipeline import SourcePipeline
from cbt.memory import Memory
from elfstream.memory import open_memory
from elfstream.rejects import kept_line
from elfstream.result import RejectSample, Result, ResultColumn, Stats
from elfstream.sizes import MEMORY_MAX, SPILL_MAX
from job.formats import Format
from job.panes import PaneStore
from job.plan import Plan
from job.row_phase import RowPhase
from job.sql import Schema, compile_sql
from master.stages import Stages, innermost
from master.windows import FinishedWindow

SAMPLES_MAX = 8
"""Rejects kept as samples of a query."""
SAMPLE_BYTES_MAX = 512
PROGRESS_INTERVAL_S = 0.1
"""Progress is told at most so often."""

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class Progress(NamedTuple):
    """How far a query is. `bytes_total` is None when an input has no size (a pipe); bytes are those on disk."""

    bytes_done: int
    bytes_total: int | None
    lines: int
    seconds: float
    path: str


class RejectedLineError(Exception):
    """A line was rejected and the query is strict. `sample` is the first one found."""

    def __init__(self, sample: RejectSample) -> None:
        self.sample = sample
        where = f"line {sample.line_number}, column {sample.position + 1}"
        super().__init__(f"{sample.path}: {where}: rejected as {sample.reason}")


def paths_of(paths: Paths) -> list[str]:
    """The files that `paths` names (see agent.files.expand). Raises InputError."""
    return expand([paths] if isinstance(paths, str | os.PathLike) else paths)


def schema_of(format: Format) -> Schema:
    """What a query may ask of a log of this format."""
    return Schema(dict(format.fields), format.open_fields, format.aliases)


class _Reader:
    """Hands out blocks of several files to threads, one at a time, and keeps account of lines."""

    def __init__(self, inputs: Inputs) -> None:
        self.lock = threading.Lock()
        self.bytes = 0
        self.lines = 0
        self.done_bytes = 0
        self.path = ""
        self.failed = False
        self.trailing_garbage: list[str] = []
        """Compressed files with bytes behind their end, which were ignored."""
        self._block_lines: list[tuple[int, int]] = []  # (file number, lines) of block i
        self._inputs = inputs
        self._blocks = self._read()

    def _read(self) -> Iterator[tuple[int, Block]]:
        for number, path in enumerate(self._inputs.paths):
            with self._inputs.open(path) as file:
                self.path = path
                before, bytes_before = self.done_bytes, self.bytes
                for block in file.blocks():
                    yield number, block
                    self.bytes = bytes_before + file.offset
                    self.done_bytes = before + file.done_bytes
                if file.garbage:
                    self.trailing_garbage.append(path)

    def next(self) -> tuple[int, int, Block] | None:
        """(block number, file number, block), or None at the end."""
        with self.lock:
            item = None if self.failed else next(self._blocks, None)
            if item is None:
                return None
            self._block_lines.append((item[0], 0))
            return len(self._block_lines) - 1, *item

    def scanned(self, number: int, lines: int) -> None:
        with self.lock:
            self._block_lines[number] = (self._block_lines[number][0], lines)
            self.lines += lines

    def lines_before(self, number: int) -> int:
        """Lines of the same file in the blocks before `number`; right once those were scanned."""
        file = self._block_lines[number][0]
        return sum(lines for other, lines in self._block_lines[:number] if other == file)


class _Worker:
    """One thread's share of a query."""

    def __init__(self, format: Format, plan: Plan, reader: _Reader, query: _Query) -> None:
        self.phase = RowPhase(plan, query.memory)
        self.pipeline = SourcePipeline(format, [self.phase], query.samples_max)
        self.samples: list[tuple[int, RejectSample]] = []
        self.error: BaseException | None = None
        self._reader, self._query, self._file = reader, query, -1

    def run(self) -> None:
        try:
            while (item := self._reader.next()) is not None:
                self._block(*item)
        except BaseException as error:
            self.error = error
            self._reader.failed = True

    def _block(self, number: int, file: int, block: Block) -> None:
        if file != self._file:
            self._file = file
            self.pipeline.next_file()
        batches = self.pipeline.feed(block.data, 0, block.stop)
        self._reader.scanned(number, sum(batch.lines for batch in batches))
        for batch in batches:
            for reject in batch.samples:
                self._rejected(
                    number, file, block, reject.offset, reject.size, reject.reason, reject.position
                )
        self._query.report()

    def _rejected(
        self, number: int, file: int, block: Block, offset: int, size: int, reason: str, position: int
    ) -> None:
        text = block.data[offset : offset + size]
        if self._query.rejects is not None:
            self._query.rejects.write(kept_line(text, reason, size + block.skipped))
        if len(self.samples) < SAMPLES_MAX or self._query.strict:
            line = block.data.count(b"\n", 0, offset) + 1  # within the block; completed when all are known
            path = self._query.inputs.paths[file]
            sample = RejectSample(
                path, line, block.offset + offset, reason, position, text[:SAMPLE_BYTES_MAX],
                size + block.skipped,
            )  # fmt: skip
            self.samples.append((number, sample))
            if self._query.strict:
                before = self._reader.lines_before(number)
                raise RejectedLineError(sample._replace(line_number=line + before))


class _Query:
    """The settings of a running query that its workers look at."""

    def __init__(
        self,
        inputs: Inputs,
        strict: bool,
        rejects: BinaryIO | None,
        progress: Callable[[Progress], None] | None,
        memory: Memory,
    ) -> None:
        self.inputs, self.strict, self.rejects, self.memory = inputs, strict, rejects, memory
        # All rejects of a block are needed to write them, the first to be strict about it.
        self.samples_max = 1 << 30 if rejects is not None else 1 if strict else SAMPLES_MAX
        self.reader = _Reader(inputs)
        self.started = time.monotonic()
        self._progress, self._reported = progress, self.started
        self._total = inputs.total_bytes()

    def report(self) -> None:
        """Calls the progress callback, at most ten times a second and from one thread at a time."""
        now = time.monotonic()
        if self._progress is None or now - self._reported < PROGRESS_INTERVAL_S:
            return
        self._reported = now
        reader = self.reader
        self._progress(
            Progress(reader.done_bytes, self._total, reader.lines, now - self.started, reader.path)
        )


def run(
    plan: Plan,
    format: Format,
    inputs: Inputs,
    *,
    threads: int = 1,
    strict: bool = False,
    rejects: BinaryIO | None = None,
    progress: Callable[[Progress], None] | None = None,
    memory: Memory | None = None,
) -> tuple[PaneStore, Stats]:
    """Reads `inputs` through the row phase of `plan`, its groups in `memory`. Returns its panes and what was read.

    `rejects` receives every rejected line as it stands in the log; with it, and for `strict`, one thread reads in order,
    as it does for formats whose lines change meaning along the file (w3c).
    Raises InputError, RejectedLineError, MemoryCapError, SpillError.
    """
    query = _Query(inputs, strict, rejects, progress, memory or Memory())
    ordered = strict or rejects is not None or (format.directives)
    count = 1 if ordered else max(1, threads)
    source = innermost(plan)
    workers = [_Worker(format, source, query.reader, query) for _ in range(count)]
    crew = [threading.Thread(target=worker.run, daemon=True) for worker in workers[1:]]
    for thread in crew:
        thread.start()
    workers[0].run()
    for thread in crew:
        thread.join()
    for worker in workers:
        if worker.error is not None:
            raise worker.error
    return _merged(workers, query)


def _merged(workers: Sequence[_Worker], query: _Query) -> tuple[PaneStore, Stats]:
    store, counts = workers[0].phase.store, LineCounts()
    samples: list[tuple[int, RejectSample]] = []
    for worker in workers:
        counts.merge(worker.pipeline.counts)
        samples += worker.samples
        if worker is not workers[0]:
            store.merge(worker.phase.store)
    stats = Stats(
        lines=counts.lines,
        parsed=counts.parsed,
        directives=counts.directives,
        rejected_by=counts.rejected,
        eval_errors=sum(worker.phase.eval_errors for worker in workers),
        bytes=query.reader.bytes,
        seconds=time.monotonic() - query.started,
        trailing_garbage=query.reader.trailing_garbage,
    )
    first = sorted(samples, key=lambda item: (item[0], item[1].offset))[:SAMPLES_MAX]
    stats.samples = [
        sample._replace(line_number=sample.line_number + query.reader.lines_before(number))
        for number, sample in first
    ]
    return store, stats


def compile_plan(
    sql: str, format: Format, source: str = "access", parameters: Mapping[str, object] | None = None
) -> Plan:
    """`sql` over logs of `format`, which the query calls `source`. Raises SqlError, ParameterError."""
    return compile_sql(sql, {source: schema_of(format)}, parameters or {})


def query(
    sql: str,
    paths: Paths,
    *,
    format: str = AUTO,
    source: str = "access",
    params: Mapping[str, object] | None = None,
    server_config: str | os.PathLike[str] | None = None,
    timezone: str | None = None,
    threads: int | None = None,
    strict: bool = False,
    rejects: BinaryIO | None = None,
    progress: Callable[[Progress], None] | None = None,
    memory_max: str | int = MEMORY_MAX,
    spill_dir: str | os.PathLike[str] | None = None,
    spill_max: str | int = SPILL_MAX,
) -> Result:
    """Answers `sql` over the log files `paths` (a path, a glob, "-" for standard input, or a sequence of them).

    `format` is a name (`elfstream formats` lists them), a verbatim nginx log_format or Apache LogFormat string, or "auto".
    `timezone` (Europe/Berlin, +02:00) is that of times that are logged without an offset, otherwise taken as UTC.
    `params` are the values of `:name` in the query. `threads` defaults to the processors this process may use.
    A line that does not match is counted in `stats.rejected_by` and sampled in `stats.samples`; with `strict` the first
    one raises RejectedLineError.

    Groups, and the rows of the result as columns, take at most `memory_max` (bytes, or a text such as "64MiB"). Groups that
    do not fit go to an unnamed file in `spill_dir` (None: the system's for temporary files) of at most `spill_max`.

    Raises SqlError, FormatError, ParameterError (all of them job.errors.JobError), InputError, MemoryCapError, SpillError.
    """
    memory = open_memory(memory_max, None if spill_dir is None else os.fspath(spill_dir), spill_max)
    files = paths_of(paths)
    if not files:
        raise InputError(str(paths), "no files to read")
    inputs = Inputs(files)
    config = None if server_config is None else Path(server_config)
    chosen, why = resolve_format(format, inputs, config, timezone)
    plan = compile_plan(sql, chosen, source, params)
    count = threads if threads is not None else len(os.sched_getaffinity(0))
    started = time.monotonic()
    store, stats = run(
        plan, chosen, inputs,
        threads=count, strict=strict, rejects=rejects, progress=progress, memory=memory,
    )  # fmt: skip
    windows = _finished(plan, store, stats)
    stats.seconds = time.monotonic() - started
    stats.peak_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    columns = tuple(ResultColumn(output.name, output.expr.type) for output in plan.outputs)
    return Result(columns, windows, stats, chosen.name, why)


def _finished(plan: Plan, store: PaneStore, stats: Stats) -> list[FinishedWindow]:
    """The windows of a run that has ended; what finishing them took is added to `stats`."""
    stages = Stages(plan, store.memory)
    windows = list(stages.finish(store))
    stats.eval_errors += stages.eval_errors
    stats.overflow += stages.overflow
    stats.groups = stages.groups
    stats.peak_tree_memory = store.memory.budget.peak_bytes
    stats.spilled_bytes = store.memory.budget.spilled_bytes
    return windows


def run_rows(
    plan: Plan, blocks: Iterable[tuple[Mapping[str, object], int]], memory: Memory | None = None
) -> Result:
    """Runs `plan` over columns instead of logs: (columns by field name, rows) per block. For tests and for rows that come
    from elsewhere."""
    phase = RowPhase(innermost(plan), memory)
    for columns, rows in blocks:
        phase.process(columns, rows)  # type: ignore[arg-type]
    stats = Stats(eval_errors=phase.eval_errors)
    windows = _finished(plan, phase.store, stats)
    columns_out = tuple(ResultColumn(output.name, output.expr.type) for output in plan.outputs)
    return Result(columns_out, windows, stats, "", "")

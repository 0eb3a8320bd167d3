"""Logs as a Spark table: `spark.read.format("elfstream_logs").option("format", ...).load(paths)`, in Arrow.

Spark does not tell a Python source which columns a query needs, so all are read unless a schema names those wanted. Options:

format        a name, a server's format string, or auto (docs/FORMATS.md); auto is the default
serverConfig  a file in which `format` names a format
timezone      of times that are logged without an offset
rejects       count (the default: see LogReads) or fail
splitBytes    of a task, 64MiB
disorder      a promise: lines are at most so much older (5s) than lines before them; then a condition on `time` leaves
              bytes unread (splits.py)
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from agent.errors import InputError
from agent.files import Inputs
from agent.line_counts import RejectSample
from agent.log_format import AUTO, resolve_format
from job.durations import duration_us
from job.errors import FormatError
from job.formats import Format, with_fields
from job.plan import Expr
from job.sizes import size_bytes
from job.types import STRING, Type
from master.spark.kernels import COMPILED
from master.spark.log_filters import RowFilter, condition_of, time_range
from master.spark.log_report import LogReads, SplitReport
from master.spark.session import PUSHDOWN
from master.spark.spark_types import spark_schema, types_of
from master.spark.split_scan import SplitScan
from master.spark.splits import SPLIT_BYTES, TIME, Split, local_files, plan_splits, tasks

NAME = "elfstream_logs"
OPTIONS = ("path", "paths", "format", "serverconfig", "timezone", "rejects", "splitbytes", "disorder")
SAMPLES_PER_SPLIT = 4


@dataclass(frozen=True)
class ReadOptions:
    """The options of a read, checked."""

    paths: tuple[str, ...]
    format: str
    server_config: str | None
    timezone: str | None
    fail: bool
    split_bytes: int
    disorder_us: int | None


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Raises ValueError, which names the option."""
    options = {name.lower(): value for name, value in given.items()}
    for name in options:
        if name not in OPTIONS:
            raise ValueError(f"there is no option {name!r}; there are {', '.join(OPTIONS[2:])}")
    paths = json.loads(options["paths"]) if "paths" in options else [options.get("path", "")]
    if not all(paths):
        raise ValueError("no paths: write .load('/var/log/nginx/access.log*')")
    rejects = options.get("rejects", "count")
    if rejects not in ("count", "fail"):
        raise ValueError(f"option rejects: {rejects!r} is neither count nor fail")
    disorder = options.get("disorder")
    return ReadOptions(
        tuple(paths),
        options.get("format", AUTO),
        options.get("serverconfig"),
        options.get("timezone"),
        rejects == "fail",
        _checked("splitBytes", size_bytes, options.get("splitbytes", SPLIT_BYTES)),
        None if disorder is None else _checked("disorder", duration_us, disorder),
    )


def _checked(name: str, read: Any, value: Any) -> int:
    try:
        return int(read(value))
    except ValueError as error:
        raise ValueError(f"option {name}: {error}") from None


def register(session: Any) -> LogReads:
    """Makes the source known to a session; what its scans read, and which lines were none, is in what this returns.

    Also switches on that Python sources are told conditions, which Spark does not do by itself.
    """
    reads = LogReads(session)

    class RegisteredLogs(LogSource):  # not importable, so it is sent with its attribute
        reports = reads.accumulator

    session.conf.set(PUSHDOWN, "true")
    session.dataSource.register(RegisteredLogs)
    return reads


class LogSource(DataSource):
    """One `load`. Errors of the user are raised when it is planned: InputError, FormatError, ValueError."""

    reports: Any = None

    def __init__(self, options: Mapping[str, str]) -> None:
        self._read = read_options(options)
        self._chosen: Format | None = None

    @classmethod
    def name(cls) -> str:
        return NAME

    def _format(self) -> Format:
        if self._chosen is None:
            read = self._read
            config = None if read.server_config is None else Path(read.server_config)
            inputs = Inputs(local_files(read.paths))
            self._chosen = resolve_format(read.format, inputs, config, read.timezone)[0]
        return self._chosen

    def schema(self) -> StructType:
        return spark_schema(self._format().fields)

    def reader(self, schema: StructType) -> LogReader:
        return LogReader(self._read, self._format(), types_of(schema), self.reports)


def fields_for(format: Format, asked: Mapping[str, Type]) -> tuple[Format, dict[str, str]]:
    """The format to scan with, and which of its fields each column is that was asked for. Names match without regard to
    case, aliases too; any other name is a field of open documents, of the type it is given. Raises FormatError."""
    aliases = format.aliases
    known = {name.lower(): name for name in [*aliases, *format.fields]}
    names: dict[str, str] = {}
    declared: dict[str, str] = {}
    for column, type_ in asked.items():
        found = known.get(column.lower())
        name = column if found is None else aliases.get(found, found)
        if found is None and format.open_fields and type_ != STRING:
            declared[name] = str(type_)
        elif found is not None and format.fields[name] != type_:
            raise FormatError(f"the field {name} of the format {format.name} is {format.fields[name]}, not {type_}")
        elif found is None and not format.open_fields:
            raise FormatError(f"format {format.name} has no field {column!r}; it has {', '.join(format.fields)}")
        names[column] = name
    return (with_fields(format, declared) if declared else format), names


class LogPartition(InputPartition):
    """A task: the splits it reads, numbered from `first`."""

    def __init__(self, scan: str, planned: int, first: int, splits: Sequence[Split]) -> None:
        super().__init__((scan, planned, first, tuple(splits)))


class LogReader(DataSourceReader):
    """One scan. Made where the query is planned, then sent to the tasks."""

    def __init__(self, read: ReadOptions, format: Format, asked: Mapping[str, Type], reports: Any) -> None:
        self._read, self._asked, self._reports = read, dict(asked), reports
        if not asked:
            raise ValueError("a schema without columns: name at least one")
        self._format, self._names = fields_for(format, self._asked)
        self._conditions: list[Expr] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        for filter in filters:
            condition = condition_of(filter, self._asked)
            if condition is None:
                yield filter
            else:
                self._conditions.append(condition)

    def partitions(self) -> Sequence[InputPartition]:
        column = next((column for column, name in self._names.items() if name == TIME), TIME)
        times = time_range(self._conditions, self._read.disorder_us, column)
        paths = local_files(self._read.paths)
        splits = plan_splits(paths, self._format, split_bytes=self._read.split_bytes, times=times)
        scan = f"{time.time_ns():020d}-{os.getpid()}"
        found, first = [], 0
        for task in tasks(splits, self._read.split_bytes):
            found.append(LogPartition(scan, len(splits), first, task))
            first += len(task)
        return found or [LogPartition(scan, 0, 0, ())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from master.arrow_types import arrow_schema
        from master.spark.arrow_batches import record_batch

        scan, planned, first, splits = partition.value
        schema = arrow_schema(self._asked.items())
        rows_kept = RowFilter(self._conditions)
        for number, split in enumerate(splits, first):
            found = SplitScan(split, self._format, list(self._names.values()), SAMPLES_PER_SPLIT)
            for block in found:
                self._check(found.samples)
                columns, rows = rows_kept.kept(
                    {column: block.columns[name] for column, name in self._names.items()}, block.rows
                )
                if rows:
                    yield record_batch([columns[name] for name in self._asked], schema, rows)
            self._check(found.samples)
            if self._reports is not None:
                self._reports.add({scan: {number: _report(found, planned)}})

    def _check(self, samples: Sequence[RejectSample]) -> None:
        if self._read.fail and samples:
            first = samples[0]
            text = first.text.decode("utf-8", "backslashreplace")
            where = f"line at byte {first.offset}, column {first.position + 1}"
            raise InputError(first.path, f"{where}: rejected as {first.reason}: {text}")


def _report(scan: SplitScan, planned: int) -> SplitReport:
    counts = scan.counts
    return SplitReport(
        planned,
        counts.lines,
        counts.parsed,
        counts.directives,
        dict(counts.rejected),
        tuple(scan.samples),
        not COMPILED,
        scan.split.path if scan.garbage else "",
    )

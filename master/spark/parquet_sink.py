"""Final windows as a folder of Parquet files that Spark, DuckDB and polars read: each window once, in its last edition.

    DIR/date=2025-11-28/hour=19/20251128T193000Z-20251128T193010Z-r1.parquet
    DIR/_elfstream/    position.json, folder.json, lock, staging/

Whatever stops the process, at every moment each window is in one file. A file is written in staging/, made durable and
renamed to where it belongs. A later edition is renamed over the file that has the earlier one, and that file then gets its
new name. Small files of a partition are put together in a folder of staging/, which then changes places with the partition
in one step (`renameat2`, Linux). A withdrawn window stays as one without rows, so that nothing older can come back. Only one
process writes at a time. What is left in staging/ by a crash means nothing and is removed.
"""

from __future__ import annotations

import fcntl
import itertools
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import msgspec
import pyarrow
from pyarrow import compute, parquet

from job.times import micros_of, time_of
from job.types import BIGINT, STRING, TIMESTAMP, Kind, Type
from master.arrow_rows import Columns, arrow_table
from master.arrow_types import STAMP, arrow_schema
from master.column_names import free_names
from master.spark.errors import SinkError
from master.spark.sink_disk import SinkDisk
from master.spark.window_files import (
    PARTITIONS,
    SUFFIX,
    Held,
    PartitionFiles,
    WindowId,
    decoded_windows,
    encoded_windows,
    file_name,
    held_in,
    partition_end,
    partition_of,
)
from master.window_values import Window

OWN = "_elfstream"
"""Spark passes over names that begin with _."""
WINDOWS_KEY = b"elfstream.windows"
WINDOW_COLUMNS = (("_start", TIMESTAMP), ("_end", TIMESTAMP), ("_revision", BIGINT))
BATCH_ROWS = 65_536
"""Rows of a window that are held as Arrow at a time; a row group each."""
TOGETHER_BYTES_MAX = 256 << 20
"""Small files are put together up to so many bytes."""
PARTITIONS_KEPT = 256
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
COMPRESSION = "zstd"
_T = TypeVar("_T")


class Position(msgspec.Struct, frozen=True):
    """How far the results of a job are in the folder."""

    job: str
    created: str
    """When the job was made: another one of the name is another job."""
    after: int
    """Id of the last result that is there."""


class _Folder(msgspec.Struct, frozen=True):
    by: str
    version: int = 1


class ParquetSink:
    """The one writer of a folder; to be used in `with`. Methods raise SinkError and OSError; the folder is then as sound as
    after a crash, and the sink has to be opened anew."""

    def __init__(
        self,
        folder: Path,
        *,
        by: str | None = None,
        disk: SinkDisk | None = None,
        together_bytes_max: int = TOGETHER_BYTES_MAX,
    ) -> None:
        """`by` hour (default) or day: it stays what it was when the folder was made. Raises SinkError where another
        process writes, or where `by` is another."""
        self.folder, self._disk, self.together_bytes_max = folder, disk or SinkDisk(), together_bytes_max
        self._own, self._staging = folder / OWN, folder / OWN / "staging"
        self._partitions: OrderedDict[str, PartitionFiles] = OrderedDict()
        self._unsynced: set[Path] = set()
        self._number = itertools.count()
        self._disk.make_folder(self._staging)
        self._lock = open(self._own / "lock", "wb")  # noqa: SIM115
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.by = self._kind(by)
            self.position = self._read(self._own / "position.json", Position)
            for left in self._staging.iterdir():
                self._disk.remove_tree(left)
            self._to_compact = set(self._all_partitions())
        except BlockingIOError:
            self._lock.close()
            raise SinkError(f"{folder}: another process writes here") from None
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> ParquetSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """What was put since the last `flush` may be lost when the machine fails, not when the process does."""
        self._lock.close()

    # windows

    def edition_of(self, window: Window | None) -> int | None:
        """The edition that is in the folder."""
        key = _id(window)
        return self._partition(partition_of(key, self.by)).edition_of(key)

    def windows(self, start: datetime | None = None, end: datetime | None = None) -> Iterator[Window | None]:
        """Those that are there, withdrawn ones too, of partitions that may have windows that start in [start, end)."""
        for partition in self._all_partitions():
            close = partition_end(partition)
            if close is not None and (start is not None and close <= start):
                continue
            if close is not None and end is not None and close - (HOUR if self.by == "hour" else DAY) >= end:
                continue
            for name in self._partition(partition):
                for held in self._partition(partition).windows(name):
                    yield None if held.window.start_us is None else Window(*map(time_of, held.window))  # type: ignore[arg-type]

    def put(self, window: Window | None, edition: int, columns: Columns, rows: Iterable[Sequence[Any]]) -> bool:
        """The window with rows as `elf.query` has them, in place of an earlier edition, or of the same: writing twice is
        writing once. False: there is a later one, and nothing was done. O(rows), a batch of them in memory."""
        made = _table_columns(columns)
        start, end = (None, None) if window is None else window
        rest = iter(rows)

        def batches() -> Iterator[pyarrow.Table]:
            while some := list(itertools.islice(rest, BATCH_ROWS)):
                yield arrow_table(made, [(start, end, edition, *row) for row in some])

        return self._put(Held(_id(window), edition), arrow_schema(made), batches())

    def withdraw(self, window: Window | None, edition: int) -> bool:
        """No plan of the job has the window any more. False: it is not there, or in a later edition."""
        key = _id(window)
        partition = partition_of(key, self.by)
        holder = self._partition(partition).holder(key)
        if holder is None:
            return False
        return self._put(Held(key, edition), self._schema(self.folder / partition / holder), ())

    def _put(self, held: Held, schema: pyarrow.Schema, batches: Iterable[pyarrow.Table]) -> bool:
        partition = partition_of(held.window, self.by)
        files = self._partition(partition)
        holder = files.holder(held.window)
        if holder is not None and held_in(holder) is not None:
            holder = self._rightly_named(partition, holder)
        if (files.edition_of(held.window) or 0) > held.edition:
            return False
        if holder is None or len(files.windows(holder)) == 1:
            self._write(partition, holder, _File((held,), schema, batches))
            return True
        path = self.folder / partition / holder
        others = [one for one in files.windows(holder) if one.window != held.window]
        old = _File(others, self._schema(path), _tables(path, held.window))
        if old.schema.equals(schema):
            both = sorted([*others, held], key=_order)
            self._write(partition, holder, _File(both, schema, itertools.chain(old.batches, batches)))
        else:
            self._exchange(partition, [holder], [old, _File((held,), schema, batches)])
        return True

    def _rightly_named(self, partition: str, name: str) -> str:
        """A file got a later edition, and the process ended before it got the name."""
        folder = self.folder / partition
        windows = self._listed(folder / name)
        right = file_name(windows)
        if right != name:
            self._disk.rename(folder / name, folder / right)
            self._changed(partition)
            self._partition(partition).replace(name, right, windows)
        return right

    def _write(self, partition: str, old: str | None, file: _File) -> None:
        """In place of `old`."""
        staged = self._staged()
        self._create(staged, file)
        folder, name = self.folder / partition, file_name(file.windows)
        self._disk.make_folder(folder)
        if old is not None and old != name:
            self._disk.rename(staged, folder / old)
            self._disk.rename(folder / old, folder / name)
        else:
            self._disk.rename(staged, folder / name)
        self._changed(partition)
        self._partition(partition).replace(old, name, file.windows)

    def _exchange(self, partition: str, old: Collection[str], files: Iterable[_File]) -> None:
        """The partition has `files` instead of those named `old`, all in one step."""
        folder, staged = self.folder / partition, self._staged()
        self._disk.make_folder(staged)
        for file in files:
            self._create(staged / file_name(file.windows), file)
        for name in self._partition(partition):
            if name not in old:
                self._disk.link(folder / name, staged / name)
        self._disk.sync_folder(staged)
        self._disk.exchange(staged, folder)
        self._partitions.pop(partition)
        self._changed(partition)
        self._disk.sync_folder(folder.parent)
        self._disk.remove_tree(staged)

    def _create(self, path: Path, file: _File) -> None:
        schema = file.schema.with_metadata({WINDOWS_KEY: encoded_windows(file.windows)})
        with self._disk.create(path) as out, parquet.ParquetWriter(out, schema, compression=COMPRESSION) as writer:
            for table in _full(file.batches):
                writer.write_table(table.replace_schema_metadata(schema.metadata))

    def _staged(self) -> Path:
        return self._staging / str(next(self._number))

    def _changed(self, partition: str) -> None:
        self._unsynced.add(self.folder / partition)
        self._to_compact.add(partition)

    # small files

    def compact(self, before: datetime, is_stopped: Callable[[], bool] = lambda: False) -> int:
        """Puts the small files of partitions that ended before that time together, those of equal columns; how many files
        fewer there are. O(bytes of those partitions), a batch of rows in memory; `is_stopped` is asked between two. Raises
        SwapError where the file system cannot do it; all is as it was then."""
        fewer = 0
        for partition in sorted(self._to_compact):
            if is_stopped():
                break
            end = partition_end(partition)
            if end is not None and end <= before:
                fewer += self._compact_one(partition)
                self._to_compact.remove(partition)
        return fewer

    def _compact_one(self, partition: str) -> int:
        files, folder = self._partition(partition), self.folder / partition
        groups: list[list[str]] = []
        open_groups: dict[pyarrow.Schema, tuple[list[str], int]] = {}
        if len(files) < 2:
            return 0
        for name in files:
            schema = self._schema(folder / name)
            size = (folder / name).stat().st_size
            group, bytes_so_far = open_groups.get(schema, ([], 0))
            if not group or bytes_so_far + size > self.together_bytes_max:
                group, bytes_so_far = [], 0
                groups.append(group)
            group.append(name)
            open_groups[schema] = group, bytes_so_far + size
        groups = [group for group in groups if len(group) > 1]
        if not groups:
            return 0
        old = {name for group in groups for name in group}
        self._exchange(partition, old, [self._together(folder, group) for group in groups])
        return len(old) - len(groups)

    def _together(self, folder: Path, names: Sequence[str]) -> _File:
        windows = sorted((one for name in names for one in self._listed(folder / name)), key=_order)
        tables = itertools.chain.from_iterable(_tables(folder / name) for name in names)
        return _File(windows, self._schema(folder / names[0]), tables)

    # what is where

    def _all_partitions(self) -> list[str]:
        depth = "date=*" if self.by == "day" else "date=*/hour=*"
        found = sorted(str(path.relative_to(self.folder)) for path in self.folder.glob(depth))
        for partition in found:
            try:
                partition_end(partition)
            except ValueError:
                raise SinkError(_foreign(self.folder / partition)) from None
        return found

    def _partition(self, partition: str) -> PartitionFiles:
        found = self._partitions.get(partition)
        if found is None:
            folder = self.folder / partition
            names = [path.name for path in folder.glob(f"*{SUFFIX}")]
            found = PartitionFiles({name: self._windows_of(folder / name) for name in names})
            self._partitions[partition] = found
            while len(self._partitions) > PARTITIONS_KEPT:
                self._partitions.popitem(last=False)
        self._partitions.move_to_end(partition)
        return found

    def _windows_of(self, path: Path) -> Sequence[Held]:
        one = held_in(path.name)
        return self._listed(path) if one is None else (one,)

    def _listed(self, path: Path) -> Sequence[Held]:
        """By its footer, which is right also where the name is late."""
        metadata = self._schema(path, whole=True).metadata or {}
        try:
            return decoded_windows(metadata[WINDOWS_KEY])
        except (KeyError, msgspec.MsgspecError):
            raise SinkError(_foreign(path)) from None

    @staticmethod
    def _schema(path: Path, whole: bool = False) -> pyarrow.Schema:
        try:
            schema = parquet.read_schema(path)
        except pyarrow.ArrowInvalid as error:
            raise SinkError(f"{path} is no sound Parquet file: {error}") from None
        return schema if whole else schema.remove_metadata()

    # what is kept beside the windows

    def flush(self, position: Position | None = None) -> None:
        """All that was put is durable; then the position is."""
        for folder in sorted(self._unsynced):
            self._disk.sync_folder(folder)
        self._unsynced.clear()
        if position is not None:
            self._keep("position.json", position)
            self.position = position

    def _keep(self, name: str, value: msgspec.Struct) -> None:
        staged = self._staged()
        with self._disk.create(staged) as file:
            file.write(msgspec.json.encode(value))
        self._disk.rename(staged, self._own / name)
        self._disk.sync_folder(self._own)

    def _kind(self, by: str | None) -> str:
        kept = self._read(self._own / "folder.json", _Folder)
        if kept is None:
            kept = _Folder(by or PARTITIONS[0])
            self._keep("folder.json", kept)
        if kept.version != 1 or kept.by not in PARTITIONS:
            raise SinkError(f"{self.folder} was written by a later version of elfstream")
        if by not in (None, kept.by):
            raise SinkError(f"{self.folder} has a folder a {kept.by}, and keeps it so: leave out 'by {by}'")
        return kept.by

    @staticmethod
    def _read(path: Path, kind: type[_T]) -> _T | None:
        try:
            return msgspec.json.decode(path.read_bytes(), type=kind)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise SinkError(f"{path} cannot be read: {error}") from None


class _File(NamedTuple):
    """One to be written."""

    windows: Sequence[Held]
    schema: pyarrow.Schema
    batches: Iterable[pyarrow.Table]


def _table_columns(columns: Columns) -> list[tuple[str, Type]]:
    """Parquet has no type for NULL alone that all readers know: such a column is one of texts."""
    taken = [*(name for name, _ in WINDOW_COLUMNS), "date", "hour"]
    names = free_names([name for name, _ in columns], taken)
    kinds = [STRING if type.kind is Kind.NULL else type for _, type in columns]
    return [*WINDOW_COLUMNS, *zip(names, kinds, strict=True)]


def _tables(path: Path, without: WindowId | None = None) -> Iterator[pyarrow.Table]:
    """The rows of a file, but for those of a window."""
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(BATCH_ROWS):
            table = pyarrow.Table.from_batches([batch])
            if without is not None:
                start, end = (pyarrow.scalar(moment, STAMP) for moment in without)
                same = compute.and_(compute.equal(table["_start"], start), compute.equal(table["_end"], end))
                table = table.filter(compute.invert(same))
            yield table


def _full(tables: Iterable[pyarrow.Table]) -> Iterator[pyarrow.Table]:
    """The same rows in tables of at least BATCH_ROWS, but for the last: each becomes a row group."""
    waiting: list[pyarrow.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows >= BATCH_ROWS:
            yield pyarrow.concat_tables(waiting).combine_chunks()
            waiting, rows = [], 0
    if waiting:
        yield pyarrow.concat_tables(waiting).combine_chunks()


def _foreign(path: Path) -> str:
    return f"{path} was not written by elfstream: move it out of the folder"


def _order(held: Held) -> tuple[int, int]:
    """Windows of one file all have times."""
    return held.window.start_us or 0, held.window.end_us or 0


def _id(window: Window | None) -> WindowId:
    return WindowId(None, None) if window is None else WindowId(micros_of(window.start), micros_of(window.end))

"""A folder of windows under random histories and a stop at any step: every reader sees each window once, never an earlier
edition than before, and in the end the last. The model is a dict."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from pyarrow import parquet

from job.types import BIGINT, STRING
from master.spark.parquet_sink import ParquetSink, Position
from master.spark.sink_disk import SinkDisk
from master.window_values import Window

START = datetime(2025, 11, 28, 18, tzinfo=UTC)
SIZE = timedelta(minutes=20)
NARROW = [("n", BIGINT)]
WIDE = [("n", BIGINT), ("hour", STRING)]


class Stop(BaseException):
    """The process is gone."""


class FailingDisk(SinkDisk):
    """Stops before its step number `steps`, or in the middle of writing, and looks at the folder after every step."""

    def __init__(self, steps: int, look: Any) -> None:
        self.left, self._look = steps, look

    def _step(self) -> None:
        if self.left == 0:
            raise Stop
        self.left -= 1

    @contextmanager
    def create(self, path: Path) -> Iterator[BinaryIO]:
        with open(path, "wb") as file:
            yield file
            if self.left == 0:
                file.flush()
                file.truncate(file.tell() // 2)
            self._step()

    def rename(self, old: Path, new: Path) -> None:
        self._step()
        super().rename(old, new)
        self._look()

    def exchange(self, one: Path, other: Path) -> None:
        self._step()
        super().exchange(one, other)
        self._look()

    def link(self, old: Path, new: Path) -> None:
        self._step()
        super().link(old, new)

    def make_folder(self, path: Path) -> None:
        self._step()
        super().make_folder(path)

    def remove_tree(self, path: Path) -> None:
        self._step()
        super().remove_tree(path)
        self._look()

    def sync_folder(self, path: Path) -> None:
        self._step()


class Put(NamedTuple):
    """Result number `id` of a job."""

    id: int
    number: int
    """Of the window."""
    edition: int
    is_wide: bool
    rows: int
    """-1: withdrawn."""


Seen = dict[datetime, tuple[int, int]]
"""By start: edition and rows. A window without rows is not seen."""


def seen(folder: Path, depth: str) -> Seen:
    found: Seen = {}
    for path in folder.glob(depth):
        windows: dict[Any, list[Any]] = {}
        for row in parquet.read_table(path, partitioning=None).to_pylist():
            windows.setdefault(row["_start"], []).append(row)
        for start, rows in windows.items():
            assert start not in found, f"{start} is in two files"
            assert {row["n"] for row in rows} == {rows[0]["_revision"]}
            found[start] = (rows[0]["_revision"], len(rows))
    return found


def window(number: int) -> Window:
    return Window(START + number * SIZE, START + (number + 1) * SIZE)


def apply(sink: ParquetSink, put: Put) -> None:
    if put.rows < 0:
        sink.withdraw(window(put.number), put.edition)
    elif put.is_wide:
        sink.put(window(put.number), put.edition, WIDE, [(put.edition, "x")] * put.rows)
    else:
        sink.put(window(put.number), put.edition, NARROW, [(put.edition,)] * put.rows)


def modelled(puts: list[Put]) -> Seen:
    last = {put.number: put for put in puts}
    return {window(put.number).start: (put.edition, put.rows) for put in last.values() if put.rows > 0}


@st.composite
def histories(draw: st.DrawFn) -> list[Put]:
    """Revisions of a window ascend, as ids do."""
    drawn = draw(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(-1, 3)), min_size=6, max_size=30))
    editions: dict[int, int] = {}
    puts = []
    for id, (number, is_wide, rows) in enumerate(drawn, 1):
        editions[number] = editions.get(number, 0) + 1
        puts.append(Put(id, number, editions[number], is_wide, rows))
    return puts


@settings(max_examples=40, deadline=None)
@given(
    puts=histories(), stops=st.lists(st.integers(1, 150), min_size=2, max_size=8), by=st.sampled_from(["hour", "day"]),
    every=st.integers(1, 9), together=st.sampled_from([1 << 28, 2500]),
)  # fmt: skip
def test_a_writer_that_stops_anywhere(puts: list[Put], stops: list[int], by: str, every: int, together: int) -> None:
    folder = Path(tempfile.mkdtemp())
    depth = "date=*/*.parquet" if by == "day" else "date=*/hour=*/*.parquet"
    was: Seen = {}

    def look() -> None:
        """Nothing is seen twice, nothing that was there goes missing or back."""
        now = seen(folder, depth)
        gone = {put.number for put in puts if put.rows <= 0}
        for start, (edition, _) in was.items():
            number = (start - START) // SIZE
            assert number in gone or start in now, f"{start} is missing"
            assert start not in now or now[start][0] >= edition
        was.clear()
        was.update(now)

    try:
        for steps in [*stops, 10_000]:
            disk = FailingDisk(steps, look)
            sink = None
            try:
                with ParquetSink(folder, by=by, disk=disk, together_bytes_max=together) as sink:
                    after = 0 if sink.position is None else sink.position.after
                    for put in puts[after:]:
                        apply(sink, put)
                        if put.id % every == 0:
                            sink.flush(Position("hot", "then", put.id))
                            sink.compact(START + timedelta(hours=2))
                    sink.flush(Position("hot", "then", len(puts)))
                    sink.compact(START + timedelta(days=2))
            except Stop:
                look()
        assert seen(folder, depth) == modelled(puts)
        assert not list((folder / "_elfstream" / "staging").iterdir())
        if together > 10_000:
            for partition in folder.glob(depth.rpartition("/")[0]):
                kinds = [str(parquet.read_schema(path).names) for path in partition.glob("*.parquet")]
                assert len(kinds) == len(set(kinds)), "small files were left"
    finally:
        shutil.rmtree(folder)

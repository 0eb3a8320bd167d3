"""The folder of Parquet files: what is in it, and what is refused."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

import pyarrow
from pyarrow import parquet

from job.types import ARRAY, BIGINT, NULL, STRING, TIMESTAMP, WINDOW, decimal
from master.spark import parquet_sink
from master.spark.errors import SinkError
from master.spark.parquet_sink import ParquetSink, Position
from master.window_values import Window

START = datetime(2025, 11, 28, 19, 30, tzinfo=UTC)
NUMBERS = [("n", BIGINT)]


def window(number: int = 0) -> Window:
    start = START + timedelta(seconds=10 * number)
    return Window(start, start + timedelta(seconds=10))


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.glob("date=*/**/*.parquet"))


def rows(folder: Path) -> list[dict[str, Any]]:
    return [row for name in names(folder) for row in parquet.read_table(folder / name, partitioning=None).to_pylist()]


def test_values_keep_their_types(tmp_path: Path) -> None:
    columns = [
        ("w", WINDOW), ("d", decimal(20, 2)), ("a", ARRAY), ("t", TIMESTAMP), ("Date", STRING), ("z", NULL),
        ("n", BIGINT), ("N", BIGINT),
    ]  # fmt: skip
    one = (window(), Decimal("123456789012345678.25"), [0.5, None], START, "/ä", None, 1, 2)
    with ParquetSink(tmp_path) as sink:
        assert sink.put(window(), 3, columns, iter([one, (None,) * 8]))
    assert names(tmp_path) == ["date=2025-11-28/hour=19/20251128T193000Z-20251128T193010Z-r3.parquet"]
    first, second = rows(tmp_path)
    assert list(first.items())[:3] == [("_start", START), ("_end", window().end), ("_revision", 3)]
    assert first["w"] == window()._asdict()
    assert (first["d"], first["a"], first["t"], first["Date_"], first["z"]) == (*one[1:5], None)
    assert (first["n"], first["N_"]) == (1, 2)
    assert (second["w"], second["d"], second["_revision"]) == (None, None, 3)


def test_a_window_of_many_rows_is_written_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_sink, "BATCH_ROWS", 100)
    with ParquetSink(tmp_path) as sink:
        sink.put(None, 1, NUMBERS, ((number,) for number in range(1050)))
    (name,) = names(tmp_path)
    assert name == "date=__HIVE_DEFAULT_PARTITION__/hour=__HIVE_DEFAULT_PARTITION__/all-r1.parquet"
    assert [row["n"] for row in rows(tmp_path)] == list(range(1050))
    assert parquet.ParquetFile(tmp_path / name).num_row_groups == 11


def test_the_same_edition_again_takes_its_place_an_earlier_one_does_not(tmp_path: Path) -> None:
    with ParquetSink(tmp_path) as sink:
        sink.put(window(), 2, NUMBERS, [(1,)])
        assert not sink.put(window(), 1, NUMBERS, [(9,)])
        assert sink.put(window(), 2, NUMBERS, [(2,)])
        assert sink.edition_of(window()) == 2
        assert sink.edition_of(window(1)) is None
    assert [row["n"] for row in rows(tmp_path)] == [2]


def test_a_withdrawn_window_has_no_rows_and_does_not_come_back(tmp_path: Path) -> None:
    with ParquetSink(tmp_path) as sink:
        assert not sink.withdraw(window(), 1)
        sink.put(window(), 1, NUMBERS, [(1,)])
        assert sink.withdraw(window(), 2)
    with ParquetSink(tmp_path) as sink:
        assert not sink.put(window(), 1, NUMBERS, [(1,)])
    assert rows(tmp_path) == []


def test_small_files_become_one_which_is_revised(tmp_path: Path) -> None:
    with ParquetSink(tmp_path) as sink:
        for number in range(6):
            sink.put(window(number), 1, NUMBERS, [(number,)])
        assert sink.compact(START) == 0, "the hour has not ended"
        assert sink.compact(START + timedelta(minutes=30)) == 5
        assert sink.compact(START + timedelta(minutes=30)) == 0
        sink.put(window(2), 2, NUMBERS, [(20,)])
        sink.withdraw(window(3), 2)
    assert sorted(row["n"] for row in rows(tmp_path)) == [0, 1, 4, 5, 20]
    (name,) = names(tmp_path)
    assert parquet.ParquetFile(tmp_path / name).num_row_groups == 1
    with ParquetSink(tmp_path) as sink:
        assert [sink.edition_of(window(number)) for number in range(7)] == [1, 1, 2, 2, 1, 1, None]


def test_other_columns_have_files_of_their_own(tmp_path: Path) -> None:
    with ParquetSink(tmp_path) as sink:
        for number in range(6):
            sink.put(window(number), 1, NUMBERS if number < 3 else [("n", STRING)], [(number if number < 3 else "x",)])
        assert sink.compact(START + timedelta(days=1)) == 4
        sink.put(window(0), 2, [("n", STRING)], [("y",)])
    assert sorted(str(row["n"]) for row in rows(tmp_path)) == ["1", "2", "x", "x", "x", "y"]
    assert len(names(tmp_path)) == 3


def test_a_stop_before_the_new_name_brings_nothing_back(tmp_path: Path) -> None:
    with ParquetSink(tmp_path) as sink:
        sink.put(window(), 3, NUMBERS, [(3,)])
    (name,) = names(tmp_path)
    os.rename(tmp_path / name, tmp_path / name.replace("-r3", "-r2"))  # as it is between the two renames
    with ParquetSink(tmp_path) as sink:
        assert not sink.put(window(), 2, NUMBERS, [(2,)])
    assert names(tmp_path) == [name]
    assert [row["n"] for row in rows(tmp_path)] == [3]


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with ParquetSink(tmp_path), pytest.raises(SinkError, match="another process writes here"):
        ParquetSink(tmp_path)
    ParquetSink(tmp_path).close()


def test_the_position_is_kept(tmp_path: Path) -> None:
    with ParquetSink(tmp_path) as sink:
        assert sink.position is None
        sink.flush(Position("hot", "2025-11-28T19:00:00Z", 7))
    with ParquetSink(tmp_path) as sink:
        assert sink.position == Position("hot", "2025-11-28T19:00:00Z", 7)


def test_what_is_no_such_folder_is_refused(tmp_path: Path) -> None:
    with ParquetSink(tmp_path, by="day") as sink:
        sink.put(window(), 1, NUMBERS, [(1,)])
    assert names(tmp_path) == ["date=2025-11-28/20251128T193000Z-20251128T193010Z-r1.parquet"]
    with pytest.raises(SinkError, match="has a folder a day, and keeps it so"):
        ParquetSink(tmp_path, by="hour")
    with ParquetSink(tmp_path) as sink:
        assert sink.by == "day"
    foreign = tmp_path / "date=2025-11-28" / "part-0.parquet"
    foreign.write_bytes(b"PAR1")
    with ParquetSink(tmp_path) as sink, pytest.raises(SinkError, match=r"part-0.parquet is no sound Parquet file"):
        sink.put(window(), 1, NUMBERS, [(1,)])
    (tmp_path / "_elfstream" / "position.json").write_text("{}")
    with pytest.raises(SinkError, match=r"position.json cannot be read"):
        ParquetSink(tmp_path)


@pytest.mark.parametrize(
    "name", ["date=new/hour=01", "date=2025-02-30/hour=01", "date=2025-11-28/hour=24", "date=2025-11-28/hour=+1"]
)
def test_folders_of_others_are_told(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    with pytest.raises(SinkError, match="was not written by elfstream: move it out of the folder"):
        ParquetSink(tmp_path)
    (tmp_path / name).rmdir()
    ParquetSink(tmp_path).close()


def test_a_file_of_others_with_a_name_like_ours_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "date=2025-11-28/hour=19"
    folder.mkdir(parents=True)
    parquet.write_table(pyarrow.table({"n": [1]}), folder / "20259999T193000Z-20251128T193010Z-r1.parquet")
    with ParquetSink(tmp_path) as sink, pytest.raises(SinkError, match=r"r1\.parquet was not written by elfstream"):
        sink.edition_of(window())

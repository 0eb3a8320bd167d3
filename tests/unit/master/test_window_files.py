"""How windows lie in folders, and what files are called."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from job.times import micros_of
from master.column_names import free_names
from master.spark.window_files import (
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

START = micros_of(datetime(2025, 11, 28, 19, 30, tzinfo=UTC))
TEN_S = WindowId(START, START + 10_000_000)
HALF_S = WindowId(START + 500_000, START + 1_000_000)
ENDLESS = WindowId(None, None)


@pytest.mark.parametrize(
    ("window", "edition", "name"),
    [
        (TEN_S, 1, "20251128T193000Z-20251128T193010Z-r1.parquet"),
        (HALF_S, 12, "20251128T193000.500000Z-20251128T193001Z-r12.parquet"),
        (ENDLESS, 3, "all-r3.parquet"),
        (WindowId(micros_of(datetime(1, 1, 1, tzinfo=UTC)), 0), 1, "00010101T000000Z-19700101T000000Z-r1.parquet"),
    ],
)
def test_a_name_tells_window_and_edition(window: WindowId, edition: int, name: str) -> None:
    assert file_name([Held(window, edition)]) == name
    assert held_in(name) == Held(window, edition)


def test_other_content_has_another_name() -> None:
    both = [Held(TEN_S, 1), Held(WindowId(START + 10_000_000, START + 20_000_000), 1)]
    name = file_name(both)
    assert name.startswith("20251128T193000Z-20251128T193020Z-2w-")
    assert held_in(name) is None
    assert file_name([both[0], Held(both[1].window, 2)]) != name
    assert decoded_windows(encoded_windows(both)) == tuple(both)


def test_partitions_by_the_start() -> None:
    late = WindowId(START, START + 3600 * 1_000_000)
    assert partition_of(late, "hour") == "date=2025-11-28/hour=19"
    assert partition_of(late, "day") == "date=2025-11-28"
    assert partition_end("date=2025-11-28/hour=23") == datetime(2025, 11, 29, tzinfo=UTC)
    assert partition_end("date=2025-11-28") == datetime(2025, 11, 29, tzinfo=UTC)
    assert partition_end(partition_of(ENDLESS, "hour")) is None


def test_where_a_window_is() -> None:
    files = PartitionFiles({"a": [Held(TEN_S, 1)], "b": [Held(HALF_S, 2)]})
    files.replace("a", "c", [Held(TEN_S, 4)])
    assert (files.holder(TEN_S), files.edition_of(TEN_S), files.holder(ENDLESS)) == ("c", 4, None)
    assert list(files) == ["b", "c"]


def test_names_of_columns_are_unlike_each_other() -> None:
    assert free_names(["hour", "Hour", "n", "N", "hour_"], ["date", "hour"]) == ["hour_", "Hour__", "n", "N_", "hour___"]

"""What is made of a joined answer, apart from Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

import pyarrow

from job.types import BIGINT, STRING, WINDOW
from master.spark.errors import JoinError
from master.spark.fleet_reader import FleetAddress
from master.spark.joined_windows import ArrowWindows
from master.spark.joins import Change, ContinuousJoin, Joined, by_windows, together
from master.window_values import Window
from tests.memory_fleet import EPOCH_US
from tests.served_fleet import served_fleet

START = datetime(2025, 11, 28, 19, 30, tzinfo=UTC)
STAMP = pyarrow.timestamp("us", tz="UTC")
SPAN = pyarrow.struct([("start", STAMP), ("end", STAMP)])


def at(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


def window(number: int) -> Window:
    return Window(at(10 * number), at(10 * number + 10))


def test_rows_by_their_window_column() -> None:
    table = pyarrow.table(
        {
            "p": ["/a", "/b", "/c"],
            "w": pyarrow.array([window(number)._asdict() for number in (1, 0, 1)], SPAN),
            "n": pyarrow.array([1, 2, None], pyarrow.int32()),
        }
    )  # fmt: skip
    made = by_windows(table)
    assert made.columns == (("p", STRING), ("w", WINDOW), ("n", BIGINT))
    assert made.windows == {
        window(1): [("/a", window(1), 1), ("/c", window(1), None)],
        window(0): [("/b", window(0), 2)],
    }


def test_rows_stay_in_the_order_of_the_answer_and_few_windows_of_many_can_be_had() -> None:
    numbers = [1, 0, None, 2, 0, 1]
    windows = pyarrow.array([None if number is None else window(number)._asdict() for number in numbers], SPAN)
    made = by_windows(pyarrow.table({"w": windows, "n": [9, 8, 7, 6, 5, 4]}))
    assert [row[1] for row in made.rows] == [9, 8, 7, 6, 5, 4]
    assert list(made.windows) == [window(0), window(1), window(2), None]
    assert isinstance(made.windows, ArrowWindows)
    few = Joined(made.columns, made.windows.only(lambda one: one in (window(1), None)))
    assert [row[1] for row in few.rows] == [9, 7, 4]
    assert {one: [row[1] for row in rows] for one, rows in few.windows.items()} == {window(1): [9, 4], None: [7]}
    assert dict(made.windows.only(lambda _: False)) == {}


def test_rows_by_start_and_end_or_without_a_window() -> None:
    times = {"_start": pyarrow.array([at(0), at(10)], STAMP), "_end": pyarrow.array([at(10), at(20)], STAMP)}
    assert by_windows(pyarrow.table({**times, "n": [1, 2]})) == Joined(
        (("n", BIGINT),), {window(0): [(1,)], window(1): [(2,)]}
    )
    alone = by_windows(pyarrow.table(times))
    assert (alone.columns, dict(alone.windows), list(alone.rows)) == ((), {window(0): [()], window(1): [()]}, [(), ()])
    assert by_windows(pyarrow.table({"n": [1, 2]})) == Joined((("n", BIGINT),), {None: [(1,), (2,)]})
    with pytest.raises(JoinError, match="column m is map<string, int64>, and results have no such type"):
        by_windows(pyarrow.table({"m": pyarrow.array([[("a", 1)]], pyarrow.map_(pyarrow.string(), pyarrow.int64()))}))


def test_what_a_change_is_about() -> None:
    spans = together([(at(30), at(40)), (at(0), at(10)), (at(10), at(20)), (at(5), at(8)), (at(60), at(70))])
    assert spans == ((at(0), at(20)), (at(30), at(40)), (at(60), at(70)))
    change = Change(Joined((), {}), spans)
    assert [number for number in range(9) if change.is_over(window(number))] == [0, 1, 3, 6]
    assert change.is_over(Window(at(15), at(35)))
    assert change.is_over(Window(at(45), at(61)))
    assert not change.is_over(Window(at(20), at(30)))
    assert not change.is_over(None)
    assert Change(Joined((), {}), None).is_over(None)


class Hits:
    """In place of a catalog: rows of windows of a job, and the one query over them that Spark would answer: sums by hour."""

    def __init__(self, hits: Sequence[tuple[datetime, int, int]], address: FleetAddress) -> None:
        """Start, length in seconds, hits."""
        self._hits, self.address = hits, address
        self.asked: list[tuple[datetime, datetime]] = []

    def resolved(self, text: str) -> tuple[str, list[str]]:
        return text, ["hot"]

    def sql(self, text: str, *, start: datetime, end: datetime) -> Answer:
        self.asked.append((start, end))
        sums: dict[datetime, int] = {}
        for moment, length, count in self._hits:
            if start <= moment < end:
                for hour in {each.replace(minute=0, second=0) for each in (moment, moment + timedelta(seconds=length - 1))}:
                    sums[hour] = sums.get(hour, 0) + count
        windows = [{"start": hour, "end": hour + timedelta(hours=1)} for hour in sums]
        return Answer(pyarrow.table({"w": pyarrow.array(windows, SPAN), "n": list(sums.values())}))


class Answer:
    """In place of a DataFrame."""

    def __init__(self, table: pyarrow.Table) -> None:
        self._table = table

    def distinct(self) -> Answer:
        return self

    def toArrow(self) -> pyarrow.Table:  # noqa: N802 - Spark's name
        return self._table


def changes(*windows: tuple[datetime, datetime]) -> Answer:
    starts, ends = zip(*windows, strict=True)
    return Answer(pyarrow.table({"_start": pyarrow.array(starts, STAMP), "_end": pyarrow.array(ends, STAMP)}))


def test_windows_of_an_answer_that_are_longer_than_those_of_the_jobs_are_whole() -> None:
    epoch = datetime.fromtimestamp(EPOCH_US / 1e6, UTC)
    hits = [(epoch + timedelta(seconds=10 * number), 10, 1) for number in range(-720, 720)]
    taken: list[Change] = []
    with served_fleet() as served:
        served.submit("hot")
        served.publish("hot", 0, [["/a", 1]])
        catalog: Any = Hits(hits, FleetAddress(tuple(served.urls)))
        join = ContinuousJoin(catalog, "", taken.append)
        for at in (epoch + timedelta(minutes=90), epoch + timedelta(minutes=30)):
            batch: Any = changes((at, at + timedelta(seconds=10)))
            join._batch(batch, 0)
    found = [{window.start: rows[0][1] for window, rows in one.joined.windows.items() if window} for one in taken]
    assert found == [{epoch + timedelta(hours=1): 360}, {epoch: 360}]
    assert len(catalog.asked) == 3, "the length of an hour is learnt once"


def test_windows_of_several_lengths_that_hold_what_changed_are_all_asked_for() -> None:
    """A job of windows of an hour had windows of ten seconds before it was changed."""
    epoch = datetime.fromtimestamp(EPOCH_US / 1e6, UTC)
    taken: list[Change] = []
    with served_fleet() as served:
        served.submit("hot")
        served.publish("hot", -10, [["/a", 1]])
        served.publish("hot", 0, [["/a", 5]], size_s=3600)
        catalog: Any = Hits([(epoch - timedelta(seconds=10), 10, 1), (epoch, 3600, 5)], FleetAddress(tuple(served.urls)))
        batch: Any = changes((epoch + timedelta(minutes=59), epoch + timedelta(minutes=59, seconds=10)))
        ContinuousJoin(catalog, "", taken.append)._batch(batch, 0)
    (change,) = taken
    assert {window.start: rows[0][1] for window, rows in change.joined.windows.items() if window} == {epoch: 5}

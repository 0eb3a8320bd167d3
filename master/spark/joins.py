"""Queries over results of several jobs, answered window by window.

A window of the answer follows from windows of the jobs that overlap it. So a continuous join needs no state: a stream tells
which windows of the jobs have a new result (its offsets are Spark's checkpoint), and the windows of the answer that overlap
them are computed anew, whole, from the last editions. Whoever takes them replaces what was there, so a late edition, an
outer join and a batch that Spark repeats come out right.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow
from pyarrow import compute

from job.types import TIMESTAMP, Kind, Type
from master.arrow_types import STAMP, type_of_arrow
from master.spark.errors import JoinError
from master.spark.fleet_reader import FleetReader
from master.spark.joined_windows import ArrowWindows, Rows, utc
from master.window_values import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from master.spark.catalog import JobsCatalog

_START, _END = "_start", "_end"
Span = tuple[datetime, datetime]


class Joined(NamedTuple):
    """An answer by windows; None: the window of an answer, or of rows, without one."""

    columns: tuple[tuple[str, Type], ...]
    windows: Mapping[Window | None, Rows]

    @property
    def rows(self) -> Iterator[tuple[Any, ...]]:
        """All of them, in the order of the answer."""
        if isinstance(self.windows, ArrowWindows):
            return self.windows.in_order()
        return chain.from_iterable(self.windows.values())


def joined(frame: DataFrame) -> Joined:
    """An answer of Spark, held as Arrow: its `spark.driver.maxResultSize` says how much that may be. Its window is its first
    column that is one, else its columns `_start` and `_end`, which are left out then. Raises JoinError for a type that
    results do not have."""
    return by_windows(frame.toArrow())


def by_windows(table: pyarrow.Table) -> Joined:
    columns = []
    for field in table.schema:
        type = type_of_arrow(field.type)
        if type is None:
            raise JoinError(f"column {field.name} is {field.type}, and results have no such type: CAST it")
        columns.append((field.name, type))
    names = [name for name, _ in columns]
    at = next((index for index, (_, type) in enumerate(columns) if type.kind is Kind.WINDOW), None)
    kept = list(range(len(columns)))
    if at is not None:
        window = table.column(at).combine_chunks()
        starts, ends = compute.struct_field(window, "start"), compute.struct_field(window, "end")
    elif (_START, TIMESTAMP) in columns and (_END, TIMESTAMP) in columns:
        starts, ends = table.column(names.index(_START)), table.column(names.index(_END))
        kept = [index for index in kept if names[index] not in (_START, _END)]
    else:
        starts = ends = pyarrow.nulls(table.num_rows, STAMP)
    times = pyarrow.table({"start": starts, "end": ends})
    shown = tuple(columns[index] for index in kept)
    return Joined(shown, ArrowWindows(table.select(kept), [type for _, type in shown], times))


class Change(NamedTuple):
    """What became of a join. Windows of `joined` replace those that were there; of others that overlap `spans` nothing is
    left. `spans` None: all."""

    joined: Joined
    spans: tuple[Span, ...] | None

    def is_over(self, window: Window | None) -> bool:
        """Whether the change says what the window is now."""
        return self.spans is None or (window is not None and overlaps(window, self.spans))


def overlaps(window: Window, spans: Sequence[Span]) -> bool:
    """Spans are apart and ascend. O(log spans)."""
    at = bisect_right(spans, window.start, key=lambda span: span[1])
    return at < len(spans) and spans[at][0] < window.end


def together(windows: Iterable[Span]) -> tuple[Span, ...]:
    """The time that windows cover, as spans that are apart and ascend."""
    spans: list[Span] = []
    for start, end in sorted(windows):
        if spans and start <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((start, end))
    return tuple(spans)


class ContinuousJoin:
    """A query over jobs whose answer is kept up to date."""

    def __init__(self, catalog: JobsCatalog, text: str, take: Callable[[Change], None]) -> None:
        """`take` gets each change once or, after a failure, again. Raises NoJobError, FleetReadError."""
        self._catalog, self._text, self._take = catalog, text, take
        self._reach: timedelta | None = None
        """The length of the longest windows of jobs and answer: so long before a time begin windows that hold it."""
        self.jobs = catalog.resolved(text)[1]

    def start(self, checkpoint: Path, every_s: float | None) -> StreamingQuery:
        """Goes on where the checkpoint ends, every so often; None: up to what is there now, then it ends."""
        streams = [
            self._catalog.stream(name, None, windows="true").select(_START, _END) for name in self.jobs
        ]
        changes = streams[0]
        for stream in streams[1:]:
            changes = changes.unionAll(stream)
        writer = changes.writeStream.foreachBatch(self._batch).option("checkpointLocation", str(checkpoint))
        timed = writer.trigger(availableNow=True) if every_s is None else writer.trigger(processingTime=f"{every_s} seconds")
        return timed.start()

    def _batch(self, changes: DataFrame, _: int) -> None:
        windows = changes.distinct().toArrow().to_pylist()
        if not windows:
            return
        if any(one[_START] is None for one in windows):
            self._take(Change(joined(self._catalog.sql(self._text)), None))
            return
        changed = [(utc(one[_START]), utc(one[_END])) for one in windows]
        known = self._longest() if self._reach is None else self._reach
        self._reach = max(known, *(end - start for start, end in changed))
        self._take(self._change(together(changed), self._reach))

    def _change(self, spans: tuple[Span, ...], reach: timedelta) -> Change:
        """The windows of the answer that overlap the spans. A window is whole when all windows of the jobs in it were asked
        for: ones that are longer than those of the jobs (of hours, over windows of seconds) show only in the answer, and
        then it is asked once more."""
        change = Change(Joined((), {}), spans)
        while True:
            answer = self._between(spans[0][0] - 2 * reach, spans[-1][1] + reach)
            assert isinstance(answer.windows, ArrowWindows)
            kept = answer.windows.only(change.is_over)
            longest = max((window.end - window.start for window in kept if window is not None), default=reach)
            if longest <= reach:
                return Change(answer._replace(windows=kept), spans)
            self._reach = reach = longest

    def _between(self, start: datetime, end: datetime) -> Joined:
        """The answer over the windows of the jobs that start in [start, end). Raises JoinError for rows of no window."""
        answer = joined(self._catalog.sql(self._text, start=start, end=end))
        if None in answer.windows:
            raise JoinError(
                "the answer has rows without a window: SELECT a window of a job (h.w) or its _start and _end, so that it "
                "can be kept up to date window by window"
            )
        return answer

    def _longest(self) -> timedelta:
        """All windows are looked at, without their rows: changes of a job give them other lengths. O(windows), once."""
        fleet = FleetReader(self._catalog.address)
        lengths = [timedelta(0)]
        for name in self.jobs:
            for document in fleet.windows(name, "final", None, None, 0):
                if (window := document["window"]) is not None:
                    lengths.append(max(lengths.pop(), window["end"] - window["start"]))
        return lengths[0]

"""Final results of a job into a folder of Parquet files, as they are published; docs/SPARK.md says what a reader of it sees.

The stream of results says everything at least once from any position on, the folder takes the same twice as once, and the
position is noted behind what it stands for: so each window is there once, whatever stops in between. Disks may be slow, and
putting an hour together takes seconds: all of that happens in one thread, in order, beside the loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from master.spark.errors import SwapError
from master.spark.parquet_sink import Position

if TYPE_CHECKING:
    from elfstream.client import AsyncJob
    from elfstream.remote_results import WindowResult
    from master.spark.parquet_sink import ParquetSink

FLUSH_S = 1.0
COMPACT_S = 60.0


class OtherJobError(Exception):
    """The folder has results of another job."""


@dataclass
class SinkCounts:
    """What was done."""

    windows: int = 0
    """Written, each edition of one counted."""
    withdrawn: int = 0
    compacted: int = 0
    """Files fewer than there would be."""
    problem: str = ""
    """Why small files are not put together."""


async def sink_results(
    job: AsyncJob,
    sink: ParquetSink,
    counts: SinkCounts,
    *,
    after: int | None = None,
    once: bool = False,
    compact_after: timedelta | None = None,
) -> None:
    """Goes on behind the folder's position (or `after`): with `once` to the last result there is, else until the job is
    removed or this is cancelled. What was counted is durable at the end.

    Raises OtherJobError, those of `AsyncJob.watch`, and those of the sink.
    """
    position = await _position(job, sink, after)
    upto = await job.last_id() if once else None
    with ThreadPoolExecutor(1, "sink") as thread:  # its end waits for what the thread does
        following = _Following(sink, counts, position, compact_after, thread)
        running = [asyncio.ensure_future(following.run(job, upto)), asyncio.ensure_future(following.tick())]
        try:
            try:
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)
            await following.compact()
        finally:
            following.is_stopped.set()
            await following.flush()


async def _position(job: AsyncJob, sink: ParquetSink, after: int | None) -> Position:
    created = (await job.show())["created"]
    kept = sink.position
    if kept is not None and kept.job != job.name:
        raise OtherJobError(f"{sink.folder} has results of the job {kept.job}, not of {job.name}: name another folder")
    if kept is not None and kept.created != created:
        raise OtherJobError(
            f"{sink.folder} has results of a job {job.name} that was made at {kept.created}; the one there is now was "
            f"made at {created} and counts anew: name another folder"
        )
    if after is None:
        after = 0 if kept is None else kept.after
    return Position(job.name, created, after)


class _Following:
    """Sink, counts and position belong to the thread."""

    def __init__(
        self,
        sink: ParquetSink,
        counts: SinkCounts,
        position: Position,
        compact_after: timedelta | None,
        thread: ThreadPoolExecutor,
    ) -> None:
        self._sink, self._counts, self._at, self._compact_after = sink, counts, position, compact_after
        self._thread = thread
        self.is_stopped = threading.Event()
        """No further small files are put together."""

    async def _in_thread(self, work: Callable[[], None]) -> None:
        """Behind what was asked for before."""
        await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def run(self, job: AsyncJob, upto: int | None) -> None:
        if upto is not None and upto <= self._at.after:
            return
        async for result in job.watch(after=self._at.after):
            await self._in_thread(lambda: self._take(result))  # noqa: B023 - awaited at once
            if upto is not None and result.id >= upto:
                return

    def _take(self, result: WindowResult) -> None:
        is_there = (self._sink.edition_of(result.window) or 0) >= result.revision  # from an earlier process
        if not is_there and result.status == "final":
            self._counts.windows += self._sink.put(result.window, result.revision, result.columns, result.rows)
        elif not is_there and result.status == "withdrawn":
            self._counts.withdrawn += self._sink.withdraw(result.window, result.revision)
        self._at = Position(self._at.job, self._at.created, result.id)

    async def tick(self) -> None:
        """Beside `run`; the thread does what each asks for between two results."""
        compact_in_s = COMPACT_S
        while True:
            await asyncio.sleep(FLUSH_S)
            await self.flush()
            compact_in_s -= FLUSH_S
            if compact_in_s <= 0:
                compact_in_s = COMPACT_S
                await self.compact()

    async def flush(self) -> None:
        await self._in_thread(self._flush)

    def _flush(self) -> None:
        if self._at != self._sink.position:
            self._sink.flush(self._at)

    async def compact(self) -> None:
        await self._in_thread(self._compact)

    def _compact(self) -> None:
        if self._compact_after is None or self._counts.problem:
            return
        try:
            before = datetime.now(UTC) - self._compact_after
            self._counts.compacted += self._sink.compact(before, self.is_stopped.is_set)
        except SwapError as error:
            self._counts.problem = str(error)

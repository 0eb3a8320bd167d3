"""Results of a job into a folder of Parquet files: over HTTP, through ends of all kinds, read back by others."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from pyarrow import parquet

from elfstream.client import connect_async
from elfstream.client_errors import ResultsLostError
from elfstream.lake_sink import OtherJobError, SinkCounts, sink_results
from job.types import BIGINT
from master.api_options import ApiOptions
from master.spark.errors import SwapError
from master.spark.parquet_sink import ParquetSink
from master.spark.sink_disk import SinkDisk
from master.window_values import Window
from srt.ids import job_key
from tests.integration.fleet_processes import ROOT
from tests.memory_fleet import EPOCH_US, Client, with_fleet
from tests.patience import PATIENCE_S

QUICK = ApiOptions(heartbeat_s=0.05)
COLUMNS = [("path", "STRING"), ("hour", "BIGINT"), ("d", "DECIMAL(10,2)"), ("a", "ARRAY<DOUBLE>")]
EPOCH = datetime.fromtimestamp(EPOCH_US / 1e6, UTC)


def publish(client: Client, start_s: int, edition: int, status: str = "final", name: str = "hot") -> None:
    rows = [[f"/{edition}", edition, "1.25", [0.5, None]], [None] * 4]
    client.fleet.publish(name, start_s, rows if status != "withdrawn" else [], status, edition, COLUMNS)


def seen(folder: Path) -> list[tuple[int, int]]:
    """Start and revision of each window."""
    found = []
    for path in folder.glob("date=*/hour=*/*.parquet"):
        for row in parquet.read_table(path, partitioning=None).to_pylist():
            if row["path"] is not None:
                found.append((round((row["_start"] - EPOCH).total_seconds()), row["_revision"]))
                assert row["path"] == f"/{row['hour_']}" == f"/{row['_revision']}"
    return sorted(found)


async def once(client: Client, folder: Path, **options: Any) -> SinkCounts:
    counts = SinkCounts()
    async with connect_async(client.running.url()) as fleet:
        with ParquetSink(folder) as sink:
            await sink_results(fleet.job("hot"), sink, counts, once=True, **options)
    return counts


def test_each_window_once_in_its_last_revision(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        await client.submit()
        publish(client, 0, 1)
        publish(client, 10, 1, "tentative")
        publish(client, 20, 1)
        assert (await once(client, tmp_path)).windows == 2
        publish(client, 10, 2)
        publish(client, 0, 2, "tentative")
        publish(client, 20, 2, "withdrawn")
        assert seen(tmp_path) == [(0, 1), (20, 1)]
        counts = await once(client, tmp_path)
        assert (counts.windows, counts.withdrawn) == (1, 1)
        assert seen(tmp_path) == [(0, 1), (10, 2)]
        publish(client, 0, 3)
        assert (await once(client, tmp_path, after=0)).windows == 1  # all that is kept comes again
        assert seen(tmp_path) == [(0, 3), (10, 2)]
        counts = await once(client, tmp_path, compact_after=timedelta(0))
        assert (counts.windows, counts.compacted) == (0, 2)
        assert seen(tmp_path) == [(0, 3), (10, 2)]

    with_fleet(main, options=QUICK)


def test_it_stays_and_goes_on_through_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elfstream.lake_sink.FLUSH_S", 0.01)

    async def main(client: Client) -> None:
        await client.submit()
        client.fleet.leaders[job_key("hot")] = 0
        counts = SinkCounts()
        async with connect_async([client.running.url(0), client.running.url(1)]) as fleet:
            with ParquetSink(tmp_path) as sink:
                running = asyncio.ensure_future(sink_results(fleet.job("hot"), sink, counts))
                for number in range(40):
                    if number == 20:
                        client.fleet.leaders[job_key("hot")] = 1
                        await client.running.kill(0)
                    publish(client, number * 10, 1)
                    await asyncio.sleep(0)
                while sink.position is None or sink.position.after != 120:
                    await asyncio.sleep(0.01)
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
        assert seen(tmp_path) == [(number * 10, 1) for number in range(40)]

    with_fleet(main, 2, QUICK)


def test_what_cannot_be_gone_on_with_is_said(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        await client.submit()
        await client.submit("cold")
        for number in range(5):
            publish(client, number * 10, 1)
        await once(client, tmp_path)
        for number in range(5, 9):
            publish(client, number * 10, 1)
        client.fleet.drop("hot", 21)
        with pytest.raises(ResultsLostError, match="results behind 15 are lost"):
            await once(client, tmp_path)
        await once(client, tmp_path, after=21)
        assert seen(tmp_path) == [(number * 10, 1) for number in (0, 1, 2, 3, 4, 7, 8)]
        async with connect_async(client.running.url()) as fleet:
            with ParquetSink(tmp_path) as sink:
                with pytest.raises(OtherJobError, match="results of the job hot, not of cold"):
                    await sink_results(fleet.job("cold"), sink, SinkCounts(), once=True)
                monkeypatch_created(client, EPOCH_US + 1_000_000)
                with pytest.raises(OtherJobError, match="made at 2025-11-28T20:00:00Z; the one there is now"):
                    await sink_results(fleet.job("hot"), sink, SinkCounts(), once=True)

    with_fleet(main, options=QUICK)


def monkeypatch_created(client: Client, created_us: int) -> None:
    """The jobs were removed and made again."""
    import msgspec

    node = client.fleet.nodes[0]
    shown = node._view
    node._view = lambda job: msgspec.structs.replace(shown(job), created_us=created_us)  # type: ignore[method-assign]


def test_where_folders_cannot_be_swapped_small_files_stay(tmp_path: Path) -> None:
    class Old(SinkDisk):
        def exchange(self, one: Path, other: Path) -> None:
            raise SwapError("not here")

    async def main(client: Client) -> None:
        await client.submit()
        for number in range(5):
            publish(client, number * 10, 1)
        counts = SinkCounts()
        async with connect_async(client.running.url()) as fleet:
            with ParquetSink(tmp_path, disk=Old()) as sink:
                await sink_results(fleet.job("hot"), sink, counts, once=True, compact_after=timedelta(0))
        assert (counts.windows, counts.problem) == (5, "not here")
        assert len(seen(tmp_path)) == 5

    with_fleet(main, options=QUICK)


@pytest.mark.parametrize("held_at", ["create", "sync_folder", "exchange"])
def test_whatever_the_disk_takes_its_time_for_the_loop_goes_on(
    held_at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk stands still until the loop says that it does not."""
    monkeypatch.setattr("elfstream.lake_sink.FLUSH_S", 0.01)
    monkeypatch.setattr("elfstream.lake_sink.COMPACT_S", 0.02)
    goes_on = threading.Event()
    seen_by_loop: list[str] = []

    async def main(client: Client) -> None:
        loop = asyncio.get_running_loop()

        def answer() -> None:
            seen_by_loop.append(held_at)
            goes_on.set()

        class Slow(SinkDisk):
            def _held(self, step: str) -> None:
                if step == held_at and is_running and not goes_on.is_set():
                    loop.call_soon_threadsafe(answer)
                    assert goes_on.wait(PATIENCE_S), "the loop waits for the disk"

            @contextmanager
            def create(self, path: Path) -> Iterator[BinaryIO]:
                self._held("create")
                with SinkDisk.create(self, path) as file:
                    yield file

            def sync_folder(self, path: Path) -> None:
                self._held("sync_folder")
                super().sync_folder(path)

            def exchange(self, one: Path, other: Path) -> None:
                self._held("exchange")
                super().exchange(one, other)

        await client.submit()
        is_running = False
        async with connect_async(client.running.url()) as fleet:
            with ParquetSink(tmp_path, disk=Slow()) as sink:
                is_running = True
                counts = SinkCounts()
                running = asyncio.ensure_future(
                    sink_results(fleet.job("hot"), sink, counts, compact_after=timedelta(0))
                )
                for number in range(3):
                    publish(client, number * 10, 1)
                while not (counts.windows == 3 and counts.compacted and goes_on.is_set()):
                    assert not running.done(), running.result()
                    await asyncio.sleep(0.01)
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
        assert seen_by_loop == [held_at]
        assert seen(tmp_path) == [(0, 1), (10, 1), (20, 1)]

    with_fleet(main, options=QUICK)


def test_who_is_told_to_stop_puts_one_folder_together_at_most(tmp_path: Path) -> None:
    with ParquetSink(tmp_path) as sink:
        for hour in range(3):
            for number in range(2):
                start = EPOCH + timedelta(hours=hour, seconds=number)
                sink.put(Window(start, start + timedelta(seconds=1)), 1, [("n", BIGINT)], [(number,)])
        sink.flush()
        asked = iter([False, True])
        assert sink.compact(EPOCH + timedelta(days=1), lambda: next(asked)) == 1
        assert sink.compact(EPOCH + timedelta(days=1)) == 2


async def command(client: Client, folder: Path, *more: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "elfstream", "sink", "hot", str(folder), "--url", client.running.url(), *more,
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


def test_a_killed_process_and_the_next_one(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        await client.submit()
        published = 0

        def publish_to(number: int) -> None:
            nonlocal published
            for one in range(published, number):
                for edition in (1, 2) if one % 7 == 0 else (1,):
                    publish(client, one * 10, edition)
            published = number

        publish_to(20)
        first = await command(client, tmp_path)
        while (files := len(list(tmp_path.glob("date=*/hour=*/*.parquet")))) < 30:
            # Little at a time: however long this process waits for its turn, that one is not through with all.
            publish_to(max(published, files + 10))
            await asyncio.sleep(0.005)
        publish_to(100)
        first.send_signal(signal.SIGKILL)
        await first.wait()
        publish_to(200)
        killed = seen(tmp_path)
        assert 25 < len(killed) == len(dict(killed)) < 200
        second = await command(client, tmp_path, "--once", "--compact-after", "0s")
        _, errors = await second.communicate()
        assert second.returncode == 0, errors
        assert b"small files put together, up to result 687" in errors
        assert seen(tmp_path) == [(number * 10, 2 - bool(number % 7)) for number in range(200)]
        third = await command(client, tmp_path)
        publish(client, 5000, 1)
        while (5000, 1) not in seen(tmp_path):
            await asyncio.sleep(0.01)
        third.send_signal(signal.SIGTERM)
        _, errors = await third.communicate()
        assert (third.returncode, errors) == (0, b"hot: 1 windows, up to result 690\n")

    with_fleet(main, options=QUICK)


def test_duckdb_and_polars_read_it(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    polars = pytest.importorskip("polars", reason="polars is not installed")

    async def main(client: Client) -> None:
        await client.submit()
        for number in range(0, 800, 2):
            publish(client, number * 10, 1)
        await once(client, tmp_path, compact_after=timedelta(0))
        for number in range(1, 800, 2):
            publish(client, number * 10, 1)
        publish(client, 0, 2)
        publish(client, 20, 2, "withdrawn")
        await once(client, tmp_path)

    with_fleet(main, options=QUICK)
    files = f"{tmp_path}/date=*/hour=*/*.parquet"
    wanted = (798 * 2 + 2 - 2 + 2, 799, 800)
    text = f"""SELECT count(*), count(DISTINCT _start), sum(hour_), min(date)::VARCHAR, max(hour)::INTEGER
               FROM read_parquet('{files}', hive_partitioning = true)"""
    assert duckdb.sql(text).fetchall() == [(*wanted, "2025-11-28", 22)]
    assert duckdb.sql(text.replace("date=*/hour=*/", "**/")).fetchall() == [(*wanted, "2025-11-28", 22)]
    frame = polars.scan_parquet(files, hive_partitioning=True)
    made = frame.select(polars.len(), polars.col("_start").n_unique().alias("n"), polars.col("hour_").sum()).collect()
    assert made.rows() == [wanted]
    assert sorted(frame.collect_schema().names())[:4] == ["_end", "_revision", "_start", "a"]

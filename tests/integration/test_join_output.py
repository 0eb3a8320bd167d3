"""Where the answer of a join goes, without Spark: windows replace what was there, in files and in a derived job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from click.testing import CliRunner
from pyarrow import parquet

import elfstream as elf
from elfstream.cli import main
from elfstream.join_output import DerivedJobJoin, ParquetJoin
from job.types import STRING, decimal
from master.spark.errors import JoinError
from master.spark.joins import Change, Joined, Span
from master.spark.parquet_sink import ParquetSink
from tests.integration.two_nodes import two_nodes
from tests.memory_fleet import EPOCH_US
from tests.served_fleet import served_fleet

EPOCH = datetime.fromtimestamp(EPOCH_US / 1e6, UTC)
COLUMNS = (("path", STRING), ("Path", decimal(5, 2)))


def at(number: int) -> datetime:
    return EPOCH + timedelta(minutes=number)


def change(windows: dict[int, str], *spans: tuple[int, int]) -> Change:
    """Minutes with a row each."""
    rows: dict[Any, list[tuple[Any, ...]]] = {
        elf.Window(at(number), at(number + 1)): [(path, Decimal("0.50"))] for number, path in windows.items()
    }
    times: tuple[Span, ...] = tuple((at(start), at(end)) for start, end in spans)
    return Change(Joined(COLUMNS, rows), times or None)


def test_windows_of_files_are_replaced(tmp_path: Path) -> None:
    def seen() -> dict[int, str]:
        files = (parquet.read_table(path, partitioning=None) for path in tmp_path.glob("date=*/hour=*/*.parquet"))
        return {(row["_start"] - EPOCH) // timedelta(minutes=1): row["path"] for one in files for row in one.to_pylist()}

    with ParquetSink(tmp_path) as sink:
        out = ParquetJoin(sink)
        out.take(change({0: "/a", 1: "/b", 50: "/b", 90: "/c", 1500: "/d"}))
        out.take(change({1: "/e"}, (0, 2), (80, 100)))
        assert seen() == {1: "/e", 50: "/b", 1500: "/d"}
        out.take(change({2: "/f"}))
        assert seen() == {2: "/f"}


def test_windows_shorter_than_a_millisecond_have_their_own_length() -> None:
    window = elf.Window(EPOCH, EPOCH + timedelta(microseconds=1500))
    with served_fleet() as served, elf.connect(served.url) as fleet:
        rows = [("/a", Decimal("0.50"))]
        DerivedJobJoin(fleet, "shares", "SELECT").take(Change(Joined(COLUMNS, {window: rows}), None))
        assert [one.window for one in fleet.job("shares").results()] == [window]


def test_windows_of_a_derived_job_are_replaced() -> None:
    def seen() -> dict[int, tuple[Any, ...]]:
        results = (one for one in fleet.job("shares").results() if one.window is not None and one.rows)
        return {(one.window.start - EPOCH) // timedelta(minutes=1): tuple(one.rows[0]) for one in results if one.window}

    half = Decimal("0.50")
    with served_fleet() as served, elf.connect(served.url) as fleet:
        DerivedJobJoin(fleet, "shares", "SELECT").take(change({}, (0, 9)))
        assert [one["name"] for one in fleet.jobs()] == []
        out = DerivedJobJoin(fleet, "shares", "SELECT")
        out.take(change({0: "/a", 1: "/b", 50: "/b", 90: "/c"}))
        assert [one["name"] for one in fleet.job("shares").show()["columns"]] == ["path", "Path_"]
        out.take(change({1: "/e"}, (0, 2), (80, 100)))
        assert seen() == {1: ("/e", half), 50: ("/b", half)}
        assert out.told == {"stored": 4, "same": 0, "replaced": 3}
        DerivedJobJoin(fleet, "shares", "SELECT").take(change({}, (0, 9)))
        assert seen() == {50: ("/b", half)}, "the next process knows the job"
        served.submit("hot")
        with pytest.raises(JoinError, match="hot is a job with a query of its own"):
            DerivedJobJoin(fleet, "hot", "SELECT").take(change({}, (0, 9)))
        with pytest.raises(elf.ApiError, match="another job hot"):
            DerivedJobJoin(fleet, "hot", "SELECT").take(change({1: "/a"}, (0, 9)))
        both = Change(Joined(COLUMNS, {elf.Window(at(0), at(1)): [], elf.Window(at(0), at(2)): []}), None)
        with pytest.raises(JoinError, match="several lengths"):
            DerivedJobJoin(fleet, "x", "SELECT").take(both)


def test_a_fleet_of_processes(tmp_path: Path) -> None:
    """Live windows into files by the command, and a derived job beside them."""
    sql = """SELECT window(time, '10 seconds') AS w, path, count(*) AS n, hll_sketch_agg(path) AS s
             FROM access GROUP BY w, path"""
    with two_nodes(tmp_path) as running, elf.connect(running.urls) as fleet:
        settings = "since=1h", "emit=100ms", "lateness=0s", "delay=0s", "idle=1s"
        chosen = [part for one in settings for part in ("--set", one)]
        environment = {"ELFSTREAM_URL": running.url}
        done = CliRunner().invoke(main, ["job", "submit", "paths", sql, "--wait", *chosen], env=environment)
        assert done.exit_code == 0, done.output
        job = fleet.job("paths")
        finals: set[object] = set()
        for result in job.watch(after=0, status="final", rows=0):
            finals.add(result.window)
            if len(finals) == 6:
                break
        arguments = ["sink", "paths", str(tmp_path / "lake"), "--once", "--compact-after", "0s"]
        done = CliRunner().invoke(main, arguments, env=environment)
        assert done.exit_code == 0, done.output
        assert done.stderr.startswith("paths: 6 windows")
        rows = [
            row
            for path in (tmp_path / "lake").glob("date=*/hour=*/*.parquet")
            for row in parquet.read_table(path, partitioning=None).to_pylist()
        ]
        assert sum(row["n"] for row in rows) == 180
        assert {row["_start"] for row in rows} == {one.window.start for one in job.results() if one.window}
        out = DerivedJobJoin(fleet, "shares", "SELECT")
        out.take(change({0: "/a", 1: "/b"}))
        out.take(change({1: "/c"}, (0, 9)))
        found = [(one.revision, [row.path for row in one.rows]) for one in fleet.job("shares").results()]
        assert found == [(2, []), (2, ["/c"])]

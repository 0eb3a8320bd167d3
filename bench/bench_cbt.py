"""Groups of many keys: the buffer tree at several memory caps, and what else counts them.

Events are a key of 20 bytes and a number; asked is count(*) and sum by key. Ours and the plain group table get columns of
65,536 rows, sparsehash reads the same files in C++, DuckDB and Polars the same rows as Parquet: all on one thread. `peak` is
of the whole process, its imports included; `B/group` is what the work added to it. Answers compared are groups, events and
the sum.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import subprocess
import tempfile
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

from bench.harness import CACHE, Benchmark, Contestant, main

KEY_BYTES, EVENT_BYTES = 20, 28
BLOCK_ROWS = 1 << 16
MIB = 1 << 20
Answer = list[int]


def events_file(sizes: Mapping[str, int], zipf: bool) -> tuple[Path, Path]:
    """Keys and values, one behind the other in two files; made once. About 1 us an event."""
    name = f"{'zipf' if zipf else 'uniform'}-{sizes['events']}-{sizes['keys']}"
    keys, values = CACHE / f"{name}.keys", CACHE / f"{name}.values"
    if not values.exists():
        _in_another_process(_write_events, dict(sizes), zipf, keys, values)
    return keys, values


def _write_events(sizes: Mapping[str, int], zipf: bool, keys: Path, values: Path) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    source = Random(20131001)
    draw = _zipf(source, sizes["keys"]) if zipf else partial(source.randrange, sizes["keys"])
    with keys.open("wb") as key_file, values.with_suffix(".part").open("wb") as value_file:
        for start in range(0, sizes["events"], BLOCK_ROWS):
            rows = min(BLOCK_ROWS, sizes["events"] - start)
            drawn = [draw() * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF for _ in range(rows)]
            key_file.write(b"".join(b"/p/%017x" % key for key in drawn))
            value_file.write(struct.pack(f"<{rows}q", *(key % 100_003 for key in drawn)))
    values.with_suffix(".part").rename(values)


def _zipf(source: Random, keys: int) -> Callable[[], int]:
    sums = list(accumulate(1 / rank for rank in range(1, keys + 1)))
    return lambda: bisect(sums, source.random() * sums[-1])


def blocks(sizes: Mapping[str, int], files: tuple[Path, Path]) -> Iterator[tuple[Any, Any, int]]:
    """Columns of 65,536 rows each."""
    from cython_ext.column import Column
    from job.types import Kind

    with files[0].open("rb") as keys, files[1].open("rb") as values:
        for start in range(0, sizes["events"], BLOCK_ROWS):
            rows = min(BLOCK_ROWS, sizes["events"] - start)
            names = Column.from_buffer(Kind.STRING, keys.read(KEY_BYTES * rows), KEY_BYTES)
            yield names, Column.from_buffer(Kind.BIGINT, values.read(8 * rows)), rows


def _summed(batches: Any) -> Answer:
    from cbt.aggregate import Finish, StateKind
    from cython_ext.groups import GroupTable

    total = GroupTable([], [StateKind.COUNT, StateKind.SUM, StateKind.SUM])
    for batch in batches:
        columns = [None, batch.finish(0, Finish.COUNT)[0], batch.finish(1, Finish.SUM)[0]]
        total.update([], columns, [None, None, None], len(batch))
    finishes = [Finish.COUNT, Finish.SUM, Finish.SUM]
    return [total.finish(state, how)[0].to_list()[0] for state, how in enumerate(finishes)]


def _tree(zipf: bool, cap_mib: int | None, spill: bool = True) -> Contestant:
    def prepare(sizes: Mapping[str, int]) -> Any:
        import cbt.tree  # noqa: F401

        return sizes, events_file(sizes, zipf)

    def run(prepared: Any) -> Answer:
        from cbt.aggregate import StateKind
        from cbt.budget import Budget
        from cbt.options import BudgetOptions
        from cbt.tree import Tree
        from job.types import Kind

        with tempfile.TemporaryDirectory() as directory:
            cap = None if cap_mib is None else cap_mib * MIB
            budget = Budget(BudgetOptions(memory_max=cap, spill_dir=directory if spill else None))
            tree = Tree([Kind.STRING], [StateKind.COUNT, StateKind.SUM], budget=budget)
            for keys, values, rows in blocks(*prepared):
                tree.update([keys], [None, values], [None, None], rows)
            return _summed(tree.batches())

    return Contestant(run, prepare)


def _table(zipf: bool) -> Contestant:
    def prepare(sizes: Mapping[str, int]) -> Any:
        import cbt.tree  # noqa: F401

        return sizes, events_file(sizes, zipf)

    def run(prepared: Any) -> Answer:
        from cbt.aggregate import StateKind
        from cython_ext.groups import GroupTable
        from job.types import Kind

        table = GroupTable([Kind.STRING], [StateKind.COUNT, StateKind.SUM])
        for keys, values, rows in blocks(*prepared):
            table.update([keys], [None, values], [None, None], rows)
        return _summed([table])

    return Contestant(run, prepare)


def _parquet(sizes: Mapping[str, int], zipf: bool) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = events_file(sizes, zipf)
    path = files[0].with_suffix(".parquet")
    if not path.exists():
        data = files[0].read_bytes()
        offsets = struct.pack(f"<{sizes['events'] + 1}i", *range(0, len(data) + 1, KEY_BYTES))
        keys = pa.StringArray.from_buffers(sizes["events"], pa.py_buffer(offsets), pa.py_buffer(data))
        values = pa.Array.from_buffers(pa.int64(), sizes["events"], [None, pa.py_buffer(files[1].read_bytes())])
        part = path.with_suffix(".part")
        pq.write_table(pa.table({"k": keys, "v": values}), part, use_dictionary=False, compression="none")
        part.rename(path)
    return str(path)


def _duckdb(zipf: bool) -> Contestant:
    def prepare(sizes: Mapping[str, int]) -> Any:
        _in_another_process(_parquet, dict(sizes), zipf)
        import duckdb

        return duckdb.connect(config={"threads": 1}), _parquet(sizes, zipf)

    def run(prepared: Any) -> Answer:
        connection, path = prepared
        query = f"SELECT k, count(*) c, sum(v) s FROM '{path}' GROUP BY k"
        row = connection.execute(f"SELECT count(*), sum(c), sum(s) FROM ({query})").fetchone()
        return [int(value) for value in row]

    return Contestant(run, prepare, ("duckdb", "pyarrow"))


def _polars(zipf: bool) -> Contestant:
    def prepare(sizes: Mapping[str, int]) -> Any:
        import os

        os.environ["POLARS_MAX_THREADS"] = "1"
        _in_another_process(_parquet, dict(sizes), zipf)
        import polars  # noqa: F401

        return _parquet(sizes, zipf)

    def run(path: Any) -> Answer:
        import polars as pl

        groups = pl.scan_parquet(path).group_by("k").agg(pl.len().alias("c"), pl.col("v").sum().alias("s"))
        row = groups.select(pl.len(), pl.col("c").sum(), pl.col("s").sum().alias("t")).collect(engine="streaming")
        return [int(value) for value in row.row(0)]

    return Contestant(run, prepare, ("polars", "pyarrow"))


def _in_another_process(action: Callable[..., object], *arguments: Any) -> None:
    """Writes a file without this process growing by it."""
    import multiprocessing

    work = multiprocessing.get_context("spawn").Process(target=action, args=arguments)
    work.start()
    work.join()


def _dict(zipf: bool) -> Contestant:
    def run(prepared: Any) -> Answer:
        sizes, files = prepared
        groups: dict[bytes, list[int]] = {}
        with files[0].open("rb") as keys, files[1].open("rb") as values:
            mapped = mmap.mmap(keys.fileno(), 0, access=mmap.ACCESS_READ)
            for number in range(sizes["events"]):
                key = mapped[number * KEY_BYTES : (number + 1) * KEY_BYTES]
                [value] = struct.unpack("<q", values.read(8))
                held = groups.get(key)
                if held is None:
                    groups[key] = [1, value]
                else:
                    held[0] += 1
                    held[1] += value
        return [len(groups), sum(c for c, _ in groups.values()), sum(s for _, s in groups.values())]

    return Contestant(run, lambda sizes: (sizes, events_file(sizes, zipf)))


def _compiled() -> Path:
    """bench/sparsehash.cpp as a library. Raises CalledProcessError when it does not compile."""
    source = Path(__file__).with_name("sparsehash.cpp")
    library = CACHE / "sparsehash.so"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        CACHE.mkdir(parents=True, exist_ok=True)
        part = library.with_suffix(".part")
        options = ["-O3", "-march=native", "-std=c++17", "-shared", "-fPIC"]
        subprocess.run(["g++", *options, "-o", str(part), str(source)], check=True, capture_output=True, text=True)
        part.rename(library)
    return library


def _panes(make: Callable[[], Callable[[], Any]]) -> Contestant:
    """Many small ones, as panes are: made, given three groups, kept."""

    def prepare(sizes: Mapping[str, int]) -> Any:
        import cbt.tree  # noqa: F401
        from cython_ext.column import Column
        from job.types import Kind

        names = Column.from_list(Kind.STRING, ["GET", "HEAD", "POST"])
        return sizes["panes"], make(), names, Column.from_list(Kind.BIGINT, [1, 2, 3])

    def run(prepared: Any) -> Answer:
        count, pane, names, values = prepared
        panes = [pane() for _ in range(count)]
        for each in panes:
            each.update([names], [None, values], [None, None], 3)
        return [sum(map(len, panes))]

    return Contestant(run, prepare)


def _small_tree() -> Callable[[], Any]:
    from cbt.aggregate import StateKind
    from cbt.budget import Budget
    from cbt.options import BudgetOptions
    from cbt.tree import Tree
    from job.types import Kind

    budget = Budget(BudgetOptions())
    return lambda: Tree([Kind.STRING], [StateKind.COUNT, StateKind.SUM], budget=budget)


def _small_table() -> Callable[[], Any]:
    from cbt.aggregate import StateKind
    from cython_ext.groups import GroupTable
    from job.types import Kind

    return lambda: GroupTable([Kind.STRING], [StateKind.COUNT, StateKind.SUM])


def _lacks_sparsehash() -> str:
    try:
        _compiled()
    except FileNotFoundError:
        return "no g++"
    except subprocess.CalledProcessError as problem:
        return "sparsehash does not compile (Debian: apt install libsparsehash-dev): " + problem.stderr.splitlines()[0]
    return ""


def _sparsehash(zipf: bool) -> Contestant:
    def prepare(sizes: Mapping[str, int]) -> Any:
        return sizes, events_file(sizes, zipf), ctypes.CDLL(str(_compiled()))

    def run(prepared: Any) -> Answer:
        sizes, (keys, values), library = prepared
        out = (ctypes.c_int64 * 3)()
        if library.count_and_sum(bytes(keys), bytes(values), ctypes.c_int64(sizes["events"]), out):
            raise OSError(f"{keys} and {values} do not have {sizes['events']} events")
        return list(out)

    return Contestant(run, prepare, lacks=_lacks_sparsehash)


def _rivals(zipf: bool) -> dict[str, Contestant]:
    return {
        "sparsehash": _sparsehash(zipf),
        "duckdb, 1 thread": _duckdb(zipf),
        "polars streaming, 1 thread": _polars(zipf),
    }


def _groups(answer: Answer) -> int:
    return answer[0]


BENCHMARKS = {
    "cold": Benchmark(
        title="Count and sum over 20-byte keys, uniform",
        unit="events",
        units=lambda sizes: sizes["events"],
        contestants={
            "tree, no cap": _tree(False, None),
            "tree, 512 MiB": _tree(False, 512),
            "tree, 245 MiB: 35 B a key": _tree(False, 245),
            "tree, 128 MiB": _tree(False, 128),
            "tree, 64 MiB": _tree(False, 64),
            "tree, 32 MiB": _tree(False, 32),
            "group table alone": _table(False),
            **_rivals(False),
        },
        groups=_groups,
        sizes={"events": 20_000_000, "keys": 8_000_000},
        smoke={"events": 20_000, "keys": 8_000},
    ),
    "hot": Benchmark(
        title="Count and sum over 20-byte keys, Zipf(1.0)",
        unit="events",
        units=lambda sizes: sizes["events"],
        contestants={
            "tree, no cap": _tree(True, None),
            "group table alone": _table(True),
            "python dict": _dict(True),
            **_rivals(True),
        },
        groups=_groups,
        sizes={"events": 5_000_000, "keys": 1_000_000},
        smoke={"events": 20_000, "keys": 4_000},
    ),
    "panes": Benchmark(
        title="Small panes of three groups each",
        unit="panes",
        units=lambda sizes: sizes["panes"],
        contestants={"trees": _panes(_small_tree), "group tables": _panes(_small_table)},
        sizes={"panes": 100_000},
        smoke={"panes": 1_000},
        groups=_groups,
    ),
}

if __name__ == "__main__":
    main("bench.bench_cbt", BENCHMARKS)

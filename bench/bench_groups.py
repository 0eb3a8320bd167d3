"""Rows per core-second and bytes per group of the group table, beside rivals on the same rows in one run.

    python bench/bench_groups.py [--smoke] [--case NAME] [--rows N]

Every engine runs in a process of its own, on one thread, over rows that are in memory as it likes them best
(ours: columns of 50,000 rows). Speed is by CPU time; memory is how far the peak rose over what the rows took.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

BLOCK_ROWS = 50_000


class Case(NamedTuple):
    """Keys to draw from, their size in bytes, how skewed the draw is (0: each in turn), rows, sum or not."""

    about: str
    keys: int
    key_bytes: int
    skew: float
    rows: int
    summed: bool


CASES = {
    "zipf": Case("count by a 40-byte URL, zipf", 600_000, 40, 1.0, 4_000_000, False),
    "hot": Case("count by 10,000 40-byte URLs, zipf", 10_000, 40, 1.0, 4_000_000, False),
    "unique": Case("count and sum by 2 M 20-byte keys", 2_000_000, 20, 0.0, 4_000_000, True),
}

Rows = tuple[list[bytes], list[int]]
Work = Callable[[], tuple[int, int]]  # groups, bytes of the table if known


def make_rows(case: Case) -> Rows:
    """Keys and values, the same on every run; each row's key has bytes of its own, as in a log."""
    rng = random.Random(20)
    if case.skew:
        weights = itertools.accumulate(1 / (i + 1) ** case.skew for i in range(case.keys))
        picks = rng.choices(range(case.keys), cum_weights=list(weights), k=case.rows)
    else:
        picks = [i * 7919 % case.keys for i in range(case.rows)]
    width = case.key_bytes - 10
    keys = [
        (f"/{i * 2654435761 % 10**9:09}/shop/category/products/item/".ljust(60, "x")[: width + 10])
        for i in picks
    ]
    return [key.encode() for key in keys], [pick % 5000 for pick in picks]


def memory_bytes(field: str) -> int:
    """VmRSS or VmHWM of this process; 0 where there is no /proc."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return int(status.split(field + ":")[1].split()[0]) * 1024


def settle_memory() -> int:
    """Gives free memory back, forgets the peak so far, and answers the bytes now resident."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return memory_bytes("VmRSS")


def prepare_ours(case: Case, rows: Rows) -> Work:
    from cbt.aggregate import Finish, StateKind
    from cython_ext.column import Column
    from cython_ext.groups import GroupTable

    states = [StateKind.COUNT, StateKind.SUM] if case.summed else [StateKind.COUNT]
    blocks = []
    for start in range(0, case.rows, BLOCK_ROWS):
        keys, values = (part[start : start + BLOCK_ROWS] for part in rows)
        inputs = [None, Column.from_list(2, values)] if case.summed else [None]
        blocks.append((Column.from_list(5, keys), inputs, len(keys)))

    def work() -> tuple[int, int]:
        table = GroupTable([5], states)
        for keys_column, inputs, count in blocks:
            table.update([keys_column], inputs, [None] * len(states), count)
        table.finish(0, Finish.COUNT)
        return len(table), table.bytes_used

    return work


def prepare_dict(case: Case, rows: Rows) -> Work:
    def work() -> tuple[int, int]:
        groups: dict[bytes, list[int]] = {}
        for key, value in zip(*rows, strict=True):
            group = groups.get(key)
            if group is None:
                groups[key] = [1, value]
            else:
                group[0] += 1
                group[1] += value
        return len(groups), 0

    return work


def prepare_polars(case: Case, rows: Rows) -> Work:
    import polars as pl

    frame = pl.DataFrame({"k": [key.decode() for key in rows[0]], "v": rows[1]})
    sums = [pl.col("v").sum()] if case.summed else []
    return lambda: (frame.group_by("k").agg(pl.len(), *sums).height, 0)


def prepare_duckdb(case: Case, rows: Rows) -> Work:
    import duckdb
    import pyarrow as pa

    frame = pa.table({"k": pa.array([key.decode() for key in rows[0]]), "v": rows[1]})
    connection = duckdb.connect(config={"threads": 1})
    connection.register("frame", frame)
    sums = ", sum(v)" if case.summed else ""

    def work() -> tuple[int, int]:
        connection.execute(f"CREATE TABLE r AS SELECT k, count(*){sums} FROM frame GROUP BY k")
        (groups,) = connection.execute("SELECT count(*) FROM r").fetchone() or (0,)
        return groups, 0

    return work


PREPARE: dict[str, Callable[[Case, Rows], Work]] = {
    "ours": prepare_ours,
    "polars": prepare_polars,
    "duckdb": prepare_duckdb,
    "dict": prepare_dict,
}


def measure(engine: str, case: Case) -> dict[str, float]:
    rows = make_rows(case)
    work = PREPARE[engine](case, rows)
    if engine in ("polars", "duckdb"):
        del rows
    before = settle_memory()
    began = time.process_time()
    groups, known_bytes = work()
    seconds = time.process_time() - began
    return {
        "groups": groups,
        "bytes": known_bytes,
        "grown": memory_bytes("VmHWM") - before,
        "seconds": seconds,
    }


def spawn(engine: str, name: str, rows: int) -> dict[str, float] | None:
    """The measurement by a process of its own; None when the rival is not installed."""
    command = [sys.executable, __file__, "--engine", engine, "--case", name, "--rows", str(rows)]
    environment = {**os.environ, "POLARS_MAX_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode and "ModuleNotFoundError" in done.stderr and engine != "ours":
        return None
    if done.returncode:
        raise RuntimeError(done.stderr)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def compare(name: str, rows: int) -> None:
    print(f"{name}: {CASES[name].about}, {rows:,} rows")
    ours: dict[str, float] | None = None
    for engine in PREPARE:
        result = spawn(engine, name, rows)
        if result is None:
            print(f"  {engine:7} not installed")
            continue
        ours = ours or result
        if result["groups"] != ours["groups"]:
            raise RuntimeError(f"{engine} found {result['groups']} groups, not {ours['groups']}")
        rate = rows / max(result["seconds"], 1e-9) / 1e6
        ratio = result["seconds"] / max(ours["seconds"], 1e-9)
        memory = f"{result['grown'] / result['groups']:6.0f} B/group at the peak"
        table = f", {result['bytes'] / result['groups']:.0f} B/group in the table" if result["bytes"] else ""
        print(f"  {engine:7} {rate:7.1f} M rows/s  {ratio:5.1f}x our time  {memory}{table}")
    print(f"  {int((ours or {'groups': 0})['groups']):,} groups")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="tiny and fast: does it still run?")
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--engine", choices=PREPARE, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        print(json.dumps(measure(options.engine, CASES[options.case]._replace(rows=options.rows))))
        return
    for name in [options.case] if options.case else CASES:
        compare(name, 20_000 if options.smoke else options.rows or CASES[name].rows)


if __name__ == "__main__":
    main()

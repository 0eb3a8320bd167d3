"""Scanning alone: bytes of a combined log, and of a JSON log, in memory to columns.

Ours checks every field of every line, time and numbers included. The rivals: Python's `re` with the usual expression,
Polars splitting at blanks, which checks nothing, and msgspec for JSON. Compared is the number of good lines, where the
rival knows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.data import combined_log, json_log
from bench.harness import Benchmark, Contestant, main

BLOCK_BYTES = 1 << 20
EXPRESSION = (
    rb'(\S+) (\S+) (\S+) \[(\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "((?:[^"\\]|\\.)*)" (\d{3}) (\d+|-) '
    rb'"((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"'
)


def _blocks(data: bytes) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(data):
        stop = data.rfind(b"\n", start, start + BLOCK_BYTES) + 1
        yield start, stop
        start = stop


def _combined(sizes: Mapping[str, int]) -> bytes:
    return combined_log(sizes["lines"]).read_bytes()


def _ours(name: str, wanted: list[str] | None) -> Contestant:
    def prepare(sizes: Mapping[str, int]) -> tuple[Any, bytes]:
        from cython_ext.scan import Scanner
        from job.formats.catalogue import named

        program: Any = named(name).program
        data = (json_log if name == "json" else combined_log)(sizes["lines"]).read_bytes()
        scanner = Scanner(program, list(program.fields) if wanted is None else wanted)
        scanner.scan(data, 0, data.find(b"\n") + 1)
        return scanner, data

    def run(prepared: tuple[Any, bytes]) -> int:
        scanner, data = prepared
        return sum(scanner.scan(data, start, stop).rows for start, stop in _blocks(data))

    return Contestant(run, prepare)


def _expression(data: bytes) -> int:
    import re

    match = re.compile(EXPRESSION).fullmatch
    return sum(match(line) is not None for line in data.split(b"\n"))


def _polars(data: bytes) -> None:
    import io

    import polars as pl

    pl.read_csv(
        io.BytesIO(data), separator=" ", has_header=False, quote_char=None, columns=[6],
        schema={f"c{i}": pl.String for i in range(12)}, truncate_ragged_lines=True, extra_columns="ignore",
        encoding="utf8-lossy",
    )  # fmt: skip


def _msgspec(data: bytes) -> int:
    import msgspec

    decode = msgspec.json.Decoder(dict[str, Any]).decode
    good = 0
    for line in data.split(b"\n"):
        try:
            decode(line)
        except msgspec.DecodeError:
            continue
        good += 1
    return good


def _warm_polars(sizes: Mapping[str, int]) -> bytes:
    import os

    os.environ["POLARS_MAX_THREADS"] = "1"
    import polars  # noqa: F401

    return _combined(sizes)


BENCHMARKS = {
    "combined": Benchmark(
        title="Combined lines of 258 bytes to columns",
        unit="lines",
        units=lambda sizes: sizes["lines"],
        contestants={
            "elfstream, uri": _ours("combined", ["uri"]),
            "elfstream, all fields": _ours("combined", None),
            "polars, column 6, unchecked": Contestant(_polars, _warm_polars, ("polars",)),
            "python re": Contestant(_expression, _combined),
        },
        sizes={"lines": 1_000_000},
        smoke={"lines": 2_000},
    ),
    "json": Benchmark(
        title="JSON lines to columns",
        unit="lines",
        units=lambda sizes: sizes["lines"],
        contestants={
            "elfstream, uri": _ours("json", ["request.uri"]),
            "msgspec to dict": Contestant(_msgspec, lambda sizes: json_log(sizes["lines"]).read_bytes()),
        },
        sizes={"lines": 300_000},
        smoke={"lines": 2_000},
    ),
}

if __name__ == "__main__":
    main("bench.bench_scan", BENCHMARKS)

"""An agent's logs thread over a combined log: CPU per line beside the one-shot query over the same file, in the same run.

The agent reads on from the beginning of the log, as its core asks it to, and hands out a portion with each cut; "again"
reads the whole log as one old range. The query is timed up to its panes: finishing windows is the root's work.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bench.data import combined_log
from bench.harness import Benchmark, Contestant, main

SQLS = (
    "SELECT uri, window(time, '1 minute') AS w, count(*) AS n, sum(bytes) AS s FROM access GROUP BY uri, w",
    "SELECT status, window(time, '10 seconds') AS w, count(*) AS n, max(bytes) AS m FROM access GROUP BY status, w",
    "SELECT remote_addr, window(time, '1 minute') AS w, count(*) AS n FROM access WHERE status > 399 GROUP BY 1, 2",
)
ADVANCE_BYTES_MAX = 64 << 20


class Rig(NamedTuple):
    """A reader that was begun, and the streams it is asked for."""

    reader: Any
    specs: tuple[Any, ...]
    files: Mapping[bytes, Any]
    end: Mapping[bytes, Any] = {}


def _rig(jobs: int) -> Any:
    def prepare(sizes: Mapping[str, int]) -> Rig:
        from agent.log_reader import LogReader
        from agent.sources import Source, Sources
        from agent.stream_events import FoldSpec
        from agent.tail_options import TailOptions
        from cbt.budget import Budget
        from cbt.memory import Memory
        from cbt.options import BudgetOptions
        from elfstream.embedded import compile_plan
        from job.formats import find
        from srt.frame_messages import StreamId

        format = find("combined")
        source = Source(
            "access", (str(combined_log(sizes["lines"])),), format, TailOptions(read_from="beginning")
        )
        memory = Memory(Budget(BudgetOptions(memory_max=256 << 20)))
        folder = Path(tempfile.mkdtemp(prefix="elfstream-bench-"))
        reader = LogReader(Sources([source]), None, memory, str(folder / "logs"), bytes(16))
        specs = tuple(
            FoldSpec((b"", StreamId(number, bytes(16))), compile_plan(sql, format), 0, 1 << 62, 0)
            for number, sql in enumerate(SQLS[:jobs])
        )
        return Rig(reader, specs, reader.begin().files)

    return prepare


def _advance(rig: Rig) -> list[int]:
    from agent.stream_events import Advance

    lines, files, more, token = [0] * len(rig.specs), rig.files, True, 0
    while more:
        token += 1
        done = rig.reader.advance(Advance(token, files, rig.specs, ADVANCE_BYTES_MAX))
        for number, spec in enumerate(rig.specs):
            lines[number] += done.portions[spec.key].counters.lines
        files, more = done.files, done.more
    return lines


def _again(rig: Rig) -> list[int]:
    from agent.stream_events import Fold

    steps = rig.reader.folding(Fold(1, rig.specs[0], rig.files, rig.end, 1 << 40))
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return [done.value.portion.counters.lines]


def _read_before(sizes: Mapping[str, int]) -> Rig:
    from agent.stream_events import Advance

    rig: Rig = _rig(1)(sizes)
    files, more = rig.files, True
    while more:
        done = rig.reader.advance(Advance(1, files, (), ADVANCE_BYTES_MAX))
        files, more = done.files, done.more
    return rig._replace(end=files)


def _one_shot(jobs: int) -> Contestant:
    def prepare(sizes: Mapping[str, int]) -> tuple[str, Any, list[Any]]:
        from elfstream.embedded import compile_plan
        from job.formats import find

        format = find("combined")
        return str(combined_log(sizes["lines"])), format, [compile_plan(sql, format) for sql in SQLS[:jobs]]

    def run(prepared: tuple[str, Any, list[Any]]) -> list[int]:
        from agent.files import Inputs
        from elfstream import embedded

        path, format, plans = prepared
        return [embedded.run(plan, format, Inputs([path]), threads=1)[1].lines for plan in plans]

    return Contestant(run, prepare)


BENCHMARKS = {
    "one": Benchmark(
        "one job, combined lines of 258 bytes",
        "lines",
        lambda sizes: sizes["lines"],
        {
            "agent": Contestant(_advance, _rig(1)),
            "agent, again": Contestant(_again, _read_before),
            "one-shot query": _one_shot(1),
        },
        {"lines": 1_000_000},
        {"lines": 2_000},
    ),
    "three": Benchmark(
        "three jobs, one scan",
        "lines",
        lambda sizes: sizes["lines"],
        {"agent": Contestant(_advance, _rig(3)), "three one-shot queries": _one_shot(3)},
        {"lines": 1_000_000},
        {"lines": 2_000},
    ),
}

if __name__ == "__main__":
    main("bench.bench_agent", BENCHMARKS)

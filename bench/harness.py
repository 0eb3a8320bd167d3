"""How benchmarks are run: ours and its rivals in turn, each in a process of its own, round after round.

These machines are shared, so one number says little: a benchmark reports CPU seconds of the work (start-up and imports
excluded, all threads included), the median over rounds, the ratio to ours in the same run, and the peak memory of each
process. Answers are compared, so that nobody is fast by being wrong.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.process_tree import Tree

CACHE = Path(__file__).resolve().parent.parent / "build" / "bench"


@dataclass(frozen=True)
class Contestant:
    """One way to do the work. `prepare` is not timed; `run` gets what it returned and returns the answer, which must be
    equal for all contestants of a benchmark (None: not compared). `needs` are modules it is not run without; `lacks` says
    what else is not there that it needs, if anything. `tree`: processes that it starts count, too (Linux)."""

    run: Callable[[Any], Any]
    prepare: Callable[[Mapping[str, int]], Any]
    needs: tuple[str, ...] = ()
    threads: int = 1
    lacks: Callable[[], str] = lambda: ""
    tree: bool = False


@dataclass(frozen=True)
class Benchmark:
    """`contestants[0]` is ours. `units(sizes)` is the work in `unit`s; `sizes` and `smoke` are the two scales.
    `groups(answer)` is how many the memory is divided by, where that says something."""

    title: str
    unit: str
    units: Callable[[Mapping[str, int]], int]
    contestants: Mapping[str, Contestant]
    sizes: Mapping[str, int]
    smoke: Mapping[str, int]
    groups: Callable[[Any], int] | None = None


def main(module: str, benchmarks: Mapping[str, Benchmark]) -> None:
    """The command line of a benchmark module: [--smoke] [--rounds N] [NAME ...]."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("names", nargs="*", default=list(benchmarks), help=f"of {', '.join(benchmarks)}")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, one round: does it run?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        _child(benchmarks[options.names[0]], options.contestant, options.smoke)
        return
    for name in options.names:
        _compare(module, name, benchmarks[name], 1 if options.smoke else options.rounds, options.smoke)


def _child(benchmark: Benchmark, name: str, smoke: bool) -> None:
    contestant = benchmark.contestants[name]
    tree = Tree() if contestant.tree else None
    prepared = contestant.prepare(benchmark.smoke if smoke else benchmark.sizes)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cpu_s = time.process_time if tree is None else tree.cpu_s
    cpu, wall = cpu_s(), time.perf_counter()
    answer = contestant.run(prepared)
    figures = {
        "cpu_s": cpu_s() - cpu,
        "wall_s": time.perf_counter() - wall,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 if tree is None else tree.peak_bytes,
        "base_bytes": base * 1024,
        "answer": answer,
    }
    print(json.dumps(figures))


def _compare(module: str, name: str, benchmark: Benchmark, rounds: int, smoke: bool) -> None:
    sizes = benchmark.smoke if smoke else benchmark.sizes
    runs: dict[str, list[dict[str, Any]]] = {}
    missing = {contestant: _missing(what) for contestant, what in benchmark.contestants.items()}
    for _ in range(rounds):
        for contestant in benchmark.contestants:
            if not missing[contestant]:
                runs.setdefault(contestant, []).append(_spawn(module, name, contestant, smoke))
    shown = ", ".join(f"{key} {value:,}" for key, value in sizes.items())
    print(f"\n{benchmark.title} ({shown}; {rounds} rounds, medians)")
    _print_table(benchmark, benchmark.units(sizes), runs)
    for contestant, what in missing.items():
        if what:
            print(f"  {contestant:28} not run: {what}")
    answers = {contestant: done[0]["answer"] for contestant, done in runs.items()}
    expected = next(iter(answers.values()))
    wrong = [who for who, answer in answers.items() if answer is not None and answer != expected]
    if wrong:
        raise SystemExit(f"answers differ from ours: {', '.join(wrong)}")


def _print_table(benchmark: Benchmark, units: int, runs: Mapping[str, list[dict[str, Any]]]) -> None:
    by_group = benchmark.groups
    print(
        f"  {'':28} {'cpu s':>8} {'wall s':>8} {'M ' + benchmark.unit + '/cpu s':>16} {'cpu vs ours':>12} {'peak MiB':>9}"
        + (f" {'B/group':>9}" if by_group else "")
    )
    ours = statistics.median(run["cpu_s"] for run in next(iter(runs.values())))
    for contestant, done in runs.items():
        cpu, wall, peak = (statistics.median(run[key] for run in done) for key in ("cpu_s", "wall_s", "peak_bytes"))
        line = f"  {contestant:28} {cpu:8.3f} {wall:8.3f} {units / max(cpu, 1e-9) / 1e6:16.2f}"
        line += f" {cpu / max(ours, 1e-9):11.2f}x {peak / 2**20:9.0f}"
        if by_group is not None:
            # What the work added to the process: interpreters and libraries are not the groups' fault.
            grown = peak - statistics.median(run["base_bytes"] for run in done)
            line += f" {grown / max(by_group(done[0]['answer']), 1):9.1f}"
        print(line)


def _spawn(module: str, name: str, contestant: str, smoke: bool) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        module,
        name,
        "--contestant",
        contestant,
        *(["--smoke"] if smoke else []),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{contestant} failed:\n{done.stderr}")
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def _missing(contestant: Contestant) -> str:
    """What a contestant cannot be run without, and is not there."""
    from importlib.util import find_spec

    modules = [f"no module {need}" for need in contestant.needs if find_spec(need) is None]
    return ", ".join(modules) or contestant.lacks()

"""Following a log that a server writes: lag and CPU time at a sustained rate, and CPU time at rest; beside GNU `tail -F`.

A writer process appends a batch of 100-byte lines every 2 ms, each line beginning with the time it was written at. Lag is
taken at the oldest line of each block that arrives. Both followers run at the same time on the same file.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from agent.follower import Follower
from agent.tail_events import Deliver, Gap
from agent.tail_options import TailOptions

LINE_BYTES = 100
BATCH_S = 0.002
WRITER = """
import os, sys, time
path, rate, seconds, batch_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
log = os.open(path, os.O_WRONLY | os.O_APPEND)
batch, total = int(rate * batch_s), int(rate * seconds)
rest = b" " + b"x" * (int(sys.argv[5]) - 22) + b"\\n"
start, done = time.monotonic(), 0
while done < total:
    os.write(log, (b"%020d" % time.monotonic_ns() + rest) * batch)
    done += batch
    pause = start + done / rate - time.monotonic()
    if pause > 0:
        time.sleep(pause)
"""


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _follow(follower: Follower, lines: int, deadline_s: float) -> tuple[list[float], int, float]:
    """Lags in milliseconds of all blocks, the lines that came, and when the first of them was written."""
    lags, count, first_ns = [], 0, 0
    while count < lines and time.monotonic() < deadline_s:
        for found in follower.poll():
            if isinstance(found, Gap):
                raise SystemExit(f"lost lines: {found}")
            if isinstance(found, Deliver):
                written_ns = int(found.data[found.start : found.start + 20])
                first_ns = first_ns or written_ns
                lags.append((time.monotonic_ns() - written_ns) / 1e6)
                count += (found.stop - found.start) // LINE_BYTES
        follower.wait(1.0)
    return lags, count, first_ns / 1e9


def _at_rest(follower: Follower, seconds: float) -> float:
    cpu, end = time.process_time(), time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        follower.poll()
        follower.wait(left)
    return (time.process_time() - cpu) / seconds


def measure(rate: int, seconds: float, rest_s: float) -> None:
    """Prints one line of figures for a rate in lines per second."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        log = Path(folder, "access.log")
        log.touch()
        rival = None
        if shutil.which("tail"):
            command = ["tail", "-n", "+1", "-F", str(log)]
            rival = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with Follower([f"{log}*"], TailOptions(read_from="beginning")) as follower:
            follower.poll()
            lines = int(rate * BATCH_S) * -(-int(rate * seconds) // int(rate * BATCH_S))
            numbers = [str(rate), str(seconds), str(BATCH_S), str(LINE_BYTES)]
            command = [sys.executable, "-c", WRITER, str(log), *numbers]
            cpu, wall = time.process_time(), time.monotonic()
            writer = subprocess.Popen(command)
            lags, count, first_s = _follow(follower, lines, wall + seconds * 4 + 10)
            cpu, wall = time.process_time() - cpu, time.monotonic() - first_s
            writer.wait()
            resting = _at_rest(follower, rest_s)
        theirs = 0.0
        if rival is not None:
            before = _children_s()
            rival.terminate()
            rival.wait()
            theirs = _children_s() - before
    if count != lines:
        raise SystemExit(f"{count} of {lines} lines came")
    lags.sort()
    ours, p99 = cpu / wall, lags[min(len(lags) - 1, len(lags) * 99 // 100)]
    ratio = f"{theirs / cpu:5.2f}x" if theirs else "    -"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"  {rate:>9,} {lines / wall:>11,.0f} {statistics.median(lags):>9.2f} {p99:>9.2f} {lags[-1]:>9.2f}"
        f" {ours:>8.1%} {resting:>9.3%} {ratio:>12} {peak:>9.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.bench_tail", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a moment at a low rate: does it run?")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    print("Following one log; lag in ms from written to delivered, CPU in cores")
    print(
        f"  {'lines/s':>9} {'reached':>11} {'lag p50':>9} {'lag p99':>9} {'lag max':>9} {'cpu':>8} {'at rest':>9}"
        f" {'tail -F cpu':>12} {'peak MiB':>9}"
    )
    for rate in (5_000,) if options.smoke else (1_000, 50_000, 500_000):
        for _ in range(1 if options.smoke else options.rounds):
            measure(rate, 0.3 if options.smoke else 5.0, 0.2 if options.smoke else 3.0)


if __name__ == "__main__":
    main()

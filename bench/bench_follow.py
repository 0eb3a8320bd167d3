"""`elfstream query --follow` as a process: from a line written to the result it appears in, and a log that never rests.

Latency: one line at a time, each a second of event time later, so each closes a window; taken from the return of write(2) to
the moment the window's JSON was read from the pipe. A line waits for the next emit, on average half the emit interval, so
what elfstream adds is what lies beyond it.

Load: 258-byte combined lines at a fixed rate for some seconds, by a writer that only copies prepared blocks. A line of the
next second closes the window of the one before; taken from the return of its write to the window's JSON. As long as that
stays under the emit interval and a little, the follower keeps up; the counts of all windows must be exact. The load of the
rest of the machine is given beside. TMPDIR says where the log is: a slow disk slows the writer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import elfstream as elf
from bench.data import combined_chunks

BLOCK_S = 0.01
STAMP = b"dd/mmm/yyyy:hh:mm:ss +0000"
COUNTS = "SELECT window(time, '1 second') AS w, count(*) AS n FROM access GROUP BY w"
TOP = """SELECT window(time, '10 seconds', '1 second') AS w, path, count(*) AS n, sum(bytes) AS b FROM access
         GROUP BY w, path ORDER BY n DESC LIMIT 10"""
LOADS = {"count by second": COUNTS, "top 10 paths of 10 s, sliding": TOP}


class Follow:
    """A followed query and the windows it told: (start in seconds since 1970, monotonic ns when read, rows)."""

    def __init__(self, sql: str, log: Path, emit: str) -> None:
        command = [sys.executable, "-m", "elfstream", "query", "--follow", sql, str(log), "-o", "json", "--format",
                   "combined", "--emit", emit, "--delay", "0s", "--since", "beginning"]  # fmt: skip
        self.told: list[tuple[int, int, list[dict[str, Any]]]] = []
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            now = time.monotonic_ns()
            window = json.loads(line)
            if window["status"] == "final":
                start = time.strptime(window["window"]["start"], "%Y-%m-%dT%H:%M:%SZ")
                self.told.append((int(time.mktime(start)) - time.timezone, now, window["rows"]))

    def wait_for_open(self, log: Path) -> None:
        """Until it holds the log open."""
        while not any(os.path.realpath(link) == str(log) for link in Path(f"/proc/{self.child.pid}/fd").iterdir()):
            time.sleep(0.01)

    def end(self) -> None:
        """Ends it as Ctrl-C does."""
        self.child.terminate()
        self.child.wait()
        self._reader.join()


def cpu_s(pid: int) -> float:
    """User and system seconds of a living process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine_s() -> float:
    """Seconds that all processors together were busy since the start of the machine."""
    user, nice, system, _idle, _wait, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split()[1:11])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def stamp(second: int) -> bytes:
    """A time as logs write it."""
    return time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(second)).encode()


def percentiles(values: list[float]) -> tuple[float, float, float]:
    """p50, p99 and the greatest."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)], ordered[-1]


@contextmanager
def empty_log() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        log = Path(folder).resolve() / "access.log"
        log.touch()
        yield log


def latency(emit_ms: int, samples: int) -> None:
    """Prints one line of figures."""
    random, first = Random(1), int(time.time()) - 7200
    with empty_log() as log:
        follow = Follow(COUNTS, log, f"{emit_ms}ms")
        follow.wait_for_open(log)
        written = {}
        out = os.open(log, os.O_WRONLY | os.O_APPEND)
        busy, ours = machine_s(), cpu_s(follow.child.pid)
        started = time.monotonic()
        for number in range(samples + 1):
            os.write(out, b'203.0.113.9 - - [%s] "GET / HTTP/1.1" 200 1 "-" "-"\n' % stamp(first + number))
            written[first + number - 1] = time.monotonic_ns()
            time.sleep(random.uniform(0.02, 0.08))
        wall = time.monotonic() - started
        busy, ours = machine_s() - busy, cpu_s(follow.child.pid) - ours
        time.sleep(emit_ms / 1000 + 0.5)
        follow.end()
        os.close(out)
    took = [(read - written[start]) / 1e6 for start, read, rows in follow.told if rows[0]["n"] == 1]
    if len(took) != samples:
        raise SystemExit(f"{len(took)} of {samples} windows came")
    p50, p99, most = percentiles(took)
    others = (busy - ours) / wall / (os.cpu_count() or 1)
    print(
        f"  {emit_ms:>7} {samples:>8} {p50:>8.1f} {p99:>8.1f} {most:>8.1f} {p99 - emit_ms:>15.1f}"
        f" {ours / wall:>7.1%} {others:>7.0%}"
    )


def lines_of(rate: int) -> int:
    """Lines of a block."""
    return max(int(rate * BLOCK_S), 1)


def block_of(rate: int) -> bytes:
    """What is written in BLOCK_S seconds, with STAMP for every time; the last line is one that fits the format."""
    lines = lines_of(rate)
    text = next(combined_chunks(lines)).encode().split(b"\n")[: lines - 1]
    text.append(b'203.0.113.9 - - [%s] "GET / HTTP/1.1" 200 1 "-" "-"' % STAMP)
    return b"".join(re.sub(rb"\[[^]]*\]", b"[" + STAMP + b"]", line, count=1) + b"\n" for line in text)


def write_load(log: str, rate: int, seconds: int) -> None:
    """The writer: blocks of BLOCK_S, prepared once a second. Tells each second, when its first block was written (monotonic
    ns) and its lines."""
    model, lines = block_of(rate), lines_of(rate)
    out = os.open(log, os.O_WRONLY | os.O_APPEND)
    start = time.monotonic()
    told: dict[int, list[int]] = {}
    second, block = 0, model
    for number in range(int(seconds / BLOCK_S)):
        if (now := int(time.time())) > second:
            second, block = now, model.replace(STAMP, stamp(now))
        os.write(out, block)
        told.setdefault(second, [time.monotonic_ns(), 0])[1] += lines
        pause = start + (number + 1) * BLOCK_S - time.monotonic()
        if pause > 0:
            time.sleep(pause)
    used = resource.getrusage(resource.RUSAGE_SELF)
    took = time.monotonic() - start
    cpu = used.ru_utime + used.ru_stime
    print(json.dumps({"told": told, "cpu": cpu, "took": took}))


def check(told: dict[int, tuple[int, int]], counted: dict[int, int], rate: int) -> None:
    """Every window but the last, which nothing closed, has every line that the one-shot query finds in what was written."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(block_of(rate).replace(STAMP, stamp(min(told))))
        file.flush()
        good = next(iter(elf.query("SELECT count(*) AS n FROM access", file.name, format="combined"))).n
    want = {second: lines // lines_of(rate) * good for second, (_, lines) in told.items() if second != max(told)}
    wrong = {second: (n, counted.get(second)) for second, n in want.items() if counted.get(second) != n}
    if wrong:
        raise SystemExit(f"windows (second: written, counted) are wrong: {wrong}")


def load(name: str, sql: str, rate: int, seconds: int) -> None:
    """Prints one line of figures."""
    with empty_log() as log:
        follow = Follow(sql, log, "500ms")
        follow.wait_for_open(log)
        busy, ours = machine_s(), cpu_s(follow.child.pid)
        command = [sys.executable, "-m", "bench.bench_follow", "--write", str(log), "--rate", str(rate),
                   "--seconds", str(seconds)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, check=True)
        busy, ours = machine_s() - busy, cpu_s(follow.child.pid) - ours
        peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{follow.child.pid}/status").read_text())
        time.sleep(1.5)
        follow.end()
    writer = json.loads(done.stdout)
    told = {int(second): (ns, lines) for second, (ns, lines) in writer["told"].items()}
    if sql is COUNTS:
        check(told, {start: rows[0]["n"] for start, _, rows in follow.told}, rate)
    size = 1 if sql is COUNTS else 10
    took = [(read - told[start + size][0]) / 1e6 for start, read, _ in follow.told if start + size in told]
    p50, p99, most = percentiles(took)
    others = (busy - ours - writer["cpu"]) / writer["took"] / (os.cpu_count() or 1)
    written = sum(lines for _, lines in told.values())
    print(
        f"  {name:30} {written / writer['took']:>10,.0f} {p50:>8.0f} {p99:>8.0f} {most:>8.0f} {ours / writer['took']:>7.1%}"
        f" {writer['cpu'] / writer['took']:>8.1%} {others:>7.0%} {int(peak[1]) / 1024 if peak else 0:>9.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.bench_follow", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a few lines: does it run?")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--rate", type=int, default=500_000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--write", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write_load(options.write, options.rate, options.seconds)
        return
    print("From a line written to its window in the pipe, ms; CPU in cores, that of others as share of the machine")
    times = f"{'p50':>8} {'p99':>8} {'max':>8}"
    print(f"  {'emit ms':>7} {'samples':>8} {times} {'p99 beyond emit':>15} {'cpu':>7} {'others':>7}")
    for emit_ms in (20,) if options.smoke else (20, 100, 500):
        for _ in range(options.rounds):
            latency(emit_ms, 8 if options.smoke else 400)
    print("\nUnder load: from the first line of the next second written to the closed window in the pipe, ms (emit 500 ms)")
    print(f"  {'':30} {'lines/s':>10} {times} {'cpu':>7} {'writer':>8} {'others':>7} {'peak MiB':>9}")
    for name, sql in list(LOADS.items())[: 1 if options.smoke else None]:
        for _ in range(options.rounds):
            load(name, sql, 2_000 if options.smoke else options.rate, 3 if options.smoke else options.seconds)


if __name__ == "__main__":
    main()

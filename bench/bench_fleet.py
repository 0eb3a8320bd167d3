"""How long a fleet of real processes takes: after the loss of a root, to close a window, to show a line, to change a job;
what jobs cost that have nothing to do, what a huge one does to others, and one that looks back.

    python -m bench.bench_fleet [--smoke] [--rounds N] [NAME ...]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import elfstream as elf
from bench.bench_follow import percentiles, stamp
from tests.integration.fleet_processes import Collector, Fleet, NodeProcess, until

COUNTS = "SELECT window(time, '1 second') AS w, count(*) AS n FROM access GROUP BY w"
TIMING = {"emit": "20ms", "delay": "0s", "idle": "5s", "lateness": "5s"}
"""Logs tell whole seconds: with any delay a window would wait for the second after the next."""
SUBMITTERS = 10
FLOOD_LINES = 4000
"""A second, for each agent, each with a key of its own."""
CALM_S = 6.0
"""Under load, before the first change."""
MEMORY_MAX_MIB = 256
HUGE = {
    "beside a job with a group per line": "SELECT uri, count(*) AS n FROM access GROUP BY uri ORDER BY n DESC LIMIT 10",
    "beside one with a group per line and second": "SELECT window(time, '1 second') AS w, uri, count(*) AS n FROM access"
    " GROUP BY w, uri ORDER BY n DESC LIMIT 10",
    "beside a regex that backtracks": "SELECT count(*) AS n FROM access WHERE uri RLIKE '^/p/(([a-f0-9])+)+[A-Z]$'",
}


class Pulse(threading.Thread):
    """Writes a line into each agent's log every `every_s`, with the time it is; tells when it wrote which second first."""

    def __init__(self, logs: list[Path], every_s: float) -> None:
        super().__init__(daemon=True)
        self.first_s: dict[int, float] = {}
        """By second of the day's clock: when its first line was written, monotonic seconds."""
        self._logs, self._every_s = logs, every_s
        self._ending = threading.Event()
        for log in logs:
            log.parent.mkdir()
        self.start()

    def run(self) -> None:
        outs = [os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT) for log in self._logs]
        while not self._ending.wait(self._every_s):
            second = int(time.time())
            self.first_s.setdefault(second, time.monotonic())
            for out in outs:
                os.write(out, b'203.0.113.9 - - [%s] "GET / HTTP/1.1" 200 1 "-" "-"\n' % stamp(second))
        for out in outs:
            os.close(out)

    def close(self) -> None:
        self._ending.set()
        self.join()


size = (3, 2)
"""Agents and workers."""


class Flood(threading.Thread):
    """Writes lines that each have a path of their own into all logs, so many a second for each, until it is closed."""

    def __init__(self, logs: list[Path], lines: int) -> None:
        super().__init__(daemon=True)
        self.written = 0
        """For each log."""
        self._logs, self._lines, self._ending = logs, lines, threading.Event()
        self.start()

    def run(self) -> None:
        outs = [os.open(log, os.O_WRONLY | os.O_APPEND) for log in self._logs]
        began_s = time.monotonic()
        while not self._ending.wait(0.02):
            due = int((time.monotonic() - began_s) * self._lines) - self.written
            head = b"203.0.113.9 - - [%s]" % stamp(int(time.time()))
            for out in outs:
                keys = (random.getrandbits(64) for _ in range(due))
                os.write(out, b"".join(b'%s "GET /p/%016x HTTP/1.1" 200 1 "-" "-"\n' % (head, key) for key in keys))
            self.written += due
        for out in outs:
            os.close(out)

    def close(self) -> None:
        self._ending.set()
        self.join()


@contextmanager
def small_fleet(limits: str = "") -> Iterator[Fleet]:
    agents, workers = size
    with (
        tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder,
        limited(Fleet(Path(folder).resolve(), agents, workers, {"access": "combined"}), limits) as fleet,
    ):
        yield fleet


def limited(fleet: Fleet, limits: str) -> Fleet:
    """With further text in the configuration of each node, before it starts."""
    for node in fleet.nodes.values():
        with open(node.folder / "node.toml", "a") as out:
            out.write(limits)
    return fleet


@contextmanager
def busy_fleet(every_s: float, limits: str = "") -> Iterator[tuple[Fleet, Pulse]]:
    """A fleet whose agents get lines all the time."""
    with small_fleet(limits) as fleet:
        pulse = Pulse([node.folder / "access" / "access.log" for node in fleet.agents], every_s)
        try:
            yield fleet, pulse
        finally:
            pulse.close()


def takeover(rounds: int) -> None:
    """Kills the root again and again, then stops it as an operator does; who is gone comes back before the next."""
    for what, end in (("kill -9", NodeProcess.kill), ("stop (SIGTERM)", NodeProcess.stop)):
        p50, _, most = percentiles(taken_over(rounds, end))
        text = f"{what} of the root to the next final result"
        print(f"  {text:52} {rounds:>7} {p50:>8.2f} s {most:>8.2f} s")


def taken_over(rounds: int, end: Callable[[NodeProcess], object]) -> list[float]:
    """Seconds from the end of a root to the first result of a window that ended later."""
    took = []
    with busy_fleet(0.05) as (fleet, _), fleet.client() as client:
        # Without an agent nothing is final, whoever leads: so a job that a worker leads.
        names = (f"counts{number}" for number in itertools.count())
        while True:
            name = next(names)
            client.submit(name, COUNTS, settings=TIMING)
            if fleet.led_by(name) in fleet.workers:
                break
            client.job(name).remove()
        collector = Collector(fleet.urls(), name)
        phases = random.Random(1)
        for _ in range(rounds):
            # A young job waits for further agents first (F4), and rounds would keep in step with the windows.
            wait_for_finals(collector, 2)
            time.sleep(phases.random())
            until(lambda: fleet.led_by(name) in fleet.workers, 60.0, "a worker leads")
            root = fleet.led_by(name)
            assert root is not None
            killed_s = time.monotonic()
            ending = threading.Thread(target=end, args=(root,))
            ending.start()
            until(
                lambda killed_s=killed_s: final_since(collector, killed_s) is not None,
                60.0,
                "a result after the kill",
            )
            first_s = final_since(collector, killed_s)
            assert first_s is not None
            took.append(first_s - killed_s)
            ending.join()
            root.start()
            fleet.wait_ready()
        collector.check()
        collector.close()
    return took


def final_since(collector: Collector, moment_s: float) -> float | None:
    """When the first final result of a window that ended after `moment_s` was heard."""
    ended_us = (time.time() - time.monotonic() + moment_s) if moment_s else 0.0
    for result, heard_s in zip(list(collector.results), list(collector.heard_s), strict=False):
        if heard_s > moment_s and result.status == "final" and result.window.end.timestamp() > ended_us:
            return heard_s
    return None


def wait_for_results(collector: Collector, count: int) -> None:
    """So many more."""
    wanted = len(collector.results) + count
    until(lambda: len(collector.results) >= wanted, 60.0 + 2 * count, f"{count} more results")


def wait_for_finals(collector: Collector, count: int) -> None:
    """So many more windows that are final."""
    wanted = len(first_finals(collector)) + count
    until(lambda: len(first_finals(collector)) >= wanted, 60.0 + 2 * count, f"{count} more final windows")


def first_finals(collector: Collector) -> dict[float, float]:
    """When the first final result of each window was heard, by the window's end; in the order they came."""
    found: dict[float, float] = {}
    for result, heard_s in list(zip(collector.results, collector.heard_s, strict=False)):
        if result.status == "final":
            found.setdefault(result.window.end.timestamp(), heard_s)
    return found


def closing(samples: int) -> None:
    """From the first line of the next second, which lets a window close, to its final result at the client."""
    with busy_fleet(0.01) as (fleet, pulse), fleet.client() as client:
        client.submit("counts", COUNTS, settings=TIMING)
        collector = Collector(fleet.urls(), "counts")
        skipped = 3
        until(lambda: len(first_finals(collector)) >= skipped + samples, 60.0 + samples * 5, "final results")
        took = [
            (heard_s - pulse.first_s[int(end_s)]) * 1e3
            for end_s, heard_s in list(first_finals(collector).items())[skipped:]
        ]
        collector.close()
    p50, p99, most = percentiles(took)
    print(
        f"  {'line that closes a window written to final result, ms':52} {len(took):>7} {p50:>8.1f} {p99:>8.1f} {most:>8.1f}"
    )


def hostile(samples: int) -> None:
    """What a small job's windows wait for when others have more to do than it."""
    with busy_fleet(0.01, f'[limits]\nmemory_max = "{MEMORY_MAX_MIB}MiB"\n') as (fleet, pulse), fleet.client(60) as client:
        client.submit("counts", COUNTS, settings=TIMING)
        collector = Collector(fleet.urls(), "counts")
        until(lambda: len(first_finals(collector)) >= 3, 60.0, "the first final results")
        show_closing(fleet, pulse, collector, samples, "a small job alone")
        flood = Flood([node.folder / "access" / "access.log" for node in fleet.agents], FLOOD_LINES)
        try:
            show_closing(fleet, pulse, collector, samples, f"the same, {FLOOD_LINES} lines a second for each agent")
            for number, (what, sql) in enumerate(HUGE.items()):
                job = client.submit(f"huge{number}", sql, settings={"emit": "500ms"})
                show_closing(fleet, pulse, collector, samples, what)
                job.remove()
        finally:
            flood.close()
        print(f"  {'lines of the flood, each with a key of its own':52} {flood.written * len(fleet.agents):>7}")
        collector.check()
        collector.close()


def show_closing(fleet: Fleet, pulse: Pulse, collector: Collector, samples: int, what: str) -> None:
    skipped = len(first_finals(collector)) + 1
    until(lambda: len(first_finals(collector)) >= skipped + samples, 60.0 + samples * 5, "final results")
    finals = list(first_finals(collector).items())[skipped:]
    p50, p99, most = percentiles([(heard_s - pulse.first_s[int(end_s)]) * 1e3 for end_s, heard_s in finals])
    largest = max(node.resident_bytes() for node in fleet.nodes.values()) / 2**20
    figures = f"{samples:>7} {p50:>8.1f} {p99:>8.1f} {most:>8.1f}; largest node {largest:.0f} MiB"
    print(f"  {what + ', ms':52} {figures}", flush=True)


def changing(changes: int) -> None:
    """From PATCH to the first result of the new revision."""
    with busy_fleet(0.02) as (fleet, _), fleet.client() as client:
        job = client.submit("counts", COUNTS, settings=TIMING)
        collector = Collector(fleet.urls(), "counts")
        wait_for_results(collector, 3)
        took, answered, beyond = [], [], []
        for number in range(changes):
            asked_s = time.monotonic()
            revision = job.change(sql=f"{COUNTS} HAVING n > {-number}")["revision"]
            answered.append(time.monotonic() - asked_s)
            until(
                lambda revision=revision: heard_of(collector, revision) is not None,
                30.0,
                "the new revision",
                0.01,
            )
            heard_s, start_s = heard_of(collector, revision) or (0.0, 0.0)
            took.append(heard_s - asked_s)
            # The window it begins with has to pass first.
            beyond.append(heard_s - (start_s + 1.0 + time.monotonic() - time.time()))
        collector.check()
        collector.close()
    for what, values in (("PATCH answered", answered), ("PATCH to first result of the revision", took),
                         ("the same, beyond the end of its first window", beyond)):  # fmt: skip
        p50, p99, most = percentiles([value * 1e3 for value in values])
        print(f"  {what + ', ms':52} {changes:>7} {p50:>8.0f} {p99:>8.0f} {most:>8.0f}")


def dip(changes: int) -> None:
    """What a change costs a job under load: lines that all agents read in the worst second after it, against others."""
    with busy_fleet(0.02) as (fleet, _), fleet.client() as client:
        job = client.submit("counts", COUNTS, settings=TIMING)
        meter = Meter(fleet)
        flood = Flood([node.folder / "access" / "access.log" for node in fleet.agents], 5 * FLOOD_LINES)
        time.sleep(CALM_S)
        usual = statistics.median(meter.seconds(time.monotonic() - CALM_S / 2, time.monotonic()))
        worst = []
        for number in range(changes):
            changed_s = time.monotonic()
            job.change(sql=f"{COUNTS} HAVING n > {-number}")
            time.sleep(3.0)
            worst.append(min(meter.seconds(changed_s, changed_s + 2.0)))
        flood.close()
        meter.close()
    print(f"  {'lines a second that all agents read, under load':52} {'':>7} {usual:>8.0f}")
    shares = [value / usual for value in worst]
    print(
        f"  {'the same, in the worst second after a change':52} {changes:>7} {statistics.median(shares):>8.0%}"
        f" of it; least {min(shares):.0%}"
    )


class Meter(threading.Thread):
    """Counts the lines that agents have read, ten times a second, until it is closed."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(daemon=True)
        self._urls = [f"{node.url}/metrics" for node in fleet.agents]
        self._read: list[tuple[float, float]] = []
        """(monotonic seconds, lines)."""
        self._ending = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._ending.wait(0.1):
            self._read.append((time.monotonic(), sum(self._lines(url) for url in self._urls)))

    def _lines(self, url: str) -> float:
        with urllib.request.urlopen(url, timeout=10) as answer:
            told = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in told if line.startswith("elfstream_lines_total"))

    def seconds(self, first_s: float, last_s: float) -> list[float]:
        """Lines a second over every second that lies between two moments."""
        read = [(at_s, lines) for at_s, lines in list(self._read) if first_s <= at_s <= last_s]
        return [
            (end[1] - start[1]) / (end[0] - start[0])
            for start in read
            for end in [next((one for one in read if one[0] >= start[0] + 1.0), None)]
            if end is not None
        ]

    def close(self) -> None:
        self._ending.set()
        self.join()


def heard_of(collector: Collector, revision: int) -> tuple[float, float] | None:
    for result, heard_s in zip(list(collector.results), list(collector.heard_s), strict=False):
        if result.plan == revision:
            return heard_s, result.window.start.timestamp()
    return None


def showing(samples: int) -> None:
    """From a line written to a result that has it, of a job without windows, at the default emit."""
    with small_fleet() as fleet, fleet.client() as client:
        logs = [node.folder / "access" / "access.log" for node in fleet.agents]
        for log in logs:
            log.parent.mkdir()
            log.write_bytes(b'203.0.113.9 - - [%s] "GET / HTTP/1.1" 200 1 "-" "-"\n' % stamp(int(time.time())))
        # A folder that comes after the node is found by looking now and then, not at once.
        client.submit("first", "SELECT count(*) AS n FROM access", settings={"since": "1h"})
        until(lambda: client.job("first").show()["coverage"]["lines"] == len(logs), 30.0, "the logs")
        client.job("first").remove()
        client.submit("all", "SELECT count(*) AS n FROM access")
        until(lambda: client.job("all").show()["coverage"]["agents"] == len(logs), 30.0, "agents in the job")
        collector = Collector(fleet.urls(), "all")
        took = []
        for number in range(1, samples + 1):
            with open(logs[number % len(logs)], "ab") as out:
                out.write(b'203.0.113.9 - - [%s] "GET / HTTP/1.1" 200 1 "-" "-"\n' % stamp(int(time.time())))
            written_s = time.monotonic()
            until(lambda number=number: shown(collector) >= number, 30.0, f"line {number}", 0.005)
            took.append((time.monotonic() - written_s) * 1e3)
        collector.close()
    p50, p99, most = percentiles(took)
    print(
        f"  {'line written to shown (emit 500 ms), ms':52} {samples:>7} {p50:>8.0f} {p99:>8.0f} {most:>8.0f}"
    )


def shown(collector: Collector) -> int:
    rows = collector.results[-1].rows if collector.results else ()
    return rows[0].n if rows else 0


def answering(lines: int) -> None:
    """How long /healthz of an agent takes while jobs read so many lines as fast as they can, and nothing else is done."""
    jobs = [f"load{number}" for number in range(6)]
    with small_fleet() as fleet, fleet.client() as client:
        agent = fleet.agents[0]
        agent_log = agent.folder / "access" / "access.log"
        agent_log.parent.mkdir()
        write_lines(agent_log, lines)
        for number, name in enumerate(jobs):
            sql = "SELECT remote_addr, path, count(*) AS n FROM access WHERE bytes >= :least GROUP BY 1, 2"
            client.submit(name, sql, settings={"since": "1h"}, parameters={"least": number})
        took = []
        began_s, cpu_s = time.monotonic(), agent.cpu_s()
        while any(client.job(name).show()["coverage"]["lines"] < lines for name in jobs):
            for _ in range(20):
                asked_s = time.monotonic()
                with urllib.request.urlopen(f"{agent.url}/healthz", timeout=60) as answer:
                    answer.read()
                took.append((time.monotonic() - asked_s) * 1e3)
                time.sleep(0.005)
        share = (agent.cpu_s() - cpu_s) / (time.monotonic() - began_s)
    p50, p99, most = percentiles(took)
    what = f"/healthz of an agent at {share:.0%} of a core, ms"
    print(f"  {what:52} {len(took):>7} {p50:>8.1f} {p99:>8.1f} {most:>8.1f}")


def write_lines(log: Path, lines: int) -> None:
    """Of 50,000 pairs of address and path, dated now."""
    now = stamp(int(time.time()))
    with log.open("wb") as out:
        for number in range(lines):
            pair = number * 7919 % 50_000
            out.write(
                b'203.0.%d.%d - - [%s] "GET /item/%d HTTP/1.1" 200 %d "-" "curl/8.5"\n'
                % (pair // 256, pair % 256, now, pair, number % 5000)
            )


PAIRS = "SELECT remote_addr, path, count(*) AS n FROM access GROUP BY 1, 2"


def catching_up(lines: int) -> None:
    """A job that looks back over so many lines while live ones come: what they cost the agent, what one query over the same
    file costs, and what a small job beside it waits for meanwhile."""
    with busy_fleet(0.01) as (fleet, pulse), fleet.client(120) as client:
        agent = fleet.agents[0]
        client.submit("counts", COUNTS, settings=TIMING)
        collector = Collector(fleet.urls(), "counts")
        until(lambda: len(first_finals(collector)) >= 3, 60.0, "the first final results")
        old = agent.folder / "old"
        write_lines(old, lines)
        old.rename(agent.folder / "access" / "access.log.1")
        until(lambda: client.job("counts").show()["coverage"]["lines"] >= lines, 300.0, "the old lines are in cuts", 0.5)
        time.sleep(6.0)  # until their file is idle, it holds windows open
        alone = latencies(pulse, collector, min(20, lines // 10_000))
        rest = cpu_share_of(agent, 5.0)
        began_s, cpu_s, seen = time.monotonic(), agent.cpu_s(), len(first_finals(collector))
        job = client.submit("back", PAIRS, settings={"since": "1h"})
        until(lambda: job.show()["coverage"]["lines"] >= lines, 600.0, "the job has caught up", 0.1)
        took_s, cpu_s = time.monotonic() - began_s, agent.cpu_s() - cpu_s
        beside = [late for _, late in closings(pulse, collector)[seen:]]
        collector.close()
        size_mb = (agent.folder / "access" / "access.log.1").stat().st_size / 1e6
        query_s = query_cpu_s(agent.folder / "access" / "access.log.1") - query_cpu_s(agent.folder / "node.toml")
    own_s = cpu_s - rest * took_s
    print(f"  {'old lines of an agent, read again for a new job':52} {lines:>7} {size_mb:.0f} MB in {took_s:.1f} s")
    print(f"  {'CPU s of the agent, and that of its live lines':52} {cpu_s:>7.2f} {rest * took_s:>8.2f}")
    print(f"  {'CPU s of a query over the same file, one thread':52} {query_s:>7.2f}")
    print(f"  {'lines a core-second: catching up, the query':52} {lines / own_s:>7.3g} {lines / query_s:>8.3g}")
    for what, waits in (("a small job alone", alone), ("beside a job that catches up", beside)):
        if waits:
            p50, p99, most = percentiles(waits)
            print(f"  {what + ', ms':52} {len(waits):>7} {p50:>8.1f} {p99:>8.1f} {most:>8.1f}")


def closings(pulse: Pulse, collector: Collector) -> list[tuple[float, float]]:
    """(end of a window, ms from the line that closes it to its final result), in order."""
    finals = list(first_finals(collector).items())
    return [(end_s, (heard_s - pulse.first_s[int(end_s)]) * 1e3) for end_s, heard_s in finals if int(end_s) in pulse.first_s]


def latencies(pulse: Pulse, collector: Collector, samples: int) -> list[float]:
    before = len(closings(pulse, collector)) + 1
    until(lambda: len(closings(pulse, collector)) >= before + samples, 60.0 + samples * 5, "final results")
    return [late for _, late in closings(pulse, collector)[before:]]


def cpu_share_of(node: NodeProcess, seconds: float) -> float:
    before, began_s = node.cpu_s(), time.monotonic()
    time.sleep(seconds)
    return (node.cpu_s() - before) / (time.monotonic() - began_s)


def query_cpu_s(path: Path) -> float:
    command = [sys.executable, "-m", "elfstream", "query", f"{PAIRS} ORDER BY n DESC LIMIT 5", str(path)]
    before = os.times()
    subprocess.run([*command, "--format", "combined", "--threads", "1"], check=True, capture_output=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def idle(jobs: int) -> None:
    """Nodes with nothing to do: without jobs, and with many."""
    with small_fleet() as fleet, fleet.client() as client:
        nodes = list(fleet.nodes.values())
        watched_s = 1.0 if jobs < 100 else 10.0
        bare_cpu = cpu_share(fleet, watched_s)
        bare_bytes = statistics.mean(node.resident_bytes() for node in nodes)
        print(
            f"  {'a node without jobs':52} {len(nodes):>7} {bare_bytes / 2**20:>8.1f} MiB {bare_cpu:>8.2%} of a core"
        )
        began_s = time.monotonic()
        asyncio.run(submit_all(fleet.urls(), jobs))
        took_s = time.monotonic() - began_s
        print(f"  {f'jobs submitted, {SUBMITTERS} at a time':52} {jobs:>7} {jobs / took_s:>8.1f} a second")
        until(lambda: len(client.jobs()) == jobs, 120.0, "all jobs known")
        cpu = cpu_share(fleet, watched_s)
        each = statistics.mean(node.resident_bytes() for node in nodes)
        per_job = (cpu - bare_cpu) * len(nodes) / jobs
        print(f"  {'the same node, with jobs':52} {jobs:>7} {each / 2**20:>8.1f} MiB {cpu:>8.2%} of a core")
        print(
            f"  {'an idle job, on all nodes together':52} {'':>7} {(each - bare_bytes) * len(nodes) / jobs / 1024:>8.1f} KiB"
            f" {per_job * 1e3:>7.3f} ms CPU a second"
        )


async def submit_all(urls: Sequence[str], jobs: int) -> None:
    numbers = iter(range(jobs))

    async def submitter(number: int) -> None:
        async with elf.connect_async(urls[number % len(urls)], patience_s=60.0) as client:
            for job in numbers:
                await client.submit(f"job{job}", f"SELECT count(*) AS n FROM access WHERE status = {job}")

    await asyncio.gather(*(submitter(number) for number in range(SUBMITTERS)))


def cpu_share(fleet: Fleet, seconds: float) -> float:
    """Of a core, of a node on the average."""
    nodes = list(fleet.nodes.values())
    before = sum(node.cpu_s() for node in nodes)
    began_s = time.monotonic()
    time.sleep(seconds)
    return (sum(node.cpu_s() for node in nodes) - before) / (time.monotonic() - began_s) / len(nodes)


BENCHES: dict[str, tuple[Callable[[int], None], int, int]] = {
    "takeover": (takeover, 10, 0),
    "closing": (closing, 40, 2),
    "showing": (showing, 20, 2),
    "changing": (changing, 50, 1),
    "dip": (dip, 20, 1),
    "answering": (answering, 2_000_000, 20_000),
    "idle": (idle, 1000, 5),
    "hostile": (hostile, 30, 1),
    "catching_up": (catching_up, 4_000_000, 20_000),
}
"""What is run, how often, and how often for --smoke; two nodes are too few for a takeover."""


def main() -> None:
    global size  # noqa: PLW0603 - the command line's
    parser = argparse.ArgumentParser(prog="python -m bench.bench_fleet", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(BENCHES), help=f"of {', '.join(BENCHES)}")
    parser.add_argument("--smoke", action="store_true", help="two nodes, few of each: does it run?")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    size = (1, 1) if options.smoke else size
    print(f"{size[0]} agents and {size[1]} workers, processes on loopback; p50, p99 and the greatest")
    for name in options.names:
        bench, many, few = BENCHES[name]
        for _ in range(options.rounds):
            if count := few if options.smoke else many:
                bench(count)


if __name__ == "__main__":
    main()

"""How long a fleet of real processes takes: after the loss of a root, to close a window, to show a line, to change a job;
and what jobs cost that have nothing to do.

    python -m bench.bench_fleet [--smoke] [--rounds N] [NAME ...]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import elfstream as elf
from bench.bench_follow import percentiles, stamp
from tests.integration.fleet_processes import Collector, Fleet, until

COUNTS = "SELECT window(time, '1 second') AS w, count(*) AS n FROM access GROUP BY w"
TIMING = {"emit": "20ms", "delay": "0s", "idle": "5s", "lateness": "5s"}
"""Logs tell whole seconds: with any delay a window would wait for the second after the next."""
SUBMITTERS = 10


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


@contextmanager
def small_fleet() -> Iterator[Fleet]:
    agents, workers = size
    with (
        tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder,
        Fleet(Path(folder).resolve(), agents, workers, {"access": "combined"}) as fleet,
    ):
        yield fleet


@contextmanager
def busy_fleet(every_s: float) -> Iterator[tuple[Fleet, Pulse]]:
    """A fleet whose agents get lines all the time."""
    with small_fleet() as fleet:
        pulse = Pulse([node.folder / "access" / "access.log" for node in fleet.agents], every_s)
        try:
            yield fleet, pulse
        finally:
            pulse.close()


def takeover(rounds: int) -> None:
    """Kills the root again and again; who is killed comes back before the next."""
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
        for _ in range(rounds):
            wait_for_results(collector, 3)
            until(lambda: fleet.led_by(name) in fleet.workers, 60.0, "a worker leads")
            root = fleet.led_by(name)
            assert root is not None
            killed_s = time.monotonic()
            root.kill()
            until(
                lambda killed_s=killed_s: final_since(collector, killed_s) is not None,
                60.0,
                "a result after the kill",
            )
            first_s = final_since(collector, killed_s)
            assert first_s is not None
            took.append(first_s - killed_s)
            root.start()
            fleet.wait_ready()
        collector.check()
        collector.close()
    p50, _, most = percentiles(took)
    print(f"  {'kill -9 of the root to the next final result':52} {rounds:>7} {p50:>8.2f} s {most:>8.2f} s")


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
            log.touch()
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
    "changing": (changing, 20, 1),
    "idle": (idle, 1000, 5),
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

"""Where a window's time goes, stage by stage: a small job's windows alone, and beside what may hold them up.

    python -m bench.bench_stages [--smoke] [--windows N] [--threads] [NAME ...]

Processes as in bench_fleet.py, each a bench.traced_node. For each window: the line that lets it close is written; the agent
that sends it last is asked to read, begins, has read, has told its core, has stored the cut and sent its piece; the frame is
at the root; its entry is committed; the window is proposed as final; that is committed; its rows are finished; stored; and
heard by the client.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bench.bench_fleet import COUNTS, PAIRS, TIMING, Pulse, first_finals, write_lines
from bench.bench_follow import percentiles
from elfstream import Client
from srt.ids import job_key
from tests.integration.fleet_processes import Collector, Fleet, until

JOB = "counts"
BY_STATUS = (
    "SELECT window(time, '1 second') AS w, status, count(*) AS n FROM access WHERE bytes >= :least GROUP BY w, status"
)
STAGES = (
    "asked", "begun", "read", "taken", "sent", "arrived", "committed", "proposed-final", "committed-final", "finished",
    "told", "heard",
)  # fmt: skip
WAITS = {
    "asked": "written, until the agent is asked",
    "begun": "until its logs thread begins",
    "read": "reading",
    "taken": "until its core has that",
    "sent": "until the cut is durable and sent",
    "arrived": "vertex, link, until at the root",
    "committed": "until the frame is committed",
    "proposed-final": "until it is proposed as final",
    "committed-final": "until that is committed",
    "finished": "until its rows are made",
    "told": "until they are stored and told",
    "heard": "until the client has them",
}
size = (3, 2)
"""Agents and workers."""
SKIPPED = 3
"""Windows at first."""


class Note(NamedTuple):
    at_s: float
    stage: str
    key: str
    stream: str
    time_us: int


@dataclass
class Trace:
    """What one node wrote down."""

    notes: dict[str, list[Note]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def read(cls, path: Path) -> Trace:
        trace = cls()
        for line in path.read_text().splitlines() if path.exists() else ():
            at_s, stage, key, stream, time_us = line.split()
            trace.notes[stage].append(Note(float(at_s), stage, key, stream, int(time_us)))
        return trace

    def first(self, stage: str, time_us: int, key: str = "-") -> float | None:
        """When the stage was first reached by a time not before `time_us`."""
        found = (note.at_s for note in self.notes[stage] if note.key == key and note.time_us >= time_us)
        return next(found, None)

    def proposed(self, key: str, end_us: int) -> bool:
        """Whether this node led the job when that window was final."""
        return any(one.key == key and one.time_us == end_us for one in self.notes["proposed-final"])

    def last_of_all(self, stage: str, time_us: int, key: str) -> float | None:
        """The same of the last of all streams."""
        firsts: dict[str, float] = {}
        for note in self.notes[stage]:
            if note.key == key and note.time_us >= time_us:
                firsts.setdefault(note.stream, note.at_s)
        streams = {note.stream for note in self.notes[stage] if note.key == key}
        return max(firsts.values()) if firsts and firsts.keys() == streams else None


def ways(traces: list[Trace], pulse: Pulse, finals: dict[float, float]) -> dict[int, list[float]]:
    """By window's end: when it was written, and when each stage was reached."""
    key = job_key(JOB).hex()
    found = {}
    for end_s, heard_s in list(finals.items())[SKIPPED:]:
        end_us = int(end_s * 1e6)
        way = _way(traces, key, end_us)
        if way is not None and int(end_s) in pulse.first_s:
            found[int(end_s)] = [pulse.first_s[int(end_s)], *way, heard_s]
    return found


def _way(traces: list[Trace], key: str, end_us: int) -> list[float] | None:
    sent = [(at_s, trace) for trace in traces if (at_s := trace.first("sent", end_us, key)) is not None]
    roots = [trace for trace in traces if trace.proposed(key, end_us)]
    if not sent or len(roots) != 1:
        return None
    last, root = max(sent, key=lambda one: one[0])[1], roots[0]
    way = [last.first(stage, end_us) for stage in ("asked", "begun", "read", "taken")]
    way += [last.first("sent", end_us, key)]
    way += [root.last_of_all(stage, end_us, key) for stage in ("arrived", "committed")]
    way += [root.first(stage, end_us, key) for stage in ("proposed-final", "committed-final")]
    finished_s = root.first("finished", end_us)
    told = (note.at_s for note in root.notes["told"] if note.key == key and note.at_s >= (finished_s or 0.0))
    way += [finished_s, next(told, None)]
    if any(one is None for one in way):
        return None
    # A final is proposed together with the frame that closes its window, so before that is committed.
    return list(itertools.accumulate((one for one in way if one is not None), max))


def show(what: str, found: dict[int, list[float]]) -> None:
    totals = [(way[-1] - way[0]) * 1e3 for way in found.values()]
    if not totals:
        print(f"{what}: no windows")
        return
    p50, p99, most = percentiles(totals)
    load = os.getloadavg()[0]
    print(f"{what}: {len(totals)} windows, load {load:.0f}; ms: p50 {p50:.0f}, p99 {p99:.0f}, most {most:.0f}")
    for index, stage in enumerate(STAGES):
        p50, p99, most = percentiles([(way[index + 1] - way[index]) * 1e3 for way in found.values()])
        print(f"  {WAITS[stage]:36} {p50:>8.1f} {p99:>8.1f} {most:>8.1f}", flush=True)


def show_threads(nodes: dict[str, Trace], since_s: float) -> None:
    """What held threads for long, and what the disks took."""
    for name, trace in nodes.items():
        by_kind: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for note in trace.notes["long"]:
            what, cpu_ms = note.stream.rsplit(",", 1)
            if note.at_s >= since_s:
                by_kind[what].append((note.time_us / 1e3, float(cpu_ms)))
        for note in trace.notes["disk"]:
            names, _, cpu_ms = note.stream.rsplit(",", 2)
            if note.at_s >= since_s:
                by_kind[f"disk:{names}"].append((note.time_us / 1e3, float(cpu_ms)))
        for what, took in sorted(by_kind.items(), key=lambda one: -sum(ms for ms, _ in one[1]))[:10]:
            p50, p99, most = percentiles([ms for ms, _ in took])
            spent = sum(ms for _, ms in took)
            print(f"    {name:6} {what:34} {len(took):>6} {p50:>7.1f} {p99:>7.1f} {most:>7.1f} ms, {spent / 1e3:.2f} s CPU")


@contextmanager
def traced(prepare: Callable[[Fleet], None] = lambda _: None) -> Iterator[tuple[Fleet, Pulse, Client, Collector]]:
    """A fleet whose nodes write traces, with a small job whose windows close."""
    agents, workers = size
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        fleet = Fleet(Path(folder).resolve(), agents, workers, {"access": "combined"})
        for node in fleet.nodes.values():
            node.program = ("-m", "bench.traced_node")
            node.environment["ELFSTREAM_TRACE"] = str(node.folder / "trace")
        prepare(fleet)
        with fleet, fleet.client(120) as client:
            pulse = Pulse([node.folder / "access" / "access.log" for node in fleet.agents], 0.01)
            try:
                client.submit(JOB, COUNTS, settings=TIMING)
                collector = Collector(fleet.urls(), JOB)
                until(lambda: len(first_finals(collector)) >= SKIPPED, 60.0, "the first final results")
                yield fleet, pulse, client, collector
                collector.check()
                collector.close()
            finally:
                pulse.close()


def report(what: str, fleet: Fleet, pulse: Pulse, collector: Collector, since_s: float, until_s: float) -> None:
    """Of windows that were heard between the two moments."""
    nodes = {name: Trace.read(node.folder / "trace") for name, node in fleet.nodes.items()}
    finals = first_finals(collector)
    found = ways(list(nodes.values()), pulse, finals)
    show(what, {end: way for end, way in found.items() if since_s <= way[-1] < until_s})
    led = fleet.led_by(JOB)
    cpu = ", ".join(f"{name} {node.cpu_s():.1f}" for name, node in fleet.nodes.items())
    print(f"  led by {led.name if led else 'nobody'}; CPU s since the start: {cpu}")
    if threads:
        show_threads(nodes, since_s)


def wait_for(collector: Collector, windows: int) -> None:
    wanted = len(first_finals(collector)) + windows
    until(lambda: len(first_finals(collector)) >= wanted, 60.0 + 5 * windows, "final results")


def alone(windows: int) -> None:
    with traced() as (fleet, pulse, _, collector):
        began_s = time.monotonic()
        wait_for(collector, windows)
        report("a small job alone", fleet, pulse, collector, began_s, time.monotonic())


def catching_up(windows: int) -> None:
    """(a): one agent reads a large old log again, for a job that looks back."""
    lines = windows * 200_000
    with traced() as (fleet, pulse, client, collector):
        agent = fleet.agents[0]
        old = agent.folder / "old"
        write_lines(old, lines)
        old.rename(agent.folder / "access" / "access.log.1")
        until(lambda: client.job(JOB).show()["coverage"]["lines"] >= lines, 300.0, "the old lines are in cuts", 0.5)
        time.sleep(6.0)  # until their file is idle, it holds windows open
        began_s = time.monotonic()
        wait_for(collector, windows)
        between_s = time.monotonic()
        job = client.submit("back", PAIRS, settings={"since": "1h"})
        until(lambda: job.show()["coverage"]["lines"] >= lines, 600.0, "the job has caught up", 0.1)
        end_s = time.monotonic()
        report("before another job looks back", fleet, pulse, collector, began_s, between_s)
        what = f"beside one that reads {lines} old lines, {end_s - between_s:.1f} s"
        report(what, fleet, pulse, collector, between_s, end_s)


def many_jobs(windows: int) -> None:
    """(b): fifty other jobs with windows of a second."""
    with traced() as (fleet, pulse, client, collector):
        for number in range(50):
            client.submit(f"other{number}", BY_STATUS, parameters={"least": number % 2})
        began_s = time.monotonic()
        wait_for(collector, windows)
        report("beside 50 jobs", fleet, pulse, collector, began_s, time.monotonic())


def slow_disk(windows: int) -> None:
    """(c): one worker's disk, then one agent's, takes 100 ms more for each sync."""
    for role in ("workers", "agents"):

        def prepare(fleet: Fleet, role: str = role) -> None:
            getattr(fleet, role)[0].environment["ELFSTREAM_SLOW_DISK_S"] = "0.1"

        with traced(prepare) as (fleet, pulse, _, collector):
            began_s = time.monotonic()
            wait_for(collector, windows)
            report(f"one of the {role} has a slow disk", fleet, pulse, collector, began_s, time.monotonic())


def slow_agent(windows: int) -> None:
    """(d): one agent may use a tenth of a core."""

    def prepare(fleet: Fleet) -> None:
        fleet.agents[0].add_to_file("[limits]\ncpu_max_cores = 0.1\n")

    with traced(prepare) as (fleet, pulse, _, collector):
        began_s = time.monotonic()
        wait_for(collector, windows)
        report("one agent has a tenth of a core", fleet, pulse, collector, began_s, time.monotonic())


threads = False
BENCHES = {
    "alone": alone,
    "catching_up": catching_up,
    "many_jobs": many_jobs,
    "slow_disk": slow_disk,
    "slow_agent": slow_agent,
}


def main() -> None:
    global size, threads  # noqa: PLW0603 - the command line's
    parser = argparse.ArgumentParser(prog="python -m bench.bench_stages", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(BENCHES)}; all, or with --smoke one")
    parser.add_argument("--smoke", action="store_true", help="two nodes, one window: does it run?")
    parser.add_argument("--windows", type=int, default=30)
    parser.add_argument("--threads", action="store_true", help="what held threads for long, too")
    options = parser.parse_args()
    threads = options.threads or options.smoke
    size = (1, 1) if options.smoke else size
    for name in options.names or (["catching_up"] if options.smoke else list(BENCHES)):
        BENCHES[name](1 if options.smoke else options.windows)


if __name__ == "__main__":
    main()

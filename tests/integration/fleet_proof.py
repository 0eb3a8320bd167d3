"""One run of a fleet of processes under faults, whose results have to be the truth."""

from __future__ import annotations

import random
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import elfstream as elf
from elfstream.client_sync import Job
from tests.integration.fleet_faults import Faults
from tests.integration.fleet_logs import CHANGED, SQL, Replay
from tests.integration.fleet_processes import Collector, Fleet, until
from tests.patience import PATIENCE_S

SET = "apache_semicomplete_2015"
DISORDER_S = 60
MISSED = ("late", "lost_bytes", "shed")
SHOWN = ("state", "master", "coverage", "watermark", "windows_open", "results", "problem")


def prove(
    folder: Path, agents: int, workers: int, faults: int, write_s: float, seed: int, partitions: int = 1
) -> None:
    """Three jobs over logs that are written, rotated and packed; `faults` meanwhile, and a change of one job halfway."""
    rng = random.Random(seed)
    with Fleet(folder, agents, workers, {"access": "combined"}, seed) as fleet, ExitStack() as ending:
        replay = Replay(SET, [node.folder / "access" for node in fleet.agents], rng)
        settings = {
            "emit": "200ms", "expect": agents,
            "delay": f"{DISORDER_S}s", "idle": "1h", "since": replay.since, "retain": "30d", "partitions": partitions,
        }  # fmt: skip
        client = ending.enter_context(fleet.client())
        jobs = {name: client.submit(name, sql, settings=settings) for name, sql in SQL.items()}
        collectors = {name: Collector(fleet.urls(), name) for name in jobs}
        for collector in collectors.values():
            ending.callback(collector.close)
        harm = Faults(fleet, list(jobs), rng)
        try:
            _run(fleet, replay, jobs, harm, faults, write_s, rng)
            until(lambda: all(_is_over(job) for job in jobs.values()), PATIENCE_S, "all windows are closed")
            _check_results(replay, jobs, collectors, folder / "once")
        except BaseException as error:
            error.add_note("\n".join([f"seed {seed}", *harm.told, *(_shown(job) for job in jobs.values())]))
            raise


def _run(
    fleet: Fleet, replay: Replay, jobs: dict[str, Job], harm: Faults, faults: int, write_s: float, rng: random.Random
) -> None:
    """Until all is written, the faults are over, and the jobs were told to drain."""
    agents = len(fleet.agents)
    until(lambda: all(job.show()["coverage"]["agents"] == agents for job in jobs.values()), PATIENCE_S, "agents in the jobs")
    # A source that never had a line holds nobody back: each has to have one before time goes on.
    replay.begin()
    until(lambda: all(job.show()["coverage"]["lines"] >= agents for job in jobs.values()), PATIENCE_S, "first lines")
    is_changed = threading.Event()
    writing = threading.Thread(target=replay.write, args=(write_s, is_changed))
    writing.start()
    for number in range(faults):
        if number == faults // 2:
            jobs["minutes"].change(sql=CHANGED, start=replay.middle)
            is_changed.set()
            harm.tell("changed")
        harm.one()
        time.sleep(rng.uniform(0.0, write_s / faults))
    writing.join()
    harm.tell("all is written")
    for job in jobs.values():
        job.stop(drain=True)


def _is_over(job: Job) -> bool:
    shown = job.show()
    return shown["state"] == "stopped" and shown["windows_open"] == 0


def _shown(job: Job) -> str:
    try:
        shown = job.show()
    except (elf.ApiError, elf.UnreachableError) as error:
        return f"{job.name}: {error}"
    return f"{job.name}: {({name: shown[name] for name in SHOWN})}"


def _differing(job: Job, collector: Collector) -> set[tuple[object, ...]]:
    """Which editions are not both stored and in the stream, but for tentative ones that others took the place of."""
    collector.check()
    stored = {(one.id, one.window, one.revision, one.status) for one in job.results(all=True, rows=0)}
    seen = {(one.id, one.window, one.revision, one.status) for one in collector.results}
    return (stored - seen) | {one for one in seen - stored if one[3] != "tentative"}


def _check_results(replay: Replay, jobs: dict[str, Job], collectors: dict[str, Collector], folder: Path) -> None:
    """The streams had what there is to have, and it is what the one-shot query says, and what the truth does."""
    rows = {}
    for name, collector in collectors.items():
        # What a job published as its last is finished and stored a moment after its windows are closed.
        def is_whole(job: Job = jobs[name], collector: Collector = collector) -> bool:
            return not _differing(job, collector)

        until(is_whole, PATIENCE_S, f"all editions of {name} are stored and were in its stream")
        rows[name] = collector.rows()
    for name in ("statuses", "paths"):
        assert sorted(rows[name], key=repr) == sorted(replay.once(SQL[name], folder), key=repr)
    changed = replay.once(CHANGED, folder)
    wrong = {row[:2] for row in rows["minutes"]} ^ {row[:2] for row in changed}
    assert not wrong, [one for one in collectors["minutes"].results if tuple(one.rows[0])[:2] in wrong]
    of_change = [row for row in rows["minutes"] if len(row) == 3]
    assert of_change == [row for row in changed if row[0].start >= replay.middle]
    for name, job in jobs.items():
        missed = {part: count for part, count in job.show()["coverage"].items() if part in MISSED and count}
        assert not missed, f"{name} says that it missed something: {missed}"
    replay.check_minutes(rows["minutes"])
    replay.check_statuses(rows["statuses"])
    replay.check_paths(rows["paths"])

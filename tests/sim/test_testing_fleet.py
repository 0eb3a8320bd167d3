"""`elfstream.testing.Fleet`, as users have it: jobs over agents with real logs, under a clock that the test moves."""

from __future__ import annotations

import contextlib
import doctest
import gc
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import elfstream as elf
import elfstream.simulated.fleet
from elfstream.simulated.fleet_job import FleetJob
from elfstream.testing import Fleet

HITS = "SELECT window(time, '10 seconds') AS w, path, count(*) AS hits FROM access GROUP BY w, path"
START = datetime(2025, 11, 28, 20, 0, tzinfo=UTC)


def line(when: datetime, path: str = "/", status: int = 200) -> str:
    return f'203.0.113.9 - - [{when:%d/%b/%Y:%H:%M:%S %z}] "GET {path} HTTP/1.1" {status} 1 "-" "-"'


def hits(job: FleetJob) -> list[tuple[int, str, int]]:
    """(second of the window since START, path, hits) of what is final."""
    return [
        (int((row.w.start - START).total_seconds()), row.path, row.hits)
        for result in job.finals()
        for row in result.rows
    ]


@pytest.mark.parametrize("seed", range(3))
def test_agents_take_part_in_a_new_job_as_soon_as_they_hear_of_it(seed: int) -> None:
    """The leader's own, too; nobody waits for the next time that news go round."""
    with Fleet(agents=3, workers=1, seed=seed) as fleet:
        fleet.sleep(5)
        before = fleet.now
        fleet.submit("all", "SELECT count(*) AS n FROM access")
        assert fleet.now - before < timedelta(seconds=0.15)


def test_agents_without_a_line_take_part_in_a_job() -> None:
    """They have read all there is. When somebody has lines nobody waits for the others."""
    with Fleet(agents=3, workers=1, format="combined", clock=START) as fleet:
        fleet.sleep(2)
        hot = fleet.submit("hot", HITS)
        fleet.sleep(3)
        shown = hot.show()
        assert (shown["coverage"]["agents"], shown["coverage"]["missing"]) == (3, [])
        assert (shown["coverage"]["lines"], shown["watermark"], shown["waits_for"]) == (0, None, [])
        fleet.agents[0].write(line(fleet.now))
        began = int((fleet.now - START).total_seconds()) // 10 * 10
        fleet.sleep(30)
        assert hits(hot) == [(began, "/", 1)]
        assert hot.show()["coverage"]["missing"] == []


def test_lines_too_late_for_a_plan_that_is_closed_are_counted() -> None:
    """The streams of the next plan read them, and have no window for them."""
    with Fleet(agents=2, workers=1, format="combined", clock=START) as fleet:
        hot = fleet.submit("hot", HITS, settings={"lateness": "0s", "delay": "1s", "idle": "2s"})
        for agent in fleet.agents:
            agent.write(line(fleet.now))
        fleet.sleep(15)
        hot.change(sql=HITS.replace("path", "status"), settings={"lateness": "0s", "delay": "1s", "idle": "2s"})
        for _ in range(4):
            fleet.sleep(10)
            for agent in fleet.agents:
                agent.write(line(fleet.now))
        fleet.sleep(5)
        before = hot.show()["coverage"]
        assert (hot.show()["revision"], before["late"]) == (2, 0)
        assert before["lines"] == before["rows"] + before["outside"] <= 10
        fleet.agents[0].write(line(START), line(START))
        fleet.sleep(3)
        after = hot.show()["coverage"]
        assert after == before | {"lines": before["lines"] + 2, "late": 2}


def test_a_job_from_its_beginning_to_its_end() -> None:
    with Fleet(agents=3, workers=1, format="combined", clock=START) as fleet:
        assert fleet.now == START
        hot = fleet.submit("hot", HITS)
        assert fleet.now - START < timedelta(seconds=2)
        assert hot.show()["coverage"]["agents"] == 3
        for number, agent in enumerate(fleet.agents):
            agent.write(*[line(fleet.now, "/")] * (number + 1), line(fleet.now, f"/{number}"))
        fleet.sleep(20)
        assert hits(hot) == [(0, "/", 6), (0, "/0", 1), (0, "/1", 1), (0, "/2", 1)]
        (result,) = hot.results()
        assert result.window == elf.Window(START, START + timedelta(seconds=10))
        assert (result.status, result.plan, result.lines) == ("final", 1, 9)
        assert result.coverage.agents == 3
        assert hot.results(START + timedelta(seconds=1)) == []
        assert hot.results(end=START) == []
        fleet.agents[0].write(line(fleet.now, "/late"))
        shown = hot.stop(drain=True)
        assert shown["wanted"] == "stopped"
        fleet.sleep(3)
        assert hits(hot)[-1] == (20, "/late", 1)
        assert hot.show()["state"] == "stopped"
        assert [one.id for one in hot.published()] == sorted(one.id for one in hot.results())
        assert hot.published(after=hot.published()[-1].id) == []
        hot.remove()
        with pytest.raises(elf.ApiError) as refused:
            hot.show()
        assert (refused.value.kind, refused.value.status) == ("unknown", 404)


def test_late_lines_make_a_revision_of_their_window_or_are_counted() -> None:
    with Fleet(agents=2, clock=START) as fleet:
        job = fleet.submit("hot", HITS, settings={"lateness": "30s"})
        fleet.agents[0].write(line(START))
        fleet.sleep(20)
        (first,) = job.results()
        assert (first.status, first.rows[0].hits) == ("final", 1)
        fleet.agents[1].write(line(START))
        fleet.sleep(5)
        (result,) = job.results()
        assert (result.revision, result.status, result.rows[0].hits) == (first.revision + 1, "final", 2)
        assert job.results(all=True, status="final") == [first, result]
        assert job.show()["coverage"]["late"] == 0
        for _ in range(8):
            fleet.agents[0].write(line(fleet.now))
            fleet.sleep(10)
        fleet.agents[1].write(line(START))
        fleet.sleep(5)
        assert job.results()[0] == result
        assert job.show()["coverage"]["late"] == 1


def test_a_live_change_owns_the_windows_from_its_start() -> None:
    with Fleet(agents=2, clock=START) as fleet:
        job = fleet.submit("hot", HITS)
        for second in range(40):
            if second == 15:
                shown = job.change(sql=HITS.replace("GROUP", "WHERE status >= 500 GROUP"))
                assert shown["revision"] == 2
            for agent in fleet.agents:
                agent.write(line(fleet.now, "/", 200), line(fleet.now, "/", 500))
            fleet.sleep(1)
        fleet.sleep(15)
        results = job.finals()
        plans = [one.plan for one in results]
        assert plans == sorted(plans)
        assert set(plans) == {1, 2}
        for one in results[1:-1]:
            assert one.rows[0].hits == (40 if one.plan == 1 else 20), one
        assert [one["revision"] for one in job.changes()] == [1, 2]
        with pytest.raises(elf.ApiError) as stale:
            job.change(settings={"emit": "2s"}, revision=1)
        assert stale.value.kind == "stale"
        assert job.change(settings={"emit": "2s"}, revision=2)["settings"]["emit"] == "2s"
        assert job.change(settings={"emit": None})["settings"]["emit"] == "500ms"
        ahead = START + timedelta(seconds=100)
        job.change(sql=HITS, start=ahead)
        assert job.changes()[-1]["start"] == f"{ahead:%Y-%m-%dT%H:%M:%SZ}"


def test_what_is_wrong_is_told_as_the_client_tells_it() -> None:
    with Fleet() as fleet:
        with pytest.raises(elf.ApiError) as wrong:
            fleet.submit("hot", "SELECT stat FROM access")
        assert (wrong.value.kind, wrong.value.status, wrong.value.field) == ("sql", 422, "sql")
        assert wrong.value.position == 7
        assert "status" in wrong.value.advice
        with pytest.raises(elf.ApiError, match="emitt") as wrong:
            fleet.submit("hot", HITS, settings={"emitt": "1s"})
        assert wrong.value.kind == "invalid"
        with pytest.raises(elf.ApiError, match="virtual time sends no webhooks"):
            fleet.submit("hot", HITS, settings={"webhook": "http://127.0.0.1:1/"})
        fleet.submit("hot", HITS)
        fleet.submit("hot", HITS)
        with pytest.raises(elf.ApiError) as wrong:
            fleet.submit("hot", HITS, settings={"emit": "1s"})
        assert wrong.value.kind == "exists"
        with pytest.raises(elf.ApiError) as wrong:
            fleet.job("cold").results()
        assert wrong.value.kind == "unknown"
        with pytest.raises(ValueError, match="no source 'error', only access"):
            fleet.agents[0].write("", source="error")
        fleet.agents[0].crash()
        with pytest.raises(elf.UnreachableError):
            fleet.job("hot").show()
    with pytest.raises(elf.FormatError):
        Fleet(format="combine")
    with pytest.raises(ValueError, match="there has to be an agent"):
        Fleet(agents=0)


def test_parameters_and_sources() -> None:
    with Fleet(sources={"shop": "combined", "api": "common"}, clock=START) as fleet:
        sql = HITS.replace("access", "api").replace("GROUP", "WHERE status = :status GROUP")
        job = fleet.submit("hot", sql, parameters={"status": 404})
        common = f'203.0.113.9 - - [{fleet.now:%d/%b/%Y:%H:%M:%S %z}] "GET / HTTP/1.1" 404 1'
        fleet.agents[0].write(common, source="api")
        fleet.agents[0].write(line(fleet.now, status=404), source="shop")
        fleet.sleep(20)
        assert hits(job) == [(0, "/", 1)]
        assert job.show()["coverage"]["lines"] == 1


@pytest.mark.parametrize("restarted", [True, False])
def test_the_master_crashes(restarted: bool) -> None:
    with Fleet(agents=3, workers=2, clock=START) as fleet:
        job = fleet.submit("hot", HITS)
        master = fleet.node(job.master)
        for second in range(30):
            if second == 13:
                master.crash()
                assert not master.is_up
            if second == 20 and restarted:
                master.restart()
            for agent in fleet.agents:
                agent.write(line(fleet.now))
            fleet.sleep(1)
        if not restarted:
            assert job.master != master.name
            master.restart()
        fleet.sleep(30)
        assert sum(count for _, _, count in hits(job)) == 90


def test_a_window_without_an_agent_is_tentative_and_names_it() -> None:
    with Fleet(agents=3, workers=2, clock=START) as fleet:
        job = fleet.submit("hot", HITS)
        for agent in fleet.agents:
            agent.write(line(fleet.now))
        fleet.sleep(5)
        away = next(agent for agent in fleet.agents if agent.name != job.master)
        fleet.cut_off(away)
        for _ in range(30):
            for agent in fleet.agents:
                agent.write(line(fleet.now))
            fleet.sleep(1)
        results = job.results()
        assert {one.status for one in results} == {"tentative"}
        overdue = [one for one in results if one.window.end + timedelta(seconds=13) < fleet.now]
        assert len(overdue) == 2
        assert all(one.coverage.missing == (away.name,) for one in overdue)
        assert all(one.rows[0].hits < 30 for one in overdue)
        fleet.heal()
        fleet.sleep(20)
        assert {one.status for one in job.results()} == {"final"}
        assert sum(count for _, _, count in hits(job)) == 93
        away.crash()
        job.forget(away.name)
        fleet.agents[0 if away is not fleet.agents[0] else 1].write(line(fleet.now))
        fleet.sleep(20)
        assert {one.status for one in job.results()} == {"final"}


def test_logs_are_files_to_rotate_and_nodes_may_come_later() -> None:
    with Fleet(clock=START) as fleet:
        job = fleet.submit("hot", HITS)
        (agent,) = fleet.agents
        agent.write(line(fleet.now, "/a"))
        fleet.sleep(2)
        (agent.folder / "access.log").rename(agent.folder / "access.log.1")
        agent.write(line(fleet.now, "/b"))
        late = fleet.add_agent()
        fleet.add_worker()
        assert [node.name for node in fleet.nodes] == ["agent0", "agent1", "worker0"]
        fleet.sleep(2)
        late.write(line(fleet.now, "/c"))
        agent.pause(3)
        fleet.sleep(20)
        assert sorted(hits(job)) == [(0, "/a", 1), (0, "/b", 1), (0, "/c", 1)]
        assert agent.troubles == []


def test_the_example_of_its_docstring() -> None:
    failed, tried = doctest.testmod(elfstream.simulated.fleet)
    assert failed == 0
    assert tried


def course(seed: int) -> list[str]:
    """What happens, as text without what the file system chose."""
    told: list[str] = []
    with Fleet(agents=2, workers=1, clock=START, seed=seed) as fleet:
        world = fleet._machines.world
        world.handled.append(
            lambda process, event: told.append(f"{world.now:.9f} {process.address} {kind(event)}")
        )
        job = fleet.submit("hot", HITS)
        for second in range(15):
            if second == 4:
                fleet.agents[1].crash()
            if second == 6:
                fleet.agents[1].restart()
            for agent in fleet.agents:
                agent.write(line(fleet.now))
            fleet.sleep(1)
        fleet.sleep(10)
        told += [repr(result) for result in job.published()]
    return told


def kind(event: object) -> str:
    message = getattr(event, "message", None)
    return f"{type(event).__name__} {type(message).__name__} {getattr(message, 'key', b'')!r}"


def test_one_seed_is_one_course_of_events() -> None:
    one, other = course(1), course(1)
    assert one == other
    assert len(one) > 1000
    assert course(2) != one


def open_below(folder: Path) -> list[str]:
    """Files that this process holds open."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one of the listing itself
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [path for path in found if path.startswith(str(folder))]


def test_a_fleet_leaves_nothing_behind() -> None:
    fleet = Fleet(agents=2, clock=START)
    fleet.submit("hot", HITS)
    for agent in fleet.agents:
        agent.write(line(fleet.now))
    fleet.sleep(2)
    folder = fleet.agents[0].folder
    assert open_below(folder)
    fleet.agents[0].crash()
    fleet.agents[0].crash()
    assert open_below(folder) == []
    folder = folder.parent.parent
    assert open_below(folder)
    del fleet, agent
    gc.collect()
    assert not folder.exists()
    assert open_below(folder) == []


def test_a_minute_takes_little_cpu() -> None:
    """About a second; the bound is for busy machines."""
    with Fleet(agents=3, workers=1, clock=START) as fleet:
        fleet.submit("hot", HITS)
        begun = time.process_time()
        for _ in range(60):
            for agent in fleet.agents:
                agent.write(line(fleet.now))
            fleet.sleep(1)
        assert time.process_time() - begun < 6.0

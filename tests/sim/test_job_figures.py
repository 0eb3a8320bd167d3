"""The numbers of `/metrics` about jobs, from a simulated fleet."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from elfstream.node_metrics import of_jobs
from elfstream.testing import Fleet

HITS = "SELECT window(time, '10 seconds') AS w, path, count(*) AS hits FROM access GROUP BY w, path"


def shown(fleet: Fleet) -> dict[str, dict[str, Any]]:
    """What each node that is up shows."""
    found = {}
    for name, machine in fleet._machines.by_name.items():
        core: Any = machine.process.core
        if core is not None:
            found[name] = of_jobs(core.masters.figures, fleet._machines.world.wall_us)
    return found


def test_the_node_that_leads_a_job_shows_its_numbers() -> None:
    with Fleet(agents=2, workers=2, format="combined") as fleet:
        job = fleet.submit("hot", HITS, settings={"lateness": "0s", "delay": "1s", "idle": "2s"})

        def write(seconds_ago: int, *paths: str) -> None:
            when = fleet.now - timedelta(seconds=seconds_ago)
            for agent in fleet.agents:
                agent.write(
                    *[f'1.2.3.4 - - [{when:%d/%b/%Y:%H:%M:%S %z}] "GET {path} HTTP/1.1" 200 1 "-" "-"' for path in paths]
                )

        assert shown(fleet)[job.master]["job_window_lag_seconds"] == {}  # nobody knows of a line
        write(0, "/a", "/b")
        fleet.sleep(3.0)
        assert 2 <= shown(fleet)[job.master]["groups"]["hot"] <= 4  # not merged, they count once per agent
        fleet.sleep(40)
        write(40, "/late")
        write(0, "/a")
        fleet.sleep(2.5)
        every = shown(fleet)
        led = every.pop(job.master)
        assert 1 <= led.pop("groups")["hot"] <= 2
        assert 0 < led.pop("job_window_lag_seconds")["hot"] < 15
        assert led == {
            "jobs_led": 1,
            "job_agents": {"hot": 2},
            "job_agents_missing": {"hot": 0},
            "job_lines_late_total": {"hot": 2},
            "job_results_total": {"hot": job.show()["results"]},
        }
        assert all(other["jobs_led"] == 0 and not other["job_agents"] for other in every.values())
        before = job.master
        fleet.node(before).crash()
        fleet.sleep(10)
        assert [name for name, other in shown(fleet).items() if other["jobs_led"]] == [job.master]
        assert shown(fleet)[job.master]["job_lines_late_total"] == {"hot": 2}


def test_who_leads_a_job_again_shows_its_numbers_again() -> None:
    with Fleet(agents=1, workers=1) as fleet:
        for number in range(6):
            fleet.submit(f"job{number}", HITS)
        fleet.sleep(3.0)
        fleet.cut_off(*fleet.workers)
        fleet.sleep(3.0)
        assert sum(numbers["jobs_led"] for numbers in shown(fleet).values()) == 0
        fleet.heal()
        fleet.sleep(5.0)
        assert sum(numbers["jobs_led"] for numbers in shown(fleet).values()) == 6

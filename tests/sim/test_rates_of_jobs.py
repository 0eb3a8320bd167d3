"""What a job does a second, asked of a simulated fleet."""

from __future__ import annotations

from typing import Any

import pytest

from elfstream.testing import Fleet

SQL = "SELECT window(time, '10 seconds') AS w, count(*) AS n FROM access WHERE path LIKE '/a%' GROUP BY w"


def test_a_job_shows_what_its_agents_read_a_second() -> None:
    with Fleet(agents=3, workers=2, format="combined", seed=3) as fleet:
        job = fleet.submit("hits", SQL, settings={"idle": "2s", "delay": "1s"})

        def play(seconds: int) -> Any:
            for _ in range(seconds):
                for agent in fleet.agents:
                    line = f'203.0.113.9 - - [{fleet.now:%d/%b/%Y:%H:%M:%S %z}] "GET %s HTTP/1.1" 200 1 "-" "-"'
                    agent.write(*[line % "/a"] * 15, *[line % "/b"] * 4, "no request")
                fleet.sleep(1)
            return job.show()["rates"]

        rates = play(12)
        assert rates["lines_per_second"] == pytest.approx(60, rel=0.15)
        assert rates["rejected_per_second"] == pytest.approx(3, rel=0.15)
        assert rates["parsed_per_second"] == pytest.approx(57, rel=0.15)
        assert rates["late_per_second"] == 0
        assert 5 <= rates["over_seconds"] <= 6
        assert 0.5 < rates["results_per_second"] < 3  # the open window is shown at each emit at most
        job.change(sql=SQL.replace("/a", "/b"))
        rates = play(4)
        assert rates is None or rates["over_seconds"] <= 4  # of the streams of the new plan, not of both
        assert play(12)["lines_per_second"] == pytest.approx(60, rel=0.15)
        before = job.master
        fleet.node(before).crash()
        play(10)
        assert job.master != before
        fleet.node(before).restart()
        assert play(15)["lines_per_second"] == pytest.approx(60, rel=0.15)
        fleet.sleep(30)
        assert job.show()["rates"]["lines_per_second"] == 0

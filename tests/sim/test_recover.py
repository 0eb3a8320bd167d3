"""A job whose majority is lost for good: an operator lets it go on from one member's log."""

from __future__ import annotations

import pytest

from elfstream.client_errors import ApiError
from elfstream.testing import Fleet
from master.problems import Problem
from master.requests import DescribeJob
from srt.ids import job_key

SQL = "SELECT window(time, '10 seconds') AS w, count(*) AS n FROM access GROUP BY w"


def test_a_job_goes_on_from_the_log_of_one_member() -> None:
    with Fleet(agents=3, workers=2, format="combined", seed=4) as fleet:
        job = fleet.submit("hits", SQL, settings={"idle": "2s", "delay": "1s"})

        def write(*agents: int) -> None:
            for number in agents:
                fleet.agents[number].write(
                    f'203.0.113.9 - - [{fleet.now:%d/%b/%Y:%H:%M:%S %z}] "GET / HTTP/1.1" 200 1 "-" "-"'
                )

        write(0, 1, 2)
        fleet.sleep(25)
        before = job.finals()
        assert [row.n for result in before for row in result.rows] == [3]
        key_group = [member["name"] for member in job.show()["group"]]
        assert len(key_group) == 3
        left, *lost = reversed(key_group)
        outsider = next(node.name for node in fleet.nodes if node.name not in key_group)
        with pytest.raises(ApiError, match="leads the job, so nothing has to be recovered"):
            job.recover(left)
        for name in lost:
            fleet.node(name).crash()
        fleet.sleep(10)
        machines = fleet._machines
        with pytest.raises(Problem, match=r"no leader: 1 of 3 members answers, not [^ ]+ nor [^ ]+$"):
            machines.ask_at(machines.by_name[left], job_key("hits"), DescribeJob())
        with pytest.raises(ApiError, match=r"nothing of the job|not on this node"):
            job.recover(outsider)
        assert job.recover(left)["state"] == "running"
        fleet.sleep(10)
        assert job.master  # whoever is closest by now
        for agent in fleet.agents:
            if agent.name in lost:
                job.forget(agent.name)
        here = [number for number, agent in enumerate(fleet.agents) if agent.name not in lost]
        write(*here)
        fleet.sleep(40)
        found = [row.n for result in job.finals() for row in result.rows]
        assert found == [3, len(here)]
        assert job.finals()[0].rows == before[0].rows


def test_a_job_says_which_agent_holds_it_up() -> None:
    """A killed agent is no `missing` one: the job knows how far it is, and waits."""
    with Fleet(agents=3, workers=2, format="combined", seed=5) as fleet:
        job = fleet.submit("hits", SQL, settings={"idle": "2s", "delay": "1s", "deadline": "10s"})

        def play(seconds: int) -> None:
            for _ in range(seconds):
                for agent in fleet.agents:
                    agent.write(f'203.0.113.9 - - [{fleet.now:%d/%b/%Y:%H:%M:%S %z}] "GET / HTTP/1.1" 200 1 "-" "-"')
                fleet.sleep(1)

        play(20)
        assert job.show()["waits_for"] == []
        lost = next(agent for agent in fleet.agents if agent.name != job.master)
        lost.crash()
        play(7)
        assert job.show()["waits_for"] == []  # a busy disk takes as long
        play(10)
        shown = job.show()
        assert [one["agent"] for one in shown["waits_for"]] == [lost.name]
        assert shown["waits_for"][0]["watermark"] == shown["watermark"]
        assert shown["coverage"]["missing"] == []
        job.forget(lost.name)
        play(2)
        assert job.show()["waits_for"] == []

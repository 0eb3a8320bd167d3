"""Jobs with several partitions: whole nodes and the cut protocol alone, under all faults, with changes of their number."""

from __future__ import annotations

import random
from datetime import datetime
from typing import Any

import pytest

from cbt.errors import InvariantError
from elfstream.testing import Fleet
from job.plan_book import NEVER_US
from master.committed import Committed
from master.committed_parts import StreamState
from master.requests import ChangeJob
from srt.frame_messages import StreamId
from srt.ids import job_key
from tests.sim.cut_fleet import simulate as simulate_cuts
from tests.sim.fleet_of_nodes import FIRST_PLAN, NodeFleet, simulate
from tests.sim.node_faults import Shape, shape_of

SEEDS = {2: range(4), 3: range(100, 104), 7: range(200, 204)}
CUT_SEEDS = {2: range(4), 3: range(100, 106), 7: range(200, 203)}
NOTICED = (AssertionError, InvariantError)


@pytest.mark.parametrize(("partitions", "seed"), [(p, seed) for p, seeds in SEEDS.items() for seed in seeds])
def test_results_of_whole_nodes_are_exact_whatever_happens(partitions: int, seed: int) -> None:
    simulate(seed, shape_of(seed, partitions=partitions))


@pytest.mark.parametrize(("partitions", "seed"), [(p, seed) for p, seeds in CUT_SEEDS.items() for seed in seeds])
def test_results_are_exact_whatever_happens(partitions: int, seed: int) -> None:
    simulate_cuts(seed, partitions=partitions)


def test_a_seed_that_found_something() -> None:
    """A SYNC answered late, by an older `next` than what was acknowledged meanwhile."""
    simulate_cuts(142, partitions=2)


@pytest.mark.parametrize("seed", range(2))
def test_results_are_exact_when_entries_are_lost_for_good(seed: int) -> None:
    simulate_cuts(seed, partitions=3, recover=True)


def change(fleet: NodeFleet, partitions: int) -> None:
    """Another number, and nothing else; until its streams are open and those before it are closed."""
    (key,) = fleet.keys
    fleet.ask(key, ChangeJob(fleet.spec(key, FIRST_PLAN, partitions=partitions), FIRST_PLAN, 0, None))

    def done() -> bool:
        state = fleet.state_of(key)
        return [one.partitions for one in state.book.revisions] == [partitions]

    fleet.wait(done, 60.0, f"divided into {partitions}")


def places(fleet: NodeFleet, tree: bytes) -> set[str]:
    """Who takes part in a tree."""
    return {name for name in fleet.here() if (core := fleet.core(name)) and tree in core.trees.vertices}


def test_partitions_change_while_a_job_runs_and_their_trees_come_and_go() -> None:
    shape = Shape(agents=2, workers=3, partitions=1, write_s=90.0)
    fleet = NodeFleet(11, shape)
    assert places(fleet, job_key("hot", 1)) == set()
    change(fleet, 3)
    (key,) = fleet.keys
    for partition in (1, 2):
        tree = job_key("hot", partition)
        assert places(fleet, tree) >= {"a0", "a1"}
        assert [name for name in fleet.here() if fleet.core(name).trees.serves(tree)] == [fleet.leader_of(key)]  # type: ignore[union-attr]
    for name in ("a0", "a1"):
        (stream,) = fleet.core(name).agent.jobs[key].streams.values()  # type: ignore[union-attr]
        assert len(stream.ways) == 3
    change(fleet, 2)
    fleet.wait(lambda: not places(fleet, job_key("hot", 2)), 10.0, "without its last tree")
    assert places(fleet, job_key("hot", 1)) >= {"a0", "a1"}
    fleet.until_s = fleet.world.now
    fleet.run()


QUERIES = {
    "groups": """SELECT window(time, '10 seconds') AS w, path, count(*) AS n, count(DISTINCT client_ip) AS c FROM access
                 GROUP BY w, path""",
    "one-group": """SELECT window(time, '10 seconds') AS w, count(*) AS n, count(DISTINCT path) AS p FROM access
                    GROUP BY w""",
    "sliding": """SELECT window(time, '10 seconds', '5 seconds') AS w, status, max(bytes) AS b FROM access
                  GROUP BY w, status HAVING count(*) > 1 ORDER BY b LIMIT 3""",
    "nested": """SELECT n, count(*) AS paths FROM (
                 SELECT window(time, '10 seconds') AS w, path, count(*) AS n FROM access GROUP BY w, path) GROUP BY n""",
    "endless": "SELECT path, count(*) AS n FROM access GROUP BY path",
}


def test_all_kinds_of_questions_have_the_same_answers() -> None:
    """Over real logs; one of the agents dies halfway, and the master with the jobs that it leads."""
    with Fleet(agents=3, workers=1, format="combined") as fleet:
        jobs = {
            (name, partitions): fleet.submit(f"{name}-{partitions}", sql, settings={"partitions": partitions})
            for name, sql in QUERIES.items()
            for partitions in (1, 3)
        }
        rng = random.Random(1)
        for step in range(12):
            for agent in fleet.agents:
                if agent.is_up:
                    agent.write(*(_line(fleet.now, rng) for _ in range(6)))
            fleet.sleep(2.0)
            if step == 4:
                fleet.agents[0].crash()
            if step == 6:
                fleet.agents[0].restart()
        for job in jobs.values():
            job.stop(drain=True)
        fleet.sleep(20.0)
        for name in QUERIES:
            one, three = ([(each.window, each.status, each.rows) for each in jobs[name, p].results()] for p in (1, 3))
            assert one == three, name
            assert one, name


def _line(now: datetime, rng: random.Random) -> str:
    return (
        f'10.0.0.{rng.randrange(3)} - - [{now:%d/%b/%Y:%H:%M:%S %z}] "GET /{rng.randrange(5)} HTTP/1.1" '
        f'{rng.choice([200, 404, 500])} {rng.randrange(1000)} "-" "-"'
    )


def share_with_all(streams: dict[StreamId, StreamState], stream: StreamId, partitions: int) -> None:
    lanes = [streams[stream.of(partition)] for partition in range(partitions)]
    marks = [lane.watermark_us for lane in lanes if lane.watermark_us is not None]
    for lane in lanes:
        lane.watermark_us = max(marks, default=None)


def first_alone(state: Committed, feed: int, agent: bytes) -> int | None:
    known = state.streams.get(StreamId(feed, agent))
    return None if known is None else known.watermark_us


MUTANTS: dict[str, tuple[str, Any]] = {
    "a watermark holds for who is behind, too": ("share_marks", share_with_all),
    "an agent is as far as its first partition": ("Committed.agent_reach", first_alone),
}
PEACE: dict[str, Any] = {
    "faults": 4, "plan_changes": 0, "late": False, "recover": False, "split": False, "jobs": 1, "endless": False,
    "hopeless": False, "brief": False, "forgetful": True,
}  # fmt: skip


@pytest.mark.parametrize("rule", MUTANTS)
def test_each_rule_is_needed(rule: str) -> None:
    name, broken = MUTANTS[rule]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"master.committed.{name}", broken)
        for seed in range(12):
            try:
                simulate_cuts(seed, partitions=7, **PEACE)
            except NOTICED:
                return
    pytest.fail(f"no seed noticed: {rule}")


def test_a_drained_agent_is_at_the_end_in_all_partitions() -> None:
    fleet = simulate_cuts(3, partitions=3, group=True, **PEACE)
    state = fleet.jobs[0].state
    assert state is not None
    assert {known.watermark_us for known in state.streams.values()} == {NEVER_US}


@pytest.mark.stress
@pytest.mark.parametrize("partitions", [2, 3, 7])
@pytest.mark.parametrize("first", range(5000, 5200, 50))
def test_many_seeds(partitions: int, first: int) -> None:
    for seed in range(first, first + 50):
        simulate(seed, shape_of(seed, partitions=partitions))
        simulate_cuts(seed, partitions=partitions)

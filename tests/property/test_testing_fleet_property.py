"""Whatever happens to the nodes of a simulated fleet, its final results are what `elf.query` says of the same logs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import elfstream as elf
from elfstream.testing import Fleet

START = datetime(2025, 11, 28, 20, 0, tzinfo=UTC)
QUERIES = (
    "SELECT window(time, '10 seconds') AS w, path, count(*) AS hits, sum(bytes) AS volume FROM access GROUP BY w, path",
    "SELECT window(time, '10 seconds', '5 seconds') AS w, status, avg(bytes) AS mean, max(time) AS latest FROM access "
    "GROUP BY w, status",
    "SELECT window(time, '5 seconds') AS w, path, count(*) AS hits FROM access WHERE status = 404 GROUP BY w, path "
    "ORDER BY hits DESC, path LIMIT 2",
    "SELECT count(DISTINCT path) AS paths, approx_percentile(bytes, 0.9) AS p90, min(path) AS first FROM access",
)
AGENTS = 3
SETTINGS = {"delay": "2s", "lateness": "10m", "deadline": "4s", "since": "20s"}
"""Nothing is too late: the course of events takes less than `lateness`. A sliding window begins before the job."""

writes = st.tuples(
    st.just("write"),
    st.integers(0, AGENTS - 1),
    st.lists(
        st.tuples(
            st.integers(0, 8),
            st.sampled_from(["/", "/a", "/b?c=d"]),
            st.sampled_from([200, 404]),
            st.integers(0, 9999),
        ),
        min_size=1,
        max_size=5,
    ),
)
faults = st.tuples(
    st.sampled_from(["cut", "heal", "crash", "restart", "pause", "rotate", "lose"]), st.integers(0, AGENTS)
)
sleeps = st.tuples(st.just("sleep"), st.floats(0.1, 6.0))
histories = st.lists(st.one_of(writes, sleeps, writes, faults), min_size=5, max_size=25)


def act(fleet: Fleet, step: tuple[Any, ...]) -> None:
    what, value = step[0], step[1]
    if what == "sleep":
        fleet.sleep(value)
    elif what == "write":
        for ago, path, status, size in step[2]:
            second = fleet.now.timestamp() // 1 - ago
            when = max(datetime.fromtimestamp(second, UTC), START)
            fleet.agents[value].write(
                f'203.0.113.9 - - [{when:%d/%b/%Y:%H:%M:%S %z}] "GET {path} HTTP/1.1" {status} {size} "-" "-"'
            )
    elif what == "rotate":
        agent = fleet.agents[value % AGENTS]
        log = agent.folder / "access.log"
        if log.exists():
            log.rename(agent.folder / f"access.log.{len(list(agent.folder.iterdir()))}")
    elif what == "heal":
        fleet.heal()
    elif what == "lose":
        fleet.network.loss = 0.1
    else:
        node = fleet.nodes[value]
        {"cut": fleet.cut_off, "crash": type(node).crash, "restart": type(node).restart}.get(
            what, lambda node: node.pause(2.0)
        )(node)


@settings(max_examples=12, deadline=None)
@given(histories, st.sampled_from(QUERIES), st.integers(0, 1 << 16))
def test_finals_are_what_one_query_over_the_logs_says(
    history: list[tuple[Any, ...]], sql: str, seed: int
) -> None:
    with Fleet(agents=AGENTS, workers=1, clock=START, seed=seed) as fleet:
        job = fleet.submit("job", sql, settings=SETTINGS)
        for step in history:
            act(fleet, step)
        fleet.heal()
        for node in fleet.nodes:
            if not node.is_up:
                node.restart()
        fleet.sleep(20)
        job.stop(drain=True)
        fleet.sleep(20)
        assert job.show()["state"] == "stopped"
        results = job.results()
        assert {one.status for one in results} <= {"final"}
        found = [tuple(row) for one in results for row in one.rows]
        logs = [str(path) for agent in fleet.agents for path in sorted(agent.folder.iterdir())]
        assert found == [tuple(row) for row in elf.query(sql, logs, format="combined")]

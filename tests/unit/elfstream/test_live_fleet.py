"""Agents and a master in one process: what is merged from several equals what one would say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from cbt.memory import Memory
from elfstream.embedded import compile_plan
from elfstream.live_fleet import LiveAgent, LiveMaster
from elfstream.testing import LiveTest
from elfstream.watchers import rows_of
from job.formats import find
from job.watermark import Timing

FORMAT = find("combined")
START = datetime(2025, 11, 28, 20, 0, 0, tzinfo=UTC)
CLOCK = int((START + timedelta(days=1)).timestamp() * 1e6)
TIMING = Timing(delay_us=1_000_000, lateness_us=5_000_000)
WINDOWS = """SELECT window(time, '10 seconds', '5 seconds') AS w, path, count(*) AS n, count(DISTINCT remote_addr) AS c,
             approx_percentile(bytes, 0.9) AS p FROM access GROUP BY w, path"""
TOTALS = "SELECT count(*) AS n, count(DISTINCT remote_addr) AS c, sum(bytes) AS b FROM access"


def line(second: float, path: str = "/", client: int = 1, size: int = 1) -> bytes:
    time = START + timedelta(seconds=second)
    return (
        f'203.0.113.{client} - - [{time:%d/%b/%Y:%H:%M:%S +0000}] "GET {path} HTTP/1.1" 200 {size} "-" "-"\n'
    ).encode()


class Fleet:
    """Agents, a master for each query, and what was published by the first."""

    def __init__(self, agents: int, *queries: str) -> None:
        plans = [compile_plan(sql, FORMAT) for sql in queries]
        self.agents = [LiveAgent(plans, FORMAT, TIMING, Memory()) for _ in range(agents)]
        self.masters = [LiveMaster(plan, TIMING, agents, Memory()) for plan in plans]
        self.finals: list[tuple[int, int, list[object]]] = []

    def write(self, agent: int, data: bytes, file: str = "access.log") -> None:
        self.agents[agent].lines(file, data, 0, len(data), CLOCK)

    def emit(self, drain: bool = False) -> None:
        for number, agent in enumerate(self.agents):
            for master, piece in zip(self.masters, agent.cut(CLOCK), strict=True):
                master.add(number, piece)
        master = self.masters[0]
        for publication in [*master.advance(), *(master.drain() if drain else ())]:
            second = ((publication.window.start_us or 0) - int(START.timestamp() * 1e6)) // 1_000_000
            self.finals.append((second, publication.revision, list(rows_of(master.plan, publication))))
        if master.closed_before_us is not None:
            for agent in self.agents:
                agent.close_before(0, master.closed_before_us)


@pytest.mark.parametrize("seed", range(5))
def test_any_cuts_and_any_spread_give_what_one_agent_gives(seed: int) -> None:
    random = Random(seed)
    fleet, alone = Fleet(3, WINDOWS, TOTALS), LiveTest(WINDOWS, "combined", timing=TIMING, clock_us=CLOCK)
    for second in range(60):
        for _ in range(random.randrange(8)):
            one = line(second, f"/{random.randrange(4)}", random.randrange(5), random.randrange(900))
            fleet.write(random.randrange(3), one)
            alone.write(one[:-1])
        if random.random() < 0.3:
            fleet.emit()
    fleet.emit(drain=True)
    alone.drain()
    expected = [(window.window, window.revision, window.rows) for window in alone.finals()]
    assert [rows for _, _, rows in fleet.finals] == [rows for _, _, rows in expected]
    assert {revision for _, revision, _ in fleet.finals} == {1}
    (totals,) = (rows_of(fleet.masters[1].plan, one) for one in fleet.masters[1].drain())
    assert totals[0].n == alone.query.counts.parsed
    assert totals[0].c <= 5


def test_nothing_is_final_before_every_agent_has_had_a_line() -> None:
    fleet = Fleet(2, WINDOWS)
    fleet.write(0, line(1) + line(30))
    fleet.emit()
    assert fleet.finals == []
    current = fleet.masters[0].current()
    assert current is not None
    assert rows_of(fleet.masters[0].plan, current)[0].n == 1
    fleet.write(1, line(12))
    fleet.emit()
    assert [start for start, _, _ in fleet.finals] == [-5, 0]


def test_agents_drop_what_the_master_will_not_take() -> None:
    fleet = Fleet(2, WINDOWS)
    for agent in (0, 1):
        fleet.write(agent, line(1) + line(40))
    fleet.emit()
    published = list(fleet.finals)
    fleet.write(0, line(2))
    fleet.write(1, line(31))
    fleet.emit()
    assert [agent.late for agent in fleet.agents] == [1, 0]
    assert [(start, revision) for start, revision, _ in fleet.finals[len(published) :]] == [(25, 1)]


def test_losses_and_rejects_are_counted_by_agent() -> None:
    fleet = Fleet(2, WINDOWS)
    fleet.write(0, b"garbage\n" + line(1), "a")
    fleet.write(0, b"garbage\n", "b")
    fleet.agents[1].gap(12)
    counts = fleet.agents[0].counts
    assert (counts.lines, counts.parsed, counts.rejected.total()) == (3, 1, 2)
    assert [agent.gap_bytes for agent in fleet.agents] == [0, 12]

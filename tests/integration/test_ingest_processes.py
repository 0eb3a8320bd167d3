"""Windows that were computed elsewhere, over real processes: sent while the node that leads the job is killed, and there
again after all nodes were started anew."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import elfstream as elf
from elfstream.backfilled import REQUEST_WINDOWS
from master.job_documents import time_text
from tests.integration.fleet_processes import Fleet, until
from tests.patience import PATIENCE_S

SQL = "SELECT window(time, '10 seconds') AS w, path, count(*) AS n FROM access GROUP BY w, path"
WINDOWS = 3 * REQUEST_WINDOWS
TEN_US = 10_000_000


def given(scope: elf.BackfillScope, number: int, hits: int) -> dict[str, Any]:
    """So many windows before the boundary."""
    end = int(scope.boundary.timestamp()) * 1_000_000 - number * TEN_US
    window = {"start": time_text(end - TEN_US), "end": time_text(end)}
    columns = [{"name": one.name, "type": str(one.type)} for one in scope.columns]
    return {
        "window": window, "revision": scope.revision, "columns": columns, "rows": [[window, "/", hits]], "lines": hits,
    }  # fmt: skip


def seen(job: elf.Job, end: Any) -> list[tuple[int, int]]:
    """(hits, edition) of each given window, oldest first."""
    return [(result.rows[0].n, result.revision) for result in job.results(end=end) if result.origin == "backfill"]


def test_windows_survive_the_node_that_took_them(tmp_path: Path) -> None:
    with Fleet(tmp_path, agents=1, workers=2, sources={"access": "combined"}) as fleet, fleet.client() as client:
        job = client.submit("hot", SQL)
        derived = client.submit_derived("both", [("n", "BIGINT")], size="10s", text="hot twice")
        scope = job.backfill_scope()
        half = [given(scope, number, 1) for number in range(WINDOWS // 2)]
        assert job.put_windows(half)["stored"] == WINDOWS // 2
        leader = fleet.leader("hot")
        told: dict[str, int] = {}

        def send() -> None:
            with fleet.client() as other:
                told.update(other.job("hot").put_windows(given(scope, number, 2) for number in range(WINDOWS)))

        sender = threading.Thread(target=send)
        sender.start()
        leader.kill()
        sender.join(PATIENCE_S)
        assert sum(told.values()) == WINDOWS, "each window was answered for"
        assert seen(job, scope.end)[-3:] == [(2, 2)] * 3
        line = {"window": given(scope, 5, 0)["window"], "revision": 1, "rows": [[7]], "lines": 0,
                "columns": [{"name": "n", "type": "BIGINT"}]}  # fmt: skip
        assert derived.put_windows([line]) == {"stored": 1, "same": 0, "replaced": 0}
        for node in fleet.nodes.values():
            if node.child is not None:
                node.kill()
        for node in fleet.nodes.values():
            node.start()
        fleet.wait_ready()
        for name in ("hot", "both"):
            fleet.leader(name)
        until(lambda: len(seen(job, scope.end)) == WINDOWS, PATIENCE_S, "all windows are there")
        assert [hits for hits, _ in seen(job, scope.end)] == [2] * WINDOWS
        assert [result.rows[0].n for result in derived.results()] == [7]
        assert job.put_windows(half[:1]) == {"stored": 0, "same": 0, "replaced": 1}

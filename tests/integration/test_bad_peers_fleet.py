"""Bad peers at the real port of the node that leads a job: refused, counted, and without effect on its results."""

from __future__ import annotations

import re
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from elfstream.client_sync import Client, Job
from tests.integration.bad_peers import BOMB_BYTES, BadPeers, token_file
from tests.integration.fleet_processes import Fleet, NodeProcess, is_ready, until
from tests.patience import PATIENCE_S

TOKEN = "a-token-that-strangers-lack"
SQL = "SELECT window(time, '1 second') AS w, path, count(*) AS n FROM access GROUP BY w, path"
RESTING = """
from pathlib import Path
from elfstream.__main__ import main
from elfstream.cpu_share import CpuShare
CpuShare.live_rest_s = lambda share: 0.1 if Path({file!r}).exists() else 0.0
main()
"""
"""A node whose share of processors is used up as long as a file is there."""
GROWTH_MAX = 96 << 20
"""Bytes that the node may keep of it all: less than two bombs unpacked."""


def _metrics(node: NodeProcess) -> str:
    request = urllib.request.Request(f"{node.url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request) as answer:
        return str(answer.read().decode())


def _links(node: NodeProcess) -> int:
    found = re.search(r"^elfstream_peers (\d+)", _metrics(node), re.MULTILINE)
    return int(found[1]) if found else 0


def _wait_linked(fleet: Fleet, node: NodeProcess) -> None:
    """Until it has a link with each other node, and with nobody else."""
    until(lambda: _links(node) == len(fleet.nodes) - 1, PATIENCE_S, "links with the others alone")


def _refusals(node: NodeProcess) -> Counter[str]:
    found = re.findall(r'^elfstream_link_refused_total\{reason="(\w+)"\} (\d+)', _metrics(node), re.MULTILINE)
    return Counter({reason: int(count) for reason, count in found})


class _Writer(threading.Thread):
    """Writes lines to the logs of all agents until `close`."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(name="writer", daemon=True)
        self.meant = Counter[str]()
        self._agents, self._ending = fleet.agents, threading.Event()
        self.start()

    def run(self) -> None:
        number = 0
        while not self._ending.wait(0.02):
            for agent in self._agents:
                number += 1
                path = f"/{number % 7}"
                stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime())
                with (agent.folder / "access" / "access.log").open("a") as log:
                    log.write(f'203.0.113.9 - - [{stamp}] "GET {path} HTTP/1.1" 200 1 "-" "-"\n')
                self.meant[path] += 1

    def close(self) -> None:
        self._ending.set()
        self.join()


def _fleet(folder: Path, agents: int, workers: int) -> Fleet:
    """Whose nodes want a token; not started."""
    fleet = Fleet(folder, agents, workers, {"access": "combined"})
    fleet.token = TOKEN
    token = token_file(folder, TOKEN)
    for node in fleet.nodes.values():
        node.add_to_file(f'[security]\ntoken_file = "{token}"\n')
    for agent in fleet.agents:
        (agent.folder / "access").mkdir()
    return fleet


def _submitted(client: Client, name: str) -> Job:
    return client.submit(name, SQL, settings={"expect": 1, "emit": "200ms", "since": "1m", "retain": "1d"})


def _results_during(fleet: Fleet, job: Job, attack: Callable[[], None]) -> None:
    """Whatever `attack` does, the drained job has each line that was written meanwhile once."""
    writer = _Writer(fleet)
    try:
        until(lambda: job.show()["coverage"]["lines"] > 0, PATIENCE_S, "first lines")
        attack()
    finally:
        writer.close()
    fleet.check()
    job.stop(drain=True)
    until(lambda: job.show()["state"] == "stopped", PATIENCE_S, "the end of the job")
    found = Counter[str]()
    for result in job.results():
        assert result.status == "final"
        for row in result.rows:
            found[row.path] += row.n
    assert found == writer.meant


def test_bad_peers_are_refused_and_counted_and_change_no_result(tmp_path: Path) -> None:
    with (fleet := _fleet(tmp_path, 2, 1)), fleet.client() as client:
        job = _submitted(client, "paths")
        _results_during(fleet, job, lambda: _attack(fleet, fleet.leader("paths")))


def test_who_sends_more_than_it_was_granted_loses_its_link_and_others_notice_nothing(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, 1, 2)
    weak = fleet.workers[0]
    # It deals with no frame while it is to rest: else credit may come back as fast as a busy machine sends.
    rests = tmp_path / "rests"
    weak.program = ("-c", RESTING.format(file=str(rests)))
    weak.add_to_file("[limits]\ncpu_max_cores = 1\n")

    def attack() -> None:
        _wait_linked(fleet, weak)
        rests.touch()
        assert BadPeers(weak, TOKEN).over_credit()
        rests.unlink()
        until(lambda: _refusals(weak)["credit"] == 1, PATIENCE_S, "the count")
        _wait_linked(fleet, weak)
        assert "credit: it sends more than it was granted" in weak.said.read_text()
        assert is_ready(weak.url)

    with fleet, fleet.client() as client:
        names = (f"paths{number}" for number in range(20))
        job = next(job for job in (_submitted(client, name) for name in names) if fleet.leader(job.name) is not weak)
        _results_during(fleet, job, attack)


def _attack(fleet: Fleet, node: NodeProcess) -> None:
    peers = BadPeers(node, TOKEN)
    before_bytes, before = node.resident_bytes(), _refusals(node)
    for reason, said in peers.refused().items():
        assert said.startswith(f"{reason}: "), (reason, said)
        before[reason] += 1
    before.update(peers.frames().values())
    until(lambda: _refusals(node) >= before, PATIENCE_S, f"counts of {before}")
    assert not peers.polite()
    ended = peers.fuzz(40)
    assert ended > 30
    assert peers.bomb_over_http() == 413
    peers.flood()
    _wait_linked(fleet, node)
    with peers.deaf():
        # Its answers fit into what the system buffers: nothing that is written to it ever waits here.
        until(lambda: _links(node) == len(fleet.nodes), PATIENCE_S, "a link with who reads nothing")
        _wait_linked(fleet, node)
        assert _refusals(node)["slow"] == before["slow"] + 1
    assert _refusals(node)["garbage"] >= before["garbage"] + ended
    grown = node.resident_bytes() - before_bytes
    assert grown < GROWTH_MAX < 2 * BOMB_BYTES, f"{grown >> 20} MiB"

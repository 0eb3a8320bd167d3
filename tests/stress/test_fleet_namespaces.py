"""Five real nodes with a network each: links are cut and healed, both ways and one way, and the results are the truth."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

import elfstream as elf
from tests.integration.fleet_processes import Collector, until
from tests.stress.namespaces import TOKEN, NamespacedFleet, Network, lacks, lacks_netem

pytestmark = [pytest.mark.stress, pytest.mark.skipif(bool(lacks()), reason=lacks() or "-")]
NODES = ("web1", "web2", "web3", "web4", "work1")
AGENTS = NODES[:4]
SQL = "SELECT window(time, '2 seconds') AS w, path, count(*) AS n FROM access GROUP BY w, path"
HEAL_S = 120.0
"""From the end of all faults to the end of the job."""


class Traffic(threading.Thread):
    """Writes lines at each agent until it is told to stop; `meant` counts them by window (seconds since 1970) and path."""

    def __init__(self, folders: list[Path], seed: int) -> None:
        super().__init__(daemon=True)
        self.meant = Counter[tuple[int, str]]()
        self._rng, self._ending = random.Random(seed), threading.Event()
        self._logs = []
        for folder in folders:
            folder.mkdir()
            self._logs.append(folder / "access.log")
            self._logs[-1].touch()

    def run(self) -> None:
        while True:
            self.write()
            if self._ending.wait(0.05):
                return

    def write(self) -> None:
        for log in self._logs:
            second = int(time.time())
            stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(second))
            with log.open("a") as file:
                for _ in range(self._rng.randrange(1, 8)):
                    path = f"/{self._rng.randrange(12)}"
                    file.write(f'203.0.113.9 - - [{stamp}] "GET {path} HTTP/1.1" 200 1 "-" "-"\n')
                    self.meant[second // 2 * 2, path] += 1

    def stop(self) -> None:
        self._ending.set()
        self.join()


def _leader(job: elf.Job, network: Network) -> str:
    """Who leads the job; any node when nobody says so."""
    try:
        address = job.show()["master"]["address"].partition(":")[0]
    except (elf.ApiError, elf.UnreachableError):
        return NODES[0]
    return next(name for name, own in network.addresses.items() if own == address)


def _run(folder: Path, seed: int, harm: Callable[[Network, elf.Job, list[str]], None]) -> None:
    network, told = Network(NODES), list[str]()
    with network.entered(), NamespacedFleet(folder, network) as fleet, ExitStack() as ending:
        traffic = Traffic([node.folder / "access" for node in fleet.agents], seed)
        client = ending.enter_context(fleet.client())
        settings = {"emit": "200ms", "expect": len(AGENTS), "since": "1m", "retain": "1d"}
        job = client.submit("paths", SQL, settings=settings)
        collector = Collector(fleet.urls(), "paths", TOKEN)
        ending.callback(collector.close)
        try:
            until(lambda: job.show()["coverage"]["agents"] == len(AGENTS), 30.0, "agents in the job")
            traffic.start()
            until(lambda: job.show()["coverage"]["lines"] > 0, 30.0, "first lines")
            harm(network, job, told)
            network.heal()
            traffic.stop()
            job.stop(drain=True)
            took_s = until(lambda: job.show()["state"] == "stopped", HEAL_S, "the end of the job", every_s=0.2)
            told.append(f"stopped {took_s:.1f} s after the last fault")
            found = {
                (int(row.w.start.timestamp()), row.path): row.n
                for result in job.results(status="final")
                for row in result.rows
            }
            assert found == dict(traffic.meant)
            last = max(result.id for result in job.results())
            until(lambda: collector.has(last), 30.0, "the last result in the stream")
            assert {(int(row[0].start.timestamp()), row[1]): row[2] for row in collector.rows()} == found
            collector.check()
        except BaseException as error:
            error.add_note("\n".join([f"seed {seed}", *told]))
            raise


@pytest.mark.parametrize("seed", [1, 2])
def test_cut_links_delay_results_and_change_none(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)

    def harm(network: Network, job: elf.Job, told: list[str]) -> None:
        faults = ["pair", "part", "silence leader", "deafen leader", "silence", "deafen", "part leader"]
        rng.shuffle(faults)
        for fault in faults:
            leader = _leader(job, network)
            victim = leader if "leader" in fault else rng.choice(NODES)
            others = [name for name in NODES if name != victim]
            if fault.startswith("silence"):
                network.silence(victim)
            elif fault.startswith("deafen"):
                network.deafen(victim)
            elif fault == "pair":
                network.part([victim], [rng.choice(others)])
            else:
                side = [victim] if "leader" in fault else [victim, rng.choice(others)]
                network.part(side, [name for name in NODES if name not in side])
            rest_s = rng.uniform(1.0, 5.0)
            told.append(f"{fault}: {victim} (leader {leader}) for {rest_s:.1f} s")
            time.sleep(rest_s)
            network.heal()
            time.sleep(rng.uniform(0.0, 3.0))

    _run(tmp_path, seed, harm)


def test_a_long_partition_of_two_sides(tmp_path: Path) -> None:
    """Longer than any link lives without an answer: both sides are rings of their own, and come together again."""

    def harm(network: Network, job: elf.Job, told: list[str]) -> None:
        side = [_leader(job, network), "work1" if _leader(job, network) != "work1" else "web1"]
        told.append(f"{side} apart for 20 s")
        network.part(side, [name for name in NODES if name not in side])
        time.sleep(20.0)
        network.heal()

    _run(tmp_path, 3, harm)


@pytest.mark.skipif(bool(lacks_netem()), reason=lacks_netem() or "-")
def test_slow_lossy_links(tmp_path: Path) -> None:
    def harm(network: Network, job: elf.Job, told: list[str]) -> None:
        network.disturb("20ms", "5%")
        told.append("20 ms and 5 % loss for 15 s, and until the end")
        time.sleep(15.0)

    _run(tmp_path, 4, harm)


_LISTEN = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
    own.bind(("{address}", 9))
    own.settimeout({seconds})
    print("ready", flush=True)
    try:
        print(own.recv(9).decode())
    except TimeoutError:
        print("nothing")
"""
_SAY = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
    own.sendto(b"a word", ("{address}", 9))
"""


def _heard(network: Network, sender: str, receiver: str, seconds: float) -> str:
    listen = _LISTEN.format(address=network.addresses[receiver], seconds=seconds)
    say = _SAY.format(address=network.addresses[receiver])
    command = [*network.within(receiver), sys.executable, "-c", listen]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listener:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "ready\n"
        subprocess.run([*network.within(sender), sys.executable, "-c", say], check=True)
        return listener.stdout.readline().strip()


def test_the_router_drops_what_it_is_told_to() -> None:
    with Network(("a1", "b1", "c1")).entered() as network:
        assert _heard(network, "a1", "b1", 30.0) == "a word"
        network.cut("a1", "b1")
        assert _heard(network, "a1", "b1", 0.5) == "nothing"
        for sender, receiver in (("b1", "a1"), ("a1", "c1"), ("c1", "b1")):
            assert _heard(network, sender, receiver, 30.0) == "a word"
        network.silence("c1")
        assert [_heard(network, "c1", one, 0.5) for one in ("a1", "b1")] == ["nothing"] * 2
        network.heal()
        network.deafen("c1")
        assert [_heard(network, one, "c1", 0.5) for one in ("a1", "b1")] == ["nothing"] * 2
        assert _heard(network, "c1", "a1", 30.0) == "a word"
        network.heal()
        assert _heard(network, "a1", "c1", 30.0) == "a word"

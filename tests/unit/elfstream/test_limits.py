"""What `[limits]` means inside: the share of processor time, and how descriptors are dealt out."""

from __future__ import annotations

import configparser
import itertools
from pathlib import Path

import pytest

from agent.tail_options import TailOptions
from elfstream import descriptors
from elfstream.cpu_share import BURST_S, REST_MAX_S, CpuShare, Resting
from srt.peer_options import PeerOptions

UNIT = Path(__file__).resolve().parents[3] / "packaging" / "elfstream.service"


class Machine:
    """A process that computes or rests."""

    def __init__(self, cores: float) -> None:
        self.now_s = self.used_s = 0.0
        self.share = CpuShare(cores, lambda: self.now_s, lambda: self.used_s)

    def work(self, seconds: float, threads: int = 1) -> None:
        self.now_s += seconds
        self.used_s += seconds * threads


@pytest.mark.parametrize("cores", [0.1, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("piece_s", [0.001, 0.05, 0.4])
def test_over_time_the_share_is_kept_whatever_the_pieces_are(cores: float, piece_s: float) -> None:
    machine = Machine(cores)
    while machine.now_s < 100:
        machine.work(piece_s, threads=2)
        machine.now_s += machine.share.rest_s()
    spare_s = 2 * piece_s + cores * BURST_S
    assert cores * 100 - spare_s < machine.used_s <= cores * machine.now_s + spare_s


def test_what_comes_in_does_not_wait_until_old_work_is_paid_for() -> None:
    machine = Machine(0.1)
    machine.work(0.02)
    assert machine.share.rest_s() == pytest.approx(0.02 / 0.1 - 0.02)
    assert machine.share.live_rest_s() == 0.0


@pytest.mark.parametrize("cores", [0.1, 1.0])
def test_the_share_is_kept_whatever_comes_in(cores: float) -> None:
    machine = Machine(cores)
    while machine.now_s < 100:
        machine.work(0.05, threads=2)
        machine.now_s += machine.share.live_rest_s()
        assert machine.share.rest_s() > 0  # nothing is left for old work
    assert machine.used_s <= cores * (machine.now_s + 2 * BURST_S) + 0.1


def test_where_leases_and_answers_take_more_than_the_share_logs_are_read_now_and_then() -> None:
    machine, read_s = Machine(0.1), list[float]()
    resting = Resting(machine.share.live_rest_s, lambda: machine.now_s)
    while machine.now_s < 100:
        machine.work(0.02)
        machine.now_s += 0.08
        if resting() == 0.0:
            machine.work(0.01)
            read_s.append(machine.now_s)
    waits = [later - earlier for earlier, later in itertools.pairwise(read_s)]
    assert REST_MAX_S / 2 < max(waits) <= REST_MAX_S + 0.3
    assert min(waits[1:]) > REST_MAX_S / 2, "one piece, not all there is"


@pytest.mark.parametrize("again", [False, True], ids=["rests", "asks again and again"])
def test_who_rests_rests_as_long_as_its_share_says(again: bool) -> None:
    machine = Machine(0.1)
    resting = Resting(machine.share.rest_s, lambda: machine.now_s)
    while machine.now_s < 100:
        machine.work(0.05)
        while (rest_s := resting()) > 0:
            machine.now_s += 0.01 if again else rest_s + 1e-6
    assert machine.used_s == pytest.approx(10.0, abs=0.2)


def test_who_rested_long_may_use_little_at_once() -> None:
    machine = Machine(0.5)
    machine.now_s = 1000.0
    assert machine.share.rest_s() == 0
    machine.work(0.2)
    assert machine.share.rest_s() == 0
    machine.work(1.0)
    assert machine.share.rest_s() == pytest.approx((0.2 + 1.0) / 0.5 - 1.2 - BURST_S)


@pytest.mark.parametrize("limit", [20_000, 65_536, 1 << 20])
@pytest.mark.parametrize("sources", [1, 3, 40, 256])
def test_logs_leave_half_of_the_descriptors_to_others(limit: int, sources: int) -> None:
    shares = descriptors.of_sources(limit, sources)
    assert sources * (shares.open_max + 2 * shares.held_max + 1) <= limit // 2
    assert descriptors.of_peers(limit) + descriptors.OTHERS <= limit // 2
    TailOptions(open_max=shares.open_max, held_max=shares.held_max, open_deleted_max=shares.open_max)


def test_few_descriptors_are_enough_to_get_on() -> None:
    shares = descriptors.of_sources(1024, 256)
    assert shares == (descriptors.OPEN_LEAST, descriptors.HELD_LEAST)
    assert descriptors.of_sources(0, 1) == shares


def test_with_the_unit_nothing_waits_on_an_agent_of_sixteen_sources() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(UNIT)
    limit = int(unit["Service"]["LimitNOFILE"])
    options = TailOptions()
    assert descriptors.of_sources(limit, 16) == (min(options.open_max, limit // 64), min(options.held_max, limit // 128 - 1))
    assert descriptors.of_sources(limit, 1) == (options.open_max, options.held_max)
    assert descriptors.of_peers(limit) == PeerOptions().peers_max
    assert limit >= descriptors.needed(16)

"""Links: fairness by bytes, credits, bounds; a small job beside a huge one in numbers."""

from __future__ import annotations

import heapq
import random
from typing import Any

import pytest

from srt.automaton import WAKE, Instant, PeerLost, Received, Ref, Send
from srt.errors import OptionsError
from srt.link_messages import Grant, JobGrant, SentSoFar
from srt.links import LinkDown, Links, Ready, Room
from srt.options import LinkOptions

A, B = Ref(bytes(16), "a:1", 1), Ref(bytes(15) + b"\1", "b:1", 1)
HUGE, SMALL, OTHER = b"h" * 16, b"s" * 16, b"o" * 16
T0 = Instant(0.0, 0)


def drain(links: Links, now: Instant = T0) -> list[Any]:
    taken = []
    while (found := links.take(B, now)) is not None:
        taken.append(found[0])
    return taken


def test_jobs_take_turns_by_bytes_not_by_messages() -> None:
    links = Links(LinkOptions.tiny())
    for index in range(4):
        assert links.offer(B, HUGE, f"H{index}", 100)
    for index in range(12):
        assert links.offer(B, SMALL, f"s{index}", 25)
    order = drain(links)
    assert order[:10] == ["H0", "s0", "s1", "s2", "s3", "H1", "s4", "s5", "s6", "s7"]


def test_control_goes_first_and_is_bounded() -> None:
    links = Links(LinkOptions.tiny())
    links.offer(B, SMALL, "data", 10)
    assert links.offer(B, None, "ping", 500)
    assert not links.offer(B, None, "pong", 1)
    assert drain(links) == ["ping", "data"]


def test_a_full_queue_refuses_and_says_when_there_is_room() -> None:
    links = Links(LinkOptions.tiny())
    offered = [links.offer(B, HUGE, index, 100) for index in range(6)]
    assert offered == [True] * 5 + [False]
    assert links.offer(B, SMALL, "small", 100), "one full job does not shut out another"
    told: list[Any] = []
    while (found := links.take(B, T0)) is not None:
        told += found[1]
    assert told == [Room(B, HUGE)]


def test_all_jobs_together_are_bounded() -> None:
    links = Links(LinkOptions.tiny())
    accepted = sum(links.offer(B, bytes([job]) * 16, index, 100) for job in range(6) for index in range(5))
    assert accepted == 15
    assert links.offer(B, bytes([9]) * 16, "more", 1) is False


def test_idle_jobs_make_room_for_others() -> None:
    links = Links(LinkOptions.tiny())
    for job in range(20):
        assert links.offer(B, bytes([job]) * 16, job, 10)
        assert drain(links) == [job]


def test_a_job_without_credit_stops_alone() -> None:
    sender, receiver = Links(LinkOptions.tiny()), Links(LinkOptions.tiny())
    for index in range(5):
        sender.offer(B, HUGE, index, 100)
    assert drain(sender) == [0, 1, 2, 3], "400 bytes of credit"
    sender.offer(B, SMALL, "small", 100)
    assert drain(sender) == ["small"]
    for _ in range(4):
        receiver.came(A, HUGE, 100)
    assert receiver.done(A, HUGE, 100) == []
    (grant,) = receiver.done(A, HUGE, 100)
    assert isinstance(grant, Send)
    assert grant.message.jobs[0].limit_bytes == 600
    assert sender.handle(Received(B, grant.message), T0) == [Ready(B)]
    assert drain(sender) == [4]


def test_grants_may_be_lost_doubled_and_late() -> None:
    sender = Links(LinkOptions.tiny())
    for index in range(5):
        sender.offer(B, HUGE, index, 100)
    drain(sender)
    assert sender.handle(Received(B, Grant(1200, [JobGrant(HUGE, 5000)])), T0) == [Ready(B)]
    sender.handle(Received(B, Grant(500, [JobGrant(HUGE, 400)])), T0)
    assert drain(sender) == [4], "totals never shrink"
    for index in range(5, 10):
        sender.offer(B, HUGE, index, 100)
    assert drain(sender) == [5, 6, 7, 8, 9]
    for index in range(10, 14):
        sender.offer(B, HUGE, index, 100)
    assert drain(sender) == [10, 11], "1,200 bytes of the link, for all its jobs"


def test_lost_messages_do_not_eat_credit_for_ever() -> None:
    sender, receiver = Links(LinkOptions.tiny()), Links(LinkOptions.tiny())
    for index in range(5):
        sender.offer(B, HUGE, index, 100)
    drain(sender)  # and all four are lost
    assert sender.wake_at == 1.0
    (tell,) = sender.handle(WAKE, Instant(1.0, 0))
    assert tell == Send(B, SentSoFar(400, HUGE, 400))
    (grant,) = receiver.handle(Received(A, tell.message), T0)
    sender.handle(Received(B, grant.message), T0)
    assert drain(sender) == [4]


def test_a_broken_link_gives_back_what_waited() -> None:
    links = Links(LinkOptions.tiny())
    links.offer(B, HUGE, "h", 10)
    links.offer(B, None, "c", 10)
    assert links.handle(PeerLost(B), T0) == [LinkDown(B, ((None, "c"), (HUGE, "h")))]
    assert drain(links) == []
    assert links.handle(PeerLost(B), T0) == []


def test_a_message_larger_than_all_credit_gets_through() -> None:
    links = Links(LinkOptions.tiny())
    assert links.offer(B, HUGE, "giant", 1400)
    assert drain(links) == ["giant"]


def test_link_options_are_checked() -> None:
    with pytest.raises(OptionsError, match="job_bytes_max 99999999999 is above queued_bytes_max"):
        LinkOptions(job_bytes_max=99999999999)


def small_job_delays(fair: bool, slow_receiver: bool = False, seconds: float = 4.0) -> list[float]:
    """Delays of a small job's 2 KiB messages, one every 5 ms, beside a job that always has 8 MiB waiting, at 1 Gbit/s.

    Not `fair`: both are one job, as on a link without queues per job. A slow receiver never finishes with the huge job.
    """
    rate, rng = 125e6, random.Random(1)
    sender, receiver = Links(), Links()
    huge, small = HUGE, SMALL if fair else HUGE
    arrivals: list[tuple[float, int, bytes, int, float]] = []
    delays: list[float] = []
    now, next_small, count = 0.0, 0.0, 0
    backlog: list[tuple[float, int]] = []
    while now < seconds:
        while next_small <= now:
            backlog.append((next_small, 2048))
            next_small += 0.005 * (0.5 + rng.random())
        while backlog and sender.offer(B, small, (SMALL, 2048, backlog[0][0]), 2048):
            backlog.pop(0)
        while sender.offer(B, huge, (HUGE, 256 << 10, now), 256 << 10):
            pass
        found = sender.take(B, Instant(now, 0))
        if found is not None:
            key, size, since = found[0]
            now += size / rate
            heapq.heappush(arrivals, (now, count, key, size, since))
            count += 1
        else:
            now += 0.0005
        while arrivals and arrivals[0][0] <= now:
            at, _, key, size, since = heapq.heappop(arrivals)
            if key == SMALL:
                delays.append(at - since)
            link_key = key if fair else HUGE
            receiver.came(A, link_key, size)
            if key == SMALL or not slow_receiver:
                for grant in receiver.done(A, link_key, size):
                    sender.handle(Received(B, grant.message), T0)
    return sorted(delays)


def p99(delays: list[float]) -> float:
    return delays[len(delays) * 99 // 100]


def test_a_small_job_is_not_delayed_by_a_huge_one() -> None:
    fair, shared = small_job_delays(True), small_job_delays(False)
    assert len(fair) > 700
    assert p99(fair) < 0.006, "two of the huge job's messages at most"
    assert p99(shared) > 10 * p99(fair), "without queues per job it waits for all that is queued"


def test_a_small_job_is_not_delayed_by_one_whose_receiver_is_slow() -> None:
    delays = small_job_delays(True, slow_receiver=True)
    assert len(delays) > 700
    assert p99(delays) < 0.006

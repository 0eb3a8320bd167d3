"""Links: fairness by bytes, credits, bounds; a small job beside a huge one in numbers."""

from __future__ import annotations

import heapq
import random
from typing import Any

import pytest

from srt.automaton import WAKE, Instant, PeerLost, Received, Ref, Send
from srt.errors import OptionsError
from srt.link_messages import Grant, JobGrant, SentSoFar
from srt.links import Busy, LinkDown, Links, Ready, Room
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
        assert links.send(B, HUGE, f"H{index}", 100) == [Ready(B)]
    for index in range(12):
        assert links.send(B, SMALL, f"s{index}", 25) == [Ready(B)]
    order = drain(links)
    assert order[:10] == ["H0", "s0", "s1", "s2", "s3", "H1", "s4", "s5", "s6", "s7"]


def test_control_goes_first() -> None:
    links = Links(LinkOptions.tiny())
    links.send(B, SMALL, "data", 10)
    links.send(B, None, "ping", 500)
    assert drain(links) == ["ping", "data"]


def test_beyond_its_bound_the_oldest_control_message_is_dropped_and_counted() -> None:
    links = Links(LinkOptions.tiny())
    for name, size in (("a", 200), ("b", 200), ("c", 200), ("d", 50)):
        assert links.send(B, None, name, size) == [Ready(B)]
    assert links.control_dropped == 1
    assert drain(links) == ["b", "c", "d"]
    links.send(B, None, "e", 10)
    links.send(B, None, "larger than all room", 501)
    assert drain(links) == ["larger than all room"]
    assert links.control_dropped == 2


def test_a_long_queue_says_busy_once_and_room_once_and_loses_nothing() -> None:
    links = Links(LinkOptions.tiny())
    said = [links.send(B, HUGE, index, 100)[1:] for index in range(8)]
    assert said == [[]] * 5 + [[Busy(B, HUGE)], [], []]
    assert links.send(B, SMALL, "small", 100) == [Ready(B)], "one long queue does not stop another job"
    links.handle(Received(B, Grant(9999, [JobGrant(HUGE, 9999)])), T0)
    told, taken = [], []
    while (found := links.take(B, T0)) is not None:
        taken.append(found[0])
        told += [(effect, taken.count("small")) for effect in found[1]]
    assert [one for one in taken if one != "small"] == list(range(8))
    assert told == [(Room(B, HUGE), 1)]
    assert taken.index(5) == 6, "Room came with two messages, 200 of 500 bytes, behind it"


def test_above_the_mark_of_the_link_jobs_with_more_than_their_share_are_busy() -> None:
    links = Links(LinkOptions.tiny())
    jobs = [bytes([job]) * 16 for job in range(5)]
    for index in range(3):
        for job in jobs:
            assert links.send(B, job, index, 100) == [Ready(B)], "1,500 bytes in all"
    assert links.send(B, SMALL, "small", 100) == [Ready(B)], "less than a sixth of the mark"
    assert links.send(B, jobs[0], 3, 100) == [Ready(B), Busy(B, jobs[0])]
    assert links.send(B, SMALL, "small", 200) == [Ready(B), Busy(B, SMALL)]
    links.check()


def test_idle_jobs_make_room_for_others() -> None:
    links = Links(LinkOptions.tiny())
    for job in range(20):
        links.send(B, bytes([job]) * 16, job, 10)
        assert drain(links) == [job]


def test_a_job_without_credit_stops_alone() -> None:
    sender, receiver = Links(LinkOptions.tiny()), Links(LinkOptions.tiny())
    for index in range(5):
        sender.send(B, HUGE, index, 100)
    assert drain(sender) == [0, 1, 2, 3], "400 bytes of credit"
    sender.send(B, SMALL, "small", 100)
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
        sender.send(B, HUGE, index, 100)
    drain(sender)
    assert sender.handle(Received(B, Grant(1200, [JobGrant(HUGE, 5000)])), T0) == [Ready(B)]
    sender.handle(Received(B, Grant(500, [JobGrant(HUGE, 400)])), T0)
    assert drain(sender) == [4], "totals never shrink"
    for index in range(5, 10):
        sender.send(B, HUGE, index, 100)
    assert drain(sender) == [5, 6, 7, 8, 9]
    for index in range(10, 14):
        sender.send(B, HUGE, index, 100)
    assert drain(sender) == [10, 11], "1,200 bytes of the link, for all its jobs"


def test_lost_messages_do_not_eat_credit_for_ever() -> None:
    sender, receiver = Links(LinkOptions.tiny()), Links(LinkOptions.tiny())
    for index in range(5):
        sender.send(B, HUGE, index, 100)
    drain(sender)  # and all four are lost
    assert sender.wake_at == 1.0
    (tell,) = sender.handle(WAKE, Instant(1.0, 0))
    assert tell == Send(B, SentSoFar(400, HUGE, 400))
    (grant,) = receiver.handle(Received(A, tell.message), T0)
    sender.handle(Received(B, grant.message), T0)
    assert drain(sender) == [4]


def test_a_broken_link_gives_back_what_waited() -> None:
    links = Links(LinkOptions.tiny())
    links.send(B, HUGE, "h", 501)
    links.send(B, None, "c", 10)
    down = LinkDown(B, ((None, "c"), (HUGE, "h")))
    assert links.handle(PeerLost(B), T0) == [down, Room(B, HUGE)]
    assert drain(links) == []
    assert links.handle(PeerLost(B), T0) == []


def test_a_message_larger_than_all_credit_gets_through() -> None:
    links = Links(LinkOptions.tiny())
    links.send(B, HUGE, "giant", 1400)
    assert drain(links) == ["giant"]


def test_a_held_job_gets_no_credit_and_takes_none_from_others() -> None:
    receiver = Links(LinkOptions.tiny())
    receiver.hold(HUGE)
    grants = []
    for index in range(8):
        for key in (HUGE, SMALL) if index < 4 else (SMALL,):
            receiver.came(A, key, 100)
            grants += [effect.message for effect in receiver.done(A, key, 100)]
    assert {job.key for grant in grants for job in grant.jobs} == {SMALL}
    assert grants[-1].limit_bytes == 2200, "what was dealt with is free for the link"
    told = SentSoFar(1200, HUGE, 400)
    assert receiver.handle(Received(A, told), T0) == [Send(A, Grant(2200, []))]
    assert receiver.free(HUGE) == [Send(A, Grant(2200, [JobGrant(HUGE, 800)]))]
    assert receiver.free(HUGE) == []


def test_many_small_jobs_use_up_the_credit_of_the_link_alone() -> None:
    receiver = Links(LinkOptions.tiny())
    grants = []
    for job in range(4):
        receiver.came(A, bytes([job]) * 16, 150)
        grants += receiver.done(A, bytes([job]) * 16, 150)
    assert grants == [Send(A, Grant(1600, []))], "no job has used half of its own"


def test_a_job_that_lost_its_credit_tells_so_while_others_go_on() -> None:
    sender = Links(LinkOptions.tiny())
    for index in range(5):
        sender.send(B, HUGE, index, 100)
    drain(sender)
    sender.send(B, SMALL, "small", 100)
    assert drain(sender, Instant(0.9, 0)) == ["small"]
    assert sender.wake_at == 1.0
    assert sender.handle(WAKE, Instant(1.0, 0)) == [Send(B, SentSoFar(500, HUGE, 400))]
    assert sender.wake_at == 2.0


def test_a_link_without_credit_stops_all_jobs_and_tells_so() -> None:
    sender = Links(LinkOptions.tiny())
    for index in range(4):
        for key in (HUGE, SMALL, OTHER):
            sender.send(B, key, index, 100)
    assert len(drain(sender)) == 10
    (told,) = sender.handle(WAKE, Instant(1.0, 0))
    assert told.message.total_bytes == 1000
    sender.handle(Received(B, Grant(2000, [])), T0)
    assert len(drain(sender)) == 2


def test_who_sends_without_credit_is_found_out() -> None:
    receiver = Links(LinkOptions.tiny())
    assert [receiver.came(A, HUGE, 600) for _ in range(3)] == [True, True, False]


def test_link_options_are_checked() -> None:
    with pytest.raises(OptionsError, match="job_bytes_max 99999999999 is above queued_bytes_max"):
        LinkOptions(job_bytes_max=99999999999)


def said_busy(effects: list[Any], key: bytes) -> bool:
    return Busy(B, key) in effects


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
    busy = False
    while now < seconds:
        while next_small <= now:
            backlog.append((next_small, 2048))
            next_small += 0.005 * (0.5 + rng.random())
        while backlog and not (busy and small == huge):
            at, size = backlog.pop(0)
            busy |= said_busy(sender.send(B, small, (SMALL, size, at), size), huge)
        while not busy:
            busy = said_busy(sender.send(B, huge, (HUGE, 256 << 10, now), 256 << 10), huge)
        found = sender.take(B, Instant(now, 0))
        busy = busy and (found is None or Room(B, huge) not in found[1])
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

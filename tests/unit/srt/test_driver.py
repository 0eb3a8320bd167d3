"""Links over real sockets on loopback: how they begin, settle, break and carry."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from srt.automaton import ANY_BOOT, Ref
from srt.errors import OptionsError, WireError
from srt.links import Busy, Room
from srt.options import LinkOptions
from srt.peer_options import PeerAuth, PeerOptions
from srt.ring_messages import Ping
from srt.tree_messages import MasterReply
from srt.wire import MESSAGE_BYTES_MAX
from tests.peers import QUICK, Bulk, Node, Stranger, listen, run, until

JOB, OTHER = b"j" * 16, b"o" * 16
NOBODY = "127.0.0.1:1"


def reply(number: int, size: int = 0) -> MasterReply:
    return MasterReply(number, bytes(size))


def frame(number: int, size: int, key: bytes = JOB) -> Bulk:
    return Bulk(key, number, bytes(size))


@pytest.mark.parametrize("loop_factory", [uvloop.new_event_loop, asyncio.new_event_loop])
def test_messages_arrive_in_order_both_ways_over_one_socket(loop_factory: Any) -> None:
    async def test() -> None:
        a, b = await Node(1).start(), await Node(2).start()
        for number in range(500):
            a.peers.send(b.ref, reply(number))
        await until(lambda: len(b.got()) == 500)
        for number in range(500):
            b.peers.send(a.ref, reply(number, 3000))
        await until(lambda: len(a.got()) == 500)
        assert [message.request for message in b.got(a.ref)] == list(range(500))
        assert [message.request for message in a.got(b.ref)] == list(range(500))
        (mine,), (theirs,) = a.peers.peers(), b.peers.peers()
        assert (mine.peer, mine.dialled, theirs.peer, theirs.dialled) == (b.ref, True, a.ref, False)
        assert mine.traffic.messages_out == theirs.traffic.messages_in == 500
        assert mine.traffic.bytes_in == theirs.traffic.bytes_out > 1_500_000
        await a.stop()
        await until(lambda: b.lost() == [a.ref])
        assert not b.peers.peers()
        assert b.peers.traffic.messages_in == 500
        await b.stop()
        assert a.lost() == []

    run(test, loop_factory)


def test_a_message_of_the_greatest_size_gets_through_and_a_longer_one_is_our_error() -> None:
    async def test() -> None:
        a, b = await Node(1).start(), await Node(2).start()
        over = len(a.peers._wire.encode(frame(1, 1 << 20))) - (1 << 20)
        a.peers.send(b.ref, frame(1, MESSAGE_BYTES_MAX - over))
        await until(b.got)
        assert b.peers.peers()[0].traffic.bytes_in == MESSAGE_BYTES_MAX
        with pytest.raises(WireError):
            a.peers.send(b.ref, frame(1, MESSAGE_BYTES_MAX - over + 1))
        await a.stop()
        await b.stop()

    run(test)


def test_who_answers_at_an_address_gets_what_is_for_any_boot() -> None:
    async def test() -> None:
        a, b = await Node(1).start(), await Node(2, boot=7).start()
        a.peers.send(Ref(bytes(16), b.ref.address, ANY_BOOT), reply(1))
        a.peers.send(Ref(b.ref.id, b.ref.address, ANY_BOOT), reply(2))
        a.peers.send(b.ref, reply(3))
        await until(lambda: len(b.got()) == 3)
        assert {message.request for message in b.got()} == {1, 2, 3}
        a.peers.send(Ref(bytes(16), b.ref.address, ANY_BOOT), reply(4))
        await until(lambda: len(b.got()) == 4)
        assert a.lost() == []
        assert a.peers.dropped == 0
        await a.stop()
        await b.stop()

    run(test)


def test_who_is_not_there_any_more_is_told_as_lost() -> None:
    async def test() -> None:
        a, b = await Node(1).start(), await Node(2, boot=7).start()
        older = Ref(b.ref.id, b.ref.address, 6)
        other = Ref(b"x" * 16, b.ref.address, 7)
        anyone = Ref(b"y" * 16, b.ref.address, ANY_BOOT)
        for gone in (older, other, anyone):
            a.peers.send(gone, reply(1))
        a.peers.send(b.ref, reply(2))
        await until(lambda: len(a.lost()) == 3 and b.got())
        assert set(a.lost()) == {older, other, anyone}
        a.events.clear()
        a.peers.send(older, reply(3))
        await until(lambda: a.lost() == [older])
        a.peers.send(Ref(a.ref.id, a.ref.address, ANY_BOOT), reply(4))
        await until(lambda: len(a.lost()) == 2)
        await asyncio.sleep(0.05)
        assert b.got() == [reply(2)]
        await a.stop()
        await b.stop()

    run(test)


def test_a_dial_that_fails_is_told_once_and_tried_again_after_a_pause(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        a = await Node(1).start()
        nobody, anyone = Ref(b"n" * 16, NOBODY, 1), Ref(bytes(16), NOBODY, ANY_BOOT)
        loop, times = asyncio.get_running_loop(), []
        for _ in range(5):
            for number in range(10):
                a.peers.send(nobody, reply(number))
                a.peers.send(anyone, reply(number))
            began = loop.time()
            a.events.clear()
            await until(lambda: len(a.lost()) == 2)
            times.append(loop.time() - began)
            assert set(a.lost()) == {nobody, anyone}
        assert sum(times) > 0.08, "pauses of at least 10, 20, 40 and 50 ms"
        assert a.peers.dropped == 100
        assert a.peers.refusals.counts == {"unreachable": 5}
        assert [one.getMessage() for one in caplog.records] == [f"no link to {NOBODY}: connection refused"]
        await a.stop()

    run(test)


def test_a_link_is_made_anew_after_a_restart_of_the_peer() -> None:
    async def test() -> None:
        a, b = await Node(1).start(), await Node(2).start()
        a.peers.send(b.ref, reply(1))
        await until(b.got)
        await b.stop()
        await until(lambda: a.lost() == [b.ref])
        again = await Node(2, boot=2).start(port=int(b.ref.address.rpartition(":")[2]))
        a.peers.send(again.ref, reply(2))
        await until(again.got)
        again.peers.send(a.ref, reply(3))
        await until(a.got)
        await a.stop()
        await again.stop()

    run(test)


@pytest.mark.parametrize("seed", range(8))
def test_both_dial_at_once_and_one_link_stays(seed: int) -> None:
    async def test() -> None:
        a, b = await Node(1 + seed % 2 * 8).start(), await Node(5).start()
        for number in range(20):
            a.peers.send(b.ref, reply(number))
            if number == 0:
                await asyncio.sleep(
                    0.0003 * (seed // 2)
                )  # the second dial leaves at different moments of the first
            b.peers.send(a.ref, reply(number))
        await until(lambda: len(a.got()) == 20 and len(b.got()) == 20)
        # The other dial may be on its way still.
        await until(lambda: [one.dialled for node in (a, b) for one in node.peers.peers()] in ([True, False], [False, True]))
        if seed < 2:
            assert a.peers.peers()[0].dialled == (a.ref > b.ref), "the greater one's dial counts"
        for node in (a, b):
            assert [message.request for message in node.got()] == list(range(20))
            assert node.lost() == []
            assert node.peers.dropped == 0
        await a.stop()
        await b.stop()

    run(test)


def test_a_peer_with_a_link_that_is_found_under_another_address() -> None:
    """Its own link counts, and what waited for whoever answers there goes over it."""

    async def test() -> None:
        lesser, greater = await Node(1).start(), await Node(5).start()
        greater.peers.send(lesser.ref, reply(1))
        await until(lesser.got)
        alias = greater.ref.address.replace("127.0.0.1", "localhost")
        lesser.peers.send(Ref(bytes(16), alias, ANY_BOOT), reply(2))
        await until(greater.got)
        assert greater.peers.refusals.counts == {"crossed": 1}
        assert lesser.lost() == greater.lost() == []
        assert len(lesser.peers.peers()) == len(greater.peers.peers()) == 1
        await lesser.stop()
        await greater.stop()

    run(test)


def test_a_peer_that_lost_its_end_gets_a_new_link_and_what_waits() -> None:
    async def test() -> None:
        node = await Node(9, links=SMALL).start()
        first = await Stranger(3).dial(node)
        await first.ws.send_bytes(node.peers._wire.encode(Ping()))
        await until(node.got)
        for number in range(6):
            node.peers.send(first.ref, frame(number, 10_000))
        for number in range(4):
            assert node.peers._wire.decode(await first.ws.receive_bytes()) == frame(number, 10_000)
        second = await Stranger(3).dial(node)
        assert await first.end() == (1000, "replaced")
        for number in (4, 5):
            assert node.peers._wire.decode(await second.ws.receive_bytes()) == frame(number, 10_000)
        assert node.lost() == []
        await first.leave()
        await second.leave()
        await until(lambda: node.lost() == [second.ref])
        await node.stop()

    run(test)


def test_a_link_that_is_dead_at_the_other_end_gives_way_to_its_dial() -> None:
    """The lesser peer lost a link that the greater one dialled: the greater finds out, the lesser tries again."""

    async def test() -> None:
        options = replace(QUICK, probe_s=0.3)
        lesser, greater = await Node(1, options).start(), await Node(5, options).start()
        greater.peers.send(lesser.ref, reply(1))
        await until(lesser.got)
        # The lesser one's end is gone, and the greater one was not told.
        (dead,) = lesser.peers._sockets.values()
        lesser.peers._sockets.clear()
        lesser.peers._at.clear()
        dead._ws.receive = _never  # type: ignore[method-assign]
        greater.peers.send(lesser.ref, reply(2))  # into the void
        await until(lambda: len(lesser.got()) == 2)
        lesser.peers.send(greater.ref, reply(3))
        await until(lambda: greater.got() == [reply(3)])
        assert greater.lost() == [lesser.ref]
        assert lesser.lost() == []
        assert greater.peers.refusals.counts["crossed"] >= 1
        await lesser.stop()
        await greater.stop()

    run(test)


async def _never() -> Any:
    await asyncio.Event().wait()


def test_a_job_that_is_not_dealt_with_holds_only_itself() -> None:
    async def test() -> None:
        a, b = await Node(1, links=SMALL).start(), await Node(2, links=SMALL).start()
        b.busy = True
        for number in range(30):
            a.peers.send(b.ref, frame(number, 10_000))
        assert Busy(b.ref, JOB) in a.events
        await until(lambda: len(b.got()) == 4)
        a.peers.send(b.ref, frame(0, 10_000, OTHER))
        a.peers.send(b.ref, reply(1))
        await until(lambda: len(b.got()) == 6)
        await asyncio.sleep(0.05)
        assert len(b.got()) == 6, "the job has no credit left"
        b.peers.hold(JOB)
        b.busy = False
        b.deal()
        await asyncio.sleep(0.05)
        assert len(b.got()) == 6, "a held job gets none"
        b.peers.free(JOB)
        await until(lambda: len(b.got()) == 32)
        assert Room(b.ref, JOB) in a.events
        jobs = [message.number for message in b.got() if message != reply(1) and message.key == JOB]
        assert jobs == list(range(30))
        await a.stop()
        await b.stop()

    run(test)


SMALL = LinkOptions(
    quantum_bytes=20_000, job_bytes_max=50_000, job_credit_bytes=40_000, credit_bytes=100_000, stalled_s=0.2
)


def test_what_waits_for_a_link_that_breaks_is_counted() -> None:
    async def test() -> None:
        a, b = await Node(1, links=SMALL).start(), await Node(2, links=SMALL).start()
        b.busy = True
        for number in range(30):
            a.peers.send(b.ref, frame(number, 10_000))
        await until(lambda: len(b.got()) == 4)
        await b.stop()
        await until(lambda: a.lost() == [b.ref])
        assert a.peers.dropped == 26
        assert a.events.index(Room(b.ref, JOB)) < len(a.events) - 1, "the job may go on, to somebody else"
        await a.stop()

    run(test)


def test_links_without_traffic_are_closed_and_made_again_without_alarm() -> None:
    async def test() -> None:
        options = PeerOptions(idle_s=0.3)
        a, b = await Node(1, options).start(), await Node(2, options).start()
        for number in (1, 2):
            a.peers.send(b.ref, reply(number))
            await until(lambda: len(b.got()) == number)  # noqa: B023 - awaited at once
            await until(lambda: not a.peers.peers() and not b.peers.peers())
        assert a.lost() == b.lost() == []
        await a.stop()
        await b.stop()

    run(test)


def test_many_messages_for_an_address_that_is_silent_are_bounded() -> None:
    async def test() -> None:
        options = PeerOptions(dial_s=0.2, waiting_bytes_max=10_000)
        a = await Node(1, options).start()
        silent = listen(0)
        address = "{}:{}".format(*silent.getsockname())
        for number in range(100):
            a.peers.send(Ref(bytes(16), address, ANY_BOOT), reply(number, 990))
        assert a.peers.dropped == 90
        await until(a.lost)
        assert a.peers.refusals.counts == {"timeout": 1}
        assert a.peers.dropped == 100
        silent.close()
        await a.stop()

    run(test)


def test_options_are_checked_together() -> None:
    with pytest.raises(OptionsError, match=r"backoff_first_s 9 is above backoff_max_s 2.0"):
        PeerOptions(backoff_first_s=9)
    with pytest.raises(OptionsError, match="peers_max is 0, which is not above 0"):
        PeerOptions(peers_max=0)
    with pytest.raises(OptionsError, match="undealt_bytes_max 1000 is below credit_bytes and a message"):
        PeerOptions(undealt_bytes_max=1000).fit(LinkOptions())
    with pytest.raises(OptionsError, match="printable ASCII"):
        PeerAuth(token=b"a b")
    assert "secret" not in repr(PeerAuth(token=b"secret"))

"""The directory of one node: what it takes, what it refuses, what it stores."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from srt.automaton import WAKE, Delete, Instant, Put, Received, Ref, Send, Stored, StoreFailed, Write
from srt.directory import Directory, EntryChanged, EntryEnded, Tell
from srt.directory_messages import (
    DIRECTORY_MESSAGES,
    HELD_MAX,
    VALUE_BYTES_MAX,
    Digests,
    Entry,
    Held,
    Holdings,
    Rumours,
    Stretch,
    Wanted,
)
from srt.directory_table import DirectoryTable, bounds
from srt.directory_table import Put as Outcome
from srt.errors import OptionsError, WireError
from srt.options import DirectoryOptions
from srt.ring import Ring
from srt.ring_messages import LeafRequest
from srt.wire import Wire

WALL_US = 1_764_000_000_000_000
DURABLE = DirectoryOptions(durable_kinds=frozenset({1}))


def at(seconds: float) -> Instant:
    return Instant(seconds, WALL_US + int(seconds * 1e6))


def ref(number: int) -> Ref:
    return Ref(random.Random(number).randbytes(16), f"n{number}", 1)


def entry(number: int, version: int = 1, value: bytes = b"v", until_s: float = 0, kind: int = 1) -> Entry:
    until_us = WALL_US + int(until_s * 1e6) if until_s else 0
    return Entry(kind, number.to_bytes(16, "big"), (version, 0), value, until_us)


def directory(
    peers: int = 3, stored: dict[bytes, bytes] | None = None, options: DirectoryOptions = DURABLE
) -> Directory:
    ring = Ring(ref(0), (), random.Random(0))
    ring.handle(WAKE, at(0.0))
    for number in range(1, peers + 1):
        ring.handle(Received(ref(number), LeafRequest(0)), at(0.0))
    assert len(ring.routes.peers()) == peers
    return Directory(ring, random.Random(0), stored or {}, options)


def sent(effects: list[Any], kind: type) -> list[tuple[Ref, Any]]:
    return [(one.to, one.message) for one in effects if isinstance(one, Send) and isinstance(one.message, kind)]


def writes(effects: list[Any]) -> list[Write]:
    return [one for one in effects if isinstance(one, Write)]


def keep(disk: dict[bytes, bytes], write: Write) -> None:
    for change in write.changes:
        if isinstance(change, Put):
            disk[change.key] = change.value
        elif isinstance(change, Delete):
            for name in [name for name in disk if change.first <= name < change.last]:
                del disk[name]


def test_who_has_just_come_compares_often_at_first() -> None:
    """Nodes that start together know nothing of each other, and the first one asked may know as little."""
    node, asked = directory(), []
    for tick in range(int(20 / 0.05)):
        if node.wake_at <= tick * 0.05 and sent(node.handle(WAKE, at(tick * 0.05)), Digests):
            asked.append(tick * 0.05)
    assert sum(moment < 2.5 for moment in asked) >= 4
    assert all(0.7 * DURABLE.mend_s < later - earlier < 1.3 * DURABLE.mend_s for earlier, later in pairwise(asked[5:]))


def test_entries_are_looked_through_while_they_change() -> None:
    one = directory(1)
    one.handle(Tell(entry(1)), at(0))
    found = one.of_kind(1)
    assert next(found) == entry(1)
    one.handle(Tell(entry(2)), at(0))
    assert list(found) == []


def test_the_greater_version_and_value_wins() -> None:
    orders = [entry(1, 2, b"a"), entry(1, 2, b"b"), entry(1, 1, b"z")]
    for seed in range(6):
        node = directory()
        offered = random.Random(seed).sample(orders, 3)
        for one in offered:
            node.handle(Received(ref(1), Rumours([one], hot=True)), at(1.0))
        assert node.get(1, orders[0].key) == orders[1]


def test_a_change_is_told_at_once_and_a_bounded_number_of_times() -> None:
    node = directory(peers=20)
    effects = node.handle(Tell(entry(1)), at(1.0))
    assert EntryChanged(entry(1)) in effects
    first = sent(effects, Rumours)
    assert 2 <= len(first) <= 4, "two random neighbours and the nearest two"
    more = []
    now = 1.0
    for _ in range(50):
        now = max(node.wake_at, now)
        more += sent(node.handle(WAKE, at(now)), Rumours)
    assert len(first) + len(more) <= 2 + DURABLE.sends + 1
    assert not sent(node.handle(Received(ref(1), Rumours([entry(1)], hot=True)), at(now)), Rumours)


def test_nobody_is_told_what_it_told() -> None:
    node = directory(peers=3)
    told = sent(node.handle(Received(ref(1), Rumours([entry(1)], hot=True)), at(1.0)), Rumours)
    assert {to.address for to, _ in told} == {"n2", "n3"}


def test_what_is_only_told_again_waits_for_more() -> None:
    node = directory()
    node.handle(Tell(entry(1, 1)), at(1.0))
    assert sent(node.handle(Tell(entry(1, 2)), at(1.5)), Rumours) == []
    assert sent(node.handle(WAKE, at(2.1)), Rumours)
    assert sent(node.handle(Tell(entry(1, 3, b"other")), at(2.5)), Rumours)


def test_entries_end_and_what_ended_is_not_taken() -> None:
    node = directory()
    node.handle(Tell(entry(1, until_s=10)), at(1.0))
    assert node.get(1, entry(1).key)
    assert EntryEnded(entry(1, until_s=10)) in node.handle(WAKE, at(11.0))
    assert node.get(1, entry(1).key) is None
    far = DURABLE.lifetime_max_s + 100
    node.handle(Received(ref(1), Rumours([entry(1, until_s=10), entry(2, until_s=far)], hot=True)), at(12.0))
    assert len(node) == 0
    assert node.counts["ended"] == 2


def compare(one: Directory, other: Directory, now: Instant) -> bool:
    """One whole comparison, begun by `one`; whether anything differed."""
    digests = Digests(6, one._table.digests(6))
    one._asked = other.ref
    waiting = [(one, other, digests)]
    differed = False
    while waiting:
        sender, receiver, message = waiting.pop(0)
        assert isinstance(msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=type(message)), type(message))
        for to, answer in sent(receiver.handle(Received(sender.ref, message), now), DIRECTORY_MESSAGES):  # type: ignore[arg-type]
            differed = True
            if to == sender.ref:
                waiting.append((receiver, sender, answer))
    return differed


@pytest.mark.parametrize("seed", range(10))
def test_comparisons_make_maps_equal(seed: int) -> None:
    rng = random.Random(seed)
    ours, theirs = directory(), directory()
    theirs.ref = ref(1)
    count = rng.choice([3, 40, 3000])
    for _ in range(count):
        one = Entry(rng.randrange(3), rng.randbytes(16), (rng.randrange(3), 0), rng.randbytes(4))
        for node in (ours, theirs):
            if rng.random() < 0.7:
                other = Entry(one.kind, one.key, (rng.randrange(3), 0), rng.randbytes(1))
                node._take([rng.choice([one, one, other])], node.ref, hot=False)
    for turn in range(40):
        if not compare(ours, theirs, at(float(turn))):
            break
    assert ours.entries() == theirs.entries()
    assert len(ours) > count / 2


def test_one_bucket_may_hold_more_than_a_message() -> None:
    ours, theirs = directory(), directory()
    theirs.ref = ref(1)
    ours._take([entry(number) for number in range(3 * HELD_MAX)], ours.ref, hot=False)
    for turn in range(60):
        if not compare(theirs, ours, at(float(turn))):
            break
    assert ours.entries() == theirs.entries()


def test_digests_follow_the_entries() -> None:
    rng, table = random.Random(1), DirectoryTable(DURABLE)
    names = [rng.randbytes(16) for _ in range(200)]
    for _ in range(2000):
        table.put(Entry(1, rng.choice(names), (rng.randrange(9), 0), b"v", rng.choice([0, WALL_US + 5])), WALL_US)
        if rng.random() < 0.1:
            table.end(WALL_US + rng.choice([0, 6]))
    fresh = DirectoryTable(DURABLE)
    for one in table.entries().values():
        fresh.put(one, WALL_US)
    for bits in (0, 4, 10):
        assert fresh.digests(bits) == table.digests(bits)
        assert len(table.digests(bits)) == 8 << bits
    assert fresh.size_bytes(1) == table.size_bytes(1)


def test_a_hostile_neighbour_makes_nothing_grow() -> None:
    options = DirectoryOptions.tiny()
    node, rng = directory(peers=20, options=options), random.Random(1)
    out: list[Any] = []
    for turn in range(2000):
        flood = [Entry(rng.randrange(4), rng.randbytes(16), (turn, 0), rng.randbytes(200)) for _ in range(20)]
        bad = [Rumours(flood, hot=True), Wanted([rng.randbytes(17)] * 9), Digests(4, rng.randbytes(128))]
        bad += [Digests(4, b"short"), Holdings([Stretch(b"\0" * 17, b"\xff" * 17, [])], more=True)]
        out += node.handle(Received(ref(1), rng.choice(bad)), at(turn / 1000))
    for kind in range(4):
        assert node._table.size_bytes(kind) <= options.kind_bytes_max
        assert sum(1 for _ in node.of_kind(kind)) <= options.kind_entries_max
    assert len(node._hot) <= options.hot_max
    messages = sent(out, DIRECTORY_MESSAGES)  # type: ignore[arg-type]
    pushes = [one for _, one in messages if isinstance(one, Rumours) and one.hot]
    assert len(pushes) <= 4 * (2.0 / options.push_s + 1)
    assert len(messages) - len(pushes) <= 2 * options.peer_answers_per_s
    for name in ("full", "not answered", "digests of another size", "holdings that were not asked for"):
        assert node.counts[name] > 0


def test_one_kind_does_not_crowd_out_another() -> None:
    table = DirectoryTable(DirectoryOptions.tiny())
    while table.put(entry(len(table), kind=2), WALL_US) is Outcome.NEW:
        pass
    assert table.put(entry(1000, kind=2), WALL_US) is Outcome.FULL
    assert table.put(entry(0, version=2, kind=2), WALL_US) is Outcome.NEW, "what is known may change"
    assert table.put(entry(1000, kind=1), WALL_US) is Outcome.NEW


def test_jobs_and_tombstones_survive_a_restart() -> None:
    disk: dict[bytes, bytes] = {}
    node = directory()
    (first,) = writes(node.handle(Tell(entry(1, value=b"job")), at(1.0)))
    assert writes(node.handle(Tell(entry(2, until_s=1000)), at(1.0))) == [], "one write at a time"
    keep(disk, first)
    (second,) = writes(node.handle(Stored(first.token), at(1.1)))
    keep(disk, second)
    node.handle(Stored(second.token), at(1.2))
    assert writes(node.handle(Tell(entry(3, kind=2)), at(1.3))) == [], "of another kind"
    again = directory(stored=disk)
    assert [one.key for one in again.of_kind(1)] == [entry(1).key, entry(2).key]
    (ended,) = writes(again.handle(WAKE, at(1001.0)))
    keep(disk, ended)
    assert [name[:16] for name in disk] == [entry(1).key]


def test_a_rotten_value_is_left_out_and_removed() -> None:
    disk: dict[bytes, bytes] = {}
    keep(disk, writes(directory().handle(Tell(entry(1)), at(1.0)))[0])
    (name,) = disk
    disk[name] = bytes([disk[name][0] ^ 1]) + disk[name][1:]
    node = directory(stored=disk)
    assert len(node) == 0
    assert node.counts["rotten"] == 1
    keep(disk, writes(node.handle(WAKE, at(1.0)))[0])
    assert disk == {}


def test_a_write_that_fails_is_tried_again_but_not_at_once() -> None:
    disk: dict[bytes, bytes] = {}
    node = directory()
    (write,) = writes(node.handle(Tell(entry(1)), at(1.0)))
    assert writes(node.handle(StoreFailed(write.token, "no space left"), at(1.1))) == []
    assert writes(node.handle(Tell(entry(2)), at(1.2))) == []
    (again,) = writes(node.handle(WAKE, at(1.2 + DURABLE.mend_s)))
    keep(disk, again)
    assert len(disk) == 2


def test_buckets_cover_all_names() -> None:
    for bits in (0, 4, 10):
        ends = [bounds(bits, bucket) for bucket in range(1 << bits)]
        assert ends[0][0] == b"\0" * 17
        assert ends[-1][1] == b"\xff" * 17
        for (_, last), (first, _) in pairwise(ends):
            assert int.from_bytes(first, "big") == int.from_bytes(last, "big") + 1


def test_the_wire_bounds_every_field() -> None:
    wire = Wire(*DIRECTORY_MESSAGES)
    held = Held(b"n" * 17, (1, 1), 5)
    for message in (Rumours([entry(1)], True), Digests(4, b"d" * 128), Wanted([b"n" * 17])):
        assert wire.decode(wire.encode(message)) == message
    assert wire.decode(wire.encode(Holdings([Stretch(b"a" * 17, b"b" * 17, [held])], False)))
    for bad in (
        Rumours([entry(1, value=b"x" * (VALUE_BYTES_MAX + 1))], True),
        Rumours([entry(1, kind=4)], True),
        Rumours([Entry(1, b"short", (1, 1), b"")], True),
        Rumours([entry(1, version=-1)], True),
        Digests(11, b""),
        Wanted([b"n" * 16]),
        Holdings([Stretch(b"a" * 17, b"b" * 17, [held] * (HELD_MAX + 1))], False),
    ):
        with pytest.raises(WireError):
            wire.decode(wire.encode(bad))


def test_options_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(OptionsError, match="sends 1 is below fanout 2; mend_soon_s 9"):
        DirectoryOptions(sends=1, mend_soon_s=9.0)

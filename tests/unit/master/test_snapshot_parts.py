"""Parts of a snapshot as they come from a peer, which may say anything."""

from __future__ import annotations

import random

from master.group_messages import Lineage, SnapshotPart
from master.snapshot_parts import SnapshotParts

KEY, LINEAGE = bytes(16), Lineage(1, b"lineage!")


def part(number: int, parts: int, data: bytes = b"", index: int = 4) -> SnapshotPart:
    return SnapshotPart(KEY, LINEAGE, 2, index, 2, [], number, parts, data, 0.0)


def test_parts_in_any_order_some_twice_are_the_whole() -> None:
    parts = SnapshotParts(100)
    numbers = [*range(5), 1, 3]
    random.Random(3).shuffle(numbers)
    taken = []
    for number in numbers:
        taken.append(parts.take(part(number, 5, b"%d" % number)))
        if taken[-1][1] is not None:
            break
    assert taken[-1] == (True, b"01234")
    assert all(one == (True, None) for one in taken[:-1])


def test_another_snapshot_takes_the_place_of_the_first() -> None:
    parts = SnapshotParts(100)
    parts.take(part(0, 2, b"old"))
    assert parts.take(part(1, 2, b"b", index=5)) == (True, None)
    assert parts.take(part(0, 2, b"a", index=5)) == (True, b"ab")


def test_a_part_that_there_cannot_be_is_refused() -> None:
    parts = SnapshotParts(100)
    assert parts.take(part(5, 1, b"x")) == (False, None)
    assert parts.take(part(2, 3, b"c")) == (True, None)
    assert parts.take(part(0, 2, b"a")) == (True, None), "of another number of parts: another snapshot"
    assert parts.take(part(1, 2, b"b")) == (True, b"ab")


def test_a_snapshot_beyond_the_limit_is_given_up() -> None:
    parts = SnapshotParts(10)
    assert parts.take(part(0, 3, b"123456")) == (True, None)
    assert parts.take(part(0, 3, b"1234567")) == (True, None), "the same part once more"
    assert parts.take(part(1, 3, b"1234")) == (False, None)
    assert parts.take(part(2, 3, b"1234")) == (True, None)

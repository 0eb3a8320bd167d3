"""What a crash leaves of the disks of a simulated machine."""

from __future__ import annotations

import random

from elfstream.simulated.disks import KeyValueDisk
from srt.automaton import Delete, Put, Write


def left(settled: int, *lazy: bool) -> set[int]:
    """The last write that a crash may leave. Write n puts key n and deletes the one before it."""
    found = set()
    for seed in range(50):
        disk = KeyValueDisk()
        for number, one in enumerate(lazy):
            key = bytes([number])
            changes = (Put(key, b"x"), Delete(bytes([max(0, number - 1)]), key))
            disk.waiting.append(Write("results", changes, number, one))
            disk.sync()
        disk.settle(settled)
        disk.crash(random.Random(seed))
        (key,) = disk.durable
        found.add(key[0])
    return found


def test_a_crash_takes_any_number_of_the_last_lazy_writes_and_none_before_a_durable_one() -> None:
    assert left(0, True, False, True, True) == {1, 2, 3}
    assert left(0, True, True, False) == {2}


def test_what_a_later_sync_of_the_machine_took_along_stays() -> None:
    assert left(2, True, False, True, True) == {2, 3}

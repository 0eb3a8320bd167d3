"""The journal against a file that loses, tears and rots, and against a plain dict of what was reported stored."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import JournalError, JournalFull
from agent.journal import FIRST, ORIGIN, STORE, STRIDE, Journal, JournalOptions
from agent.journal_format import HEADER_BYTES, Cut, FilePosition, decode_cut, encode_cut
from elfstream.simulated.disks import FileDisk
from srt.automaton import Write

TINY = JournalOptions.tiny()
ONE, OTHER = b"\x01" * 16, b"\x02" * 16


def started(disk: FileDisk, fresh_id: bytes = ONE) -> Journal:
    journal = Journal(bytes(disk.durable), fresh_id, TINY)
    store(disk, journal, journal.start())
    return journal


def store(disk: FileDisk, journal: Journal, write: Write) -> int | None:
    assert write.store == STORE
    disk.waiting.append(write)
    disk.sync()
    return journal.stored(write.token)


def files(offset: int, count: int = 1) -> dict[bytes, FilePosition]:
    return {b"file%d" % number: FilePosition(offset, False, offset) for number in range(count)}


def grown(disk: FileDisk, journal: Journal, count: int, width: int = 1) -> list[int]:
    numbers = []
    for _ in range(count):
        latest = (journal.newest.latest_us or 0) + 10
        cut, write = journal.cut(files(latest, width), latest)
        numbers.append(cut.number)
        assert store(disk, journal, write) == cut.number
    return numbers


def test_cuts_come_back_with_their_numbers() -> None:
    disk = FileDisk(TINY.file_bytes)
    journal = started(disk)
    assert (journal.boot, journal.newest.number) == (1, ORIGIN)
    numbers = grown(disk, journal, 3, width=30)  # of several slots each
    assert numbers == [FIRST, FIRST + STRIDE, FIRST + 2 * STRIDE]
    again = started(disk, OTHER)
    assert (again.journal_id, again.boot) == (ONE, 2)
    assert again.durable == journal.durable
    assert grown(disk, again, 1) == [FIRST + 3 * STRIDE]
    again.check()


def test_a_cut_counts_once_it_is_stored() -> None:
    disk = FileDisk(TINY.file_bytes)
    journal = started(disk)
    cut, write = journal.cut(files(10), 10)
    assert cut.number not in journal.durable
    retry = journal.failed(write.token)
    assert retry.changes == write.changes
    assert journal.stored(write.token) is None  # that write failed
    assert store(disk, journal, retry) == cut.number
    assert journal.durable[cut.number] == cut


def test_rot_of_one_copy_loses_nothing_and_is_mended() -> None:
    disk = FileDisk(TINY.file_bytes)
    kept = started(disk)
    grown(disk, kept, 10, width=20)
    half = TINY.slots * TINY.slot_bytes
    disk.durable[:HEADER_BYTES] = bytes(HEADER_BYTES)
    disk.durable[2 * HEADER_BYTES : 2 * HEADER_BYTES + half // 2] = b"\xff" * (half // 2)
    again = started(disk)
    assert again.durable == kept.durable
    disk.durable[HEADER_BYTES : 2 * HEADER_BYTES] = bytes(HEADER_BYTES)
    disk.durable[2 * HEADER_BYTES + half :] = bytes(half)  # now the other copy goes
    assert started(disk).durable == kept.durable


def test_a_lost_journal_is_another_agent_and_says_so() -> None:
    disk = FileDisk(TINY.file_bytes)
    grown(disk, started(disk), 2)
    disk.durable[: 2 * HEADER_BYTES] = b"\xff" * (2 * HEADER_BYTES)
    journal = Journal(bytes(disk.durable), OTHER, TINY)
    assert (journal.lost, journal.journal_id, list(journal.durable)) == (True, OTHER, [ORIGIN])
    assert not Journal(bytes(TINY.file_bytes), OTHER, TINY).lost


def test_a_full_journal_stops_until_it_is_thinned() -> None:
    disk = FileDisk(TINY.file_bytes)
    journal = started(disk)
    numbers = grown(disk, journal, TINY.slots)
    with pytest.raises(JournalFull, match="0 of 64 slots are free"):
        journal.cut(files(10_000), 10_000)
    journal.thin([numbers[3]], floor=numbers[-2])
    assert journal.kept == [ORIGIN, numbers[3], numbers[-2], numbers[-1]]
    grown(disk, journal, 40)
    assert set(started(disk).durable) == set(journal.durable)
    journal.check()


def test_too_many_cuts_are_thinned_but_not_those_in_use() -> None:
    disk = FileDisk(TINY.file_bytes)
    journal = started(disk)
    numbers = grown(disk, journal, 20)
    journal.thin(numbers[4:7], floor=ORIGIN)
    assert set(numbers[4:7]) | {ORIGIN, numbers[-1]} < set(journal.kept)
    assert len(journal.kept) == 13


@pytest.mark.parametrize("width", [1, 30], ids=["small cuts", "cuts of several slots"])
def test_most_slots_are_free_at_a_start(width: int) -> None:
    """However long the process before it ran: nobody knows then which cuts were spare, so all have to stay at first."""
    disk = FileDisk(TINY.file_bytes)
    journal = started(disk)
    for _ in range(200):
        grown(disk, journal, 1, width)
        if journal.crowded(ORIGIN):
            journal.thin([], floor=ORIGIN)
    again = started(disk)
    held = {slot for number in again.kept for slot in again._slots.get(number, ())}
    assert len(held) <= TINY.slots * 0.4
    assert set(again.kept) >= set(journal.kept)
    again.check()


def test_a_wiped_slot_is_not_used_before_that_is_stored() -> None:
    """The write may have to be repeated, as it was: behind it the slot would be empty again."""
    disk = FileDisk(TINY.file_bytes)
    journal = started(disk)
    numbers = grown(disk, journal, 60)
    journal.thin([], floor=numbers[-1])
    _, failing = journal.cut(files(1000), 1000)
    later = [journal.cut(files(1001 + step), 1001 + step)[1] for step in range(10)]
    for write in [*later, journal.failed(failing.token)]:
        store(disk, journal, write)
    assert set(started(disk).durable) >= set(journal.durable)
    journal.check()


def test_a_plan_starts_at_the_greatest_cut_before_it() -> None:
    disk = FileDisk(TINY.file_bytes)
    journal = started(disk)
    first, second, third = grown(disk, journal, 3)  # M is 10, 20, 30
    assert [journal.greatest_before(at).number for at in (10, 11, 20, 31, -5)] == [
        ORIGIN,
        first,
        first,
        third,
        ORIGIN,
    ]
    assert second == first + STRIDE


def test_old_ranges_can_be_cut_again_in_smaller_steps() -> None:
    disk = FileDisk(TINY.file_bytes)
    journal = started(disk)
    first, second = grown(disk, journal, 2)
    latest = 0
    last, seen = ORIGIN, []
    for offset in range(1, 6):
        cut, write = journal.cut_between(last, first, files(offset), latest + offset)
        assert last < cut.number < first
        store(disk, journal, write)
        last = cut.number
        seen.append(last)
    middle, write = journal.cut_between(first, second, files(15), 99)
    assert middle.latest_us == 20  # never beyond that of the cut behind it
    store(disk, journal, write)
    assert journal.distance(ORIGIN, second) == 20
    assert journal.next_target(ORIGIN, 3) == journal.durable[seen[2]]
    assert (
        journal.next_target(seen[-1], 1) == journal.durable[first]
    )  # further than a byte, but there is no other
    assert journal.next_target(second, 100) is None
    journal.thin([], floor=ORIGIN)
    journal.check()
    again = started(disk)
    other, _ = again.cut_between(ORIGIN, seen[0], files(1), 1)
    assert other.number not in seen


@pytest.mark.parametrize(
    ("positions", "problem"),
    [
        ({b"f%d" % n: FilePosition(0) for n in range(41)}, "41 files"),
        ({b"x" * 65: FilePosition(0)}, "65 bytes"),
    ],
)
def test_what_a_cut_cannot_hold_is_refused(positions: dict[bytes, FilePosition], problem: str) -> None:
    with pytest.raises(JournalError, match=problem):
        started(FileDisk(TINY.file_bytes)).cut(positions, None)


def test_options_that_contradict_each_other_are_refused_at_once() -> None:
    with pytest.raises(JournalError, match=r"slot_bytes is 100.*; index_max is 1"):
        JournalOptions(slot_bytes=100, index_max=1)
    with pytest.raises(JournalError, match="over a quarter"):
        JournalOptions(slots=16)


@given(st.integers(0, 1 << 62), st.none() | st.integers(-(1 << 62), 1 << 62), st.binary(max_size=64))
def test_cuts_travel(number: int, latest: int | None, name: bytes) -> None:
    cut = Cut(number, latest, {name: FilePosition(number, True, latest)})
    assert decode_cut(encode_cut(cut)) == cut


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 1 << 32))
def test_no_crash_changes_what_a_number_means(seed: int) -> None:
    """Crashes at any moment: what was reported stored comes back, and a number used for a piece never changes."""
    rng = random.Random(seed)
    disk = FileDisk(TINY.file_bytes)
    meant: dict[int, Cut] = {}
    needed = ORIGIN
    offset = 0
    for _ in range(8):
        journal = Journal(bytes(disk.durable), ONE, TINY)
        for number in meant:
            if number >= needed:
                assert journal.durable[number] == meant[number]
            else:
                assert journal.durable.get(number, meant[number]) == meant[number]
        waiting = [journal.start()]
        disk.waiting.append(waiting[0])
        for _ in range(rng.randint(0, 12)):
            offset = max(offset, journal.newest.latest_us or 0) + 1
            try:
                _, write = journal.cut(files(offset, rng.randint(1, 30)), offset)
            except JournalFull:
                break  # too much is waiting to be stored
            disk.waiting.append(write)
            waiting.append(write)
            if rng.random() < 0.7:
                while waiting:
                    disk.sync()
                    done = journal.stored(waiting.pop(0).token)
                    if done is None:
                        meant.update(journal.durable)  # the write of the start: all that was found is durable
                    else:
                        assert meant.setdefault(done, journal.durable[done]) == journal.durable[done]
                    journal.thin([], floor=journal.durable.peekitem()[0])
            journal.check()
        needed = journal.durable.peekitem()[0]
        disk.crash(rng)
        offset = journal.durable[needed].latest_us or 0

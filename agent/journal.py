"""An agent's durable list of cuts: which number means which place in its logs.

Pure: it is made from the bytes of its file and answers with writes. The file is preallocated, so a full disk does not stop
it, and everything is in it twice (docs/STATE.md). A cut may be used, a piece that ends at it be sent, once it is durable.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import msgspec
from sortedcontainers import SortedDict

from agent.errors import JournalError, JournalFull
from agent.journal_format import (
    HEADER_BYTES,
    ID_BYTES,
    IDENTITY_BYTES_MAX,
    SLOT_HEAD_BYTES,
    Cut,
    Header,
    Positions,
    Slot,
    decode_cut,
    decode_header,
    encode_header,
    encode_slots,
    file_bytes,
    read_slots,
    slot_offset,
)
from job.times import later
from srt.automaton import Write, WriteAt

ORIGIN = 0
"""The cut before all files. It is in every journal and on no disk."""
FIRST = 1 << 40
"""The number of the first cut that is written: history before it can be cut as finely as anyone wants."""
STRIDE = 1 << 20
"""Between the numbers of cuts at the frontier, for those made later in between."""
PART = 4
"""At most a quarter of the slots is for cuts that nobody needs by name, and about as many hold anything at a start: the rest
is for the cuts of the time until all jobs have been heard of."""
UNIT = 1 << 10
"""Numbers in between are multiples of it plus the boot: no two boots give the same one twice."""
STORE = "journal"
WIPED_MAX = 4
"""Cuts whose bytes go from the disk with one write."""


@dataclass(frozen=True)
class JournalOptions:
    slot_bytes: int = 4096
    """A cut of about 40 files fits into one slot."""
    slots: int = 1024
    """Of each copy: with 4 KiB slots the file takes 8 MiB."""
    files_max: int = 8192
    """Files in one cut."""
    index_max: int = 256
    """Cuts that are kept only so that later plans find a start."""

    def __post_init__(self) -> None:
        largest = self.files_max * (IDENTITY_BYTES_MAX + 24) + 32
        problems = []
        if self.slot_bytes < 512:
            problems.append(f"slot_bytes is {self.slot_bytes}, below a sector of 512")
        elif largest > (self.slot_bytes - SLOT_HEAD_BYTES) * self.slots // 4:
            problems.append(
                f"a cut of {self.files_max} files may take {largest} bytes, over a quarter of the slots"
            )
        if self.index_max < 2:
            problems.append(f"index_max is {self.index_max}, below 2")
        if problems:
            raise JournalError("; ".join(problems))

    @property
    def file_bytes(self) -> int:
        """What the driver preallocates, zeroed."""
        return file_bytes(self.slot_bytes, self.slots)

    @classmethod
    def tiny(cls) -> JournalOptions:
        """Few and small slots, so that cuts take several and the file goes round: for tests."""
        return cls(slot_bytes=512, slots=64, files_max=40, index_max=8)


class Journal:
    """The cuts of one agent."""

    def __init__(self, data: bytes, fresh_id: bytes, options: JournalOptions = JournalOptions()) -> None:
        """Reads the whole file. `fresh_id` becomes the identity when there is none in it."""
        if len(data) != options.file_bytes or len(fresh_id) != ID_BYTES:
            raise JournalError(f"the journal file has {len(data)} bytes, not {options.file_bytes}")
        self.options = options
        headers = [decode_header(data[at : at + HEADER_BYTES]) for at in (0, HEADER_BYTES)]
        known = max((one for one in headers if one is not None), key=lambda one: one.boot, default=None)
        if known is not None and (known.slot_bytes, known.slots) != (options.slot_bytes, options.slots):
            raise JournalError(
                f"the journal has {known.slots} slots of {known.slot_bytes} bytes, and the options say {options.slots} of "
                f"{options.slot_bytes}"
            )
        self.lost = known is None and any(data)
        """There was a journal and it cannot be read: this is another agent now, and the operator must be told."""
        header = known or Header(fresh_id, options.slot_bytes, options.slots, 0)
        self.header = msgspec.structs.replace(header, boot=header.boot + 1)
        self.durable: SortedDict[int, Cut] = SortedDict({ORIGIN: Cut(ORIGIN, None, {})})
        self._slots: dict[int, list[int]] = {}
        self._owners: dict[int, int] = {}
        """Which cut is in a slot."""
        self._spare: set[int] = set()
        """Cuts whose slots may be written over. Until they are, the order of numbers holds for them, too."""
        self._dying: set[int] = set()
        """Cuts that are being written over: they may be on disk or not, and are of no use."""
        self._cursor = 0
        self._token = 0
        self._waiting: dict[int, tuple[list[WriteAt], Cut | None, list[int]]] = {}
        self._between: set[int] = set()
        self._heal: list[WriteAt] = []
        if known is not None:
            self._recover(data)
        self.newest = self.durable.peekitem()[1]
        """The greatest cut made, durable or not."""

    # the start

    @property
    def journal_id(self) -> bytes:
        return self.header.journal_id

    @property
    def boot(self) -> int:
        return self.header.boot

    def _recover(self, data: bytes) -> None:
        found: dict[tuple[int, int], dict[tuple[int, int], Slot]] = defaultdict(dict)
        places: dict[tuple[int, int], dict[int, set[tuple[int, int]]]] = defaultdict(lambda: defaultdict(set))
        for copy, number, slot in read_slots(self.header, data):
            found[slot.cut, slot.boot][slot.part, slot.parts] = slot
            places[slot.cut, slot.boot][slot.part].add((copy, number))
        for (number, boot), parts in sorted(found.items()):
            count = next(iter(parts))[1]
            if number == ORIGIN or set(parts) != {(part, count) for part in range(count)}:
                continue
            try:
                cut = decode_cut(b"".join(parts[part, count].payload for part in range(count)))
            except (msgspec.DecodeError, msgspec.ValidationError):
                continue
            self.durable[number] = cut
            slots = [min(slot for _, slot in places[number, boot][part]) for part in range(count)]
            self._slots[number] = slots
            self._owners.update(dict.fromkeys(slots, number))
            sound = {copied for part in places[number, boot].values() for copied in part}
            # Only what is broken is written, and as it was: a torn write here must not make a whole copy unreadable.
            for data_part, place in zip(encode_slots(cut, boot, self.options.slot_bytes), slots, strict=True):
                self._heal += [
                    WriteAt(slot_offset(self.header, copy, place), data_part)
                    for copy in (0, 1)
                    if (copy, place) not in sound
                ]
        if self._slots:
            self._cursor = max(self._slots[max(self._slots)]) + 1

    def start(self) -> Write:
        """The write that must be stored before anything is sent: the new boot number, and copies that were lost."""
        data = encode_header(self.header)
        return self._write([WriteAt(0, data), WriteAt(HEADER_BYTES, data), *self._heal], None, [])

    # cuts

    def cut(self, files: Positions, latest_us: int | None) -> tuple[Cut, Write]:
        """A cut at the frontier, not durable yet. Raises JournalFull, or JournalError for positions it cannot keep."""
        number = FIRST if self.newest.number == ORIGIN else self.newest.number + STRIDE
        made = Cut(number, later(self.newest.latest_us, latest_us), dict(files))
        write = self._add(made)
        self.newest = made
        return made, write

    def cut_between(
        self, after: int, before: int, files: Positions, latest_us: int | None
    ) -> tuple[Cut, Write]:
        """A cut within a range that is read again. Raises JournalFull, or JournalError when no number is left there."""
        end = self.durable[before]
        number = self._number_between(after, before)
        latest_us = later(self.durable[after].latest_us, latest_us)
        if end.latest_us is not None and latest_us is not None:
            latest_us = min(
                latest_us, end.latest_us
            )  # a line may have been from the future when it was read first
        else:
            latest_us = None
        made = Cut(number, latest_us, dict(files))
        return made, self._add(made)

    def _number_between(self, after: int, before: int) -> int:
        """A number that never meant anything. In steps that get smaller as the room does."""
        first = max((number for number in self._between if after < number < before), default=after)
        following = next(self.durable.irange(first, before, inclusive=(False, True)), before)
        room = following // UNIT - first // UNIT
        number = (first // UNIT + max(1, room >> 10)) * UNIT + self.boot % UNIT
        while number in self._between or number <= first:
            number += UNIT
        if number >= following:
            raise JournalError(f"no number is left between the cuts {first} and {following}")
        self._between.add(number)
        return number

    def _add(self, cut: Cut) -> Write:
        if len(cut.files) > self.options.files_max:
            raise JournalError(f"{len(cut.files)} files in one cut, at most {self.options.files_max}")
        for identity in cut.files:
            if len(identity) > IDENTITY_BYTES_MAX:
                raise JournalError(f"a file identity of {len(identity)} bytes, at most {IDENTITY_BYTES_MAX}")
        parts = encode_slots(cut, self.boot, self.options.slot_bytes)
        slots, dying = self._free(len(parts))
        wiped = self._to_wipe(dying)
        changes = self._wipe(wiped) + self._changes(parts, slots)
        for number in dying:
            self._disown(number)
        dying += wiped  # they keep their slots until that is stored: a write that failed is written again as it was
        self._spare.difference_update(dying)
        self._dying.update(dying)
        self._slots[cut.number] = slots
        self._owners.update(dict.fromkeys(slots, cut.number))
        return self._write(changes, cut, dying)

    def _free(self, needed: int) -> tuple[list[int], list[int]]:
        """Slots to write over, going round, and the spare cuts in them."""
        count = self.options.slots
        slots: list[int] = []
        dying: dict[int, None] = {}
        for slot in ((self._cursor + step) % count for step in range(count)):
            owner = self._owners.get(slot)
            if owner is not None and owner not in self._spare:
                continue
            slots.append(slot)
            if owner is not None:
                dying[owner] = None
            if len(slots) == needed:
                self._cursor = (slot + 1) % count
                return slots, list(dying)
        raise JournalFull(f"{len(slots)} of {count} slots are free, and a cut needs {needed}")

    def _to_wipe(self, dying: list[int]) -> list[int]:
        """Spare cuts that go from the disk, so that most slots are free at a start: then nobody knows which were spare, and
        all have to stay until all jobs have been heard of. The oldest; O(spare)."""
        if PART * len(self._owners) <= self.options.slots:
            return []
        return heapq.nsmallest(WIPED_MAX, self._spare.difference(dying))

    def _wipe(self, numbers: list[int]) -> list[WriteAt]:
        """Without its head a slot was never written."""
        return [
            WriteAt(slot_offset(self.header, copy, slot), bytes(SLOT_HEAD_BYTES))
            for copy in (0, 1)
            for number in numbers
            for slot in self._slots[number]
        ]

    def _disown(self, number: int) -> None:
        for slot in self._slots.pop(number, ()):
            del self._owners[slot]

    def _changes(self, parts: list[bytes], slots: list[int]) -> list[WriteAt]:
        return [
            WriteAt(slot_offset(self.header, copy, slot), part)
            for copy in (0, 1)
            for slot, part in zip(slots, parts, strict=True)
        ]

    def _write(self, changes: list[WriteAt], cut: Cut | None, dying: list[int]) -> Write:
        self._token += 1
        self._waiting[self._token] = (changes, cut, dying)
        return Write(STORE, changes, self._token)

    def stored(self, token: int) -> int | None:
        """The cut that is durable now; None: it was the write of the start, or nobody waits for it any more."""
        _, cut, dying = self._waiting.pop(token, (None, None, []))
        for number in dying:
            del self.durable[number]
            self._dying.discard(number)
            self._disown(number)
        if cut is None:
            return None
        self.durable[cut.number] = cut
        return cut.number

    def failed(self, token: int) -> Write:
        """The same write once more, for when time has passed. Raises KeyError for a token that is not waited for."""
        return self._write(*self._waiting.pop(token))

    # looking up

    def greatest_before(self, event_us: int) -> Cut:
        """The greatest durable cut with M before that event time: a plan that starts there reads on from it. O(log cuts)
        lookups, as M never falls."""
        cuts = self.durable.values()
        index = bisect_left(cuts, event_us, key=lambda cut: _early(cut.latest_us)) - 1
        while cuts[index].number in self._dying:
            index -= 1
        found: Cut = cuts[index]
        self._spare.discard(found.number)
        return found

    def next_target(self, start: int, bytes_max: int) -> Cut | None:
        """Where a range from `start` should end: the greatest durable cut at most `bytes_max` away, or the next one however
        far it is. None: `start` is the last."""
        numbers = self.durable.keys()
        index = bisect_right(numbers, start)
        found = None
        for number in numbers[index:]:
            if number in self._dying:
                continue
            if found is not None and self.distance(start, number) > bytes_max:
                break
            found = self.durable[number]
        if found is not None:
            self._spare.discard(found.number)
        return found

    def is_cut_between(self, after: int, before: int) -> bool:
        """Whether a cut was made within a range, durable or not: then another one there might not keep the order."""
        durable = any(True for _ in self.durable.irange(after, before, inclusive=(False, False)))
        return durable or any(
            cut is not None and after < cut.number < before for _, cut, _ in self._waiting.values()
        )

    def distance(self, start: int, end: int) -> int:
        """Bytes of the range (start, end]."""
        before, after = self.durable[start].files, self.durable[end].files
        return sum(
            at.offset - before[name].offset if name in before else at.offset for name, at in after.items()
        )

    # letting go

    def crowded(self, guarded: int) -> bool:
        """Whether `thin` would give up cuts behind those."""
        return self._are_many([number for number in self.kept if number > guarded])

    def _are_many(self, numbers: list[int]) -> bool:
        """Whether every other one of them should go: for their number, or for what they take of the slots."""
        taken = sum(len(self._slots.get(number, ())) for number in numbers)
        return len(numbers) > self.options.index_max or PART * taken > self.options.slots

    def thin(self, needed: Iterable[int], floor: int, guarded: int = ORIGIN) -> bool:
        """Gives up the cuts before `floor`, and, where too many are left behind `guarded`, every other one of those that is
        not needed: their slots may be written over. Whether there is more room now."""
        keep = {*needed, ORIGIN, floor, self.durable.peekitem()[0]}
        if self.newest.number in self.durable:
            keep.add(self.newest.number)
        self._spare -= keep
        before = len(self._spare)
        self._spare.update(number for number in self.kept if number < floor and number not in keep)
        loose = [number for number in self.kept if number > guarded]
        if self._are_many(loose):
            self._spare.update([number for number in loose if number not in keep][::2])
        return len(self._spare) > before

    @property
    def kept(self) -> list[int]:
        """The numbers of the cuts that will not be written over."""
        return [number for number in self.durable if number not in self._spare and number not in self._dying]

    def check(self) -> None:
        """Raises JournalError unless its parts agree."""
        slots = [slot for used in self._slots.values() for slot in used]
        if len(slots) != len(set(slots)) or set(slots) != self._owners.keys():
            raise JournalError("slots are used twice or not accounted for")
        for before, after in pairwise(self.durable.values()):
            if _early(before.latest_us) > _early(after.latest_us):
                raise JournalError(f"M falls between the cuts {before.number} and {after.number}")
            for name, at in before.files.items():
                if name in after.files and after.files[name].offset < at.offset:
                    raise JournalError(
                        f"a file goes back between the cuts {before.number} and {after.number}"
                    )


def _early(latest_us: int | None) -> int:
    return -(1 << 63) if latest_us is None else latest_us

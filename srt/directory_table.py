"""The map of the directory as one node holds it: entries in the order of their names, digests of buckets, limits."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from hashlib import blake2b

import msgspec
from sortedcontainers import SortedDict, SortedSet

from srt.directory_messages import BITS_MAX, KINDS, Entry, Held
from srt.options import DirectoryOptions

_encode = msgspec.msgpack.Encoder().encode
_SHIFT = 16 - BITS_MAX


class Put(Enum):
    """What became of an entry that was offered."""

    NEW = "new"
    """It is the greater one, and is held now."""
    SAME = "same"
    OLD = "old"
    ENDED = "ended"
    """Its time is over, or further ahead than any may be."""
    FULL = "full"
    """No room for another one of this kind."""


class DirectoryTable:
    """Bounded by the options per kind; an offer costs O(log entries)."""

    def __init__(self, options: DirectoryOptions) -> None:
        self._options = options
        self._entries: SortedDict[bytes, Held] = SortedDict()
        self._values: dict[bytes, Entry] = {}
        self._ends: SortedSet[tuple[int, bytes]] = SortedSet()
        self._digests = [0] * (1 << BITS_MAX)
        self._counts = [0] * KINDS
        self._bytes = [0] * KINDS

    def __len__(self) -> int:
        return len(self._values)

    def get(self, name: bytes) -> Entry | None:
        return self._values.get(name)

    def entries(self) -> dict[bytes, Entry]:
        return dict(self._values)

    def of_kind(self, kind: int) -> Iterator[Entry]:
        """Of a copy, made at once: faces look from other threads while the table changes. O(entries)."""
        return (entry for entry in list(self._values.values()) if entry.kind == kind)

    def size_bytes(self, kind: int) -> int:
        return self._bytes[kind]

    # changes

    def put(self, entry: Entry, wall_us: int | None) -> Put:
        """Offers an entry. `wall_us` None: whatever its time is, as when a store is read."""
        if wall_us is not None and entry.until_us and not self._in_time(entry, wall_us):
            return Put.ENDED
        name, known = entry.name, self._values.get(entry.name)
        if known is not None:
            mine = known.version, known.value, known.until_us
            theirs = entry.version, entry.value, entry.until_us
            if theirs <= mine:
                return Put.SAME if theirs == mine else Put.OLD
        size = _size(entry) - (0 if known is None else _size(known))
        kind, options = entry.kind, self._options
        grows = size > 0 and self._bytes[kind] + size > options.kind_bytes_max
        if grows or (known is None and self._counts[kind] >= options.kind_entries_max):
            return Put.FULL
        if known is not None:
            self.remove(name)
        self._add(name, entry)
        return Put.NEW

    def _in_time(self, entry: Entry, wall_us: int) -> bool:
        return wall_us < entry.until_us <= wall_us + int(self._options.lifetime_max_s * 1e6)

    def _add(self, name: bytes, entry: Entry) -> None:
        fingerprint = int.from_bytes(blake2b(_encode(entry), digest_size=8).digest(), "big") >> 1
        self._values[name] = entry
        self._entries[name] = Held(name, entry.version, fingerprint)
        self._digests[_bucket(name)] ^= fingerprint
        self._counts[entry.kind] += 1
        self._bytes[entry.kind] += _size(entry)
        if entry.until_us:
            self._ends.add((entry.until_us, name))

    def remove(self, name: bytes) -> Entry:
        entry, held = self._values.pop(name), self._entries.pop(name)
        self._digests[_bucket(name)] ^= held.fingerprint
        self._counts[entry.kind] -= 1
        self._bytes[entry.kind] -= _size(entry)
        if entry.until_us:
            self._ends.remove((entry.until_us, name))
        return entry

    def end(self, wall_us: int) -> list[Entry]:
        """Removes the entries whose time is over, and returns them. O(log entries) each."""
        ended = []
        while self._ends and self._ends[0][0] <= wall_us:
            ended.append(self.remove(self._ends[0][1]))
        return ended

    # comparison

    def bits(self) -> int:
        """For about four entries in a bucket."""
        return max(4, min(BITS_MAX, (len(self) // 4).bit_length()))

    def digests(self, bits: int) -> bytes:
        """Of 2**bits buckets. O(2**BITS_MAX)."""
        width = 1 << (BITS_MAX - bits)
        out = bytearray()
        for start in range(0, 1 << BITS_MAX, width):
            digest = 0
            for fine in self._digests[start : start + width]:
                digest ^= fine
            out += digest.to_bytes(8, "big")
        return bytes(out)

    def held(self, first: bytes, last: bytes, most: int) -> list[Held]:
        """What lies between two names, at most `most`."""
        found: list[Held] = []
        for name in self._entries.irange(first, last):
            if len(found) == most:
                break
            found.append(self._entries[name])
        return found


def bounds(bits: int, bucket: int) -> tuple[bytes, bytes]:
    """The least and the greatest name in a bucket."""
    low = bucket << (128 - bits)
    high = ((bucket + 1) << (128 - bits)) - 1
    return low.to_bytes(16, "big") + b"\0", high.to_bytes(16, "big") + b"\xff"


def _bucket(name: bytes) -> int:
    return int.from_bytes(name[:2], "big") >> _SHIFT


def _size(entry: Entry) -> int:
    """What it is charged: its value and about what Python needs around it."""
    return len(entry.value) + 512

"""Disks that forget what was not synced, tear writes, fill up and rot."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping, Sequence

from sortedcontainers import SortedDict

from srt.automaton import Delete, Put, Write, WriteAt

SECTOR_BYTES = 512


class KeyValueDisk:
    """A store of keys and values with atomic, ordered writes, as SQLite's WAL gives them."""

    def __init__(self) -> None:
        self.durable: SortedDict[bytes, bytes] = SortedDict()
        self.waiting: deque[Write] = deque()
        self.lazy_made = 0
        """Lazy writes so far."""
        self._lazy: deque[tuple[int, dict[bytes, bytes | None]]] = deque()
        """Of those that a crash may take, oldest first: the how-manieth, and what its keys had before."""

    def sync(self) -> None:
        """Makes the oldest waiting write, and all before it, durable; a lazy one only visible."""
        write = self.waiting.popleft()
        if write.lazy:
            self.lazy_made += 1
            self._lazy.append((self.lazy_made, self._before(write)))
        else:
            self._lazy.clear()
        self._apply(write)

    def settle(self, made: int) -> None:
        """The lazy writes up to that one are durable now."""
        while self._lazy and self._lazy[0][0] <= made:
            self._lazy.popleft()

    def crash(self, rng: random.Random) -> None:
        """Some of the waiting writes, oldest first, had reached the disk, or else some lazy ones had not."""
        reached = rng.randint(0, len(self.waiting))
        for _ in range(reached):
            self.sync()
        self.waiting.clear()
        for _ in range(rng.randint(0, len(self._lazy)) if self._lazy else 0):
            for key, value in self._lazy.pop()[1].items():
                if value is None:
                    self.durable.pop(key, None)
                else:
                    self.durable[key] = value
        self._lazy.clear()

    def _before(self, write: Write) -> dict[bytes, bytes | None]:
        keys: set[bytes] = set()
        for change in write.changes:
            if isinstance(change, Put):
                keys.add(change.key)
            elif isinstance(change, Delete):
                keys.update(self.durable.irange(change.first, change.last, inclusive=(True, False)))
        return {key: self.durable.get(key) for key in keys}

    def rot(self, rng: random.Random, prefix: bytes = b"") -> bytes | None:
        """Flips a bit of one value under `prefix`; returns its key."""
        keys = [key for key in self.durable if key.startswith(prefix) and self.durable[key]]
        if not keys:
            return None
        key: bytes = rng.choice(keys)
        value = bytearray(self.durable[key])
        value[rng.randrange(len(value))] ^= 1 << rng.randrange(8)
        self.durable[key] = bytes(value)
        return key

    def _apply(self, write: Write) -> None:
        for change in write.changes:
            if isinstance(change, Put):
                self.durable[change.key] = change.value
            elif isinstance(change, Delete):
                for key in list(self.durable.irange(change.first, change.last, inclusive=(True, False))):
                    del self.durable[key]
            else:
                raise TypeError(f"{change} in a store of keys and values")


class FileDisk:
    """A preallocated file: what was not synced may be there in part."""

    def __init__(self, size: int) -> None:
        self.durable = bytearray(size)
        self.waiting: deque[Write] = deque()

    def sync(self) -> None:
        """Makes the oldest waiting write durable."""
        for change in self.waiting.popleft().changes:
            assert isinstance(change, WriteAt)
            self._place(change.offset, change.data)

    def crash(self, rng: random.Random) -> None:
        """Each sector of each waiting write may have reached the disk or not."""
        for write in self.waiting:
            for change in write.changes:
                assert isinstance(change, WriteAt)
                start = 0
                while start < len(change.data):
                    end = start + SECTOR_BYTES - (change.offset + start) % SECTOR_BYTES
                    if rng.random() < 0.5:
                        self._place(change.offset + start, change.data[start:end])
                    start = end
        self.waiting.clear()

    def rot(self, rng: random.Random, first: int, last: int) -> None:
        """Flips a bit in [first, last)."""
        self.durable[rng.randrange(first, last)] ^= 1 << rng.randrange(8)

    def _place(self, offset: int, data: bytes) -> None:
        if offset < 0 or offset + len(data) > len(self.durable):
            raise ValueError(f"write at {offset} of {len(data)} bytes leaves the file")
        self.durable[offset : offset + len(data)] = data


class DurableStores:
    """The stores of a machine as other threads read them: what is durable (`master.result_store.RangeStore`)."""

    def __init__(self, disks: Mapping[str, KeyValueDisk | FileDisk]) -> None:
        self._disks = disks

    def scan(
        self, store: str, first: bytes, last: bytes, limit: int, reverse: bool = False
    ) -> Sequence[tuple[bytes, bytes]]:
        durable = self._store(store)
        keys = durable.irange(first, last, inclusive=(True, False), reverse=reverse)
        return [(key, durable[key]) for key, _ in zip(keys, range(limit), strict=False)]

    def read(self, store: str) -> dict[bytes, bytes]:
        """All of a store, as `srt.stores.Stores` gives it to a node that starts."""
        return dict(self._store(store))

    def file(self, store: str, size: int) -> bytes:
        """The preallocated file of a store."""
        disk = self._disks[store]
        if not isinstance(disk, FileDisk) or len(disk.durable) != size:
            raise ValueError(f"{store} is no file of {size} bytes")
        return bytes(disk.durable)

    def _store(self, store: str) -> SortedDict[bytes, bytes]:
        disk = self._disks[store]
        if not isinstance(disk, KeyValueDisk):
            raise ValueError(f"{store} is no store of keys and values")
        return disk.durable

"""Results as keys and values of the store `results`, and how they are read from other threads (docs/STATE.md).

key 'i' index:u64                               place: where the record is
key 't' start:u64 end:u64 edition:u32           record, newest edition first; start and end + 2^63, the endless start 0
key 'm'                                         marker: how far the results here go without a gap
key 'l'                                         ladder: what retention has to know
key 'd'                                         index:u64 of the newest result that was kept long enough and dropped
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from job.plan_book import NEVER_US
from master.job_events import ReadResults, ResultsRead
from master.requests import Place, ResultRecord
from srt.automaton import Delete, Put

STORE = "results"
SCAN_KEYS = 64
INDEX_END = 1 << 63
_EDITION_MAX = (1 << 32) - 1
_PLACE = struct.Struct(">QQI")
_RECORD = msgspec.msgpack.Decoder(ResultRecord)


class Marker(msgspec.Struct, frozen=True, array_like=True):
    """All results up to `through` are here, and those behind `to`; between them some may be lacking."""

    through: int = 0
    to: int = 0


_MARKER = msgspec.msgpack.Decoder(Marker)


class RangeStore(Protocol):
    """Stores of keys and values as they are on disk, read from any thread."""

    def scan(
        self, store: str, first: bytes, last: bytes, limit: int, reverse: bool = False
    ) -> Sequence[tuple[bytes, bytes]]:
        """At most `limit` of the keys in [first, last), ascending or descending, with their values."""
        ...


# keys


def record_key(key: bytes, place: Place) -> bytes:
    return key + b"t" + _place(place)


def index_key(key: bytes, index: int) -> bytes:
    return key + b"i" + index.to_bytes(8, "big")


def marker_key(key: bytes) -> bytes:
    return key + b"m"


def ladder_key(key: bytes) -> bytes:
    return key + b"l"


def dropped_key(key: bytes) -> bytes:
    return key + b"d"


def _place(place: Place) -> bytes:
    start = 0 if place.start_us is None else place.start_us + (1 << 63)
    end = NEVER_US if place.end_us is None else place.end_us
    return _PLACE.pack(start, end + (1 << 63), _EDITION_MAX - place.edition)


def puts(key: bytes, record: ResultRecord, encoded: bytes) -> list[Put | Delete]:
    """What is written for a record."""
    place = _place(record.place)
    return [Put(key + b"t" + place, encoded), Put(index_key(key, record.index), place)]


def removed(key: bytes, record: ResultRecord) -> list[Delete]:
    """Undoes `puts`."""
    names = record_key(key, record.place), index_key(key, record.index)
    return [Delete(name, name + b"\0") for name in names]


def before(key: bytes, start_us: int) -> Delete:
    """Of the records of all windows that start before; the endless one stays."""
    table = key + b"t"
    start = min(max(start_us + (1 << 63), 1), (1 << 64) - 1)
    return Delete(table + (1).to_bytes(8, "big"), table + start.to_bytes(8, "big"))


def older_editions(key: bytes, edition: int) -> Delete:
    """Of the records of the endless window before that edition."""
    first = record_key(key, Place(None, None, edition - 1))
    return Delete(first, key + b"t" + _PLACE.pack(0, NEVER_US + (1 << 63), _EDITION_MAX) + b"\0")


def everything(key: bytes) -> Delete:
    return Delete(key, key + b"\xff")


# reading


def read_results(store: RangeStore, ask: ReadResults) -> ResultsRead:
    """The records behind an index, of about `bytes_max` bytes, and what is noted beside them."""
    found: list[tuple[int, bytes]] = []
    size, more = 0, False
    if ask.after < INDEX_END:
        for index, encoded in _since(store, ask.key, ask.after):
            if found and size + len(encoded) > ask.bytes_max:
                more = True
                break
            found.append((index, encoded))
            size += len(encoded)
    marker, ladder = (
        next((value for _, value in store.scan(STORE, name, name + b"\0", 1)), b"")
        for name in (marker_key(ask.key), ladder_key(ask.key))
    )
    latest = tuple(_last_edition(store, ask.key, *window) for window in ask.windows)
    return ResultsRead(ask.token, tuple(found), more, marker, ladder, latest)


def _last_edition(
    store: RangeStore, key: bytes, start_us: int | None, end_us: int | None
) -> tuple[int, bytes]:
    first = record_key(key, Place(start_us, end_us, _EDITION_MAX))
    for _, encoded in store.scan(STORE, first, record_key(key, Place(start_us, end_us, 0)) + b"\0", 1):
        record = _RECORD.decode(encoded)
        return record.edition, record.digest
    return 0, b""


def _since(store: RangeStore, key: bytes, index: int) -> Iterator[tuple[int, bytes]]:
    first, last = index_key(key, index + 1), index_key(key, INDEX_END)
    while True:
        pointers = store.scan(STORE, first, last, SCAN_KEYS)
        for name, place in pointers:
            at = key + b"t" + place
            for _, encoded in store.scan(STORE, at, at + b"\0", 1):  # none: it was kept long enough
                yield int.from_bytes(name[-8:], "big"), encoded
        if len(pointers) < SCAN_KEYS:
            return
        first = pointers[-1][0] + b"\0"


def marker_of(value: bytes) -> Marker:
    return _MARKER.decode(value) if value else Marker()


class StoredResults:
    """The `ResultReader` (master/service.py) over a store."""

    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def between(
        self,
        key: bytes,
        from_us: int | None,
        to_us: int | None,
        *,
        status: str | None,
        editions: bool,
        after: Place | None,
        limit: int,
    ) -> list[ResultRecord]:
        """O(records returned and skipped)."""
        table = key + b"t"
        first, behind_endless = table, before(key, -(1 << 63)).last
        last = table + b"\xff" * 9 if to_us is None else before(key, to_us).last
        found: list[ResultRecord] = []
        if after is not None:
            window = _place(after)[:16]
            if editions:
                found += self._editions(table + window, after.edition, status, limit)
            first = table + window + b"\xff" * 5
        while len(found) < limit:
            some = self._store.scan(STORE, first, last, 1)
            if not some:
                break
            name = some[0][0]
            if from_us is not None and behind_endless <= name < before(key, from_us).last:
                first = before(key, from_us).last
                continue
            window = name[: len(table) + 16]
            if editions:
                found += self._editions(window, 0, status, limit - len(found))
            else:
                found += self._latest(window, status)
            first = window + b"\xff" * 5
        return found

    def _latest(self, window: bytes, status: str | None) -> list[ResultRecord]:
        """The latest edition of a window that has the status, if there is one."""
        first, last = window, window + b"\xff" * 5
        count = 1
        while some := self._store.scan(STORE, first, last, count):
            for _, encoded in some:
                record = _RECORD.decode(encoded)
                if status in (None, record.status):
                    return [record]
            first, count = some[-1][0] + b"\0", SCAN_KEYS
        return []

    def _editions(self, window: bytes, after: int, status: str | None, limit: int) -> list[ResultRecord]:
        """The editions of a window behind one, ascending."""
        found: list[ResultRecord] = []
        last = window + (_EDITION_MAX - after).to_bytes(4, "big")
        while len(found) < limit:
            some = self._store.scan(STORE, window, last, SCAN_KEYS, reverse=True)
            records = [_RECORD.decode(encoded) for _, encoded in some]
            found += [record for record in records if status in (None, record.status)]
            if len(some) < SCAN_KEYS:
                break
            last = some[-1][0]
        return found[:limit]

    def newest(self, key: bytes, status: str) -> ResultRecord | None:
        """O(windows that start later and have none of that status)."""
        table = key + b"t"
        last = table + b"\xff" * 21
        while some := self._store.scan(STORE, table, last, 1, reverse=True):
            window = some[0][0][: len(table) + 16]
            found = self._latest(window, status)
            if found:
                return found[0]
            last = window
        return None

    def since(self, key: bytes, index: int, limit: int) -> list[ResultRecord]:
        found: list[ResultRecord] = []
        for _, encoded in _since(self._store, key, index):
            if len(found) == limit:
                break
            found.append(_RECORD.decode(encoded))
        return found

    def last_index(self, key: bytes) -> int:
        newest = self._store.scan(STORE, index_key(key, 0), index_key(key, INDEX_END), 1, reverse=True)
        return int.from_bytes(newest[0][0][-8:], "big") if newest else 0

    def dropped_index(self, key: bytes) -> int:
        name = dropped_key(key)
        return next((int.from_bytes(value) for _, value in self._store.scan(STORE, name, name + b"\0", 1)), 0)

    def lacks(self, key: bytes) -> tuple[int, int] | None:
        name = marker_key(key)
        marker = marker_of(next((value for _, value in self._store.scan(STORE, name, name + b"\0", 1)), b""))
        return (marker.through, marker.to) if marker.to > marker.through else None

"""The bytes of the journal file: headers, slots, cuts (docs/STATE.md)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

import msgspec

from cython_ext.hashing import key_hash

MAGIC = b"ELFJ"
VERSION = 1
HEADER_BYTES = 4096
"""Each of the two headers has a page of its own, so that no torn write reaches both."""
IDENTITY_BYTES_MAX = 64
ID_BYTES = 16
_HASH = struct.Struct("<Q")
_HEADER = struct.Struct("<4sB16sIIQ")
_SLOT = struct.Struct("<QQHHI")
SLOT_HEAD_BYTES = _HASH.size + _SLOT.size
_EMPTY = bytes(SLOT_HEAD_BYTES)


class FilePosition(msgspec.Struct, frozen=True, array_like=True):
    """How far a file was read."""

    offset: int
    """Bytes before it were read."""
    finished: bool = False
    """Nothing comes any more: it was rotated away or removed, and read to its end."""
    latest_us: int | None = None
    """The greatest event time of its lines so far; None: it had none."""


Positions = Mapping[bytes, FilePosition]
"""By file identity: opaque bytes, never two files with the same."""


class Cut(msgspec.Struct, frozen=True):
    """A numbered place in an agent's log. The binding of its number never changes."""

    number: int
    latest_us: int | None
    """The greatest event time before it (M); None: there was none."""
    files: Positions


class Header(msgspec.Struct, frozen=True):
    journal_id: bytes
    slot_bytes: int
    slots: int
    boot: int


class Slot(msgspec.Struct, frozen=True):
    """What one slot says; `payload` is a part of the encoded cut."""

    cut: int
    boot: int
    part: int
    parts: int
    payload: bytes


_Stored = tuple[int, int | None, list[tuple[bytes, int, bool, int | None]]]
_decoder = msgspec.msgpack.Decoder(_Stored)


def encode_cut(cut: Cut) -> bytes:
    """The payload of a cut. O(files)."""
    files = [(name, at.offset, at.finished, at.latest_us) for name, at in cut.files.items()]
    return msgspec.msgpack.encode((cut.number, cut.latest_us, files))


def decode_cut(data: bytes) -> Cut:
    """Raises msgspec.DecodeError or msgspec.ValidationError for what is no cut."""
    number, latest_us, files = _decoder.decode(data)
    return Cut(number, latest_us, {name: FilePosition(*rest) for name, *rest in files})


def encode_header(header: Header) -> bytes:
    body = _HEADER.pack(MAGIC, VERSION, header.journal_id, header.slot_bytes, header.slots, header.boot)
    return _HASH.pack(key_hash(body)) + body


def decode_header(data: bytes) -> Header | None:
    """None: torn, rotten, blank or of another version."""
    size = _HASH.size + _HEADER.size
    body = bytes(data[_HASH.size : size])
    if len(body) < _HEADER.size or _HASH.unpack_from(data)[0] != key_hash(body):
        return None
    magic, version, journal_id, slot_bytes, slots, boot = _HEADER.unpack(body)
    if magic != MAGIC or version != VERSION:
        return None
    return Header(journal_id, slot_bytes, slots, boot)


def encode_slots(cut: Cut, boot: int, slot_bytes: int) -> list[bytes]:
    """The slots of a cut, each at most `slot_bytes` long."""
    data = encode_cut(cut)
    room = slot_bytes - SLOT_HEAD_BYTES
    parts = -(-len(data) // room)
    return [
        _encode_slot(Slot(cut.number, boot, part, parts, data[part * room : (part + 1) * room]))
        for part in range(parts)
    ]


def _encode_slot(slot: Slot) -> bytes:
    body = _SLOT.pack(slot.cut, slot.boot, slot.part, slot.parts, len(slot.payload)) + slot.payload
    return _HASH.pack(key_hash(body)) + body


def decode_slot(data: bytes) -> Slot | None:
    """None: torn, rotten or never written."""
    if data[:SLOT_HEAD_BYTES] == _EMPTY:
        return None
    cut, boot, part, parts, size = _SLOT.unpack_from(data, _HASH.size)
    if size > len(data) - SLOT_HEAD_BYTES or part >= parts:
        return None
    body = bytes(data[_HASH.size : SLOT_HEAD_BYTES + size])
    if _HASH.unpack_from(data)[0] != key_hash(body):
        return None
    return Slot(cut, boot, part, parts, body[_SLOT.size :])


def file_bytes(slot_bytes: int, slots: int) -> int:
    """The size of the file."""
    return 2 * HEADER_BYTES + 2 * slot_bytes * slots


def slot_offset(header: Header, copy: int, slot: int) -> int:
    """Where copy 0 or 1 of a slot begins."""
    return 2 * HEADER_BYTES + (copy * header.slots + slot) * header.slot_bytes


def read_slots(header: Header, data: bytes) -> Iterator[tuple[int, int, Slot]]:
    """(copy, number, slot) of every sound slot. `data` is the whole file. O(file)."""
    for copy in (0, 1):
        for number in range(header.slots):
            start = slot_offset(header, copy, number)
            slot = decode_slot(data[start : start + header.slot_bytes])
            if slot is not None:
                yield copy, number, slot

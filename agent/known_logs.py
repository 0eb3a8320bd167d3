"""What an agent remembers of its logs over a restart, beside the cuts: how to know them again, wherever they are by then.

One file, replaced as a whole:  hash of the rest 8 (key hash, seed 0) · msgpack of `Saved`. It may be older or newer than the
newest cut: cuts say how far a log was read, this says what it looks like there, or a little before.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from threading import Lock

import msgspec

from agent.tail_logs import LogPosition, digest
from cython_ext.hashing import key_hash

VERSION = 1
_HASH = struct.Struct("<Q")


class KnownLog(msgspec.Struct, frozen=True, array_like=True):
    """A log as the tail knows it, its proofs, and the stretch of it that is in cuts."""

    position: LogPosition
    proofs: tuple[tuple[int, bytes], ...]
    base: int
    """Of its identity in cuts; -1: it is in none."""
    released: bool
    """Cuts needed it to its end and nobody asks for it any more: when it is in no cut, it is done with."""


class KnownSource(msgspec.Struct, frozen=True, array_like=True):
    name: str
    logs: tuple[KnownLog, ...]


class Saved(msgspec.Struct, frozen=True, array_like=True):
    version: int
    journal_id: bytes
    """Whose cuts go with it."""
    sources: tuple[KnownSource, ...]


_decoder = msgspec.msgpack.Decoder(Saved)


def encode(saved: Saved) -> bytes:
    body = msgspec.msgpack.encode(saved)
    return _HASH.pack(key_hash(body)) + body


def decode(data: bytes) -> Saved | None:
    """None: rotten, cut short, or of another version."""
    body = data[_HASH.size :]
    if not body or _HASH.unpack_from(data)[0] != key_hash(body):
        return None
    try:
        saved = _decoder.decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    return saved if saved.version == VERSION else None


def load(path: str) -> tuple[Saved | None, str]:
    """What is saved there, and what is wrong with it if anything is. Raises OSError when it may not be read."""
    try:
        with open(path, "rb") as file:
            saved = decode(file.read())
    except FileNotFoundError:
        return None, ""
    return saved, "" if saved is not None else f"{path} is damaged or of another version"


def save(path: str, saved: Saved) -> None:
    """Replaces the file, durably. Raises OSError; then the old one is there."""
    partial = f"{path}.new"
    with open(partial, "wb") as file:
        file.write(encode(saved))
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


Aside = Callable[[Callable[[], object]], object]
"""Carries out in another thread what nobody waits for."""


class LogsFile:
    """The file of one agent, saved from several threads: what was known later stays."""

    def __init__(self, path: str, journal_id: bytes, aside: Aside) -> None:
        self._path, self._journal_id, self._aside = path, journal_id, aside
        self._lock = Lock()
        self._begun = self._done = 0
        """Savings that were asked for, and the last that was done."""
        self._is_aside = False
        """One is under way there."""
        self._troubles: list[str] = []

    def save(self, sources: tuple[KnownSource, ...]) -> bool:
        """Whether that is durable now."""
        self._begun += 1
        return self._store(self._begun, sources)

    def save_aside(self, sources: tuple[KnownSource, ...]) -> None:
        """Soon: two syncs of the disk, for which no reading waits. Not at all while the one before takes so long."""
        if self._is_aside:
            return
        self._begun += 1
        self._is_aside = True
        self._aside(partial(self._store_aside, self._begun, sources))

    def take_troubles(self) -> list[str]:
        with self._lock:
            found, self._troubles = self._troubles, []
        return found

    def _store_aside(self, number: int, sources: tuple[KnownSource, ...]) -> None:
        self._store(number, sources)
        self._is_aside = False

    def _store(self, number: int, sources: tuple[KnownSource, ...]) -> bool:
        with self._lock:
            if number < self._done:
                return True
            try:
                save(self._path, Saved(VERSION, self._journal_id, sources))
            except OSError as problem:
                self._troubles.append(f"{self._path}: {problem.strerror}; a restart now may not know all logs again")
                return False
            self._done = number
            return True


def resumed(known: KnownLog, offset: int) -> LogPosition:
    """The log for a tail that goes on where it was read to byte `offset`, or at the last proof before that: what is behind
    it is read once more. O(proofs)."""
    position = known.position
    proofs = {0: digest(b""), **dict(known.proofs)}
    if position.proof is not None:
        proofs[position.offset] = position.proof
    if position.proof is None and position.offset <= offset:
        proofs = {position.offset: b""}
    ordered = sorted(proofs)
    at = ordered[bisect_right(ordered, offset) - 1]
    same = at == position.offset
    # A cut counts the bytes of a gap as read. When none does, they were not told as lost: the log is looked for once more.
    finished = same and position.finished and offset >= position.offset + position.gap_bytes
    return msgspec.structs.replace(
        position,
        offset=at,
        seen_bytes=max(at, position.seen_bytes),
        proof=proofs[at] or None,
        landmarks={mark: proof for mark, proof in position.landmarks.items() if mark <= at},
        skipping=same and position.skipping,
        finished=finished,
        gap_bytes=position.gap_bytes if finished else -1,
    )

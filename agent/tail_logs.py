"""What is remembered of a log, enough to know it again in another file, or in a file that was cut and grew again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from agent.tail_events import FileKey, Reason
from agent.tail_life import LOG_LIFE, LogCause, LogState, step

_START_BYTES = 64
DIGEST_BYTES = 8
"""64 bits: a wrong match among 4096 logs has odds below 1 in 10^12."""


def digest(data: bytes | memoryview) -> bytes:
    """The hash by which pieces of logs are compared."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


class LogPosition(msgspec.Struct, frozen=True):
    """Where the reading of one log stands: `offset` bytes are delivered or skipped. `place` is the device and inode it was
    last in. `finished`: it was read to its end and its file is gone; kept so that copies are known. `ignored`: its file is
    not to be read at all. `gap_bytes`: so many behind `offset` were counted as gap when it was given up; -1: it was not."""

    key: FileKey
    path: str
    place: tuple[int, int] | None
    offset: int
    seen_bytes: int
    head: bytes
    proof: bytes | None
    landmarks: dict[int, bytes]
    skipping: bool = False
    finished: bool = False
    ignored: bool = False
    gap_bytes: int = -1


class Position(msgspec.Struct, frozen=True):
    """Where a Tail stands, to go on from there after a restart. msgspec encodes it."""

    logs: tuple[LogPosition, ...] = ()


class Probe(NamedTuple):
    """A test whether a file holds `log`: the hash of the `proof_bytes` before `at` is `proof`; `whole` when nothing
    delivered lies behind `at`. `offset`: how much was delivered when the test was made up."""

    log: Log
    at: int
    proof: bytes
    whole: bool
    offset: int


class Log:
    """One log. `head` are its first bytes, `proof` hashes the last bytes before `offset` (None: not known yet),
    `landmarks` does so at proof_bytes * 2, 4, 8, ...: enough to tell a copy under way from a file that only starts alike.
    """

    __slots__ = (
        "away", "born", "copies", "gap_bytes", "head", "ignored", "key", "landmarks", "lost_at", "moved_in",
        "offset", "open_ended", "packed", "path", "place", "proof", "proof_bytes", "proven", "reason",
        "seen_bytes", "skipping", "state",
    )  # fmt: skip

    def __init__(self, key: FileKey, path: str, head: bytes, offset: int, proof_bytes: int) -> None:
        self.key, self.path, self.head, self.offset = key, path, head, offset
        self.place: tuple[int, int] | None = (key.device, key.inode)
        self.proof_bytes = proof_bytes
        self.proof: bytes | None = digest(b"") if offset == 0 else None
        self.landmarks: dict[int, bytes] = {}
        self.seen_bytes = offset
        self.state = LogState.LIVE
        self.skipping = self.ignored = self.open_ended = self.packed = False
        self.lost_at = 0.0
        self.reason: Reason = "truncated"
        self.gap_bytes = -1
        """Bytes counted as gap when the log was given up; -1: it was not."""
        self.away: int | None = None
        """The number of the listing in which its file was missing first; None while it is listed."""
        self.born = path
        """The path of its file when it was found there: what comes to that path later is its successor, no copy."""
        self.moved_in: int | None = None
        """The number of the listing in which its file was renamed first."""
        self.proven: int | None = None
        """Where reading went on in a file that only a few equal bytes speak for; None: it is the right one for sure."""
        self.copies: set[Any] = set()
        """Files that are held because they may be copies of it."""

    def move(self, cause: LogCause) -> None:
        self.state = step(LOG_LIFE, self.state, cause)

    @property
    def read_offset(self) -> int:
        """Where a read must start to show, too, that the file still holds this log."""
        return max(0, self.offset - self.proof_bytes)

    def continues(self, data: bytes) -> bool:
        """Whether `data`, read at `read_offset`, goes on from what was delivered."""
        overlap = self.offset - self.read_offset
        if len(data) < overlap:
            return False
        if self.offset == 0:
            return data[: len(self.head)] == self.head[: len(data)]
        return self.proof is None or digest(data[:overlap]) == self.proof

    def saw(self, data: bytes, at: int) -> None:
        """`data` is at `at` of the log, delivered or not."""
        if at == 0 and len(self.head) < min(len(data), self.proof_bytes):
            self.head = data[: self.proof_bytes]
        self.seen_bytes = max(self.seen_bytes, at + len(data))

    def advance(self, data: bytes, at: int, offset: int) -> None:
        """`data`, read at `at` <= read_offset, was delivered (or skipped) up to `offset`."""
        mark = self.proof_bytes * 2
        while mark <= offset:
            if mark > self.offset and mark - self.proof_bytes >= at:
                self.landmarks[mark] = self._digest_before(data, at, mark)
            mark *= 2
        self.offset = offset
        self.proof = self._digest_before(data, at, offset)

    def _digest_before(self, data: bytes, at: int, offset: int) -> bytes:
        return digest(data[max(0, offset - self.proof_bytes) - at : offset - at])

    def probe(self, head: bytes, size_bytes: int | None) -> Probe | None:
        """How to find out whether a file that begins with `head` holds this log; None: it does not. `size_bytes` is
        None while unknown (compressed). An `at` up to len(head) is proven already."""
        shared = min(len(head), len(self.head))
        if self.head[:shared] != head[:shared]:
            return None
        if self.ignored and len(self.head) < min(len(head), self.proof_bytes):
            return None  # that is all of it
        if self.ignored:
            return Probe(self, shared, b"", len(head) >= len(self.head), self.offset)
        if self.offset <= shared:
            return Probe(self, shared, b"", True, self.offset)
        if len(head) < len(self.head):
            return Probe(self, shared, b"", False, self.offset)
        if (size_bytes is None or size_bytes >= self.offset) and self.proof is not None:
            return Probe(self, self.offset, self.proof, True, self.offset)
        known = [at for at in self.landmarks if size_bytes is None or at <= size_bytes]
        if known:
            return Probe(self, max(known), self.landmarks[max(known)], False, self.offset)
        return Probe(self, shared, b"", False, self.offset)

    def position(self) -> LogPosition:
        return LogPosition(
            self.key, self.path, self.place, self.offset, self.seen_bytes, self.head, self.proof, dict(self.landmarks),
            self.skipping, self.state is LogState.FINISHED, self.ignored, self.gap_bytes,
        )  # fmt: skip

    @classmethod
    def restored(cls, position: LogPosition, proof_bytes: int) -> Log:
        """The log of a saved position: to be looked for, unless it was finished."""
        log = cls(position.key, position.path, position.head[:proof_bytes], position.offset, proof_bytes)
        log.place, log.proof, log.landmarks = position.place, position.proof, dict(position.landmarks)
        log.seen_bytes, log.skipping, log.ignored = position.seen_bytes, position.skipping, position.ignored
        log.gap_bytes = position.gap_bytes
        log.reason, log.open_ended = "restart", not position.finished
        log.state = LogState.FINISHED if position.finished or position.ignored else LogState.LOST
        return log


class Catalogue:
    """All logs remembered, oldest first. At most `logs_max` and those that are in a file or sought."""

    def __init__(self, position: Position | None, proof_bytes: int, logs_max: int) -> None:
        self._proof_bytes, self._logs_max = proof_bytes, logs_max
        self._logs: dict[FileKey, Log] = {}
        self._starts: dict[bytes, dict[FileKey, Log]] = {}  # by the first _START_BYTES bytes
        self._short: dict[FileKey, Log] = {}  # those that had fewer when last looked at
        self._generations: dict[tuple[int, int], int] = {}
        self.added = 0
        """How many logs were ever added here."""
        for saved in position.logs if position is not None else ():
            self._insert(Log.restored(saved, proof_bytes))

    def __iter__(self) -> Iterator[Log]:
        return iter(self._logs.values())

    def __len__(self) -> int:
        return len(self._logs)

    def find(self, key: FileKey) -> Log | None:
        """The log of that name; None: it was never known, or is forgotten."""
        return self._logs.get(key)

    def add(self, place: tuple[int, int], path: str, head: bytes, offset: int) -> Log:
        """A log that begins in the file at `place`."""
        key = FileKey(*place, digest(head).hex(), self._generations.get(place, -1) + 1)
        self.added += 1
        log = Log(key, path, head, offset, self._proof_bytes)
        self._insert(log)
        return log

    def _insert(self, log: Log) -> None:
        key = log.key
        place = (key.device, key.inode)
        self._logs[key] = self._short[key] = log
        self._generations[place] = max(key.generation, self._generations.get(place, -1))

    def remove(self, log: Log) -> None:
        """Forgets a log."""
        del self._logs[log.key]
        if self._short.pop(log.key, None) is None:
            start = log.head[:_START_BYTES]
            del self._starts[start][log.key]
            if not self._starts[start]:
                del self._starts[start]

    def probes(self, head: bytes, size_bytes: int | None) -> list[Probe]:
        """The tests that decide whose content a file is, nearest first. O(logs that begin with the same 64 bytes)."""
        found = [log.probe(head, size_bytes) for log in self._like(head)]
        return sorted((probe for probe in found if probe is not None), key=lambda probe: probe.at)

    def _like(self, head: bytes) -> list[Log]:
        """The logs that may begin as `head` does."""
        for log in [log for log in self._short.values() if len(log.head) >= _START_BYTES]:
            del self._short[log.key]
            self._starts.setdefault(log.head[:_START_BYTES], {})[log.key] = log
        if len(head) < _START_BYTES:
            return list(self)
        return [*self._starts.get(head[:_START_BYTES], {}).values(), *self._short.values()]

    def lost(self) -> list[Log]:
        return [log for log in self if log.state is LogState.LOST]

    def forget(self, wanted: Iterable[Log]) -> None:
        """Lets go of the oldest finished logs beyond the limit, except those in `wanted`."""
        surplus = len(self._logs) - self._logs_max
        if surplus <= 0:
            return
        kept = {log.key for log in wanted}
        old = [log for log in self if log.state is LogState.FINISHED and log.key not in kept]
        for log in old[:surplus]:
            self.remove(log)
        self._generations = {}
        for key in self._logs:
            place = (key.device, key.inode)
            self._generations[place] = max(key.generation, self._generations.get(place, -1))

    def position(self) -> Position:
        return Position(tuple(log.position() for log in self))

"""Bytes of logs that were read before: where they are now, and the same lines out of them once more.

A log is renamed, compressed, cut and deleted while somebody may still ask for it (A9), so a descriptor of each file that
holds a log is kept, and nothing is believed of a file that its proofs do not say. Whatever takes long is a generator that
yields None now and then, so that its thread can do other things.
"""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable

from sortedcontainers import SortedDict

from agent.compression import BROKEN
from agent.folding import Stretch
from agent.follower import Follower, Handle
from agent.tail_events import FileKey
from agent.tail_logs import Log, digest
from agent.tail_options import TailOptions
from job.formats.w3c import DIRECTIVE

PROOFS_MAX = 64
"""Proofs that are remembered of a log: the latest, and ever fewer of the older ones."""
RECENT = 16
UNPACKED_TRIES = 4
"""Proofs that are tried on a compressed file which ends early: each unpacks it anew."""
Place = tuple[int, int]


class Proofs:
    """What tells whether a file holds a log, and how much of it."""

    def __init__(self, head: bytes = b"", known: Iterable[tuple[int, bytes]] = ()) -> None:
        self.head = head
        self.at: SortedDict[int, bytes] = SortedDict(known)
        """Hashes of the bytes before an offset, at most proof_bytes of them."""

    def add(self, log: Log) -> None:
        """Notes where the tail stands. O(log proofs), O(proofs) now and then."""
        self.head = log.head
        if log.proof is None or log.offset in self.at:
            return
        self.at[log.offset] = log.proof
        if len(self.at) > PROOFS_MAX:
            # The first stays: it is where what is released ends.
            for offset in list(self.at)[1 : PROOFS_MAX - RECENT : 2]:
                del self.at[offset]

    def release(self, offset: int) -> None:
        """Nobody asks for what lies before: one proof at or before `offset` is enough."""
        known = list(self.at)
        for old in known[: max(0, bisect_right(known, offset) - 1)]:
            del self.at[old]

    def around(self, offset: int) -> tuple[list[int], list[int]]:
        """Offsets of proofs from `offset` on, ascending, and before it, descending."""
        index = self.at.bisect_left(offset)
        known = list(self.at)
        return known[index:], known[:index][::-1]


class Holdings:
    """Descriptors of the files that hold logs somebody may ask for."""

    def __init__(self, held_max: int) -> None:
        """Beyond `held_max` only those of files that are not listed any more, as many again."""
        self._held: dict[FileKey, dict[Place, Handle]] = {}
        self._count, self.held_max = 0, held_max

    def __len__(self) -> int:
        return self._count

    def note(self, follower: Follower, needed: Callable[[FileKey], bool]) -> None:
        """Takes hold of what the follower has open and somebody may ask for. O(open files)."""
        for number, file in follower.tail.open_files.items():
            log = file.log
            if log is None or file.place in self._held.get(log.key, ()) or not needed(log.key):
                continue
            handle = follower.descriptor(number)
            full = self._count >= (self.held_max if file.listed else 2 * self.held_max)
            if handle is not None and not full and (own := _reopened(handle)) is not None:
                self._held.setdefault(log.key, {})[file.place] = own
                self._count += 1

    def release(self, key: FileKey) -> None:
        """Nobody asks for that log any more."""
        for handle in self._held.pop(key, {}).values():
            handle.close()
            self._count -= 1

    def open(self, key: FileKey, follower: Follower) -> list[Handle]:
        """All files that may hold the log, opened for the caller, who closes them; the one it lives in first."""
        found: list[Handle] = []
        seen: set[Place] = set()
        log = follower.tail.logs.find(key)
        files = [] if log is None else sorted(log.copies, key=lambda file: file.place)
        home = None if log is None or log.place is None else follower.tail.files.get(log.place)
        if home is not None and home.log is log:
            files.insert(0, home)
        for file in files:  # copies, too: the log may have been cut a moment ago
            own = _opened(file.path, file.place)
            if own is not None:
                found.append(own)
                seen.add(file.place)
        for place, handle in self._held.get(key, {}).items():
            if place not in seen and (own := _reopened(handle)) is not None:
                found.append(own)
        return found

    def close(self) -> None:
        for key in list(self._held):
            self.release(key)


def _opened(path: str, place: Place) -> Handle | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    return _identified(fd, path, place)


def _reopened(handle: Handle) -> Handle | None:
    """The same file with a place of its own to read from, which unpacking needs."""
    try:
        fd = os.open(f"/proc/self/fd/{handle.fd}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:  # no /proc, or it may not be opened any more: plain files are read by offset anyhow
        if handle.packed is not None:
            return None
        fd = os.dup(handle.fd)
    return _identified(fd, handle.path, None)


def _identified(fd: int, path: str, place: Place | None) -> Handle | None:
    handle = Handle(fd, path)
    try:
        found = os.fstat(fd)
        if place is None or (found.st_dev, found.st_ino) == place:
            handle.identify()
            return handle
    except OSError:
        pass
    handle.close()
    return None


Steps = Generator[None, None, int]
"""Yields while there is more to do; its value is a number of bytes."""


def read(handle: Handle, offset: int, size_bytes: int) -> Generator[None, None, bytes]:
    """The bytes there are at `offset`; none when the file cannot be read."""
    try:
        while (done := handle.read(offset, size_bytes)) is None:
            yield
    except (OSError, *BROKEN):
        return b""
    at, data, _ = done
    return data if at == offset else b""


def covered(handle: Handle, proofs: Proofs, stop: int, proof_bytes: int) -> Steps:
    """How many bytes of a log, at most `stop`, a file surely holds. O(proofs) small reads; packed files are unpacked."""
    head = yield from read(handle, 0, len(proofs.head))
    if not proofs.head.startswith(head) or (len(head) < len(proofs.head) and len(head) < stop):
        return 0
    above, below = proofs.around(stop)
    tries = below if handle.packed is None else below[:UNPACKED_TRIES]
    for offset in [*above[:1], *above[-1:], *tries]:
        start = max(0, offset - proof_bytes)
        data = yield from read(handle, start, offset - start)
        if len(data) == offset - start and digest(data) == proofs.at[offset]:
            # After a crash the last proofs may be missing: a file that holds all that is known of the log goes on as it did.
            return stop if offset >= stop or (not above and offset == below[0]) else offset
    return min(stop, len(head))


def best_of(
    handles: list[Handle], proofs: Proofs, stop: int, proof_bytes: int
) -> Generator[None, None, tuple[Handle | None, int]]:
    """The file that holds the most of a log before `stop`, and how much."""
    best, most = None, 0
    for handle in handles:
        size = yield from covered(handle, proofs, stop, proof_bytes)
        if size > most:
            best, most = handle, size
        if most == stop:
            break
    return best, most


def old_lines(
    handle: Handle, start: int, stop: int, is_whole: bool, options: TailOptions
) -> Generator[Stretch | None, None, int]:
    """The lines of bytes [start, stop) of a log, as they were read first: a line that began before `start` is left out, one
    beyond line_bytes_max is cut, and what is behind the last LF is a line, too, if `is_whole`. Its value is how far it came:
    the file may end before. Memory: O(longest line)."""
    at, want = start, options.read_bytes
    skipping = False
    if start > 0:
        skipping = (yield from read(handle, start - 1, 1)) != b"\n"
    while at < stop:
        data = yield from read(handle, at, min(want, stop - at))
        if not data:
            return at
        begin = 0
        if skipping:
            begin = data.find(b"\n") + 1
            skipping = begin == 0
            if skipping:
                at += len(data)
                continue
        end = data.rfind(b"\n") + 1
        at_end = at + len(data) == stop
        is_long = end <= begin and len(data) - begin >= options.line_bytes_max
        if is_long or (at_end and is_whole):
            end = len(data)
        if end <= begin:
            if begin:
                at += begin
            elif at_end or len(data) < want:
                return at  # half a line is all that is left
            want = min(want * 2, options.line_bytes_max)
            continue
        yield Stretch(handle.path, at + begin, data, begin, end, is_long)
        skipping, at, want = is_long, at + end, options.read_bytes
    return at


def directive_before(handle: Handle, offset: int, block_bytes: int = 1 << 20) -> Generator[None, None, bytes]:
    """The last #Fields line before `offset`; empty if there is none. O(offset)."""
    found, at, rest = b"", 0, b"\n"
    mark = b"\n" + DIRECTIVE.encode()
    while at < offset:
        data = yield from read(handle, at, min(block_bytes, offset - at))
        if not data:
            break
        at += len(data)
        text = rest + data
        begin = text.rfind(mark)
        while begin >= 0 and (end := text.find(b"\n", begin + 1)) < 0:
            begin = text.rfind(mark, 0, begin)
        if begin >= 0:
            found = text[begin + 1 : end + 1]
        rest = text[-(64 << 10) :]
        yield
    return found


def close_all(handles: list[Handle]) -> None:
    for handle in handles:
        with contextlib.suppress(OSError):
            handle.close()

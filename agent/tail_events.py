"""What the tail is told and what it asks for: plain values, so that a model can play the file system.

Sizes and offsets are bytes; offsets of compressed files count uncompressed bytes. A *handle* is a number the tail gives
to a descriptor it asks for; handles are never used again, so an answer that comes after `Close` is simply not known.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class FileKey(NamedTuple):
    """The identity of a log for its whole life: where it was first seen, what it began with, and its number among the
    logs that inode has held. `head` is a hash in hex of the first bytes known then."""

    device: int
    inode: int
    head: str
    generation: int


# --- events ---


class Seen(NamedTuple):
    """A path of the listing; a symbolic link shows its target."""

    path: str
    device: int
    inode: int
    size_bytes: int
    mtime_ns: int


class OpenSeen(NamedTuple):
    """An open descriptor, looked at after all paths of the same listing."""

    handle: int
    size_bytes: int
    mtime_ns: int
    links: int


class Listed(NamedTuple):
    """All files the patterns name now, and all open descriptors."""

    files: tuple[Seen, ...]
    opened: tuple[OpenSeen, ...]


class Opened(NamedTuple):
    """What `Open` really opened: the path may have changed hands since it was listed."""

    handle: int
    device: int
    inode: int
    size_bytes: int
    mtime_ns: int
    compressed: bool


class OpenFailed(NamedTuple):
    """`missing`: nothing is at the path any more. Else it may not be read; `message` says why."""

    handle: int
    missing: bool
    message: str


class ReadDone(NamedTuple):
    """`data` are the bytes from `offset`; with `end` nothing came after them at that moment. `compressed`, at offset 0:
    the file turned out to be packed, after it was empty when it was opened. A packed file that ends before the offset
    asked for answers with no bytes and its end as `offset`."""

    handle: int
    offset: int
    data: bytes
    end: bool
    compressed: bool = False


class ReadPending(NamedTuple):
    """A compressed file is not yet unpacked up to the offset asked for: ask again in the next turn."""

    handle: int


class ReadFailed(NamedTuple):
    """The descriptor cannot be read on; a compressed file that is still being written ends this way too."""

    handle: int
    message: str


class StartFound(NamedTuple):
    """The answer to FindStart."""

    handle: int
    offset: int


class Compared(NamedTuple):
    """The answer to Compare; `same` is None when that cannot be told now: a file ends before, or is not unpacked
    so far yet."""

    handle: int
    same: bool | None


class Modified(NamedTuple):
    """A hint that the open file was written to or cut."""

    handle: int


class Turn(NamedTuple):
    """Time to read on, one turn's worth. Without `reads` only what tells whose content files are is looked at."""

    reads: bool = True


Event = (
    Listed | Opened | OpenFailed | ReadDone | ReadPending | ReadFailed | StartFound | Compared | Modified | Turn
)

# --- effects ---


class Open(NamedTuple):
    """Open the path for reading; answered by Opened or OpenFailed."""

    handle: int
    path: str


class Read(NamedTuple):
    """Read up to `size_bytes` bytes at `offset`; answered by ReadDone, ReadPending or ReadFailed. At most one per
    handle is under way."""

    handle: int
    offset: int
    size_bytes: int


class FindStart(NamedTuple):
    """Find by time where to begin in the first `size_bytes` bytes (agent.since); answered by StartFound. Unless it is 0,
    reading starts after the first line end at or after that offset."""

    handle: int
    size_bytes: int


class Compare(NamedTuple):
    """Compare the same range of two files; answered by Compared."""

    handle: int
    other: int
    offset: int
    size_bytes: int


class Close(NamedTuple):
    """Close the descriptor; not answered."""

    handle: int


class Relist(NamedTuple):
    """Make the next listing at once: names have moved."""


class Deliver(NamedTuple):
    """`data[start:stop]` are lines of the log, from its byte `offset` on. They are whole, except that a line longer than
    the limit comes cut, once, and that the last line of a log that is gone may lack its LF."""

    key: FileKey
    path: str
    offset: int
    data: bytes
    start: int
    stop: int

    @property
    def end(self) -> int:
        """The offset after these lines."""
        return self.offset + self.stop - self.start


Reason = Literal["truncated", "deleted", "unreadable", "restart"]


class Gap(NamedTuple):
    """Bytes [start, stop) of the log were not delivered and can no longer be reached. `open_ended`: more may have been
    written behind them that nobody can know of (start == stop: perhaps nothing is missing). `given_up`: the log itself is
    gone; else it goes on at `start`, with other bytes."""

    key: FileKey
    path: str
    start: int
    stop: int
    reason: Reason
    open_ended: bool
    given_up: bool = False


class Recovered(NamedTuple):
    """A log that was given up came back, perhaps in a later life: the bytes of that Gap are delivered after all, or counted
    again."""

    key: FileKey
    start: int
    stop: int
    open_ended: bool


class Rotated(NamedTuple):
    """The log is now at another path (renamed, copied or compressed)."""

    key: FileKey
    path: str


class Trouble(NamedTuple):
    """A file cannot be read for now; it is tried again. Told once per trouble."""

    path: str
    message: str


Effect = (
    Open | Read | FindStart | Compare | Close | Relist | Deliver | Gap | Recovered | Rotated | Trouble
)

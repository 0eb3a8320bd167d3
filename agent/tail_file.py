"""What the tail knows of one file on disk."""

from __future__ import annotations

from agent.tail_events import Seen
from agent.tail_life import FILE_LIFE, FileCause, FileState, LogState, step
from agent.tail_logs import Log, Probe

Place = tuple[int, int]
"""Device and inode."""
_WITHOUT_HANDLE = frozenset({FileState.FOUND, FileState.DENIED, FileState.CLOSED, FileState.GONE})


class Probing:
    """The search for the log a file holds: tests still to make, tests passed."""

    __slots__ = ("added", "head", "matched", "todo")

    def __init__(self, head: bytes, todo: list[Probe], added: int) -> None:
        self.head, self.todo, self.added = head, todo, added
        self.matched: list[Probe] = []


class File:
    """One inode. `log` is what is read from it, `held_by` the log it may be a copy of; never both."""

    __slots__ = (
        "asked", "awaited", "beside", "cleared", "compared_bytes", "compared_to", "comparing_bytes", "compressed",
        "crowded", "differs", "dirty", "evidence_bytes", "failed_stat", "final", "first_bytes", "found_in", "fresh",
        "grown_at", "half_bytes", "handle", "head", "held_by", "held_offset", "held_stat", "held_state", "initial",
        "judged_among", "known_bytes", "known_stat", "listed", "listed_bytes", "log", "measured_bytes", "mtime_ns",
        "outgrew", "outgrew_in", "paths", "pending", "place", "probing", "queued", "read_at", "read_to", "rejudged_in",
        "retry_at", "rivals", "size_bytes", "starting", "stat", "state", "troubled", "unjudged_bytes", "unlinked",
        "unlisted_at", "unpacked_bytes", "unproven", "unsure", "want", "whole",
    )  # fmt: skip

    def __init__(self, seen: Seen, now_s: float, initial: bool) -> None:
        self.place: Place = (seen.device, seen.inode)
        self.paths: tuple[str, ...] = (seen.path,)
        self.state = FileState.FOUND
        self.handle: int | None = None
        self.log: Log | None = None
        self.initial, self.first_bytes = initial, seen.size_bytes
        self.listed, self.unlisted_at = True, now_s
        self.listed_bytes, self.grown_at = seen.size_bytes, now_s
        self.stat = (seen.size_bytes, seen.mtime_ns)  # as listed; for those that are not open
        self.size_bytes, self.mtime_ns = seen.size_bytes, seen.mtime_ns  # as of the descriptor
        self.compressed = self.unlinked = self.fresh = self.final = self.starting = self.troubled = False
        self.probing: Probing | None = None
        self.head, self.known_bytes = b"", 0  # what probing has shown: first bytes, and how far it reaches at least
        self.known_stat = (-1, -1)  # when that was so
        self.rejudged_in = 0  # the listing in which it was last asked again which of several logs it holds
        self.held_by: Log | None = None
        self.cleared: list[Log] = []  # logs that it is no copy of, although it began alike
        self.beside: list[Log] = []  # logs that it appeared beside, as copies do
        self.compared_to: Log | None = None
        self.measured_bytes = -1
        self.unsure = False  # counted as perhaps missing
        self.held_stat, self.held_offset = self.stat, 0
        self.held_state: LogState | None = None
        self.evidence_bytes, self.compared_bytes, self.comparing_bytes = 0, -1, 0
        self.rivals: list[Probe] = []  # logs that live elsewhere and may be what it holds, as it was judged
        self.judged_among = 0  # logs ever known then
        self.outgrew, self.outgrew_in = False, -1  # longer than the file of `held_by` then; the listing that first found so
        self.awaited: File | None = None  # must be judged first
        self.unpacked_bytes: int | None = None  # its size unpacked, once known
        self.differs = self.whole = False
        self.unjudged_bytes = 0  # what there was when it was found to hold something else
        self.half_bytes = 0  # what there is of its first line, while that is not whole
        self.read_to, self.read_at, self.want = 0, now_s, 0
        self.queued = self.dirty = self.pending = False
        self.crowded = False  # it waits, for too many logs are read already
        self.found_in = 0  # the number of the listing it was found in
        self.unproven = False  # changed since it was last read
        self.asked: tuple[int, int] | None = None  # the read under way
        self.retry_at = now_s
        self.failed_stat: tuple[int, int] | None = None

    @property
    def path(self) -> str:
        return self.paths[0]

    @property
    def shelved(self) -> bool:
        """Whether there is nothing to decide: it was empty, and closed until it changes; or it is crowded out."""
        return self.state is FileState.FOUND and (self.crowded or self.stat == self.failed_stat)

    @property
    def end_bytes(self) -> int | None:
        """Where its content ends, in bytes of the log; None while a compressed file was not unpacked to there."""
        return self.unpacked_bytes if self.compressed else self.size_bytes

    @property
    def partial(self) -> bool:
        """Whether half a line waits at its end."""
        return self.log is not None and self.read_to > self.log.offset

    def move(self, cause: FileCause) -> None:
        self.state = step(FILE_LIFE, self.state, cause)

    def seen_again(self, group: list[Seen], now_s: float) -> bool:
        """Its paths and size in a new listing. Whether it was renamed."""
        names = [seen.path for seen in group]
        kept = [path for path in self.paths if path in names]
        self.paths = tuple(dict.fromkeys(kept + names))
        seen = group[-1]
        if seen.size_bytes != self.listed_bytes:
            self.listed_bytes, self.grown_at = seen.size_bytes, now_s
        self.stat = (seen.size_bytes, seen.mtime_ns)
        self.listed = True
        return not kept

    @property
    def needs_handle(self) -> bool:
        return self.state not in _WITHOUT_HANDLE

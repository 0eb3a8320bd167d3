"""The innermost part of the tail: reading a file that holds a known log, and what becomes of the log when it is gone.

`agent.tail_kin` tells whose content a file is, `agent.tail` adds listings, turns and limits. See docs/TAIL.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

from agent.tail_events import (
    Close,
    Deliver,
    Effect,
    Gap,
    Read,
    ReadDone,
    Reason,
    Relist,
    Rotated,
)
from agent.tail_file import File, Place
from agent.tail_life import FileCause, FileState, LogCause
from agent.tail_logs import Catalogue, Log, Position
from agent.tail_options import TailOptions

READABLE = frozenset({FileState.READING, FileState.DRAINING})
UNDECIDED = frozenset({FileState.FOUND, FileState.OPENING, FileState.PROBING})
_READ_BYTES_MIN = 4096
NEVER_READ = -1
"""The generation in the key of a gap in a file that never came to be read."""


class TailCore(ABC):
    """State and the steps of single files and logs. Not used by itself."""

    def __init__(self, options: TailOptions, position: Position | None) -> None:
        self.options = options
        self.logs = Catalogue(position, options.proof_bytes, options.logs_max)
        self.files: dict[Place, File] = {}
        self.open_files: dict[int, File] = {}
        self._ready: deque[File] = deque()
        self._effects: list[Effect] = []
        self._now = 0.0
        self._handles = self._listings = 0
        self.full = False
        """Files wait for descriptors."""

    def _emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    # --- descriptors and reads ---

    def _ask(self, file: File, offset: int, size_bytes: int) -> None:
        assert file.handle is not None
        file.asked, file.pending = (offset, size_bytes), False
        self._emit(Read(file.handle, offset, size_bytes))

    def _close(self, file: File) -> None:
        if file.handle is not None:
            del self.open_files[file.handle]
            self._emit(Close(file.handle))
        file.handle, file.asked, file.probing, file.unproven = None, None, None, False
        if file.queued:
            self._ready.remove(file)
            file.queued = False

    def _enqueue(self, file: File) -> None:
        """Has the file read in one of the next turns; those that may vanish go first."""
        if file.queued:
            return
        file.queued = True
        if file.state is FileState.DRAINING:
            self._ready.appendleft(file)
        else:
            self._ready.append(file)

    def _request(self, file: File) -> int:
        """Reads on, with the bytes before the offset that prove that the file still holds its log. Returns the bytes asked
        for: not many of a file that is not known to have many, so that a turn has room for thousands of those."""
        assert file.log is not None
        start, want = file.log.read_offset, file.want
        if not file.compressed:
            want = min(want, max(_READ_BYTES_MIN, file.size_bytes - file.log.offset + 1))
        self._ask(file, start, file.log.offset - start + want)
        return want

    def _can_prove(self, file: File) -> bool:
        """Whether it changed, and bytes that were delivered tell whether it still holds its log."""
        return file.unproven and file.log is not None and file.log.offset > 0 and not file.compressed

    def _request_proof(self, file: File) -> None:
        """Reads the bytes before the offset and nothing behind it: they tell whether the file still holds its log."""
        assert file.log is not None
        self._ask(file, file.log.read_offset, file.log.offset - file.log.read_offset)

    # --- the other half: agent.tail_kin ---

    @abstractmethod
    def _probe(self, file: File) -> None:
        """Begins to find out whose content the file is."""

    @abstractmethod
    def _review(self, file: File) -> None:
        """Looks again at a file that may be a copy, because it or the log it resembles has changed."""

    # --- reading ---

    def _unhold(self, file: File, cause: FileCause) -> None:
        assert file.held_by is not None
        file.held_by.copies.discard(file)
        file.held_by = None
        file.move(cause)

    def _renamed(self, file: File) -> None:
        """Tells when the log of a file is at another path."""
        if file.log is not None and file.log.path not in file.paths:
            file.log.path = file.path
            self._emit(Rotated(file.log.key, file.path))

    def _reading(self, file: File) -> None:
        assert file.log is not None
        file.log.packed = file.compressed
        file.read_to = len(file.head) if file.log.offset == 0 else 0
        file.want, file.final, file.fresh = self.options.read_bytes, False, False
        file.read_at = self._now
        if not file.listed:
            file.move(FileCause.UNLISTED)
        self._enqueue(file)

    def _read_on(self, file: File, event: ReadDone) -> None:
        log = file.log
        assert log is not None
        proven, file.unproven = file.unproven, False
        reached = event.offset + len(event.data)
        shrunk = log.offset == 0 and reached < file.read_to  # nothing to prove, but something is gone
        if shrunk or not log.continues(event.data):
            self._changed(file, event)
            return
        if file.fresh:
            file.fresh = False
            self._renamed(file)
        file.troubled = False
        log.saw(event.data, event.offset)
        if reached != file.read_to:
            file.read_at = self._now
        file.read_to = reached
        if log.offset == 0 and not log.skipping and self._half_a_line(file, event):
            self._start_over(file, log, event)
            return
        final = event.end and (file.final or file.compressed)
        self._deliver(file, log, event, final)
        if event.end and not (file.dirty and not file.compressed):
            self._at_end(file, log)
        else:
            file.dirty = False
            self._enqueue(file)
        if log.copies and (proven or file.state is FileState.CAUGHT_UP):
            self._review_copies(log)

    def _half_a_line(self, file: File, event: ReadDone) -> bool:
        """Whether half a line is all there is: nothing can be delivered, and a copy under way may look like that."""
        short = event.end and len(event.data) < self.options.line_bytes_max and b"\n" not in event.data
        return short and file.listed and not file.compressed

    def _start_over(self, file: File, log: Log, event: ReadDone) -> None:
        """Nothing was delivered yet: whose content the file is, is asked again when it has a line."""
        file.log, file.half_bytes = None, len(event.data)
        file.move(FileCause.NO_LINE)
        self.logs.remove(log)
        for copy in list(log.copies):
            self._unhold(copy, FileCause.GREW)
            copy.asked = None
            self._probe(copy)
        if file.dirty:
            file.dirty = False
            file.move(FileCause.GREW)
            self._probe(file)

    def _deliver(self, file: File, log: Log, event: ReadDone, final: bool) -> None:
        data, at = event.data, event.offset
        start = log.offset - at
        if log.skipping and start < len(data):
            end = data.find(b"\n", start) + 1
            log.skipping, start = end == 0, end or len(data)
            log.advance(data, at, at + start)
        stop = data.rfind(b"\n", start) + 1
        if final:
            stop = len(data)
        elif stop == 0 and len(data) - start >= self.options.line_bytes_max:
            stop, log.skipping = len(data), True
        elif stop == 0 and not event.end and start < len(data):
            file.want = min(file.want * 2, self.options.line_bytes_max)
        if stop > start:
            offset = log.offset
            log.advance(data, at, at + stop)
            file.want = self.options.read_bytes
            self._emit(Deliver(log.key, log.path, offset, data, start, stop))

    def _at_end(self, file: File, log: Log) -> None:
        self._settle_gap(file, log)
        if file.state is FileState.READING and file.compressed:
            file.move(FileCause.KNOWN)
            self._shut(file)
        elif file.state is FileState.READING:
            file.move(FileCause.END)
        elif file.final or file.compressed:
            self._drained(file)

    def _settle_gap(self, file: File, log: Log) -> None:
        """A log found again has been read to the end of what was found: is that all there was?"""
        missing = log.seen_bytes > file.read_to
        unsure = log.open_ended and log.proven is not None
        if missing or (log.open_ended and not unsure):
            stop = max(log.seen_bytes, file.read_to)
            self._emit(Gap(log.key, log.path, file.read_to, stop, log.reason, log.open_ended and not unsure))
        if unsure and log.proven is not None:
            self._emit(Gap(log.key, log.path, log.proven, log.proven, log.reason, True))
        log.open_ended, log.proven = False, None
        log.seen_bytes = min(log.seen_bytes, file.read_to)

    def _shut(self, file: File) -> None:
        """Closes a file that stays listed; it is opened again when it changes."""
        self._close(file)
        if not file.listed:
            self._drop(file, FileCause.UNLISTED)

    def _drained(self, file: File) -> None:
        """A file no longer listed was read to its end."""
        log = file.log
        assert log is not None
        file.log = None
        self._drop(file, FileCause.DONE)
        log.place = None if file.unlinked else file.place
        self._finish(log)

    def _drop(self, file: File, cause: FileCause) -> None:
        self._close(file)
        if file.held_by is not None:
            self._unhold(file, cause)
        else:
            file.move(cause)
        del self.files[file.place]

    # --- logs whose file is gone ---

    def _changed(self, file: File, event: ReadDone) -> None:
        """The file holds something else now: it was cut, overwritten, or its inode was given to another file."""
        log = file.log
        assert log is not None
        reused = file.fresh and (log.path not in file.paths or file.compressed)
        file.log, file.initial, file.grown_at = None, False, self._now
        file.head = event.data[: self.options.proof_bytes] if event.offset == 0 else b""
        file.unjudged_bytes = event.offset + len(event.data) if event.data else 0
        file.cleared.clear()
        file.beside.clear()
        file.move(FileCause.CHANGED)
        if reused:
            log.place = None
            self._leave(log)
        else:
            self._lose(log, LogCause.TRUNCATED, "truncated", open_ended=True)
        if file.handle is not None:
            self._probe(file)

    def _leave(self, log: Log) -> None:
        """The file of a log has gone: is something missing?"""
        if log.seen_bytes > log.offset:
            self._lose(log, LogCause.VANISHED, "deleted", open_ended=False)
        else:
            self._finish(log)

    def _lose(self, log: Log, cause: LogCause, reason: Reason, open_ended: bool) -> None:
        log.move(cause)
        log.reason, log.open_ended, log.lost_at = reason, open_ended, self._now
        self._emit(Relist())
        self._review_copies(log)

    def _finish(self, log: Log) -> None:
        log.move(LogCause.READ_OUT)
        self._review_copies(log)

    def _review_copies(self, log: Log) -> None:
        for file in sorted(log.copies, key=lambda file: (-file.listed_bytes, file.place)):
            if file.held_by is log and file.state is FileState.HELD:
                self._review(file)

    def _give_up(self, log: Log) -> None:
        """The rest of a lost log was not found in time."""
        stop = max(log.seen_bytes, log.offset)
        log.gap_bytes = stop - log.offset
        self._emit(Gap(log.key, log.path, log.offset, stop, log.reason, log.open_ended, given_up=True))
        log.move(LogCause.GIVEN_UP)

"""Following files that are renamed, truncated, copied, compressed and deleted while they grow: a pure automaton.

`Tail.handle(event, now_s)` takes what happened in the file system and returns what to do there, and what was found: lines,
gaps, rotations. It opens no file and reads no clock; agent.follower does. docs/TAIL.md says what it promises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent.errors import InvariantError
from agent.tail_core import NEVER_READ, READABLE, UNDECIDED
from agent.tail_events import (
    Close,
    Compared,
    Effect,
    Event,
    FileKey,
    Gap,
    Listed,
    Modified,
    Open,
    Opened,
    OpenFailed,
    OpenSeen,
    ReadDone,
    ReadFailed,
    ReadPending,
    Relist,
    Seen,
    StartFound,
    Trouble,
    Turn,
)
from agent.tail_file import File
from agent.tail_kin import TailKin
from agent.tail_life import FileCause, FileState, LogCause, LogState
from agent.tail_logs import Position, digest
from agent.tail_options import TailOptions

_UNKNOWN = UNDECIDED | {FileState.DENIED}
_RESTLESS = _UNKNOWN | {FileState.DRAINING}


class Tail(TailKin):
    """Follows files. Every line is delivered once while this object lives, or once over several lives by `position`;
    bytes that could not be reached are reported as Gap. O(files) per listing, O(1) per read.
    """

    def __init__(
        self, options: TailOptions | None = None, position: Position | None = None, initial: bool | None = None
    ) -> None:
        """`initial`: files of the first listing that no log is known for begin where `read_from` says; without a position
        they always do."""
        super().__init__(options or TailOptions(), position)
        self._initial = position is None if initial is None else initial
        self._waiting = False
        self.room = 1 << 62
        """How many more logs may be begun; whoever counts them sets it before each event."""
        self.crowded = 0
        """Files that wait for that."""
        self._handlers: dict[type, Callable[[Any], None]] = {
            Listed: self._on_listed,
            Opened: self._on_opened,
            OpenFailed: self._on_open_failed,
            ReadDone: self._on_read_done,
            ReadPending: self._on_read_pending,
            ReadFailed: self._on_read_failed,
            StartFound: self._on_start_found,
            Compared: self._on_compared,
            Modified: self._on_modified,
            Turn: self._on_turn,
        }

    def handle(self, event: Event, now_s: float) -> list[Effect]:
        """What to do about `event`, in order. `now_s` is monotonic; answers to effects are events, too."""
        self._now = now_s
        self._effects = []
        self._handlers[type(event)](event)
        return self._effects

    def position(self) -> Position:
        """Where everything delivered so far ends. O(logs)."""
        return self.logs.position()

    @property
    def busy(self) -> bool:
        """Whether a turn would do something."""
        return bool(self._ready) or self._waiting

    @property
    def unsettled(self) -> bool:
        """Whether time alone may change something: listings should come often. O(files)."""
        return bool(self.logs.lost()) or any(
            file.state in _RESTLESS
            or (file.state is FileState.HELD and not self._sure_copy(file))
            for file in self.files.values()
        )

    @property
    def judged(self) -> bool:
        """Whether it is known of all files whose content they are, as far as there are descriptors. O(files)."""
        return self.full or not any(
            (file.state in UNDECIDED and not file.shelved) or self._can_prove(file) for file in self.files.values()
        )

    def _sure_copy(self, file: File) -> bool:
        """Whether only a change of the file can make it anything but a copy."""
        long = file.evidence_bytes >= self.options.proof_bytes
        if file.compressed and file.compared_bytes == file.end_bytes:
            return True
        if file.compressed:
            return file.awaited is None and (file.held_by is None or not self._outgrown(file, file.held_by))
        return long and file.compared_bytes == file.size_bytes

    # --- listings ---

    def _on_listed(self, event: Listed) -> None:
        if self._listings == 0:
            for log in self.logs.lost():
                log.lost_at = self._now
        self._listings += 1
        groups: dict[tuple[int, int], list[Seen]] = {}
        for seen in event.files:
            groups.setdefault((seen.device, seen.inode), []).append(seen)
        known = list(self.files.values())
        gone = [file for file in known if file.place not in groups]
        if self._listings == 1:
            for log in self.logs:
                log.away = None if log.place in groups else 1
                if log.place in groups and log.path not in (seen.path for seen in groups[log.place]):
                    log.moved_in = 1
        for file in known:
            if file.place in groups and self._is_another(file, groups[file.place]):
                self._vanished(file)
            elif file.place in groups:
                self._relisted(file, groups.pop(file.place))
        for group in groups.values():
            file = File(group[0], self._now, self._initial)
            file.found_in = self._listings
            file.seen_again(group, self._now)
            self.files[file.place] = file
        self._initial = False
        for looked in event.opened:
            self._looked_at(looked)
        for file in gone:
            self._unlisted(file)
        for file in list(self.files.values()):
            if file.state is FileState.HELD:
                self._review(file)
        self._drain()
        self._close_idle()
        self._open_waiting()
        self._give_up_lost()
        self.logs.forget(log for file in self.files.values() for log in (file.log, file.held_by) if log)

    def _unlisted(self, file: File) -> None:
        if file.listed:
            file.listed, file.unlisted_at = False, self._now
            if file.log is not None:
                file.log.away = self._listings
        if file.state in (FileState.READING, FileState.CAUGHT_UP):
            file.move(FileCause.UNLISTED)
            file.read_at = self._now
            self._enqueue(file)
        elif file.state in (FileState.FOUND, FileState.DENIED, FileState.CLOSED):
            # What is renamed while names are listed is in no listing, and nothing tells it from what is gone but the next.
            if file.log is not None or not self._is_there(file):
                self._vanished(file)
        elif file.state is FileState.EMPTY and file.size_bytes == 0:
            self._drop(file, FileCause.UNLISTED)
        elif file.state is FileState.EMPTY:
            file.move(FileCause.GREW)  # half a line is all it will have
            self._probe(file)
        elif file.state is FileState.HELD:
            self._unlisted_while_held(file)

    def _unlisted_while_held(self, file: File) -> None:
        """What is left of it is only in our hands: it is kept until it is known to be a copy, or not."""
        log = file.held_by
        assert log is not None
        if file.asked is not None:
            return
        if log.state is not LogState.LIVE:
            self._unhold(file, FileCause.DIFFERS)
            self._probe(file)
            return
        self._review(file)
        if file.held_by is not log:
            return
        proven = file.compared_bytes == file.end_bytes
        if proven or self._now - file.unlisted_at >= self.options.drain_s:
            if not proven:
                self._maybe_lost(file, file.evidence_bytes, file.evidence_bytes)
            self._drop(file, FileCause.UNLISTED)

    def _vanished(self, file: File) -> None:
        """A file without a descriptor is gone."""
        log, file.log = file.log, None
        self._drop(file, FileCause.UNLISTED)
        if log is not None:
            if not log.ignored:
                self._leave(log)
            else:
                self._finish(log)
            return
        start = file.first_bytes if file.initial and self._from_end(file) else 0
        if file.listed_bytes > start and not file.compressed:
            # What was in it may come back in a file not known yet, so then its bytes are not said to be missing.
            hope = any(self._may_hold(other, file) for other in self.files.values())
            key = FileKey(*file.place, digest(b"").hex(), NEVER_READ)
            self._emit(Gap(key, file.path, start, start if hope else file.listed_bytes, "unreadable", hope))

    def _may_hold(self, other: File, gone: File) -> bool:
        """Whether what a file held that nobody opened may be in that one."""
        return self._is_there(other) and (other.state in _UNKNOWN or other.found_in >= gone.found_in)

    def _is_there(self, file: File) -> bool:
        """Whether the next listing may have the file."""
        waits = self._now - file.unlisted_at < self.options.settle_s
        return file.listed or file.handle is not None or waits

    def _is_another(self, file: File, group: list[Seen]) -> bool:
        """Whether a file that was never opened is gone, and its inode another's."""
        waits = file.state in (FileState.FOUND, FileState.DENIED) and file.log is None
        return waits and not file.listed and group[-1].size_bytes < file.listed_bytes

    def _relisted(self, file: File, group: list[Seen]) -> None:
        renamed = file.seen_again(group, self._now)
        if renamed and file.log is not None and file.log.moved_in is None:
            file.log.moved_in = self._listings
        if renamed and file.state is FileState.DENIED and file.stat != file.failed_stat:
            file.compressed = False  # perhaps another file in that inode
        if file.state is FileState.DRAINING:
            file.move(FileCause.RELISTED)
            file.final = False
            if file.log is not None:
                file.log.away = None
            self._enqueue(file)
        # A closed file that has changed, too, may be another one with the same inode: reading it will tell.
        if not file.fresh and (file.handle is not None or file.stat == file.failed_stat):
            self._renamed(file)

    def _looked_at(self, looked: OpenSeen) -> None:
        file = self.open_files.get(looked.handle)
        if file is None or file.state is FileState.OPENING:
            return
        changed = looked.mtime_ns != file.mtime_ns or looked.size_bytes != file.size_bytes
        file.size_bytes, file.mtime_ns = looked.size_bytes, looked.mtime_ns
        file.unlinked = looked.links == 0
        if file.state is FileState.EMPTY and changed:
            file.move(FileCause.GREW)
            self._probe(file)
        elif file.state in (FileState.CAUGHT_UP, FileState.DRAINING) and (
            changed or looked.size_bytes != file.read_to
        ):
            self._more(file)
            file.unproven = not file.compressed
        elif changed:
            file.dirty = True
            file.unproven = file.state is FileState.READING and not file.compressed

    def _more(self, file: File) -> None:
        """There may be bytes to read, or the file was cut."""
        if file.compressed:
            return
        if file.state is FileState.CAUGHT_UP:
            file.move(FileCause.GREW)
        file.dirty = file.asked is not None
        if not file.dirty:
            self._enqueue(file)

    # --- limits and times, looked after at each listing ---

    def _drain(self) -> None:
        """Closes files that are no longer listed: when they rest, when their time is over, when there are too many."""
        draining = [file for file in self.files.values() if file.state is FileState.DRAINING]
        draining.sort(key=lambda file: (file.queued, file.unlisted_at))
        surplus = len(draining) - self.options.open_deleted_max
        for number, file in enumerate(draining):
            over = self._now - file.unlisted_at >= self.options.open_deleted_s
            rests = not file.queued and file.asked is None and self._now - file.read_at >= self.options.drain_s
            if number < surplus or over:
                self._abandon(file)
            elif rests and not file.final:
                file.final = True  # one more read, and what it finds is the end
                self._enqueue(file)

    def _abandon(self, file: File) -> None:
        log = file.log
        assert log is not None
        file.log = None
        log.place = None if file.unlinked else file.place
        self._drop(file, FileCause.DONE)
        if file.compressed:
            self._lose(log, LogCause.VANISHED, "deleted", open_ended=True)
        else:
            log.seen_bytes = max(log.seen_bytes, file.size_bytes)
            self._leave(log)

    def _close_idle(self) -> None:
        for file in self.files.values():
            rests = self._now - file.read_at >= self.options.idle_close_s
            if file.state is FileState.CAUGHT_UP and rests and not file.partial:
                self._close_resting(file)

    def _close_resting(self, file: File) -> None:
        file.move(FileCause.IDLE)
        file.stat = (file.size_bytes, file.mtime_ns)
        file.failed_stat = file.stat
        self._close(file)

    def _open_waiting(self) -> None:
        # A new file is compared with the logs known. Those in files that have just changed must be known anew first.
        blocked = any(
            file.unproven or (file.state is FileState.PROBING and not file.compressed)
            for file in self.open_files.values()
        )
        self._waiting, self.full, self.crowded = False, False, 0
        room = self.room - sum(file.log is None for file in self.open_files.values())
        homes = {log.place for log in self.logs if log.state is not LogState.FINISHED}
        for file in list(self.files.values()):
            file.crowded = False
            if not self._wants_open(file):
                continue
            if blocked and file.log is None:
                self._waiting = True
                continue
            if file.log is None and file.place not in homes:
                room -= 1
                if room < 0:
                    file.crowded = True
                    self.crowded += 1
                    continue
            if len(self.open_files) >= self.options.open_max and not self._spare():
                self.full = True
                return
            self._handles += 1
            file.handle = self._handles
            self.open_files[file.handle] = file
            file.move(FileCause.OPEN)
            self._emit(Open(file.handle, file.path))

    def _wants_open(self, file: File) -> bool:
        """Whether a file without a descriptor should get one. Those that were shut or broken must have changed."""
        if not file.listed:
            return False
        if file.state is FileState.DENIED:
            return self._now >= file.retry_at and file.stat != file.failed_stat
        if file.state is FileState.CLOSED:
            return file.stat != file.failed_stat
        return file.state is FileState.FOUND and not file.shelved

    def _spare(self) -> bool:
        """Closes the file that has rested longest."""
        resting = [
            file
            for file in self.open_files.values()
            if (file.state is FileState.CAUGHT_UP and not file.partial and file.size_bytes == file.read_to)
            or (file.state is FileState.EMPTY and file.listed and file.size_bytes == 0)
        ]
        if not resting:
            return False
        self._close_resting(min(resting, key=lambda file: file.read_at))
        return True

    def _give_up_lost(self) -> None:
        if any(file.state in UNDECIDED and not file.shelved for file in self.files.values()):
            return
        for log in self.logs.lost():
            if self._now - log.lost_at >= self.options.lost_wait_s:
                self._give_up(log)
                self._review_copies(log)

    # --- answers ---

    def _on_opened(self, event: Opened) -> None:
        file = self.open_files.get(event.handle)
        if file is None:
            self._emit(Close(event.handle))
            return
        if (event.device, event.inode) != file.place:
            file.move(FileCause.MISSED)
            self._close(file)
            self._emit(Relist())
            return
        file.size_bytes, file.mtime_ns = event.size_bytes, event.mtime_ns
        file.failed_stat = (event.size_bytes, event.mtime_ns)
        file.compressed = event.compressed
        if file.log is None or file.log.ignored:
            self._opened_new(file)
            return
        file.move(FileCause.REOPENED)
        self._reading(file)
        file.fresh = True

    def _opened_new(self, file: File) -> None:
        """Opened for the first time, or a file that was ignored and has changed."""
        log, file.log = file.log, None
        if log is not None:
            log.place = None
            self._finish(log)
        file.head = b""
        file.cleared.clear()
        file.move(FileCause.OPENED)
        self._probe(file)

    def _on_open_failed(self, event: OpenFailed) -> None:
        file = self.open_files.get(event.handle)
        if file is None:
            return
        if event.missing and file.log is None:
            file.move(FileCause.MISSED)
            self._close(file)
            self._emit(Relist())
            return
        self._refuse(file, FileCause.REFUSED, event.message)
        file.failed_stat = None

    def _refuse(self, file: File, cause: FileCause, message: str) -> None:
        if not file.troubled:
            self._emit(Trouble(file.path, message))
        file.troubled = True
        file.retry_at = self._now + self.options.retry_s
        file.move(cause)
        self._close(file)

    def _on_read_done(self, event: ReadDone) -> None:
        file = self.open_files.get(event.handle)
        if file is None or file.asked is None:
            return
        file.asked = None
        if file.state is FileState.PROBING:
            self._probed(file, event)
        elif file.state is FileState.HELD:
            self._measured(file, event)
        elif file.state in READABLE:
            self._read_on(file, event)

    def _on_read_pending(self, event: ReadPending) -> None:
        file = self.open_files.get(event.handle)
        if file is not None and file.asked is not None:
            file.pending = True
            self._enqueue(file)

    def _on_read_failed(self, event: ReadFailed) -> None:
        file = self.open_files.get(event.handle)
        if file is not None and file.state is FileState.HELD:
            file.asked = None  # an archive that is being written: it will change
        elif file is not None and file.asked is not None:
            self._refuse(file, FileCause.FAILED, event.message)
            if not file.compressed:
                file.failed_stat = None
            elif file.log is not None:  # a broken archive: the rest may be in another file
                log, file.log = file.log, None
                self._lose(log, LogCause.VANISHED, "unreadable", open_ended=True)

    def _on_start_found(self, event: StartFound) -> None:
        file = self.open_files.get(event.handle)
        if file is not None and file.starting:
            # The line at that place is too old, or was begun before it.
            self._begin(file, event.offset).skipping = event.offset > 0

    def _on_compared(self, event: Compared) -> None:
        file = self.open_files.get(event.handle)
        if file is None or file.state is not FileState.HELD or file.held_by is None or event.same is None:
            return
        home = self.files.get(file.held_by.place) if file.held_by.place is not None else None
        if event.same:
            file.compared_bytes = file.comparing_bytes
        elif home is not None and home.state in READABLE | {FileState.CAUGHT_UP}:
            # Different, or the log's own file was cut and has grown again: it must prove itself before that counts.
            file.differs = home.unproven = True
            self._more(home)

    def _on_modified(self, event: Modified) -> None:
        file = self.open_files.get(event.handle)
        if file is None:
            return
        if file.state in (FileState.CAUGHT_UP, FileState.DRAINING):
            self._more(file)
        elif file.state is FileState.EMPTY:
            file.move(FileCause.GREW)
            self._probe(file)
        elif file.state is FileState.HELD:
            self._emit(Relist())  # its size tells whether it grew or was cut
        else:
            file.dirty = True

    def _on_turn(self, event: Turn) -> None:
        if self._waiting:
            self._open_waiting()
        budget = self.options.turn_bytes_max
        waiting: list[File] = []
        for _ in range(len(self._ready)):
            if budget <= 0:
                break
            file = self._ready.popleft()
            file.queued = False
            if file.state in READABLE and not event.reads:
                if file.asked is None and self._can_prove(file):
                    self._request_proof(file)
                else:
                    waiting.append(file)
            elif file.pending and file.asked is not None:
                self._ask(file, *file.asked)
                budget -= self.options.read_bytes
            elif file.state in READABLE and file.asked is None:
                budget -= self._request(file)
        for file in waiting:
            self._enqueue(file)


def check(tail: Tail) -> None:
    """Raises InvariantError where the tail's own records contradict each other. O(files + logs)."""
    for problem in _problems(tail):
        raise InvariantError(problem)


def _problems(tail: Tail) -> list[str]:
    options = tail.options
    found = [f"{place} is filed under {file.place}" for place, file in tail.files.items() if place != file.place]
    found += [
        f"{file.path}: {file.state.value} and handle {file.handle}"
        for file in tail.files.values()
        if file.needs_handle != (file.handle is not None)
    ]
    found += [
        f"{file.path}: both a log and held" for file in tail.files.values() if file.log is not None and file.held_by
    ]
    found += [
        f"{file.path}: {file.state.value} without a log"
        for file in tail.files.values()
        if file.state in READABLE | {FileState.CAUGHT_UP, FileState.CLOSED} and file.log is None
    ]
    handled = {file.handle: file for file in tail.files.values() if file.handle is not None}
    if handled != tail.open_files:
        found.append("open files and files differ")
    if len(handled) > options.open_max:
        found.append(f"{len(handled)} files are open")
    homes: dict[FileKey, int] = {}
    for file in tail.files.values():
        if file.log is not None:
            homes[file.log.key] = homes.get(file.log.key, 0) + 1
    for log in tail.logs:
        count = homes.pop(log.key, 0)
        if count != (log.state is LogState.LIVE):
            found.append(f"log {log.key} is {log.state.value} and in {count} files")
        if not log.ignored and log.offset > log.seen_bytes:
            found.append(f"log {log.key} delivered {log.offset} of {log.seen_bytes} bytes")
        if len(log.head) > options.proof_bytes:
            found.append(f"log {log.key} keeps {len(log.head)} bytes of its head")
    if homes:
        found.append(f"files hold forgotten logs {list(homes)}")
    return found

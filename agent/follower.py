"""The tail on the real file system: lists, opens, reads and unpacks as the automaton asks. Synchronous; one thread.

    follower = Follower(["/var/log/nginx/access.log*"])
    while running:
        for found in follower.poll():
            ...                         # Deliver, Gap, Recovered, Rotated, Trouble
        follower.wait(1.0)
"""

from __future__ import annotations

import contextlib
import glob
import os
import select
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from agent.compression import BROKEN, MAGIC_BYTES, compression_of
from agent.inotify import FILE_MASK, FOLDER_MASK, IGNORED, MODIFY, OVERFLOW, Inotify
from agent.tail import Tail
from agent.tail_events import (
    Close,
    Compare,
    Compared,
    Deliver,
    Effect,
    Event,
    FindStart,
    Gap,
    Listed,
    Modified,
    Open,
    Opened,
    OpenFailed,
    OpenSeen,
    Read,
    ReadDone,
    ReadFailed,
    ReadPending,
    Recovered,
    Relist,
    Rotated,
    Seen,
    StartFound,
    Trouble,
    Turn,
)
from agent.tail_logs import Position
from agent.tail_options import TailOptions
from agent.unpacking import PackedFile

Found = Deliver | Gap | Recovered | Rotated | Trouble
StartFinder = Callable[[int, int], int]
"""(descriptor, size in bytes) -> offset of the first line wanted. See agent.since."""

POLL_INTERVAL_S = 0.25
"""How often files are looked at where there are no hints."""
RELIST_S = 5.0
"""How often they are, hints or not: network file systems and full event queues give none."""
COALESCE_S = 0.002
"""Least time between two reads: a server that writes line by line would otherwise wake us for each."""
UNPACK_BYTES_MAX = 4 << 20
"""Bytes of a compressed file that are skipped in one turn: about 10 ms of work."""


class Handle:
    """An open descriptor. `packed` is None for plain files; `certain` is False while it is too short to tell."""

    __slots__ = ("certain", "fd", "garbage_told", "packed", "path", "watch")

    def __init__(self, fd: int, path: str) -> None:
        self.fd, self.path = fd, path
        self.garbage_told = False
        self.watch = -1
        self.packed: PackedFile | None = None
        self.certain = False

    def identify(self) -> None:
        """Finds out whether the file is compressed."""
        kind = compression_of(os.pread(self.fd, MAGIC_BYTES, 0))
        self.certain = kind is not None and os.fstat(self.fd).st_size > 0
        if self.certain and kind is not None and kind != "none":
            self.packed = PackedFile(self.fd, kind)

    def read(self, offset: int, size_bytes: int) -> tuple[int, bytes, bool] | None:
        if not self.certain:
            self.identify()
            if not self.certain:
                return offset, b"", True
        if self.packed is not None:
            return self.packed.read(offset, size_bytes, UNPACK_BYTES_MAX)
        data = os.pread(self.fd, size_bytes, offset)
        return offset, data, len(data) < size_bytes

    def close(self) -> None:
        if self.packed is not None:
            self.packed.close()
        os.close(self.fd)


def matches(patterns: Iterable[str]) -> Iterator[Seen]:
    """The regular files that patterns name now."""
    names: dict[str, None] = {}
    for pattern in patterns:
        if glob.has_magic(pattern) and not os.path.lexists(pattern):
            names.update(dict.fromkeys(sorted(glob.glob(pattern, recursive=True))))
        else:
            names[pattern] = None
    for name in names:
        try:
            found = os.stat(name)
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode):
            yield Seen(name, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class Follower:
    """Follows the files that `patterns` name, now and later. Use as a context manager or call close.

    `position` is what `position()` returned in an earlier life; `initial` says that it may lack logs (see Tail).
    `find_start` is needed for read_from "since". Patterns that match nothing are no error: their files may come.
    """

    def __init__(
        self,
        patterns: Iterable[str | os.PathLike[str]],
        options: TailOptions | None = None,
        position: Position | None = None,
        *,
        find_start: StartFinder | None = None,
        initial: bool | None = None,
        hints: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.patterns = [os.fspath(pattern) for pattern in patterns]
        self.tail = Tail(options, position, initial)
        self._find_start, self._clock = find_start, clock
        self._handles: dict[int, Handle] = {}
        self._effects: deque[Effect] = deque()
        self._found: list[Found] = []
        self.garbage_count = 0
        """Archives with bytes behind their end that are no compressed data; each is told as Trouble, too."""
        self._listed_at: float | None = None
        self._list_wanted = True
        self._polled_at = 0.0
        self._watched: dict[int, int] = {}
        self._folders: dict[str, int] = {}
        self._unwatched = not hints
        self._inotify: Inotify | None = None
        if hints:
            try:
                self._inotify = Inotify()
            except OSError:
                self._unwatched = True

    def change(self, patterns: Iterable[str | os.PathLike[str]], options: TailOptions) -> None:
        """Other files, from the next poll on. What is open of files that are not named any more is read to its end. Sizes
        of proofs stay as they are."""
        self.patterns = [os.fspath(pattern) for pattern in patterns]
        self.tail.options = replace(options, proof_bytes=self.tail.options.proof_bytes)
        self._list_wanted = True

    def poll(self, reads: bool = True) -> list[Found]:
        """Reads what there is, one turn's worth, and returns it. Never blocks, save for the disk. Without `reads` no log is
        read on, but new files are found and opened, and none is lost sight of."""
        now = self._polled_at = self._clock()
        self._found = []
        modified = self._hints()
        if self._list_due(now):
            self._list()
        else:
            for handle in modified:
                self._tell(Modified(handle))
        self._work()
        if self.tail.busy:
            self._tell(Turn(reads))
            self._work()
        if self._list_wanted:  # names moved under our hands
            self._list()
            self._work()
        return self._found

    def wait(self, timeout_s: float) -> bool:
        """Sleeps until there may be something to read, at most `timeout_s`. Whether there may."""
        if self.tail.busy or self._list_wanted:
            return True
        now = self._clock()
        timeout = max(0.0, min(timeout_s, self._next_list(now) - now))
        if self._inotify is None:
            time.sleep(timeout)
        elif self._ready(timeout):
            spare = self._polled_at + COALESCE_S - self._clock()
            if spare > 0:
                time.sleep(spare)
            return True
        return self._list_due(self._clock())

    def has_looked(self, since_s: float) -> bool:
        """Whether names were listed after that time of its clock, and all files judged: what is not found then is not there.
        If not, the next poll lists them. O(files)."""
        if self._listed_at is not None and self._listed_at > since_s and self.tail.judged:
            return True
        self._list_wanted = True
        return False

    def due_s(self) -> float:
        """Seconds until a poll is due, hints or not."""
        return 0.0 if self._list_wanted else max(0.0, self._next_list(self._clock()) - self._clock())

    def descriptor(self, handle: int) -> Handle | None:
        """What is open under a handle of the tail."""
        return self._handles.get(handle)

    def fileno(self) -> int | None:
        """A descriptor that is readable when there are hints, for an event loop; None without inotify."""
        return None if self._inotify is None else self._inotify.fd

    def position(self) -> Position:
        """Where everything that `poll` has returned ends."""
        return self.tail.position()

    def close(self) -> None:
        """Closes all descriptors."""
        for handle in self._handles.values():
            handle.close()
        self._handles.clear()
        self._effects.clear()
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- hints ---

    def _ready(self, timeout_s: float) -> bool:
        assert self._inotify is not None
        poller = select.poll()
        poller.register(self._inotify.fd, select.POLLIN)
        return bool(poller.poll(timeout_s * 1000))

    def _hints(self) -> list[int]:
        """Handles of files that were written to. Sets _list_wanted when names moved."""
        if self._inotify is None:
            return []
        modified: dict[int, None] = {}
        for hint in self._inotify.read():
            handle = self._watched.get(hint.watch)
            if hint.mask & OVERFLOW:
                self._list_wanted = True
            elif handle is None or hint.mask & ~(MODIFY | IGNORED):
                self._list_wanted = self._list_wanted or not hint.mask & IGNORED
            if handle is not None and hint.mask & MODIFY:
                modified[handle] = None
        return list(modified)

    def _watch_file(self, number: int, handle: Handle) -> None:
        if self._inotify is None:
            return
        try:
            handle.watch = self._inotify.add(f"/proc/self/fd/{handle.fd}", FILE_MASK)
            self._watched[handle.watch] = number
        except OSError:
            self._unwatched = True  # no watches left: look at all files often

    def _watch_folders(self, paths: Iterable[str]) -> None:
        if self._inotify is None:
            return
        wanted = {os.path.dirname(path) or "." for path in paths}
        for pattern in self.patterns:
            folder = os.path.dirname(pattern) or "."
            wanted.update(glob.glob(folder, recursive=True) if glob.has_magic(folder) else [folder])
        for gone in self._folders.keys() - wanted:
            self._inotify.remove(self._folders.pop(gone))
        for folder in wanted:
            with contextlib.suppress(OSError):  # not there yet, or not ours to watch: RELIST_S finds its files
                self._folders[folder] = self._inotify.add(folder, FOLDER_MASK)

    # --- listings ---

    def _next_list(self, now: float) -> float:
        if self._listed_at is None:
            return now
        often = self._unwatched or self.tail.unsettled
        return self._listed_at + (POLL_INTERVAL_S if often else RELIST_S)

    def _list_due(self, now: float) -> bool:
        return self._list_wanted or now >= self._next_list(now)

    def _list(self) -> None:
        self._list_wanted = False
        self._listed_at = self._clock()
        files = tuple(matches(self.patterns))
        self._watch_folders(seen.path for seen in files)
        opened = []
        for number, handle in self._handles.items():
            found = os.fstat(handle.fd)
            opened.append(OpenSeen(number, found.st_size, found.st_mtime_ns, found.st_nlink))
        self._tell(Listed(files, tuple(opened)))

    # --- effects ---

    def _tell(self, event: Event) -> None:
        for effect in self.tail.handle(event, self._clock()):
            if isinstance(effect, Deliver | Gap | Recovered | Rotated | Trouble):
                self._found.append(effect)
            elif isinstance(effect, Relist):
                self._list_wanted = True
            elif isinstance(effect, Close):
                self._close(effect.handle)
            else:
                self._effects.append(effect)

    def _work(self) -> None:
        while self._effects:
            effect = self._effects.popleft()
            if isinstance(effect, Open):
                self._tell(self._open(effect))
            elif isinstance(effect, Read) and effect.handle in self._handles:
                self._tell(self._read(effect))
            elif isinstance(effect, FindStart) and effect.handle in self._handles:
                self._tell(self._start(effect))
            elif isinstance(effect, Compare):
                self._tell(self._compare(effect))

    def _open(self, effect: Open) -> Event:
        try:
            fd = os.open(effect.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return OpenFailed(effect.handle, True, "no such file")
        except OSError as error:
            return OpenFailed(effect.handle, False, error.strerror or str(error))
        handle = Handle(fd, effect.path)
        try:
            handle.identify()
            found = os.fstat(fd)
        except OSError as error:
            os.close(fd)
            return OpenFailed(effect.handle, False, error.strerror or str(error))
        self._handles[effect.handle] = handle
        self._watch_file(effect.handle, handle)
        return Opened(
            effect.handle, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, handle.packed is not None
        )

    def _read(self, effect: Read) -> Event:
        handle = self._handles[effect.handle]
        try:
            done = handle.read(effect.offset, effect.size_bytes)
        except EOFError:
            return ReadFailed(effect.handle, "the compressed data ends too early: still being written, or cut off")
        except BROKEN as error:
            return ReadFailed(effect.handle, f"the compressed data is damaged ({error})")
        except OSError as error:
            return ReadFailed(effect.handle, error.strerror or str(error))
        if done is None:
            return ReadPending(effect.handle)
        if handle.packed is not None and handle.packed.garbage and not handle.garbage_told:
            handle.garbage_told = True
            self.garbage_count += 1
            self._found.append(Trouble(handle.path, "bytes behind the end of the compressed data are ignored"))
        return ReadDone(effect.handle, *done, handle.packed is not None)

    def _start(self, effect: FindStart) -> Event:
        handle = self._handles[effect.handle]
        if self._find_start is None:
            return StartFound(effect.handle, 0)
        try:
            return StartFound(effect.handle, self._find_start(handle.fd, effect.size_bytes))
        except OSError:
            return StartFound(effect.handle, 0)

    def _compare(self, effect: Compare) -> Event:
        pieces = []
        for number in (effect.handle, effect.other):
            handle = self._handles.get(number)
            if handle is not None:
                with contextlib.suppress(OSError, *BROKEN):
                    done = handle.read(effect.offset, effect.size_bytes)
                    if done is not None and done[0] == effect.offset:
                        pieces.append(done[1])
        if len(pieces) < 2 or min(len(piece) for piece in pieces) < effect.size_bytes:
            return Compared(effect.handle, None)
        return Compared(effect.handle, pieces[0] == pieces[1])

    def _close(self, number: int) -> None:
        handle = self._handles.pop(number, None)
        if handle is None:
            return
        if self._inotify is not None and self._watched.get(handle.watch) == number:
            del self._watched[handle.watch]
            self._inotify.remove(handle.watch)
        handle.close()

"""Linux inotify through ctypes: hints that files were written to and names moved. Hints only; listings decide."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import NamedTuple

MODIFY, ATTRIB, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x4, 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF, OVERFLOW, IGNORED, ONLYDIR = 0x400, 0x800, 0x4000, 0x8000, 0x01000000
FILE_MASK = MODIFY | ATTRIB | MOVE_SELF
FOLDER_MASK = MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF | ONLYDIR
_EVENT = struct.Struct("iIII")
_BUFFER_BYTES = 64 << 10


class Hint(NamedTuple):
    """`watch` is the number `add` returned, -1 when hints were lost."""

    watch: int
    mask: int


class Inotify:
    """One inotify instance. Raises OSError where there is none (other systems, instance limit)."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        if not hasattr(library, "inotify_init1"):
            raise OSError(errno.ENOSYS, "this system has no inotify")
        self._add = library.inotify_add_watch
        self._remove = library.inotify_rm_watch
        self.fd: int = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise _error("inotify_init1")

    def add(self, path: str, mask: int) -> int:
        """Watches an inode; a second watch on the same one has the same number. Raises OSError (watch limit, no access)."""
        watch: int = self._add(self.fd, os.fsencode(path), mask)
        if watch < 0:
            raise _error(path)
        return watch

    def remove(self, watch: int) -> None:
        """Ends a watch; one that ended by itself is no error."""
        self._remove(self.fd, watch)

    def read(self) -> list[Hint]:
        """All hints waiting, without blocking."""
        hints: list[Hint] = []
        while True:
            try:
                data = os.read(self.fd, _BUFFER_BYTES)
            except BlockingIOError:
                return hints
            at = 0
            while at < len(data):
                watch, mask, _, name_bytes = _EVENT.unpack_from(data, at)
                hints.append(Hint(watch, mask))
                at += _EVENT.size + name_bytes
            if len(data) < _BUFFER_BYTES // 2:
                return hints

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)

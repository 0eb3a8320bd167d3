"""A file of fixed size, preallocated: writing into it needs no room on the disk."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from srt.automaton import WriteAt
from srt.data_dir import disk_error, sync_directory
from srt.errors import StoreError


class FixedFile:
    """Written by one thread."""

    def __init__(self, path: Path, size: int) -> None:
        """Opens it, or makes it: zeros, all of it allocated. StoreError: it cannot be had, or has another size."""
        self.path, self.size = path, size
        try:
            if not path.exists():
                _preallocate(path, size)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise disk_error(path, error) from error
        found = os.fstat(self._descriptor).st_size
        if found != size:
            os.close(self._descriptor)
            raise StoreError(
                f"{path} has {found} bytes, not {size}: it was made with other options, or by something else; "
                "move it away to start without it"
            )

    def read(self) -> bytes:
        """All of it. StoreError when the disk refuses."""
        parts, at = [], 0
        try:
            while at < self.size:
                parts.append(os.pread(self._descriptor, min(1 << 20, self.size - at), at))
                at += len(parts[-1]) or self.size
        except OSError as error:
            raise disk_error(self.path, error) from error
        return b"".join(parts)

    def write(self, change: WriteAt) -> None:
        """Not durable before `sync`. StoreError: outside the file, or the disk refuses."""
        if change.offset < 0 or change.offset + len(change.data) > self.size:
            raise StoreError(
                f"{self.path}: {len(change.data)} bytes at {change.offset} lie outside its {self.size}"
            )
        rest, at = memoryview(change.data), change.offset
        try:
            while rest:
                count = os.pwrite(self._descriptor, rest, at)
                rest, at = rest[count:], at + count
        except OSError as error:
            raise disk_error(self.path, error) from error

    def sync(self) -> None:
        """Makes what was written durable. StoreError: nothing is known of what was written since the last time; the pages
        that failed may count as clean to the system, so they have to be written again, not only synced."""
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise disk_error(self.path, error) from error

    def close(self) -> None:
        os.close(self._descriptor)


def _preallocate(path: Path, size: int) -> None:
    """Under another name until it is whole, so that a crash leaves no short file behind."""
    fresh = path.with_name(path.name + ".new")
    try:
        descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(fresh, path)
        sync_directory(path.parent)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise

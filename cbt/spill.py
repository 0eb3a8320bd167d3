"""Blocks on disk: one unnamed file in the spill directory, shared by all trees of a budget.

The file never has a name that stays (O_TMPFILE, or unlinked at once), so nothing is left of it when the process
ends, however it ends, nor when the disk is full. Space of blocks that are gone is used again, and the end of the file
is cut off when it is free. The first free stretch that is large enough is taken: O(n) per block for n stretches.
"""

from __future__ import annotations

import errno
import os
import tempfile
from bisect import bisect_left, insort
from collections import deque
from threading import Lock
from typing import NamedTuple

from cbt.errors import SpillError


class Extent(NamedTuple):
    """Where a block lies in the file."""

    offset: int
    size: int


class SpillFile:
    """The spill file of a directory; at most `bytes_max` long (None: as the disk allows). Thread-safe."""

    def __init__(self, directory: str, bytes_max: int | None = None) -> None:
        self.directory, self.bytes_max = directory, bytes_max
        self.bytes_used = 0
        """Of blocks that are in use."""
        self.bytes_written = 0
        """In all, ever."""
        self.length = 0
        self._free: list[Extent] = []  # by offset, never two that touch
        self._freed: deque[Extent] = deque()
        self._lock = Lock()
        self._file = -1
        self._closed = False

    def write(self, data: bytes) -> Extent:
        """Stores a block. Raises SpillError when the disk or the limit is full; nothing is kept of it then."""
        with self._lock:
            if self._closed:
                raise SpillError(f"the spill file in {self.directory} is closed")
            extent = self._reserve(len(data))
            try:
                self._write_all(data, extent.offset)
            except OSError as problem:
                self._release(extent)
                raise SpillError(self._explain(problem)) from problem
            self.bytes_used += extent.size
            self.bytes_written += extent.size
            return extent

    def read(self, extent: Extent) -> bytes:
        """The block as it was written. Raises SpillError when it cannot be read whole."""
        try:
            data = os.pread(self._file, extent.size, extent.offset)
        except OSError as problem:
            raise SpillError(f"the spill file in {self.directory} cannot be read: {problem.strerror}") from problem
        if len(data) != extent.size:
            raise SpillError(f"the spill file in {self.directory} is shorter than what was written to it")
        return data

    def free(self, extent: Extent) -> None:
        """Gives the space of a block back."""
        # Python may free a block anywhere, also while this thread is in here: then whoever holds the lock sees to it.
        self._freed.append(extent)
        if self._lock.acquire(blocking=False):
            try:
                self._take_back()
            finally:
                self._lock.release()

    def close(self) -> None:
        """Gives the file back. Nothing can be written or read any more."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1
            self._closed = True
            self._free, self.length, self.bytes_used = [], 0, 0

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()

    def check(self) -> None:
        """Raises SpillError unless free stretches and blocks add up to the file."""
        free = sum(extent.size for extent in self._free)
        ends = [extent.offset + extent.size for extent in self._free]
        touching = any(end >= after.offset for end, after in zip(ends, self._free[1:], strict=False))
        if touching or free + self.bytes_used != self.length or (ends and ends[-1] >= self.length):
            raise SpillError(f"{free} bytes free and {self.bytes_used} in use of {self.length}")

    def _take_back(self) -> None:
        while self._freed and self._file >= 0:
            extent = self._freed.popleft()
            self.bytes_used -= extent.size
            self._release(extent)

    def _reserve(self, size: int) -> Extent:
        self._take_back()
        for number, free in enumerate(self._free):
            if free.size >= size:
                if free.size == size:
                    del self._free[number]
                else:
                    self._free[number] = Extent(free.offset + size, free.size - size)
                return Extent(free.offset, size)
        if self.bytes_max is not None and self.length + size > self.bytes_max:
            raise SpillError(
                f"the spill file in {self.directory} has reached spill_max, {self.bytes_max:,} bytes: raise it "
                "or memory_max, or ask for fewer groups"
            )
        extent = Extent(self.length, size)
        self.length += size
        return extent

    def _release(self, extent: Extent) -> None:
        offset, size = extent
        number = bisect_left(self._free, extent)
        if number < len(self._free) and self._free[number].offset == offset + size:
            size += self._free.pop(number).size
        if number and self._free[number - 1].offset + self._free[number - 1].size == offset:
            before = self._free.pop(number - 1)
            offset, size = before.offset, before.size + size
        if offset + size == self.length:
            self.length = offset
            if self._file >= 0:
                os.ftruncate(self._file, offset)
        else:
            insort(self._free, Extent(offset, size))

    def _write_all(self, data: bytes, offset: int) -> None:
        if self._file < 0:
            with tempfile.TemporaryFile(dir=self.directory, prefix="elfstream-spill-") as unnamed:
                self._file = os.dup(unnamed.fileno())
        view = memoryview(data)
        while view:
            written = os.pwrite(self._file, view, offset)
            view, offset = view[written:], offset + written

    def _explain(self, problem: OSError) -> str:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            why, advice = "is full", "make room, choose another spill_dir, or raise memory_max"
            return f"the disk of the spill directory {self.directory} {why}: {advice}"
        if problem.errno == errno.EFBIG:
            return (
                f"the process may not write files of that size in the spill directory {self.directory}: raise its limit "
                "(ulimit -f), or set spill_max or memory_max"
            )
        why = problem.strerror or str(problem)
        return f"the spill directory {self.directory} cannot be written: {why}; choose another spill_dir"

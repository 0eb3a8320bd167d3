"""What a sink does to the disk, one call a step: a test replaces it by one that fails or stops at any of them."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from master.spark.errors import SwapError

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


class SinkDisk:
    """Raises OSError."""

    @contextmanager
    def create(self, path: Path) -> Iterator[BinaryIO]:
        """A new file, durable behind the block; in place of what is there."""
        with open(path, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())

    def rename(self, old: Path, new: Path) -> None:
        """In place of what is there, at once."""
        os.rename(old, new)

    def exchange(self, one: Path, other: Path) -> None:
        """Swaps two folders at once. Raises SwapError where the file system cannot."""
        rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if rename is None:
            raise SwapError(_cannot(one))
        if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) != 0:
            code = ctypes.get_errno()
            if code in (errno.EINVAL, errno.ENOSYS):
                raise SwapError(_cannot(one))
            raise OSError(code, os.strerror(code), str(one))

    def link(self, old: Path, new: Path) -> None:
        os.link(old, new)

    def make_folder(self, path: Path) -> None:
        """With those above it; they are durable."""
        missing = []
        while not path.is_dir():
            missing.append(path)
            path = path.parent
        for one in reversed(missing):
            one.mkdir(exist_ok=True)
            self.sync_folder(one.parent)

    def remove_tree(self, path: Path) -> None:
        """A folder with all that is in it, or a file."""
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()

    def sync_folder(self, path: Path) -> None:
        """The names in it are durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _cannot(path: Path) -> str:
    return f"{path}: this file system cannot swap two folders at once, so small files are not put together here"

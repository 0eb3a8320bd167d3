"""The work folder of a backfill: what is finished is kept there, so that a rerun goes on where the last run ended.

    DIR/backfill-ID/task-ID.elf       what one task made of its splits
    DIR/backfill-ID/counts-ID.elf     what all tasks of a stage counted
    DIR/backfill-ID/windows-ID.elf    the rows of one stretch of time

The first ID is the hash of all that the answer depends on but the files, the others of the files as they are now: one that
changed or was added makes new tasks and windows, and the rest holds. A file is written under another name and then renamed,
so it is there wholly or not at all, and tasks that run twice write the same. Executors that do not see the folder keep
nothing; then only the driver does.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

VERSION = 1
MAGIC = b"ELFK"
_numbers = count()


class WorkFolderError(Exception):
    """The work folder cannot be used; says which and why."""


def identity(*parts: Any) -> str:
    """A name for plain data: equal for equal data alone."""
    return blake2b(msgspec.msgpack.encode((VERSION, *parts)), digest_size=12).hexdigest()


class WorkFolder:
    """Kept pieces of one backfill. Several processes may use it at once."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    @staticmethod
    def made(directory: str, backfill: str) -> WorkFolder:
        """The folder of the backfill with this identity, made where it is new. Raises WorkFolderError."""
        path = Path(directory) / f"backfill-{backfill}"
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WorkFolderError(f"the work folder {path} cannot be made: {error.strerror}") from error
        return WorkFolder(str(path))

    @property
    def is_here(self) -> bool:
        """Whether this machine sees the folder."""
        return self.path.is_dir()

    def read(self, name: str) -> list[bytes] | None:
        """The records kept as `name`; None when there are none, or not all of them."""
        try:
            data = (self.path / f"{name}.elf").read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise WorkFolderError(f"{self.path / name}.elf cannot be read: {error.strerror}") from error
        if len(data) < 8 or data[:4] != MAGIC or zlib.crc32(data[8:]) != int.from_bytes(data[4:8], "little"):
            return None
        try:
            return msgspec.msgpack.decode(data[8:], type=list[bytes])
        except msgspec.DecodeError:
            return None

    def write(self, name: str, records: Iterable[bytes]) -> None:
        """Keeps records; whatever was kept as `name` is replaced. Raises WorkFolderError."""
        body = msgspec.msgpack.encode(list(records))
        path = self.path / f"{name}.elf"
        part = path.with_suffix(f".{os.getpid()}-{next(_numbers)}.part")
        try:
            with open(part, "wb") as file:
                file.write(MAGIC + zlib.crc32(body).to_bytes(4, "little"))
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise WorkFolderError(
                f"{path} cannot be written: {error.strerror}; free space there, or choose another work folder"
            ) from error

    def count(self, kind: str) -> int:
        """How many pieces of a kind (task, windows) are kept."""
        return sum(1 for _ in self.path.glob(f"{kind}-*.elf"))

    def remove(self) -> None:
        """Removes all that was kept, and the folder around it when nothing else is in there."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            self.path.parent.rmdir()

"""The directory of a node: held by one process at a time, and who the node is (docs/DAEMON.md)."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from srt.errors import StoreError
from srt.ids import ID_BYTES

LOCK, NODE = "lock", "node"
NODE_ID_BYTES = 16

_ADVICE = {
    errno.EACCES: "give the user of this process the right to write there (chown)",
    errno.EPERM: "give the user of this process the right to write there (chown)",
    errno.EROFS: "the file system is mounted read-only",
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "the quota is used up: free some space",
    errno.EFBIG: "the process may not write files of this size (ulimit -f)",
    errno.ENOTDIR: "a part of the path is a file: name another directory",
    errno.EEXIST: "it is no directory: name another one",
    errno.EIO: "the disk reports an error: look at the kernel's log",
    errno.EMFILE: "the process has too many files open: raise its limit (ulimit -n)",
    errno.ENOLCK: "the file system has no locks: put the directory on a local disk",
}


def disk_error(path: Path, error: OSError) -> StoreError:
    """What the system said about a path, and what to do about it."""
    advice = _ADVICE.get(error.errno or 0)
    return StoreError(f"{path}: {error.strerror or error}" + (f"; {advice}" if advice else ""))


class Identity(NamedTuple):
    """Who a node is, from now until it stops."""

    node_id: bytes
    """Random, made at the first start."""
    boot: int
    """Starts so far, this one among them."""

    @property
    def ring_id(self) -> bytes:
        """Its place on the ring: the first bytes of SHA-256(node id)."""
        return sha256(self.node_id).digest()[:ID_BYTES]


class _NodeFile(msgspec.Struct, forbid_unknown_fields=True):
    node: Annotated[str, Meta(pattern=f"^[0-9a-f]{{{2 * NODE_ID_BYTES}}}$")]
    boot: Annotated[int, Meta(ge=1, le=2**63 - 2)]


class DataDir:
    """A directory that is ours until `close`. Use it as a context."""

    def __init__(self, path: Path) -> None:
        """Makes the directory if need be, and locks it. StoreError: it cannot be used, or another process holds it."""
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise disk_error(path, error) from error
        self._lock = self._locked(path / LOCK)

    def _locked(self, lock: Path) -> int:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise disk_error(lock, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 20, 0).strip().decode("ascii", "replace") or "unknown"
            os.close(descriptor)
            raise StoreError(
                f"{self.path} is in use by another node (process {holder}): stop it, or name another data_dir"
            ) from None
        except OSError as error:
            os.close(descriptor)
            raise disk_error(lock, error) from error
        # The number is for people alone: a full disk must not keep a node from starting.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        return descriptor

    def identity(self) -> Identity:
        """Counts one more start, durably, and makes a node id at the first. Once per start. StoreError when it cannot."""
        path = self.path / NODE
        try:
            before: _NodeFile | None = msgspec.json.decode(path.read_bytes(), type=_NodeFile)
        except FileNotFoundError:
            before = None
        except OSError as error:
            raise disk_error(path, error) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(
                f"{path} cannot be read ({error}): put back a copy, or empty {self.path} to start as another node"
            ) from error
        now = _NodeFile(os.urandom(NODE_ID_BYTES).hex(), 1) if before is None else before
        if before is not None:
            now.boot += 1
        write_whole(path, msgspec.json.encode(now) + b"\n")
        return Identity(bytes.fromhex(now.node), now.boot)

    def close(self) -> None:
        """Lets others have the directory."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> DataDir:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def write_whole(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replaces a file: after a crash it has the old bytes or the new ones. StoreError when the disk refuses."""
    fresh = path.with_name(path.name + ".new")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(fresh, path)
        sync_directory(path.parent)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        raise disk_error(path, error) from error


def sync_directory(path: Path) -> None:
    """Makes the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

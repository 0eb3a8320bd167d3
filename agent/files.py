"""Files to blocks that end at a line end: plain, gzip, zstd, bzip2 and xz, standard input, globs.

The kind of a file is told by its first bytes, not by its name. Plain files are read by position, so that a block
starts at a line and no byte is copied; compressed ones are read as streams and carry half a line over.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from stat import S_ISREG
from typing import BinaryIO, NamedTuple

from agent.compression import BROKEN, MAGIC_BYTES, GzipStream, Stream, compression_of, unpacked
from agent.errors import InputError

BLOCK_BYTES = 1 << 20
"""Bytes of a block: about the size of a core's second-level cache."""
LINE_BYTES_MAX = 4 << 20
"""A longer line is handed over cut (the scan rejects it as too_long) and skipped to its end."""
DENIED = "permission denied; logs are often readable by root and the group adm only"
STDIN = "-"


class Block(NamedTuple):
    """`data[:stop]` are whole lines (at the end of a file the last one may lack its LF); `offset` is the place of the
    first byte in the file's uncompressed bytes. A line beyond LINE_BYTES_MAX is a block of its own: its first bytes, and
    how many more were `skipped`, not counting its LF."""

    data: bytes
    stop: int
    offset: int
    skipped: int = 0


def expand(patterns: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The files that `patterns` name, globs expanded and sorted, each once, "-" kept. Raises InputError."""
    found: dict[str, None] = {}
    for given in patterns:
        pattern = os.fspath(given)
        if pattern == STDIN or os.path.lexists(pattern):
            names = [pattern]
        else:
            names = sorted(glob.glob(pattern, recursive=True))
            if not names:
                if (folder := closed_folder(pattern)) is not None:
                    raise InputError(folder, DENIED)
                raise InputError(pattern, "no such file, and nothing matches it as a pattern")
        for name in names:
            if os.path.isdir(name):
                if name == pattern:
                    raise InputError(name, f"is a folder; name its files, such as {name.rstrip('/')}/*")
                continue
            found[name] = None
    return list(found)


def closed_folder(pattern: str) -> str | None:
    """The folder that must be looked into for `pattern` and may not be: what is in it cannot be told from what is not
    there. None when the folders in front of the first wildcard are open, or are not there."""
    folder = os.path.dirname(pattern)
    while glob.has_magic(folder):
        folder = os.path.dirname(folder)
    needed = os.R_OK | os.X_OK if glob.has_magic(pattern) else os.X_OK
    while folder:
        if os.path.isdir(folder):
            return None if os.access(folder, needed) else folder
        folder, needed = os.path.dirname(folder.rstrip("/")), os.X_OK
    return None


class LogFile:
    """One log, opened for a single pass. Use as a context manager; not thread-safe.

    `head` are its first bytes (at most BLOCK_BYTES, uncompressed) for those who must look before they read; `size_bytes`
    its size on disk (None for streams), of which `done_bytes` were read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.offset = 0
        self._closers: list[Callable[[], None]] = []
        try:
            self._raw = self._open(path)
            self._fd = self._raw.fileno()
            self.size_bytes = os.fstat(self._fd).st_size if self._raw.seekable() else None
            magic = self._raw.peek(MAGIC_BYTES)[:MAGIC_BYTES]  # type: ignore[attr-defined]
            self.compression = compression_of(magic) or "none"
            # Standard input may be a file of which somebody else has read the start.
            is_at_start = self.size_bytes is not None and self._raw.tell() == 0
            self._positioned = self.compression == "none" and is_at_start
            self._stream = self._decompressed()
            self.head = self._read_head()
        except InputError:
            self.close()
            raise
        except (OSError, *BROKEN) as error:
            self.close()
            raise input_error(path, error) from error

    def _open(self, path: str) -> BinaryIO:
        if path == STDIN:
            if sys.stdin is None:
                raise InputError(path, "standard input is closed; name a file or pipe a log in")
            return sys.stdin.buffer
        raw = open(path, "rb")  # noqa: SIM115  (closed by close)
        self._closers.append(raw.close)
        return raw

    def _decompressed(self) -> Stream:
        if self.compression == "none":
            return self._raw
        stream = unpacked(self._raw, self.compression)
        self._closers.insert(0, stream.close)
        return stream

    def _read_head(self) -> bytes:
        if self._positioned:
            return os.pread(self._fd, BLOCK_BYTES, 0)
        return _read_full(self._stream, BLOCK_BYTES)

    def packed_head(self, size_bytes: int) -> bytes:
        """The first bytes as they are on disk, of a file that has a size."""
        return os.pread(self._fd, size_bytes, 0)

    @property
    def done_bytes(self) -> int:
        """Bytes of the file on disk that were read."""
        if self._positioned or self.size_bytes is None:
            return self.offset
        return self._raw.tell()

    @property
    def garbage(self) -> bool:
        """Whether bytes behind the end of the compressed data were met, and ignored, as gzip(1) does."""
        return isinstance(self._stream, GzipStream) and self._stream.garbage

    def blocks(self) -> Iterator[Block]:
        """All bytes of the file as blocks of whole lines. Raises InputError where the file cannot be read on."""
        size = self.size_bytes or 0  # what is appended from now on is for the next run
        try:
            yield from self._positioned_blocks(size, size) if self._positioned else self._stream_blocks()
        except (OSError, *BROKEN) as error:
            raise input_error(self.path, error) from error

    def section(self, start: int, stop: int, size_bytes: int) -> Iterator[Block]:
        """The lines that begin at a byte of [start, stop), as blocks, of a plain file taken to end at byte `size_bytes`: cut
        anywhere, the sections of a file have each line once. Raises InputError, also where the file is shorter."""
        if not self._positioned or (self.size_bytes or 0) < size_bytes:
            raise InputError(self.path, f"has no {size_bytes} bytes that can be read by position; leave it be meanwhile")
        try:
            self.offset = self._line_start(start, stop)
            yield from self._positioned_blocks(stop, size_bytes)
            if self.offset < stop:
                raise InputError(self.path, "got shorter while it was read; leave it be meanwhile")
        except OSError as error:
            raise input_error(self.path, error) from error

    def _line_start(self, start: int, stop: int) -> int:
        """Where the first line begins at or after `start`; `stop` when none does before it."""
        at = start - 1
        while 0 <= at < stop - 1:
            data = os.pread(self._fd, min(BLOCK_BYTES, stop - 1 - at), at)
            if not data:
                return at
            end = data.find(b"\n")
            if end >= 0:
                return at + end + 1
            at += len(data)
        return stop if start else 0

    def _positioned_blocks(self, last: int, size: int) -> Iterator[Block]:
        """The lines from `offset` on that begin before `last`, of the first `size` bytes."""
        want = BLOCK_BYTES
        while self.offset < last:
            data = os.pread(self._fd, min(want, size - self.offset), self.offset)
            if not data:
                return  # cut short meanwhile
            at_end = self.offset + len(data) >= size
            stop = len(data) if at_end else data.rfind(b"\n") + 1
            if self.offset + stop > last:
                stop = data.find(b"\n", last - self.offset - 1) + 1 or stop
            if stop == 0 and want <= LINE_BYTES_MAX:
                want *= 2
                continue
            start = self.offset
            self.offset += stop or len(data)
            if stop == 0:
                yield Block(data, len(data), start, self._skip_line(size))
            else:
                yield Block(data, stop, start)
            want = BLOCK_BYTES

    def _skip_line(self, size: int) -> int:
        """Goes behind the line's LF, at most to byte `size`; how many bytes stood in front of that."""
        start = self.offset
        while data := os.pread(self._fd, min(BLOCK_BYTES, size - self.offset), self.offset):
            end = data.find(b"\n")
            if end >= 0:
                self.offset += end + 1
                return self.offset - start - 1
            self.offset += len(data)
        return self.offset - start

    def _stream_blocks(self) -> Iterator[Block]:
        rest, chunk = b"", self.head
        self.head = b""
        while chunk:
            data = rest + chunk if rest else chunk
            start, stop = self.offset, data.rfind(b"\n") + 1
            if stop:
                self.offset += stop
                yield Block(data, stop, start)
                rest = data[stop:]
            elif len(data) > LINE_BYTES_MAX:
                self.offset += len(data)
                skipped, rest = self._skip_stream()
                yield Block(data, len(data), start, skipped)
            else:
                rest = data
            chunk = self._stream.read(BLOCK_BYTES)
        if rest:
            start = self.offset
            self.offset += len(rest)
            yield Block(rest, len(rest), start)

    def _skip_stream(self) -> tuple[int, bytes]:
        """Reads to the end of the line: how many bytes stood in front of its LF, and what was read behind that."""
        start = self.offset
        while chunk := self._stream.read(BLOCK_BYTES):
            end = chunk.find(b"\n")
            if end >= 0:
                self.offset += end + 1
                return self.offset - start - 1, chunk[end + 1 :]
            self.offset += len(chunk)
        return self.offset - start, b""

    def close(self) -> None:
        """Closes what was opened; standard input stays open."""
        for close in self._closers:
            close()
        self._closers = []

    def __enter__(self) -> LogFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Inputs:
    """The files of a query. Standard input and pipes can be read only once, so `head` keeps them open for `open`."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = list(paths)
        self._kept: dict[str, LogFile] = {}

    def open(self, path: str) -> LogFile:
        """The file, ready for its single pass. Raises InputError."""
        return self._kept.pop(path, None) or LogFile(path)

    def head(self) -> tuple[str, bytes]:
        """The first file that starts with more than blank lines, and its first bytes; without one ("", b"").

        Raises InputError.
        """
        for path in self.paths:
            file = self.open(path)
            head = file.head
            if path == STDIN or file.size_bytes is None:
                self._kept[path] = file
            else:
                file.close()
            if head.strip():
                return path, head
        return "", b""

    def total_bytes(self) -> int | None:
        """Bytes on disk of all files; None when one of them has no size."""
        if STDIN in self.paths:
            return None
        try:
            status = [os.stat(path) for path in self.paths]
        except OSError:
            return None
        return sum(each.st_size for each in status) if all(S_ISREG(each.st_mode) for each in status) else None


def _read_full(stream: Stream, size: int) -> bytes:
    """`size` bytes, or all there are: a pipe hands them out in pieces."""
    parts: list[bytes] = []
    while size > 0 and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def input_error(path: str, error: BaseException) -> InputError:
    """What the system or a decompressor said about a file, as people can use it."""
    if isinstance(error, FileNotFoundError):
        return InputError(path, "no such file")
    if isinstance(error, PermissionError):
        return InputError(path, DENIED)
    if isinstance(error, EOFError):
        return InputError(path, "the compressed data ends too early; the file was cut off, copy it again")
    if isinstance(error, BROKEN):
        return InputError(path, f"the compressed data is damaged ({error}); copy the file again")
    return InputError(path, getattr(error, "strerror", None) or str(error))

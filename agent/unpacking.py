"""Reading compressed files by uncompressed offset: forward from where the last read ended, or again from the start."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from typing import IO, cast

import zstandard

MAGIC_BYTES = 6
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
)
BROKEN = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, zstandard.ZstdError)
"""What reading an unfinished or damaged file raises, beside OSError."""
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_HEADER_BYTES = 18


def compression_of(head: bytes) -> str | None:
    """How a file is packed that begins with `head`: "none" or a name; None while too few bytes are there to tell."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
        if len(head) < len(magic) and magic.startswith(head):
            return None
    return "none"


class PackedFile:
    """A descriptor of a compressed file, read as the bytes it was made from. The descriptor stays the caller's."""

    def __init__(self, fd: int, kind: str) -> None:
        self._fd, self._kind = fd, kind
        self._stream: IO[bytes] | None = None
        self._raw: IO[bytes] | None = None
        self._position = 0
        self._last, self._last_at = b"", 0
        """The last bytes handed out: a tail reads on a little before where it stopped."""

    def read(self, offset: int, size_bytes: int, budget_bytes: int) -> tuple[int, bytes, bool] | None:
        """(offset, data, end) as ReadDone wants them; None when `budget_bytes` were unpacked and `offset` is not reached
        yet. Raises one of BROKEN or OSError."""
        if self._stream is None or offset < self._last_at:
            self._rewind()
        if offset > self._position and not self._skip(offset, budget_bytes):
            return None
        if offset > self._position:  # the file is shorter
            return self._position, b"", True
        kept = self._last[offset - self._last_at :]
        more = self._take(size_bytes - len(kept)) if len(kept) < size_bytes else b""
        data = (kept + more)[:size_bytes] if kept else more
        self._last = kept + more if kept else more
        self._last_at = offset
        return offset, data, len(data) < size_bytes

    def _skip(self, offset: int, budget_bytes: int) -> bool:
        """Whether `offset` or the end was reached within the budget."""
        while self._position < offset:
            if budget_bytes <= 0:
                return False
            data = self._take(min(offset - self._position, 1 << 18))
            if not data:
                break
            budget_bytes -= len(data)
        self._last, self._last_at = b"", self._position
        return True

    def _take(self, size_bytes: int) -> bytes:
        assert self._stream is not None
        parts: list[bytes] = []
        while size_bytes > 0 and (part := self._stream.read(size_bytes)):
            parts.append(part)
            size_bytes -= len(part)
            self._position += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _rewind(self) -> None:
        self.close()
        if self._kind == "zstd":
            check_zstd_ends(self._fd)
        os.lseek(self._fd, 0, os.SEEK_SET)
        self._raw = raw = open(self._fd, "rb", closefd=False)  # noqa: SIM115  (closed by close)
        if self._kind == "gzip":
            self._stream = cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
        elif self._kind == "zstd":
            reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=False)
            self._stream = cast("IO[bytes]", reader)
        elif self._kind == "bzip2":
            self._stream = bz2.BZ2File(raw)
        else:
            self._stream = lzma.LZMAFile(raw)  # noqa: SIM115
        self._position, self._last, self._last_at = 0, b"", 0

    def close(self) -> None:
        """Lets go of the decompressor."""
        for stream in (self._stream, self._raw):
            if stream is not None:
                stream.close()
        self._stream = self._raw = None


def check_zstd_ends(fd: int) -> None:
    """Raises EOFError unless the file ends where a frame ends: the decompressor itself takes any end for the end.

    Walks the block headers (RFC 8878, 3.1.1); O(blocks), a block is at most 128 KiB.
    """
    size, at = os.fstat(fd).st_size, 0
    while at < size:
        head = os.pread(fd, _ZSTD_HEADER_BYTES, at)
        magic = int.from_bytes(head[:4], "little")
        if magic & 0xFFFFFFF0 == 0x184D2A50:  # a skippable frame
            at += 8 + int.from_bytes(head[4:8], "little")
            continue
        if magic != _ZSTD_MAGIC:
            raise zstandard.ZstdError("bytes that are no frame")
        at += zstandard.frame_header_size(head)
        last = False
        while not last:
            block = os.pread(fd, 3, at)
            if len(block) < 3:
                raise EOFError
            value = int.from_bytes(block, "little")
            last, kind, length = bool(value & 1), value >> 1 & 3, value >> 3
            at += 3 + (1 if kind == 1 else length)
        at += 4 if head[4] & 4 else 0  # a checksum
    if at > size:
        raise EOFError

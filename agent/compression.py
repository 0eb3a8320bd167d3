"""Which compression a file has, and its content as a stream."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from typing import IO, BinaryIO, Protocol, cast

import zstandard

from agent.zstd_stream import ZstdStream

MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
)
"""First bytes and the name of what they begin."""
MAGIC_BYTES = max(len(magic) for magic, _ in MAGIC)
BROKEN = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, zstandard.ZstdError)
"""What reading an unfinished or damaged file raises, beside OSError."""
GZIP_INPUT_BYTES = 64 << 10


class Stream(Protocol):
    """Unpacked bytes, forward only."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes, none at the end. Raises one of BROKEN or OSError."""

    def close(self) -> None:
        """Lets go of the decompressor."""


def compression_of(head: bytes) -> str | None:
    """How a file is packed that begins with `head`: "none" or a name; None while too few bytes are there to tell."""
    for magic, kind in MAGIC:
        if head.startswith(magic):
            return kind
        if len(head) < len(magic) and magic.startswith(head):
            return None
    return "none"


def unpacked(raw: BinaryIO, kind: str) -> Stream:
    """The content of `raw`, which is packed as `kind` and stays the caller's to close. Raises KeyError for other kinds."""
    if kind == "gzip":
        return GzipStream(raw)
    if kind == "zstd":
        return ZstdStream(raw)
    if kind == "bzip2":
        return cast("IO[bytes]", bz2.BZ2File(raw))
    if kind == "xz":
        return cast("IO[bytes]", lzma.LZMAFile(raw))
    raise KeyError(kind)


class GzipStream:
    """Member after member of `raw`, unpacked, as gzip(1) does it: zero bytes behind a member are padding, and other bytes
    there are ignored with a warning, which is `garbage` here. Memory: O(size of a read)."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._rest = b""  # packed, not unpacked yet
        self._member: zlib._Decompress | None = None
        self._members = 0
        self.garbage = False
        """Whether bytes that are no gzip data follow the last member."""

    def read(self, size: int, /) -> bytes:
        """`size` bytes, fewer only at the end. Raises EOFError where a member is cut short, zlib.error, BadGzipFile."""
        parts: list[bytes] = []
        while size > 0:
            if self._member is None and not self._next_member():
                break
            assert self._member is not None
            packed = self._rest or self._raw.read(GZIP_INPUT_BYTES)
            part = self._member.decompress(packed, size)
            self._rest = self._member.unconsumed_tail
            if self._member.eof:
                self._rest, self._member = self._member.unused_data, None
            elif not packed and not part:
                raise EOFError("a gzip member is cut short")
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _next_member(self) -> bool:
        if self.garbage:
            return False
        if self._members:
            self._rest = self._rest.lstrip(b"\0")
            while not self._rest and (more := self._raw.read(GZIP_INPUT_BYTES)):
                self._rest = more.lstrip(b"\0")
        if len(self._rest) < 2:
            self._rest += self._raw.read(GZIP_INPUT_BYTES)
        if not self._rest:
            return False
        if not self._rest.startswith(MAGIC[0][0]):
            if not self._members:
                raise gzip.BadGzipFile("no gzip data")
            self.garbage = True
            return False
        self._members += 1
        self._member = zlib.decompressobj(16 + zlib.MAX_WBITS)
        return True

    def close(self) -> None:
        """Forgets what was not read."""
        self._rest, self._member = b"", None

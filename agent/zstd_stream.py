"""The content of a zstd file as a stream that knows where its frames end.

The stream reader of `zstandard` ends quietly where its input ends, also in the middle of a frame; a log cut short would
answer as if it were whole.
"""

from __future__ import annotations

from typing import BinaryIO

import zstandard

INPUT_BYTES = 1024
"""Compressed bytes unpacked at once. A block of 4 bytes can hold 128 KiB, so at most 32 MiB come out of them."""


class ZstdStream:
    """Frame after frame of `raw`, unpacked. Closing `raw` is left to its owner."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._rest = b""  # packed, behind the end of a frame
        self._ready = b""  # unpacked, not read yet
        self._frame: zstandard.ZstdDecompressionObj | None = None

    def read(self, size: int) -> bytes:
        """`size` bytes, fewer only at the end. Raises EOFError where the last frame is cut short, zstandard.ZstdError."""
        parts, missing = [self._ready], size - len(self._ready)
        while missing > 0 and (packed := self._rest or self._raw.read(INPUT_BYTES)):
            if self._frame is None:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            parts.append(self._frame.decompress(packed))
            missing -= len(parts[-1])
            self._rest = self._frame.unused_data
            if self._frame.eof:
                self._frame = None
        if missing > 0 and self._frame is not None:
            raise EOFError("a zstd frame is cut short")
        data = b"".join(parts)
        self._ready = data[size:]
        return data[:size]

    def close(self) -> None:
        """Forgets what was not read."""
        self._rest, self._ready, self._frame = b"", b"", None

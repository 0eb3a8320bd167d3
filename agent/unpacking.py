"""Reading compressed files by uncompressed offset: forward from where the last read ended, or again from the start."""

from __future__ import annotations

import os
from typing import BinaryIO

from agent.compression import GzipStream, Stream, unpacked


class PackedFile:
    """A descriptor of a compressed file, read as the bytes it was made from. The descriptor stays the caller's."""

    def __init__(self, fd: int, kind: str) -> None:
        self._fd, self._kind = fd, kind
        self._stream: Stream | None = None
        self._raw: BinaryIO | None = None
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
        os.lseek(self._fd, 0, os.SEEK_SET)
        self._raw = open(self._fd, "rb", closefd=False)  # noqa: SIM115  (closed by close)
        self._stream = unpacked(self._raw, self._kind)
        self._position, self._last, self._last_at = 0, b"", 0

    @property
    def garbage(self) -> bool:
        """Whether bytes behind the compressed data were met, and ignored."""
        return isinstance(self._stream, GzipStream) and self._stream.garbage

    def close(self) -> None:
        """Lets go of the decompressor."""
        for stream in (self._stream, self._raw):
            if stream is not None:
                stream.close()
        self._stream = self._raw = None

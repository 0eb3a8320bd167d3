"""Rejected lines as they are kept: in a file, and as samples."""

from __future__ import annotations

TOO_LONG = "too_long"
TOO_LONG_KEPT_BYTES = 64 << 10
"""What is kept of a line that is too long: enough to see what it is."""


def kept_line(text: bytes, reason: str, size_bytes: int) -> bytes:
    """A rejected line for `--rejects`: byte by byte as it stands in the log, with an LF. One that is too long is cut, and
    says so at its end."""
    if reason != TOO_LONG:
        return text + b"\n"
    kept = text[:TOO_LONG_KEPT_BYTES]
    return kept + f" [elfstream: cut, {len(kept)} of {size_bytes} bytes]\n".encode()


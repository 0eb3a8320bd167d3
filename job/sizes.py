"""Sizes as people write them."""

from __future__ import annotations

import re

_SIZE = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*(?:([KMGT])i?)?B?\s*", re.IGNORECASE | re.ASCII)
_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def size_bytes(text: str | int) -> int:
    """`64MiB`, `1.5GiB` or a number of bytes; `MB` and `M` are 2**20 bytes, too. Raises ValueError for anything else."""
    if isinstance(text, int):
        return text
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no size; write 64MiB, 1GiB or a number of bytes")
    return int(float(found[1]) * (1 << _SHIFTS[(found[2] or "").lower()]))

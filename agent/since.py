"""Where to begin in an old log: bisection on time over a file whose lines are nearly sorted."""

from __future__ import annotations

from collections.abc import Callable

BLOCK_BYTES = 64 << 10
"""The search ends at a stretch of so many bytes: reading it costs less than narrowing it further."""


def first_offset(
    size_bytes: int, time_at: Callable[[int], float | None], since: float, block_bytes: int = BLOCK_BYTES
) -> int:
    """An offset at most `block_bytes` before the first line with a time of at least `since`, 0 when all lines may be.

    `time_at(offset)` is the time of the first whole line that begins at or after `offset`; None when there is none that can
    be read. Lines out of order by d seconds ask for `since` - d. The offset need not be the start of a line, save 0: what
    comes before the first line end after it is to be skipped. O(log(size / block)) calls.
    """
    low, high = 0, size_bytes  # every line before low is too old
    while high - low > block_bytes:
        middle = (low + high) // 2
        time = time_at(middle)
        if time is None or time >= since:
            high = middle
        else:
            low = middle
    return low

"""Durations as people write them, in settings of jobs, configuration files, requests and options."""

from __future__ import annotations

import re
from decimal import Decimal

SECOND_US = 1_000_000
UNITS_US = {
    "us": 1,
    "ms": 1000,
    "s": SECOND_US,
    "m": 60 * SECOND_US,
    "h": 3600 * SECOND_US,
    "d": 86400 * SECOND_US,
}
DURATION_MAX_US = 100 * 365 * UNITS_US["d"]
"""Shorter than the longest time that a system lets wait for."""
HOW = "write 500ms, 10s, 5m, 1h or 1d"
_DURATION = re.compile(r"\s*([0-9]{1,16}(?:\.[0-9]{1,6})?)\s*(us|ms|s|m|h|d)\s*", re.ASCII)


def duration_us(text: object) -> int:
    """Microseconds of `500ms`, `1.5s`, `10m`, `24h`, `7d` or 0. Raises ValueError, which says how to write one."""
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if found is not None:
        return int(Decimal(found[1]) * UNITS_US[found[2]])  # a float has no 4.1
    if text in (0, "0") and text is not False:
        return 0
    raise ValueError(f"{text!r} is no duration; {HOW}")


def duration_s(text: str) -> float:
    """As `duration_us`, in seconds; for those who wait, or count from now: at most a hundred years."""
    microseconds = duration_us(text)
    if microseconds > DURATION_MAX_US:
        raise ValueError(f"{text!r} is more than a hundred years")
    return microseconds / SECOND_US


def duration_text(microseconds: int) -> str:
    """The shortest text that `duration_us` reads back as the same."""
    for unit in ("d", "h", "m", "s", "ms"):
        if microseconds and microseconds % UNITS_US[unit] == 0:
            return f"{microseconds // UNITS_US[unit]}{unit}"
    return f"{microseconds}us" if microseconds else "0s"

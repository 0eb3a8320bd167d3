"""Durations as people write them."""

from __future__ import annotations

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
DURATION_MAX_S = 10 * 365 * 86400.0
HOW = "write 500ms, 10s, 5m, 1h or 1d"


def duration_s(text: str) -> float:
    """`500ms`, `1.5s`, `5m`, `1h`, `1d` in seconds. Raises ValueError for anything else, and from ten years on."""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = UNITS.get(text[len(digits) :])
    try:
        seconds = float(digits) * (unit or 0.0)
    except ValueError:
        unit, seconds = None, 0.0
    if unit is None or not 0 <= seconds < DURATION_MAX_S:
        raise ValueError(f"{text!r} is no duration; {HOW}")
    return seconds

"""Event-time windows and the panes they are made of.

State is kept per *pane*, the greatest stretch of time that never straddles the edge of a window: gcd(size, slide).
A window is the merge of its panes, so its size and slide can change over panes that already exist (DESIGN: live change).
Times are microseconds since 1970-01-01 UTC; windows are aligned to that instant, as Spark's are.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

PANES_MAX = 10_000
"""Panes a window may have: bounds the work of closing one."""


def pane_us(size_us: int, slide_us: int) -> int:
    """The length of a pane."""
    return gcd(size_us, slide_us)


def window_starts(panes: Iterable[int], size_us: int, slide_us: int) -> list[int]:
    """The starts of all windows that hold one of the panes starting at `panes`, ascending. O(panes * size / slide)."""
    starts: set[int] = set()
    for pane in panes:
        last = pane - pane % slide_us
        starts.update(range(last, pane - size_us, -slide_us))
    return sorted(starts)


def open_pane(watermark_us: int, size_us: int, slide_us: int, lateness_us: int) -> int:
    """The start of the earliest pane that a line may still fall into: one of its windows is not yet beyond lateness.

    The last window that covers a time t starts at t - t mod slide, so a pane is closed once that window's end plus
    `lateness_us` is not after the watermark. Panes that start earlier than the answer are closed.
    """
    return (watermark_us - lateness_us - size_us) // slide_us * slide_us + slide_us

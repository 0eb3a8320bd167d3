"""What links carried and whom they refused: for metrics, and for a log that nobody can flood."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass

LOG = logging.getLogger("elfstream.links")
QUIET_S = 10.0
"""Of the same reason one line is logged in so long; it tells how many there were."""


@dataclass(slots=True)
class Traffic:
    """Messages, and their bytes without those of the transport."""

    messages_in: int = 0
    messages_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def add(self, other: Traffic) -> None:
        self.messages_in += other.messages_in
        self.messages_out += other.messages_out
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out


class Refusals:
    """By reason: peers that were not let in, links that were ended for what the peer did, dials that failed. The reasons are
    a fixed set of words, never something that a peer wrote."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._told: dict[str, tuple[float, int]] = {}

    def count(self, reason: str, detail: str, now_s: float) -> None:
        """`detail` is logged, at most once in QUIET_S for each reason."""
        self.counts[reason] += 1
        last_s, told = self._told.get(reason, (-QUIET_S, 0))
        if now_s - last_s < QUIET_S:
            return
        unsaid = self.counts[reason] - told - 1
        self._told[reason] = (now_s, self.counts[reason])
        LOG.warning("%s%s", printable(detail), f" (and {unsaid} more like it)" if unsaid else "")


def printable(text: str, length_max: int = 300) -> str:
    """One line without control characters, fit for a log and a header."""
    return "".join(one if " " <= one <= "~" else "?" for one in text[:length_max])

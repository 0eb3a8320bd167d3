"""Which part of its time a core works: one that always does falls behind at the next thing that happens. Pure."""

from __future__ import annotations

import math

SPAN_S = 20.0
"""A mean over about this time: jobs that are made one after the other are no overload, many at rest may be one."""
USE_MAX = 0.6
"""A core that works more takes no new jobs: what is left is for elections, which come all at once when a node is lost."""


class CoreUse:
    """Of one core, frames apart: these take what the rest leaves."""

    def __init__(self) -> None:
        self._share = 0.0
        self._known_s = -math.inf
        """Up to when."""

    def worked(self, began_s: float, ended_s: float) -> None:
        """On something, and on nothing since it ended the last time."""
        rested = self.share(began_s)
        self._share = 1.0 - (1.0 - rested) * math.exp((began_s - ended_s) / SPAN_S)
        self._known_s = ended_s

    def share(self, now_s: float) -> float:
        """0 to 1, if it has not worked since."""
        return self._share * math.exp(min(0.0, self._known_s - now_s) / SPAN_S)

"""When a member that hears no leader stands for election. Pure."""

from __future__ import annotations

import random

from master.options import GroupOptions

HURRY_TURNS = 5
"""From one member's turn to the next, in `hurry_s`: time for a vote, or both would stand and neither be elected."""


class Patience:
    """Of one member of a commit group."""

    def __init__(self, options: GroupOptions, rng: random.Random) -> None:
        self.at_s = 0.0
        """It stands then."""
        self._options, self._rng = options, rng
        self.tries = 0
        """Trials since somebody led."""
        self._excused = False
        """Since it heard a leader it waited once more because it was late itself."""

    def rest(self, now_s: float) -> None:
        self.at_s = now_s + self._options.patience_s(self.tries, self._rng)

    def led(self, now_s: float) -> None:
        """A leader spoke."""
        self.tries, self._excused = 0, False
        self.rest(now_s)

    def lives(self, now_s: float) -> None:
        """A leader gave a sign of life that it shares with others."""
        self._excused = False
        if self.at_s < now_s + self._options.lease_s:
            self.rest(now_s)

    def established(self) -> None:
        """It leads itself."""
        self.tries = 0

    def tried(self, now_s: float) -> None:
        self.tries += 1
        self.rest(now_s)

    def hurry(self, place: int, now_s: float) -> None:
        """The link to the leader broke: members ask one after the other, this one as the `place`th, from 0 on."""
        self.at_s = min(self.at_s, now_s + self._options.hurry_s * (1 + HURRY_TURNS * place))

    def excuses(self, due_s: float, now_s: float) -> bool:
        """Whether it waits once more: it should have stood long ago, so it was stopped or is late, and what it has not heard
        meanwhile is not the leader's fault."""
        if self._excused or now_s <= due_s + 2 * self._options.heartbeat_s:
            return False
        self._excused = True
        self.rest(now_s)
        return True

"""The times and sizes of masters: frozen, validated together, with presets."""

from __future__ import annotations

import random
from dataclasses import dataclass

from master.errors import OptionsError
from master.group_messages import ENTRY_BYTES_MAX

EAGER_TRIES, PATIENCE_MAX = 4, 2
"""After so many trials in vain the waits double, so many times."""


@dataclass(frozen=True)
class GroupOptions:
    """Of a commit group. Times in seconds."""

    lease_s: float = 1.0
    """A leader that has not heard from a majority for so long steps down; a follower that has not heard from its leader
    for one to two leases stands for election."""
    doubt_s: float = 1.0
    """A leader steps down so long after its lease, if a majority has not answered by then."""
    heartbeat_s: float = 0.25
    """How often a leader that has nothing to say gives a sign of life; also when it sends again what was not answered."""
    hurry_s: float = 0.05
    """A follower whose link to the leader broke asks the others so long after that, and not at the end of a lease: by then
    they have seen theirs break, too, if the process is gone."""
    recover_s: float = 5.0
    """After so long without its only other member a member of a group of two goes on alone, in a new lineage."""
    append_bytes_max: int = 1 << 20
    """Entries of one message; a larger entry goes alone."""
    flight_bytes_max: int = 8 << 20
    """Entries sent to a member and not answered."""
    part_bytes: int = 1 << 20
    """A part of a snapshot on its way to a member."""
    state_bytes_max: int = 1 << 30
    """A snapshot that is taken from another member."""

    def patience_s(self, tries: int, rng: random.Random) -> float:
        """A follower that hears nobody waits one to two leases before it stands for election; longer after some tries in
        vain: where nodes have so much to do that many leaders are lost at once, all elections together would keep them
        from it."""
        waits = 1 << min(max(0, tries - EAGER_TRIES), PATIENCE_MAX)
        return waits * self.lease_s * (1.0 + rng.random())

    def __post_init__(self) -> None:
        problems = []
        if not 0 < self.heartbeat_s * 2 <= self.lease_s:
            problems.append(
                f"heartbeat_s is {self.heartbeat_s}: not in (0, half of lease_s, which is {self.lease_s}]"
            )
        if not 0 < self.hurry_s <= self.lease_s:
            problems.append(f"hurry_s is {self.hurry_s}: not in (0, lease_s], which is {self.lease_s}")
        if self.doubt_s < 0:
            problems.append(f"doubt_s is {self.doubt_s}, below 0")
        if self.recover_s < 3 * self.lease_s:
            problems.append(f"recover_s is {self.recover_s}, below three leases of {self.lease_s}")
        for name in ("append_bytes_max", "flight_bytes_max", "part_bytes", "state_bytes_max"):
            if getattr(self, name) < 1:
                problems.append(f"{name} is {getattr(self, name)}, below 1")
        for name in ("append_bytes_max", "part_bytes"):
            if getattr(self, name) > ENTRY_BYTES_MAX:
                problems.append(f"{name} is {getattr(self, name)}, above {ENTRY_BYTES_MAX}: no message holds that")
        if problems:
            raise OptionsError("; ".join(problems))

    @classmethod
    def tiny(cls) -> GroupOptions:
        """A few entries fill a message, a few bytes a part: for tests."""
        return cls(append_bytes_max=64, flight_bytes_max=256, part_bytes=16)

"""What a commit group and the master above it say to each other: events down, effects up."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from master.group_messages import Lineage
from srt.automaton import Ref


class Role(Enum):
    FOLLOWER = "follower"
    TRIAL = "trial"
    """Asks whether it would be elected."""
    CANDIDATE = "candidate"
    LEADER = "leader"
    OUTSIDER = "outsider"
    """No member: not yet, not any more, or of a lineage that lost."""


# Events from the master above.


class Propose(NamedTuple):
    """Data to append, in this order. Only a leader takes it; what is not committed when it steps down may be lost."""

    data: Sequence[bytes]


class Want(NamedTuple):
    """Who should be the members: the live nodes closest to the job's key, the closest first."""

    members: Sequence[Ref]


class Compact(NamedTuple):
    """The state that follows from the committed entries up to `at`; the log lets go of them."""

    at: int
    state: bytes


class Recover(NamedTuple):
    """Go on alone from this log, whatever the others had: an operator's word that the majority is lost for good."""


# Effects for the master above.


class Restored(NamedTuple):
    """Begin from this state; entries behind `at` follow as they are known to be committed."""

    lineage: Lineage
    at: int
    state: bytes


class Committed(NamedTuple):
    """An entry that no member will ever see otherwise. Told once per boot and lineage, in order."""

    at: int
    data: bytes


class Leading(NamedTuple):
    """From now on what is proposed is appended; everything committed before has been told."""

    lineage: Lineage
    epoch: int


class Following(NamedTuple):
    """Not leading (any more); the leader if it is known."""

    leader: Ref | None


class Dismissed(NamedTuple):
    """No member any more: the log is gone but for its promises, and begins anew if a leader sends it again."""

"""The sizes and times of the overlay: frozen, validated together, with presets."""

from __future__ import annotations

from dataclasses import dataclass

from srt.errors import OptionsError
from srt.ring_messages import REFS_MAX


@dataclass(frozen=True)
class RingOptions:
    """The ring; the defaults are for real fleets, `tiny` makes small rings use every part."""

    leaf_size: int = 24
    """Half of it on each side. FreePastry's default; a side is lost for good only if 12 neighbours die within a lease."""
    lease_s: float = 1.0
    """A node that was silent for so long, in spite of `tries` questions, is dead."""
    tries: int = 4
    """Parts of a lease: after one in silence the node is asked, once in each of the others."""
    quarantine_s: float = 15.0
    """For so long nobody's gossip brings back a node found dead; its own messages do."""
    quarantine_max: int = 1024
    join_retry_s: float = 1.0
    """A join that was not answered is tried through the next seed."""
    found_after_s: float = 3.0
    """A node that is a seed itself, and reaches no other, founds a ring; rings that meet later merge."""
    upkeep_s: float = 5.0
    """Between two exchanges of the leaf set with a member, and of a row with an entry of the table."""
    lost_retry_s: float = 5.0
    """Between two attempts to reach a node that was lost, or a seed."""
    lost_max: int = 64
    """Lost addresses that are remembered."""
    held_joins_max: int = 64
    """Joins that wait while this node is joining itself."""

    def __post_init__(self) -> None:
        problems = _below(self, _RING_LEAST)
        if self.leaf_size % 2 or self.leaf_size >= REFS_MAX:
            problems.append(f"leaf_size {self.leaf_size} is odd, or does not fit into a message of {REFS_MAX} nodes")
        if self.quarantine_s < 2 * self.lease_s:
            problems.append(f"quarantine_s {self.quarantine_s} is below two leases, so gossip outlives it")
        if self.join_retry_s < self.lease_s / self.tries:
            problems.append(f"join_retry_s {self.join_retry_s} is below the time of one question")
        if problems:
            raise OptionsError("; ".join(problems))

    @classmethod
    def tiny(cls) -> RingOptions:
        """A leaf set of 4 and tables that overflow."""
        return cls(leaf_size=4, quarantine_max=8, lost_max=8, held_joins_max=4)


_RING_LEAST: dict[str, float] = {
    "leaf_size": 2,
    "lease_s": 0.01,
    "tries": 2,
    "quarantine_max": 1,
    "found_after_s": 0.0,
    "upkeep_s": 0.01,
    "lost_retry_s": 0.01,
    "lost_max": 1,
    "held_joins_max": 1,
}


def _below(options: object, least: dict[str, float]) -> list[str]:
    return [
        f"{name} is {getattr(options, name)}, below {bound}"
        for name, bound in least.items()
        if getattr(options, name) < bound
    ]

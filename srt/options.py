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
        problems = below(self, _RING_LEAST)
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


@dataclass(frozen=True)
class TreeOptions:
    """The reducer trees."""

    children_max: int = 16
    """Children of a vertex: 16 x 16 x 16 agents are three levels, and merging 16 streams costs four comparisons a row."""
    lease_s: float = 1.0
    """A parent silent for so long is lost; PING goes every third of it."""
    child_lease_s: float = 1.5
    """A child silent for so long is lost: later than it would give up its parent, so that it is not dropped first."""
    orphan_s: float = 3.0
    """A vertex leaves a parent that has had no way to a root for so long."""
    declines_max: int = 3
    """So many agents that know workers send a join on; the next one has to take it."""
    redirects_max: int = 24
    """Joins sent on in a row before it starts again."""
    cast_attempt_s: float = 1.0
    """The root repeats a multicast that was not acknowledged by all within this."""
    cast_attempts_max: int = 5
    casts_max: int = 4
    """Multicasts per tree that a vertex remembers."""
    trees_max: int = 100_000

    def __post_init__(self) -> None:
        problems = below(self, _TREE_LEAST)
        if self.child_lease_s < self.lease_s:
            problems.append(f"child_lease_s {self.child_lease_s} is below lease_s {self.lease_s}")
        if self.cast_attempts_max > 255 or self.declines_max > 255:
            problems.append("cast_attempts_max and declines_max have to stay below 256")
        if problems:
            raise OptionsError("; ".join(problems))

    @classmethod
    def tiny(cls) -> TreeOptions:
        """Two children: deep trees from few nodes."""
        return cls(children_max=2, casts_max=2)


_TREE_LEAST: dict[str, float] = {
    "children_max": 2,
    "lease_s": 0.01,
    "orphan_s": 0.01,
    "declines_max": 0,
    "redirects_max": 1,
    "cast_attempt_s": 0.01,
    "cast_attempts_max": 1,
    "casts_max": 1,
    "trees_max": 1,
}


@dataclass(frozen=True)
class LinkOptions:
    """A link between two neighbours. Bytes are those of encoded messages."""

    quantum_bytes: int = 64 << 10
    """What a job may send in its turn: half a millisecond at 1 Gbit/s, for which a job waits for each other one."""
    control_bytes_max: int = 4 << 20
    """Control messages that wait; beyond it the oldest is dropped."""
    job_bytes_max: int = 8 << 20
    """Messages of one job that wait; beyond it the job has to stop producing."""
    queued_bytes_max: int = 64 << 20
    """Messages of all jobs that wait at one link; beyond it jobs with more than their share have to stop."""
    jobs_max: int = 4096
    """Jobs that a link remembers while nothing of them waits."""
    credit_bytes: int = 16 << 20
    """What all jobs together may have under way to one receiver that has not dealt with it."""
    job_credit_bytes: int = 4 << 20
    """The same for one job: a receiver that is slow for it keeps this much of it, and not more."""
    stalled_s: float = 1.0
    """A sender that waits for credit for so long tells what it has sent, in case some of it was lost."""

    def __post_init__(self) -> None:
        problems = below(self, _LINK_LEAST)
        for small, large in (
            ("quantum_bytes", "job_bytes_max"),
            ("job_bytes_max", "queued_bytes_max"),
            ("job_credit_bytes", "credit_bytes"),
        ):
            if getattr(self, small) > getattr(self, large):
                problems.append(f"{small} {getattr(self, small)} is above {large} {getattr(self, large)}")
        if problems:
            raise OptionsError("; ".join(problems))

    @classmethod
    def tiny(cls) -> LinkOptions:
        """A few messages fill every queue and use up every credit."""
        return cls(
            quantum_bytes=100,
            control_bytes_max=500,
            job_bytes_max=500,
            queued_bytes_max=1500,
            jobs_max=6,
            credit_bytes=1000,
            job_credit_bytes=400,
        )


_LINK_LEAST: dict[str, float] = {
    "quantum_bytes": 1,
    "control_bytes_max": 1,
    "job_bytes_max": 1,
    "jobs_max": 1,
    "job_credit_bytes": 1,
    "stalled_s": 0.01,
}


@dataclass(frozen=True)
class DirectoryOptions:
    """The map that all nodes keep. Limits are per kind of entry, so that one kind cannot crowd out another."""

    kind_entries_max: int = 16_384
    kind_bytes_max: int = 16 << 20
    """Of values, with 512 bytes for each entry."""
    lifetime_max_s: float = 30 * 86_400.0
    """An entry that ends, but later than this, is refused."""
    fanout: int = 2
    """Neighbours that are told of a change at once."""
    sends: int = 3
    """Random neighbours that a node tells of one change in all, beside the nearest two on the ring."""
    push_s: float = 0.2
    """Between two rounds of telling; changes that come meanwhile go together."""
    again_s: float = 1.0
    """The same while all that is to be told are entries told again, with nothing new but their version."""
    hot_max: int = 4096
    """Changes that are being told; of more than this the oldest are left to mending."""
    mend_s: float = 4.0
    """Between two comparisons with a random neighbour."""
    mend_soon_s: float = 0.25
    """The same while there is more to be mended than went into one."""
    mend_hot_max: int = 32
    """If a comparison brought no more than this, it is told on like a change; else everybody but this node knows it."""
    batch_bytes: int = 64 << 10
    """Entries in one message of changes."""
    mend_bytes: int = 256 << 10
    """Entries in one message of a comparison."""
    answers_per_s: int = 64
    """Answers to others' comparisons; more are not given."""
    peer_answers_per_s: int = 8
    durable_kinds: frozenset[int] = frozenset()
    """Entries of these kinds are stored."""

    def __post_init__(self) -> None:
        problems = below(self, _DIRECTORY_LEAST)
        if self.sends < self.fanout:
            problems.append(f"sends {self.sends} is below fanout {self.fanout}")
        if self.push_s > self.again_s:
            problems.append(f"push_s {self.push_s} is above again_s {self.again_s}")
        if self.mend_soon_s > self.mend_s:
            problems.append(f"mend_soon_s {self.mend_soon_s} is above mend_s {self.mend_s}")
        if problems:
            raise OptionsError("; ".join(problems))

    @classmethod
    def tiny(cls) -> DirectoryOptions:
        """A few entries fill every message and every kind."""
        return cls(kind_entries_max=12, kind_bytes_max=12 * 600, hot_max=3, batch_bytes=200, mend_bytes=300)


_DIRECTORY_LEAST: dict[str, float] = {
    "kind_entries_max": 1,
    "kind_bytes_max": 1,
    "lifetime_max_s": 1.0,
    "fanout": 1,
    "push_s": 0.01,
    "hot_max": 1,
    "mend_soon_s": 0.01,
    "mend_hot_max": 0,
    "batch_bytes": 1,
    "mend_bytes": 1,
    "answers_per_s": 1,
    "peer_answers_per_s": 2,
}


def below(options: object, least: dict[str, float]) -> list[str]:
    """What is wrong with fields that have a least value."""
    return [
        f"{name} is {getattr(options, name)}, below {bound}"
        for name, bound in least.items()
        if getattr(options, name) < bound
    ]

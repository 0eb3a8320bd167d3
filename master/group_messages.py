"""What the members of a commit group say to each other, and what their log is made of."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from srt.automaton import Ref
from srt.tree_messages import U63, Key

ENTRIES_MAX = 4096
"""Entries in a message."""
ENTRY_BYTES_MAX = 4 << 20
"""Of one entry; what the master wants kept is cut into smaller ones (master/entries.py)."""
PART_BYTES_MAX = 4 << 20
PARTS_MAX = 1 << 20
BEATS_MAX = 1024
"""Groups in a message."""
MEMBERS_MAX = 64

Index = Annotated[int, Meta(ge=-1, le=2**63 - 1)]
"""-1: before the first entry."""
Part = Annotated[int, Meta(ge=0, le=PARTS_MAX)]
Sent = Annotated[float, Meta(le=2.0**62)]
"""Seconds of the leader's clock."""


class EntryKind(IntEnum):
    LEAD = 0
    """The first entry of an epoch, without data: once it is committed all before it is."""
    DATA = 1
    """What the job wants kept."""
    MEMBERS = 2
    """The members from here on: an encoded list of Ref."""
    PAIR = 3
    """The same, of two members that were told already: from here on either may go on alone (master/alone.py)."""


ID_BITS = 29
"""Of a lineage's id, in its number of 63 bits; the seconds since 1970 that `history` begins with have room beside them."""


def steps_between(before: int, after: int) -> int:
    """How many lineages lie between two of these numbers, both ends counted as one; at least 1."""
    return max(1, (after >> ID_BITS) - (before >> ID_BITS))


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One position of the log."""

    epoch: U63
    kind: EntryKind
    data: Annotated[bytes, Meta(max_length=ENTRY_BYTES_MAX)] = b""


class Lineage(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Which of several logs that a job may have got, by forced recovery or by being made twice; the greatest wins."""

    history: U63
    id: Annotated[bytes, Meta(min_length=8, max_length=8)]
    """Random."""

    @property
    def number(self) -> int:
        """What agents and vertices call `history`: one number for each, as two that go on alone may count alike; in the
        order of lineages but for one in 500 million."""
        return (self.history % (1 << 34)) << ID_BITS | int.from_bytes(self.id[:4]) >> (32 - ID_BITS)


class Elect(msgspec.Struct, frozen=True, array_like=True, tag="ge"):
    """Asks for a vote. `trial`: would you? Nothing is promised then, so that nobody disturbs a working leader."""

    group: Key
    lineage: Lineage
    epoch: U63
    trial: bool
    handed: bool
    """The leader asked it to stand, so the leader's lease protects it no longer."""
    last_epoch: U63
    last_index: Index


class Vote(msgspec.Struct, frozen=True, array_like=True, tag="gv"):
    group: Key
    lineage: Lineage
    epoch: U63
    trial: bool
    granted: bool


class Append(msgspec.Struct, frozen=True, array_like=True, tag="ga"):
    """Entries behind `previous_index`; without any, a sign of life."""

    group: Key
    lineage: Lineage
    epoch: U63
    previous_index: Index
    previous_epoch: U63
    entries: Annotated[list[Entry], Meta(max_length=ENTRIES_MAX)]
    commit: Index
    """Up to here the log is committed."""
    sent_s: Sent
    """The leader's clock, given back in the answer."""


class Appended(msgspec.Struct, frozen=True, array_like=True, tag="gr"):
    """`matched`: durable up to `index`. Else the logs differ before the entries sent; try behind `index`. `votes`: it lacks
    nothing that it once had, so it may vote."""

    group: Key
    lineage: Lineage
    epoch: U63
    matched: bool
    index: Index
    sent_s: Sent
    votes: bool = True


class SnapshotPart(msgspec.Struct, frozen=True, array_like=True, tag="gs"):
    """A part of the state that stands for the log up to `index`, for a member that is too far behind."""

    group: Key
    lineage: Lineage
    epoch: U63
    index: Index
    index_epoch: U63
    members: Annotated[list[Ref], Meta(max_length=MEMBERS_MAX)]
    part: Annotated[int, Meta(ge=0, lt=PARTS_MAX)]
    parts: Annotated[int, Meta(ge=1, le=PARTS_MAX)]
    data: Annotated[bytes, Meta(max_length=PART_BYTES_MAX)]
    sent_s: Sent
    pair: bool = False
    """Either of the two members may go on alone."""


class PartTaken(msgspec.Struct, frozen=True, array_like=True, tag="gt"):
    """Asks for the part behind `part` of the snapshot at `index`."""

    group: Key
    lineage: Lineage
    epoch: U63
    index: Index
    part: Annotated[int, Meta(ge=0, lt=PARTS_MAX)]
    sent_s: Sent


class Handover(msgspec.Struct, frozen=True, array_like=True, tag="gh"):
    """The leader asks a member that has everything to stand for election now."""

    group: Key
    lineage: Lineage
    epoch: U63


class Exists(msgspec.Struct, frozen=True, array_like=True, tag="gx"):
    """There is a greater lineage of this group than yours."""

    group: Key
    lineage: Lineage
    epoch: U63


class Gone(msgspec.Struct, frozen=True, array_like=True, tag="gz"):
    """The job of that lineage, or an older one of the same name, was removed: whoever is in its group lets go of it."""

    group: Key
    lineage: Lineage


class AskResults(msgspec.Struct, frozen=True, array_like=True, tag="gq"):
    """A member that is new asks for the results behind `after`; of one that is too large for a message, for a part."""

    group: Key
    after: U63
    part: Part


class ResultsPart(msgspec.Struct, frozen=True, array_like=True, tag="gp"):
    """Some of the results behind `after`, in order; or with `parts` above 1 a part of the next one."""

    group: Key
    after: U63
    part: Part
    parts: Part
    records: Annotated[
        tuple[Annotated[bytes, Meta(max_length=PART_BYTES_MAX)], ...], Meta(max_length=ENTRIES_MAX)
    ]
    more: bool
    """There are further ones."""
    through: U63
    """What the sender has without a gap."""


class Seek(msgspec.Struct, frozen=True, array_like=True, tag="gk"):
    """A node that is about to make a job asks whether its group is there already."""

    group: Key


class Sought(msgspec.Struct, frozen=True, array_like=True, tag="gl"):
    """The answer; `leader` is who leads it as far as is known, None: it is not here. `overloaded`: the node that answers has
    too much to do to take part in a further job."""

    group: Key
    leader: Ref | None
    overloaded: bool = False


class Beat(msgspec.Struct, frozen=True, array_like=True):
    """How a leader thinks that things stand at a member: it follows, and knows what is committed; `commit` is 0 where it has
    yet to be told."""

    group: Key
    lineage: Lineage
    epoch: U63
    commit: Index


class Beats(msgspec.Struct, frozen=True, array_like=True, tag="gb"):
    """Signs of life for all groups that the sender leads and in which the receiver is."""

    number: U63
    """Given back in the answer."""
    beats: Annotated[list[Beat], Meta(max_length=BEATS_MAX)]


class BeatsHeard(msgspec.Struct, frozen=True, array_like=True, tag="gy"):
    """`strange`: groups in which it is otherwise here; those speak for themselves again. `late`: this node has more to do
    than it can, and should be given no job to lead."""

    number: U63
    strange: Annotated[list[Key], Meta(max_length=BEATS_MAX)]
    late: bool = False


GROUP_MESSAGES = (
    Elect, Vote, Append, Appended, SnapshotPart, PartTaken, Handover, Exists, Gone, AskResults, ResultsPart, Seek, Sought,
    Beats, BeatsHeard,
)  # fmt: skip

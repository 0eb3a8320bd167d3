"""What the members of a commit group say to each other, and what their log is made of."""

from __future__ import annotations

from enum import IntEnum

import msgspec

from srt.automaton import Ref


class EntryKind(IntEnum):
    LEAD = 0
    """The first entry of an epoch, without data: once it is committed all before it is."""
    DATA = 1
    """What the job wants kept."""
    MEMBERS = 2
    """The members from here on: an encoded list of Ref."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One position of the log."""

    epoch: int
    kind: EntryKind
    data: bytes = b""


class Lineage(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Which of several logs that a job may have got, by forced recovery or by being made twice; the greatest wins."""

    history: int
    id: bytes
    """8 random bytes."""


class Elect(msgspec.Struct, frozen=True, array_like=True, tag="ge"):
    """Asks for a vote. `trial`: would you? Nothing is promised then, so that nobody disturbs a working leader."""

    group: bytes
    lineage: Lineage
    epoch: int
    trial: bool
    handed: bool
    """The leader asked it to stand, so the leader's lease protects it no longer."""
    last_epoch: int
    last_index: int


class Vote(msgspec.Struct, frozen=True, array_like=True, tag="gv"):
    group: bytes
    lineage: Lineage
    epoch: int
    trial: bool
    granted: bool


class Append(msgspec.Struct, frozen=True, array_like=True, tag="ga"):
    """Entries behind `previous_index`; without any, a sign of life."""

    group: bytes
    lineage: Lineage
    epoch: int
    previous_index: int
    previous_epoch: int
    entries: list[Entry]
    commit: int
    """Up to here the log is committed."""
    sent_s: float
    """The leader's clock, given back in the answer."""


class Appended(msgspec.Struct, frozen=True, array_like=True, tag="gr"):
    """`matched`: durable up to `index`. Else the logs differ before the entries sent; try behind `index`."""

    group: bytes
    lineage: Lineage
    epoch: int
    matched: bool
    index: int
    sent_s: float


class SnapshotPart(msgspec.Struct, frozen=True, array_like=True, tag="gs"):
    """A part of the state that stands for the log up to `index`, for a member that is too far behind."""

    group: bytes
    lineage: Lineage
    epoch: int
    index: int
    index_epoch: int
    members: list[Ref]
    part: int
    parts: int
    data: bytes
    sent_s: float


class PartTaken(msgspec.Struct, frozen=True, array_like=True, tag="gt"):
    """Asks for the part behind `part` of the snapshot at `index`."""

    group: bytes
    lineage: Lineage
    epoch: int
    index: int
    part: int
    sent_s: float


class Handover(msgspec.Struct, frozen=True, array_like=True, tag="gh"):
    """The leader asks a member that has everything to stand for election now."""

    group: bytes
    lineage: Lineage
    epoch: int


class Exists(msgspec.Struct, frozen=True, array_like=True, tag="gx"):
    """There is a greater lineage of this group than yours."""

    group: bytes
    lineage: Lineage
    epoch: int


GROUP_MESSAGES = (Elect, Vote, Append, Appended, SnapshotPart, PartTaken, Handover, Exists)

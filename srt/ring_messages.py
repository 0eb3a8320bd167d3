"""What nodes of the ring say to each other; docs/WIRE.md has the table."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from srt.automaton import Ref
from srt.ids import DIGITS

REFS_MAX = 64
"""Nodes in one message: a leaf set and its owner, or four rows."""
HOPS_MAX = 40
"""More than any route may take; a message that went farther is dropped and counted."""

Refs = Annotated[list[Ref], Meta(max_length=REFS_MAX)]
Count = Annotated[int, Meta(ge=0, le=DIGITS)]
Role = Annotated[int, Meta(ge=0, le=15)]
"""What the sender is for, as the cores above the ring say; the ring only remembers it."""


class RingJoin(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="rj"):
    """Routed towards the newcomer's place; a member sends it, too, to find a part of the ring that it lost."""

    newcomer: Ref
    row: Count
    """The first row that nobody on the way has sent yet; 32: it wants none."""
    hops: Annotated[int, Meta(ge=0, le=255)]
    """1 straight from a newcomer: it was asked, and is joining itself."""
    is_seed: bool = False
    """The newcomer is a seed of itself or of another node, and may found a ring."""


class Rows(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="rr"):
    """Nodes for the routing table."""

    refs: Refs
    role: Role


class RowRequest(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="rq"):
    row: Count


class JoinReply(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="rp"):
    """Ends a `RingJoin`: the closest node and its leaf set."""

    refs: Refs
    hops: Annotated[int, Meta(ge=0, le=255)]


class LeafRequest(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="rl"):
    """Asks for the leaf set, and says: I am here, take me into yours."""

    role: Role


class LeafReply(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="rs"):
    refs: Refs
    role: Role


class Ping(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="ri"):
    pass


class Pong(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="ro"):
    """The nearest neighbours on both sides, as the sender knows them."""

    beside: Annotated[list[Ref], Meta(max_length=2)]


class Announce(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="ra"):
    """A newcomer is active: take it into the routing table."""

    role: Role


class Dead(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="rd"):
    """The sender found these nodes silent for a lease. Verify before believing."""

    refs: Refs


class Leave(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="rb"):
    """The sender goes; its leaf set fills the gap."""

    refs: Refs


RING_MESSAGES = (
    RingJoin, Rows, RowRequest, JoinReply, LeafRequest, LeafReply, Ping, Pong, Announce, Dead, Leave,
)  # fmt: skip

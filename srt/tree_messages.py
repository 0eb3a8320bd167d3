"""What the vertices of reducer trees say to each other, and masters; docs/WIRE.md has the table.

PING and PONG speak of all trees that two nodes share, so a thousand jobs cost as many messages as one.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from srt.automaton import Ref

ITEMS_MAX = 256
"""Trees in one message."""
DEPTH_MAX = 64
"""Vertices between root and leaf; a longer path is taken for a cycle."""
CONTENT_BYTES_MAX = 256 << 10
CAST_BYTES_MAX = 512 << 10
REQUEST_BYTES_MAX = 512 << 10

Key = Annotated[bytes, Meta(min_length=16, max_length=16)]
Keys = Annotated[list[Key], Meta(max_length=ITEMS_MAX)]
U63 = Annotated[int, Meta(ge=0, le=2**63 - 1)]
U31 = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Small = Annotated[int, Meta(ge=0, le=255)]
Content = Annotated[bytes, Meta(max_length=CONTENT_BYTES_MAX)]
CastId = Annotated[bytes, Meta(min_length=1, max_length=32)]


class Kind(IntEnum):
    """What a node is for, and its role on the ring; it decides who carries inner vertices."""

    AGENT = 0
    WORKER = 1


class TreeJoin(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="tj"):
    """Make me your child in this tree."""

    key: Key
    kind: Kind
    agents: U31
    """Agents in the sender's part of the tree."""
    declined: Small
    """Agents that sent this join on rather than become an inner vertex."""
    pushed: bool
    """A full vertex sent it down: it goes on downwards only."""


class TreeRedirect(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="tr"):
    """Not here; join this node."""

    key: Key
    to: Ref
    declined: Small
    pushed: bool


class PingItem(msgspec.Struct, frozen=True, array_like=True, gc=False):
    key: Key
    agents: U31
    version: U63
    """Of the content that the child has; 0: none."""


class TreePing(msgspec.Struct, frozen=True, array_like=True, tag="tp"):
    """Child to parent, every third of a lease."""

    items: Annotated[list[PingItem], Meta(max_length=ITEMS_MAX)]


class PongItem(msgspec.Struct, frozen=True, array_like=True, gc=False):
    key: Key
    path: Annotated[list[Key], Meta(max_length=DEPTH_MAX)]
    """Ids from the root, or the highest vertex that looks for it, down to the sender."""
    rooted: bool
    """Whether the path begins at a serving root."""
    version: U63
    content: Content | None
    """What the root tells all, unchanged; None when the child has this version."""


class TreePong(msgspec.Struct, frozen=True, array_like=True, tag="to"):
    """Parent to child: the lease goes on. It is the answer to a join, too."""

    items: Annotated[list[PongItem], Meta(max_length=ITEMS_MAX)]


class TreeDropped(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="td"):
    """In these trees the receiver is no child of the sender."""

    keys: Keys


class TreeLeave(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="tl"):
    """In these trees the sender is no child of the receiver any more."""

    keys: Keys


class TreeCast(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="tc"):
    """Down the tree, to all agents."""

    key: Key
    cast: CastId
    attempt: Small
    budget_ms: U31
    """A vertex that waits longer for its children reports what it has."""
    payload: Annotated[bytes, Meta(max_length=CAST_BYTES_MAX)] | None
    """None: all below the receiver had it in the attempt before, they are only counted again."""


class TreeCastAck(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="ta"):
    """How many agents below the sender, itself included, acknowledged in this attempt; replaces what it said before."""

    key: Key
    cast: CastId
    attempt: Small
    agents: U31
    complete: bool


class MasterRequest(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="mq"):
    """Routed over the ring to the master of a job."""

    key: Key
    origin: Ref
    request: U63
    hops: Small
    payload: Annotated[bytes, Meta(max_length=REQUEST_BYTES_MAX)]


class MasterReply(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="mr"):
    """Straight back to the origin. No payload: there is no master for that key."""

    request: U63
    payload: Annotated[bytes, Meta(max_length=REQUEST_BYTES_MAX)] | None


TREE_MESSAGES = (TreeJoin, TreeRedirect, TreePing, TreePong, TreeDropped, TreeLeave, TreeCast, TreeCastAck)
MASTER_MESSAGES = (MasterRequest, MasterReply)

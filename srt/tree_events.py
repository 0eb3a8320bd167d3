"""What the cores around a reducer tree tell it, and what it tells them."""

from __future__ import annotations

from typing import NamedTuple

from srt.automaton import Ref

# Events.


class Subscribe(NamedTuple):
    """The local agent takes part in this tree."""

    key: bytes


class Unsubscribe(NamedTuple):
    key: bytes


class Serve(NamedTuple):
    """This node leads the job's group: it is the root, closest or not. Answers `Claim`, or comes unasked."""

    key: bytes


class ForwardTo(NamedTuple):
    """Another node leads the job's group. Answers `Claim`."""

    key: bytes
    leader: Ref


class StopServing(NamedTuple):
    """It leads no longer; children stay and the vertex looks for the root."""

    key: bytes


class SetContent(NamedTuple):
    """What the root's PONGs carry from now on. Another content has another version, above 0."""

    key: bytes
    version: int
    content: bytes


class Multicast(NamedTuple):
    """From the root to all agents of the tree; `cast` is unique in the tree."""

    key: bytes
    cast: bytes
    payload: bytes


# Effects.


class Claim(NamedTuple):
    """This node is the closest and others look for the root here: who leads? Repeated every lease until answered."""

    key: bytes


class BecameRoot(NamedTuple):
    key: bytes


class ParentChanged(NamedTuple):
    """None: there is none at the moment, or none is needed."""

    key: bytes
    parent: Ref | None


class ChildJoined(NamedTuple):
    key: bytes
    child: Ref


class ChildLost(NamedTuple):
    key: bytes
    child: Ref


class ContentChanged(NamedTuple):
    """The root's content came by PONG."""

    key: bytes
    version: int
    content: bytes


class CastDelivered(NamedTuple):
    """A multicast reached the local agent; once per boot."""

    key: bytes
    cast: bytes
    payload: bytes


class CastEnded(NamedTuple):
    """At the root: so many agents acknowledged, of so many that the tree had at the end."""

    key: bytes
    cast: bytes
    acknowledged: int
    agents: int


class Refused(NamedTuple):
    """An event asked for what cannot be done."""

    event: object
    problem: str

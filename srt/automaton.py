"""What all cores of the fleet have in common: events in, effects out, time and randomness passed in.

A core is a synchronous class with `handle(event, now) -> effects` and `wake_at`. It has no socket, file, clock or source of
randomness inside. Drivers carry out the effects; the simulator (tests/sim) is a driver, too, and runs the very cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec
from msgspec import Meta

ANY_BOOT = 0
"""The boot of a Ref that means whoever runs at the address, if it has the id; of an id of zeros, whatever id it has."""
NEVER = float("inf")
"""The `wake_at` of a core that waits for no time."""


class Instant(NamedTuple):
    """When an event happens, as the node that handles it sees it."""

    s: float
    """Monotonic seconds since some moment; leases and timeouts are measured with it."""
    wall_us: int
    """Microseconds since the epoch, UTC; for watermarks and people. It may jump."""


class Ref(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A running node as others name it. Another boot of the same node is another Ref."""

    id: Annotated[bytes, Meta(min_length=16, max_length=16)]
    """16 bytes, big-endian: its place on the ring."""
    address: Annotated[str, Meta(min_length=1, max_length=255)]
    """host:port at which it can be reached."""
    boot: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    """Grows with every start of the node. 0 is ANY_BOOT."""

    @property
    def number(self) -> int:
        """The id as a number below 2**128."""
        return int.from_bytes(self.id, "big")


# Events that drivers give to cores. Cores may take further ones from the cores above and beside them.


class Received(NamedTuple):
    """A message came. Between two boots messages keep their order unless the network misbehaves; any may be lost."""

    sender: Ref
    message: Any


class PeerLost(NamedTuple):
    """A hint: the link to this boot broke, or somebody else answers at its address. Leases decide, not this."""

    peer: Ref


class Stored(NamedTuple):
    """All changes of the write are durable."""

    token: int


class StoreFailed(NamedTuple):
    """None of the changes of the write were made; the core decides whether and when to try again."""

    token: int
    problem: str


class Wake(NamedTuple):
    """The time `wake_at` has come."""


WAKE = Wake()


# Effects that drivers carry out, in their order.


class Send(NamedTuple):
    """Best effort: the message may be lost, and is when the peer is another boot by now (unless it is for ANY_BOOT)."""

    to: Ref
    message: Any


class Put(NamedTuple):
    """A change of a store of keys and values."""

    key: bytes
    value: bytes


class Delete(NamedTuple):
    """Removes the keys in [first, last); it is no error if there are none."""

    first: bytes
    last: bytes


class WriteAt(NamedTuple):
    """A change of a store that is a file of fixed size."""

    offset: int
    data: bytes


class Write(NamedTuple):
    """Changes a store; `Stored` or `StoreFailed` answers with the token.

    Stores of keys and values make all changes of a write, or none, and a later write never outlives an earlier one.
    Files may keep any part of the bytes of a write that was not reported as stored.
    """

    store: str
    changes: Sequence[Put | Delete | WriteAt]
    token: int
    lazy: bool = False
    """Of keys and values that can be made again: it is reported as stored when readers see it, and the end of the process
    leaves it. A power cut may take it, unless any write that is not lazy was begun later and reported as stored."""


class Core(Protocol):
    """An automaton."""

    @property
    def ref(self) -> Ref:
        """Who it is."""
        ...

    @property
    def wake_at(self) -> float:
        """Monotonic seconds at which it wants a `Wake`; asked after every event."""
        ...

    def handle(self, event: Any, now: Instant) -> list[Any]:
        """Takes an event and returns effects. What an event from outside asks wrongly is counted and ignored."""
        ...

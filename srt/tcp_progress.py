"""What the system says of a connection: whether bytes wait for the peer, and how many it has acknowledged.

A peer that reads nothing is silent to us for long: what it is sent fits into buffers of the system, of both ends.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_UNACKED, _BYTES_ACKED, _BYTES_NOT_SENT = struct.Struct("24xI"), struct.Struct("120xQ"), struct.Struct("144xI")
"""Of `struct tcp_info` of linux/tcp.h, which only ever grows at its end."""
INFO_BYTES = 148
"""So many of its bytes are looked at; Linux 4.6 and later have them."""


class Sent(NamedTuple):
    """Of one connection; a peer whose window is closed has nothing unacknowledged, only what was not sent."""

    acknowledged_bytes: int
    """Since it began."""
    waits: bool
    """Something was written that is not acknowledged."""


def sent(info: bytes) -> Sent:
    """From what `getsockopt(IPPROTO_TCP, TCP_INFO, INFO_BYTES)` gives. struct.error: fewer bytes."""
    (unacked,), (not_sent,) = _UNACKED.unpack_from(info), _BYTES_NOT_SENT.unpack_from(info)
    return Sent(_BYTES_ACKED.unpack_from(info)[0], unacked > 0 or not_sent > 0)

"""How many descriptors a node may have, and how many of them its logs get."""

from __future__ import annotations

import resource
from typing import NamedTuple

from agent.tail_options import TailOptions
from srt.peer_options import PeerOptions

OTHERS = 512
"""Of the process itself, its stores, requests and streams."""
OPEN_LEAST, HELD_LEAST = 8, 4
"""A source gets on with so few: others of its files wait until one is closed."""


class Shares(NamedTuple):
    """What one source may hold open: for reading, and for reading again."""

    open_max: int
    held_max: int


def raise_limit() -> None:
    """Takes what the system allows: the limit that processes get is often 1024, for the sake of select(2)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def limit() -> int:
    """Descriptors that this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


def of_peers(limit: int) -> int:
    """Links that a node may have."""
    return min(PeerOptions().peers_max, max(16, limit // 4))


def of_sources(limit: int, sources: int) -> Shares:
    """The share of each source: links and requests keep half of the limit at least."""
    options = TailOptions()
    each = limit // 2 // max(1, sources)
    # A source also has a descriptor for hints, and may hold as many deleted files as others.
    return Shares(
        min(options.open_max, max(OPEN_LEAST, each // 2)), min(options.held_max, max(HELD_LEAST, each // 4 - 1))
    )


def needed(sources: int) -> int:
    """Descriptors with which nothing has to wait: all links, and the most that each source takes."""
    options = TailOptions()
    return PeerOptions().peers_max + OTHERS + sources * (options.open_max + 2 * options.held_max + 1)

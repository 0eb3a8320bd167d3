"""What nodes say to each other about the map they all keep; docs/DIRECTORY.md has the table."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

VALUE_BYTES_MAX = 16 << 10
KINDS = 4
"""Kinds of entries, 0 to 3; each has limits of its own."""
BITS_MAX = 10
"""Keys are told apart into at most 2**BITS_MAX buckets, by their first bits."""
RUMOURS_MAX = 512
HELD_MAX = 1024
"""Entries that one message names without their values."""

Kind = Annotated[int, Meta(ge=0, lt=KINDS)]
Key = Annotated[bytes, Meta(min_length=16, max_length=16)]
Name = Annotated[bytes, Meta(min_length=17, max_length=17)]
"""Key and kind: what an entry is known by, and its place in the order of all."""
Version = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One entry of the map. Of two with one name the greater (version, value) is the true one, everywhere."""

    kind: Kind
    key: Key
    version: tuple[Version, Version]
    value: Annotated[bytes, Meta(max_length=VALUE_BYTES_MAX)]
    until_us: Annotated[int, Meta(ge=0, le=2**62)] = 0
    """Wall clock at which it ends unless told again; 0: never."""

    @property
    def name(self) -> bytes:
        return self.key + bytes((self.kind,))


class Rumours(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="dr"):
    """Entries that the receiver may not know."""

    entries: Annotated[list[Entry], Meta(max_length=RUMOURS_MAX)]
    hot: bool
    """They are news: pass on what is new to you."""


class Digests(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="dd"):
    """Begins a comparison: a digest of each bucket of the sender's map."""

    bits: Annotated[int, Meta(ge=0, le=BITS_MAX)]
    digests: Annotated[bytes, Meta(max_length=8 << BITS_MAX)]
    """2**bits numbers of 8 bytes, big-endian: per bucket the exclusive or of the fingerprints of its entries."""


class Held(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An entry without its value."""

    name: Name
    version: tuple[Version, Version]
    fingerprint: Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Stretch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All entries that the sender has between two names, both included."""

    first: Name
    last: Name
    held: Annotated[list[Held], Meta(max_length=HELD_MAX)]


class Holdings(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="dh"):
    """Answers `Digests`: what the sender has where the two maps differ."""

    stretches: Annotated[list[Stretch], Meta(max_length=HELD_MAX)]
    more: bool
    """They differ in other places, too."""


class Wanted(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="dw"):
    """Asks for entries by their names; `Rumours` that are not hot answer."""

    names: Annotated[list[Name], Meta(max_length=HELD_MAX)]


DIRECTORY_MESSAGES = (Rumours, Digests, Holdings, Wanted)

"""The names of logs in cuts: which source, which log, and from which byte of it on.

identity = tag of the source   8: BLAKE2b of its name
           device, inode       8 + 8: where the log was first seen
           head                8: hash of what it began with
           generation          8, signed: its number among the logs of that inode; below 0: bytes that were lost
           base                8: offset in the log at which the position 0 of this identity lies

All little-endian, 48 bytes. A source is in the identity itself, so a cut tells which files belong to whom whatever the
configuration says by then. The base makes a log that is read from its end, or again after it was done with, begin at 0.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from agent.tail_events import FileKey

TAG_BYTES = 8
_LAYOUT = struct.Struct("<8sQQ8sqQ")


class LogId(NamedTuple):
    tag: bytes
    key: FileKey
    base: int

    @property
    def lost(self) -> bool:
        """Whether it stands for bytes that were never read and cannot be."""
        return self.key.generation < 0

    def encode(self) -> bytes:
        key = self.key
        return _LAYOUT.pack(
            self.tag, key.device, key.inode, bytes.fromhex(key.head), key.generation, self.base
        )

    @classmethod
    def decode(cls, identity: bytes) -> LogId | None:
        """None: no identity of this kind."""
        if len(identity) != _LAYOUT.size:
            return None
        tag, device, inode, head, generation, base = _LAYOUT.unpack(identity)
        return cls(tag, FileKey(device, inode, head.hex(), generation), base)


def lost_bytes_id(tag: bytes, key: FileKey, start: int) -> LogId:
    """The identity of bytes of a log, from `start` on, that are lost."""
    generation = key.generation if key.generation < 0 else -2 - key.generation
    return LogId(tag, key._replace(generation=generation), start)


@lru_cache(maxsize=1024)
def source_tag(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=TAG_BYTES).digest()


def of_source(name: str, identity: bytes) -> bool:
    """Whether a file of a cut belongs to the source."""
    return identity.startswith(source_tag(name))

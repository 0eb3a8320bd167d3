"""Logs of which only a cut is left, as what was known of them is lost or rotten: some can be found where they were."""

from __future__ import annotations

import os

from agent.compression import MAGIC_BYTES, compression_of
from agent.follower import matches
from agent.log_id import LogId
from agent.sources import Source
from agent.tail_logs import LogPosition, digest


def found_in_place(source: Source, id: LogId, offset: int) -> LogPosition | None:
    """The log read to position `offset` of `id`, if its inode is still there and begins as it did; None: it is not, or is
    compressed. O(files)."""
    key, proof_bytes, at = id.key, source.tail.proof_bytes, id.base + offset
    for seen in matches(source.patterns):
        if (seen.device, seen.inode) != (key.device, key.inode) or seen.size_bytes < at:
            continue
        try:
            with open(seen.path, "rb", buffering=0) as file:
                head = os.pread(file.fileno(), proof_bytes, 0)
                start = max(0, at - proof_bytes)
                before = os.pread(file.fileno(), at - start, start)
        except OSError:
            return None
        plain = compression_of(head[:MAGIC_BYTES]) == "none"
        # The hash in the name is of as many bytes as were known then.
        same = any(digest(head[:size]).hex() == key.head for size in range(len(head), -1, -1))
        if not plain or not same or len(before) < at - start:
            return None
        return LogPosition(key, seen.path, (key.device, key.inode), at, at, head, digest(before), {})
    return None

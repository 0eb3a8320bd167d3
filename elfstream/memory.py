"""How much memory the groups of a query may take, and where they go beyond it: options to a `Memory`."""

from __future__ import annotations

import os
import tempfile

from cbt.errors import MemoryCapError, SpillError
from cbt.memory import Memory, capped
from job.sizes import size_bytes

MEMORY_LEAST_BYTES = 8 << 20
"""Tables, and the blocks of merges under way, need this much to get on."""


def open_memory(memory_max: str | int, spill_dir: str | None, spill_max: str | int) -> Memory:
    """The memory of one query. `spill_dir` None is the system's directory for temporary files; nothing is written there
    before it is needed.

    Raises MemoryCapError for a cap that nothing fits under, SpillError for a spill directory that is none, ValueError for
    what is no size.
    """
    cap, spill = size_bytes(memory_max), size_bytes(spill_max)
    if cap < MEMORY_LEAST_BYTES:
        raise MemoryCapError(f"memory_max is {cap:,} bytes, too small for any query: at least {MEMORY_LEAST_BYTES >> 20}MiB")
    directory = tempfile.gettempdir() if spill_dir is None else spill_dir
    if not os.path.isdir(directory):
        raise SpillError(f"there is no directory {directory} to spill to: make it, or choose another spill_dir")
    return capped(cap, directory, spill)

"""What a derived job is: one without sources and plan, whose windows are computed elsewhere (docs/SPARK.md)."""

from __future__ import annotations

import msgspec

from job.plan import Field

COLUMNS_MAX = 256
COLUMN_CHARS_MAX = 255
TEXT_CHARS_MAX = 64 * 1024
SIZE_US_MAX = 366 * 86_400_000_000


class Derived(msgspec.Struct, frozen=True, array_like=True):
    columns: tuple[Field, ...]
    size_us: int = 0
    """The length of its windows; 0: it has one endless window."""
    text: str = ""
    """What they come from, for people."""

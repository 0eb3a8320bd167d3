"""The sizes that a query begins with. Light, for the help shows them."""

from __future__ import annotations

MEMORY_MAX = "256MiB"
SPILL_MAX = "10GiB"
"""Some hundred million groups; a query that fills more than that of a disk unasked would surprise."""

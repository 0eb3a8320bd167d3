"""How long tests wait for what must come."""

from __future__ import annotations

PATIENCE_S = 900.0
"""Against hanging for ever, and no measure of anything: a machine may have twenty programs to a core, and a green test
waits no longer than it must."""

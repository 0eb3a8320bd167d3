"""The nodes of a fleet as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from elfstream.views.words import since
from job.plan import Field
from job.types import STRING

SILENT_S = 45.0
"""Nodes tell of themselves every 30 s."""
COLUMNS = tuple(
    Field(name, STRING) for name in ("node", "kind", "address", "sources", "up", "heard", "version")
)


def node_rows(nodes: Sequence[Mapping[str, Any]], now: datetime) -> list[tuple[Any, ...]]:
    """Rows of COLUMNS; those that left come last, and those that were not heard when they should have been say so."""
    rows = []
    for node in sorted(nodes, key=lambda node: (node["left"], node["name"])):
        up = "left" if node["left"] else since(node["started"], now)
        heard = f"{since(node['told'], now)} ago"
        if (now - datetime.fromisoformat(node["told"])).total_seconds() > SILENT_S and not node["left"]:
            heard += ", silent"
        sources = ", ".join(node["sources"]) or "-"
        rows.append((node["name"], node["kind"], node["address"], sources, up, heard, node["version"]))
    return rows

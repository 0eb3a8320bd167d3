"""The nodes of a fleet as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from elfstream.views.words import since
from job.plan import Field
from job.types import STRING

COLUMNS = tuple(
    Field(name, STRING) for name in ("node", "kind", "address", "sources", "up", "heard", "version")
)


def node_rows(nodes: Sequence[Mapping[str, Any]], now: datetime) -> list[tuple[Any, ...]]:
    """Rows of COLUMNS; those that left come last."""
    rows = []
    for node in sorted(nodes, key=lambda node: (node["left"], node["name"])):
        up = "left" if node["left"] else since(node["started"], now)
        heard = f"{since(node['told'], now)} ago"
        sources = ", ".join(node["sources"]) or "-"
        rows.append((node["name"], node["kind"], node["address"], sources, up, heard, node["version"]))
    return rows

"""Results that came as JSON, as Python values: the rows that `elf.query` would give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from elfstream.result import ResultColumn, Row, row_class
from job.types import type_of
from master.window_values import Window, from_json, window_of


class RemoteCoverage(NamedTuple):
    """What a result rests on; counters are of the streams that feed its plan, since these began."""

    agents: int
    missing: tuple[str, ...]
    lines: int
    rows: int
    filtered: int
    rejected: int
    late: int
    lost_bytes: int
    shed: int
    outside: int = 0


class WindowResult(NamedTuple):
    """A window of a job as it was published. `window` is None for a job without windows."""

    id: int
    """Ascends with each publication: `watch(after=id)` goes on behind it."""
    window: Window | None
    revision: int
    """Edition: 1, 2, ... of this window, one for each time that it was published; the greatest is the latest."""
    status: str
    """tentative, final or withdrawn."""
    plan: int | None
    """Revision of the job's plan that owns the window."""
    published: datetime
    lines: int
    coverage: RemoteCoverage
    columns: tuple[ResultColumn, ...]
    row_count: int
    rows: list[Row]
    origin: str = "live"
    """live, or backfill: it was computed elsewhere and sent."""


def typed_rows(columns: Sequence[ResultColumn], rows: Iterable[Sequence[Any]]) -> list[Row]:
    """Rows of JSON values (docs/CLI.md) as Python values. Raises ValueError, TypeError for what is none of its type."""
    make = row_class(columns)
    converters = [from_json(column.type) for column in columns]
    if not any(converters):
        return [make(row) for row in rows]
    return [
        make(
            value if convert is None or value is None else convert(value)
            for convert, value in zip(converters, row, strict=True)
        )
        for row in rows
    ]


def window_result(document: Mapping[str, Any]) -> WindowResult:
    """A result as the API has it. Raises KeyError, ValueError, TypeError for what is none."""
    columns = tuple(ResultColumn(one["name"], type_of(one["type"])) for one in document["columns"])
    coverage = {"outside": 0, **document["coverage"]}  # nodes of a version before did not tell it
    return WindowResult(
        document["id"],
        None if document["window"] is None else window_of(document["window"]),
        document["revision"],
        document["status"],
        document["plan"],
        datetime.fromisoformat(document["published"]),
        document["lines"],
        RemoteCoverage(*({**coverage, "missing": tuple(coverage["missing"])}[name] for name in RemoteCoverage._fields)),
        columns,
        document["row_count"],
        typed_rows(columns, ([row[column.name] for column in columns] for row in document["rows"])),
        document.get("origin", "live"),
    )

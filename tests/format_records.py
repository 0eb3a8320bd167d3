"""Lines through a format to plain Python records, for tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from job.formats import Format, SourceScanner, find
from job.types import STRING, Kind

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def records(format: Format, data: bytes, wanted: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The good lines of `data`; times are datetimes in UTC, decimals `Decimal`."""
    names = list(format.fields) if wanted is None else list(wanted)
    found: list[dict[str, Any]] = []
    for batch in SourceScanner(format, names).feed(data):
        columns = [_values(column, format, name) for name, column in zip(names, batch.columns, strict=True)]
        found += [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return found


def _values(column: Any, format: Format, name: str) -> list[Any]:
    of = format.fields.get(name, STRING)
    values = column.to_list(of.scale) if of.kind is Kind.DECIMAL else column.to_list()
    if of.kind is Kind.TIMESTAMP:
        return [None if value is None else EPOCH + timedelta(microseconds=value) for value in values]
    return list(values)


def record(text: str, line: str | bytes, wanted: Sequence[str] | None = None) -> dict[str, Any]:
    """The one good line that `line` must be, read with the format that `text` names or spells out."""
    data = line if isinstance(line, bytes) else line.encode()
    found = records(find(text), data + b"\n", wanted)
    assert len(found) == 1, rejects(text, line)
    return found[0]


def rejects(text: str, lines: str | bytes) -> dict[str, int]:
    """Why lines are rejected."""
    data = lines if isinstance(lines, bytes) else lines.encode()
    reasons: Counter[str] = Counter()
    for batch in SourceScanner(find(text), []).feed(data + b"\n"):
        reasons.update(batch.rejected)
    return dict(reasons)

"""Windows computed elsewhere, for a job of a fleet: what to compute, and how they are sent (docs/SPARK.md). Pure."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from elfstream.result import ResultColumn
from job.plan import Plan
from job.types import type_of

REQUEST_WINDOWS = 500
REQUEST_BYTES = 4 << 20
"""Of a request, but for a window that is larger by itself. Both are well below what nodes take (master/api_options.py)."""
NOTHING_PUT = {"stored": 0, "same": 0, "replaced": 0}
"""What is told of windows that were sent."""
_encode = msgspec.json.Encoder().encode
_PLAN = msgspec.msgpack.Decoder(Plan)


class BackfillScope(NamedTuple):
    """What a backfill of a job has to compute: the windows that start in [start, end)."""

    job: str
    revision: int
    """Of the job: goes with each window."""
    plan: Plan
    sql: str
    parameters: dict[str, Any]
    columns: tuple[ResultColumn, ...]
    sources: tuple[dict[str, Any], ...]
    """As /v1/sources shows them."""
    size_us: int
    slide_us: int
    boundary: datetime
    """E: windows that start here or later are live."""
    start: datetime | None
    """None: from the first line on."""
    end: datetime


def scope_of(document: Mapping[str, Any]) -> BackfillScope:
    """An answer of the API. Raises KeyError, ValueError, TypeError for what is none."""
    return BackfillScope(
        document["job"],
        document["revision"],
        _PLAN.decode(base64.b64decode(document["plan"], validate=True)),
        document["sql"],
        dict(document["parameters"]),
        tuple(ResultColumn(one["name"], type_of(one["type"])) for one in document["columns"]),
        tuple(document["sources"]),
        document["size_us"],
        document["slide_us"],
        datetime.fromisoformat(document["boundary"]),
        None if document["from"] is None else datetime.fromisoformat(document["from"]),
        datetime.fromisoformat(document["to"]),
    )


def put_in_all(told: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """What is told of both."""
    return {name: count + more[name] for name, count in told.items()}


def bodies(windows: Iterable[Mapping[str, Any] | bytes]) -> Iterator[bytes]:
    """Bodies of requests, with a line for each window; as lazily as the windows come."""
    lines: list[bytes] = []
    size = 0
    for window in windows:
        line = bytes(window) if isinstance(window, bytes | bytearray | memoryview) else _encode(window)
        if lines and (len(lines) == REQUEST_WINDOWS or size + len(line) > REQUEST_BYTES):
            yield b"\n".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line) + 1
    if lines:
        yield b"\n".join(lines)

"""What Schemathesis has to be told: how JSON lines are written and read."""

from __future__ import annotations

import json
from typing import Any

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(_context: Any, value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


@schemathesis.deserializer("application/x-ndjson")
def first_line(_context: Any, response: Any) -> Any:
    """All lines are of one schema; that is the one described."""
    return json.loads(response.content.split(b"\n", 1)[0])

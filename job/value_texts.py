"""Values of result rows as text: what CSV, Markdown and tables write for each kind. docs/CLI.md has the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from math import isfinite, isnan
from typing import Any, Protocol

from job.types import Kind, Type

Text = Callable[[Any], str]
"""A value that is not None, as text."""


class NamedType(Protocol):
    """A column's name and type: a result's column, a plan's field."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> Type: ...


def time_text(value: datetime) -> str:
    """RFC 3339 in UTC with Z; six digits of microseconds when there are any."""
    return value.replace(tzinfo=None).isoformat() + "Z"


def decimal_text(value: Decimal) -> str:
    """All digits, never an exponent."""
    return format(value, "f")


def double_text(value: float) -> str:
    """The shortest text that reads back as the same double; NaN, Infinity and -Infinity as Spark writes them."""
    if isfinite(value):
        return repr(value)
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _boolean_text(value: bool) -> str:
    return "true" if value else "false"


def _array_text(value: Sequence[float | None]) -> str:
    return "[" + ", ".join("null" if item is None else double_text(item) for item in value) + "]"


def _json_array_text(value: Sequence[float | None]) -> str:
    quoted = (None if item is None else double_text(item) for item in value)
    return (
        "["
        + ",".join("null" if t is None else f'"{t}"' if t.endswith(("N", "y")) else t for t in quoted)
        + "]"
    )


def _moment_text(value: datetime) -> str:
    return time_text(value).replace("T", " ")


def _window_text(value: tuple[datetime, datetime]) -> str:
    """`start to end`; the end without its date where that is the same."""
    start, end = _moment_text(value[0])[:-1], _moment_text(value[1])
    return f"{start} to {end[11:] if start[:10] == end[:10] else end}"


TEXTS: dict[Kind, Text] = {
    Kind.NULL: str,
    Kind.BOOLEAN: _boolean_text,
    Kind.BIGINT: str,
    Kind.DECIMAL: decimal_text,
    Kind.DOUBLE: double_text,
    Kind.STRING: str,
    Kind.TIMESTAMP: time_text,
    Kind.ARRAY: _json_array_text,
}
"""How CSV writes values of each kind."""

READABLE_TEXTS: dict[Kind, Text] = TEXTS | {
    Kind.TIMESTAMP: _moment_text,
    Kind.WINDOW: _window_text,
    Kind.ARRAY: _array_text,
}
"""How tables write values of each kind."""

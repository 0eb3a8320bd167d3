"""Values of result rows as JSON has them (docs/CLI.md); the kinds that are not here are written as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from math import isfinite
from typing import Any

from job.types import Kind
from job.value_texts import decimal_text, double_text, time_text


def _double(value: float) -> float | str:
    return value if isfinite(value) else double_text(value)


def _array(value: Sequence[float | None]) -> list[float | str | None]:
    return [None if item is None else _double(item) for item in value]


def _window(value: tuple[datetime, datetime]) -> dict[str, str]:
    return {"start": time_text(value[0]), "end": time_text(value[1])}


JSON_VALUES: dict[Kind, Callable[[Any], Any]] = {
    Kind.DECIMAL: decimal_text,
    Kind.DOUBLE: _double,
    Kind.TIMESTAMP: time_text,
    Kind.WINDOW: _window,
    Kind.ARRAY: _array,
}
"""What is made of a value that is not None."""

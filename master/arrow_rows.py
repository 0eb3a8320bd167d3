"""Rows of Python values as Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow

from job.types import Type
from master.arrow_types import arrow_schema
from master.window_values import Window

Columns = Sequence[tuple[str, Type]]
"""Name and type of each, in order; `elfstream.result.ResultColumn` is one."""


def arrow_table(columns: Columns, rows: Sequence[Sequence[Any]]) -> pyarrow.Table:
    """Rows of values as `elf.query` has them."""
    schema = arrow_schema(columns)
    arrays = [
        pyarrow.array(arrow_values(row[index] for row in rows), type=field.type) for index, field in enumerate(schema)
    ]
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def arrow_values(values: Iterable[Any]) -> list[Any]:
    """As pyarrow takes them."""
    return [value._asdict() if isinstance(value, Window) else value for value in values]

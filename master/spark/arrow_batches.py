"""Columns as Arrow record batches, without a Python object per row where the kernels are compiled. Knows pyarrow, not
PySpark."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cython_ext.reference_scanner import ListColumn
from master.spark.kernels import COMPILED

if COMPILED:
    from cython_ext.arrow import arrow_buffers
if TYPE_CHECKING:
    from cython_ext.column import Column

_EXACT = Context(prec=80)


def record_batch(columns: Sequence[Column | ListColumn], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """`columns`, of `rows` rows each, as `schema` names them."""
    arrays = [_array(column, field.type, rows) for column, field in zip(columns, schema, strict=True)]
    if not arrays:  # a batch of no columns has no rows, so somebody who only counts needs a column
        raise ValueError("a record batch without columns cannot say how many rows it has")
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(column: Column | ListColumn, type_: Any, rows: int) -> pa.Array:
    if isinstance(column, ListColumn):
        values = column.values
        if pa.types.is_decimal(type_):
            values = [None if value is None else Decimal(value).scaleb(-type_.scale, _EXACT) for value in values]
        return pa.array(values, type_)
    nulls, validity, buffers = arrow_buffers(column)
    parts = [None if validity is None else pa.py_buffer(validity), *map(pa.py_buffer, buffers)]
    return pa.Array.from_buffers(type_, rows, parts, null_count=nulls)

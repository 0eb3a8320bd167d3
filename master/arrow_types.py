"""Which Arrow type a type of ours is, and back: the one place that says so. Imports no kernel; some executors lack them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow

from job.types import ARRAY, BIGINT, BOOLEAN, DOUBLE, NULL, STRING, TIMESTAMP, WINDOW, Kind, Type, decimal

STAMP = pyarrow.timestamp("us", tz="UTC")
_TYPES = {
    Kind.NULL: pyarrow.null(),
    Kind.BOOLEAN: pyarrow.bool_(),
    Kind.BIGINT: pyarrow.int64(),
    Kind.DOUBLE: pyarrow.float64(),
    Kind.STRING: pyarrow.string(),
    Kind.TIMESTAMP: STAMP,
    Kind.WINDOW: pyarrow.struct([("start", STAMP), ("end", STAMP)]),
    Kind.ARRAY: pyarrow.list_(pyarrow.float64()),
}


def arrow_type(type: Type) -> pyarrow.DataType:
    """Times are microseconds in UTC, windows structs of two, decimals have 128 bits."""
    if type.kind is Kind.DECIMAL:
        return pyarrow.decimal128(type.precision, type.scale)
    return _TYPES[type.kind]


def type_of_arrow(type: pyarrow.DataType) -> Type | None:
    """The type of ours that holds what an Arrow type does; None: there is none."""
    kinds = pyarrow.types
    if kinds.is_signed_integer(type):
        return BIGINT
    if kinds.is_decimal128(type):
        return decimal(type.precision, type.scale) if 0 <= type.scale <= type.precision else None
    if kinds.is_timestamp(type):
        return TIMESTAMP
    if kinds.is_floating(type):
        return DOUBLE
    if kinds.is_string(type) or kinds.is_large_string(type):
        return STRING
    if kinds.is_list(type):
        return ARRAY if kinds.is_floating(type.value_type) else None
    if kinds.is_struct(type) and [field.name for field in type] == ["start", "end"]:
        return WINDOW if all(kinds.is_timestamp(field.type) for field in type) else None
    return {pyarrow.bool_(): BOOLEAN, pyarrow.null(): NULL}.get(type)


def arrow_schema(columns: Iterable[tuple[str, Type]]) -> pyarrow.Schema:
    """Of columns by name and type, in order."""
    return pyarrow.schema([(name, arrow_type(type)) for name, type in columns])

"""Columns as Arrow's own library reads them: the same values, NULLs and texts, constants repeated."""

from __future__ import annotations

import math
import struct
from decimal import Context, Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cython_ext.arrow import arrow_buffers
from cython_ext.column import Column, Selection
from cython_ext.reference_scanner import ListColumn
from job.types import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, Kind, Type, decimal

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

LONGS = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    BOOLEAN: st.booleans(),
    BIGINT: LONGS,
    TIMESTAMP: LONGS,
    DOUBLE: st.floats(),
    decimal(38, 6): st.integers(1 - 10**38, 10**38 - 1),
    STRING: st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=6) | st.just("ünï" * 30),
}


def _read(column: Column, type_: Type) -> list[Any]:
    from master.arrow_types import arrow_type
    from master.spark.arrow_batches import record_batch

    schema = pa.schema([("x", arrow_type(type_))])
    batch = record_batch([column], schema, column.length)
    batch.validate(full=True)
    plain = ListColumn(type_.kind, column.to_list())
    assert type_ == DOUBLE or record_batch([plain], schema, column.length) == batch
    values: list[Any] = batch.column(0).cast(pa.int64()).to_pylist() if type_ == TIMESTAMP else batch.column(0).to_pylist()
    assert batch.column(0).null_count == sum(value is None for value in values)
    return values


def _same(found: list[Any], values: list[Any], type_: Type) -> bool:
    if type_.kind is Kind.DECIMAL:
        values = [None if value is None else Decimal(value).scaleb(-6, Context(prec=60)) for value in values]
        return [None if value is None else value.as_tuple() for value in found] == [
            None if value is None else value.as_tuple() for value in values
        ]
    if type_ == DOUBLE:
        return list(map(_bits, found)) == list(map(_bits, values))
    return found == values


def _bits(value: float | None) -> bytes:
    return b"NULL" if value is None else b"NaN" if math.isnan(value) else struct.pack("d", value)


@pytest.mark.parametrize("type_", VALUES, ids=str)
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_what_arrow_reads_is_what_the_column_has(type_: Type, data: st.DataObject) -> None:
    one = st.none() | VALUES[type_] if data.draw(st.booleans()) else VALUES[type_]
    values = data.draw(st.lists(one, max_size=40))
    column = Column.from_list(type_.kind, values)
    assert _same(_read(column, type_), values, type_)
    rows = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=20)) if values else []
    taken = column.take(Selection.from_list(rows))
    assert _same(_read(taken, type_), [values[row] for row in rows], type_)
    length = data.draw(st.integers(0, 20))
    constant = Column.from_list(type_.kind, [data.draw(one)], constant=True, length=length)
    assert _same(_read(constant, type_), constant.to_list(), type_)


def test_a_validity_without_nulls_is_none() -> None:
    column = Column.from_list(Kind.BIGINT, [1, None]).take(Selection.from_list([0, 0]))
    assert arrow_buffers(column)[:2] == (0, None)


def test_what_has_no_buffers_is_refused() -> None:
    from master.spark.arrow_batches import record_batch

    with pytest.raises(TypeError, match="kind 0"):
        arrow_buffers(Column.from_list(Kind.NULL, [None]))
    text = Column.from_list(Kind.STRING, ["x" * (1 << 20)], constant=True, length=1 << 11)
    with pytest.raises(OverflowError, match="2 GiB"):
        arrow_buffers(text)
    with pytest.raises(ValueError, match="how many rows"):
        record_batch([], pa.schema([]), 3)

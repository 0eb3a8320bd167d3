"""Results as Arrow: what a node of another version, or no node at all, might say."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from master.spark.errors import FleetReadError
from master.spark.fleet_reader import JobDocument, ResultDocument
from master.spark.result_rows import job_columns, result_batch, result_schema


def job(type: str) -> JobDocument:
    return {"name": "hot", "created": "2025-11-28T19:30:00Z", "columns": [{"name": "a", "type": type}]}


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("BIGINT", "x"), ("BIGINT", 2**63), ("STRING", 5), ("DOUBLE", "x"), ("DECIMAL(3,1)", "x"),
        ("DECIMAL(3,1)", "12345.6"),
        ("TIMESTAMP", "yesterday"), ("TIMESTAMP", 5), ("STRUCT<start: TIMESTAMP, end: TIMESTAMP>", {}),
        ("STRUCT<start: TIMESTAMP, end: TIMESTAMP>", "x"), ("ARRAY<DOUBLE>", 5), ("BOOLEAN", "x"),
    ],
)  # fmt: skip
def test_a_value_that_is_none_of_its_type_is_told(type: str, value: Any) -> None:
    columns = job_columns(job(type))
    document: ResultDocument = {
        "id": 7, "window": None, "revision": 1, "status": "final", "columns": [{"name": "a", "type": type}],
        "rows": [{"a": value}],
    }  # fmt: skip
    with pytest.raises(FleetReadError) as raised:
        result_batch(document, columns, result_schema(columns))
    assert str(raised.value).startswith(f"column a of result 7 has a value that is no {type}: ")
    document["rows"] = [{"a": None}, {}]
    assert result_batch(document, columns, result_schema(columns)).num_rows == 2


def test_a_value_that_is_no_base64_is_told() -> None:
    columns = job_columns(job("STRING"), ["a"])
    document: ResultDocument = {
        "id": 7, "window": None, "revision": 1, "status": "final", "columns": [], "rows": [{"a": "x"}],
    }  # fmt: skip
    with pytest.raises(FleetReadError, match="column a of result 7"):
        result_batch(document, columns, result_schema(columns))


def test_a_type_that_is_not_known_is_told() -> None:
    with pytest.raises(FleetReadError, match="job hot: 'MAP' is no type that this version of elfstream knows"):
        job_columns(job("MAP"))

"""Results as the API has them, as Arrow: `_id`, the window and its edition, then the job's columns."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from typing import Any

import pyarrow

from job.types import BIGINT, STRING, TIMESTAMP, Kind, Type, type_of
from master.arrow_rows import arrow_values
from master.arrow_types import arrow_schema, arrow_type
from master.column_names import free_names
from master.spark.errors import FleetReadError, ResultOptionError
from master.spark.fleet_reader import JobDocument, ResultDocument
from master.window_values import from_json

OWN = (("_id", BIGINT), ("_start", TIMESTAMP), ("_end", TIMESTAMP), ("_revision", BIGINT))
Columns = Sequence[tuple[str, str, Type]]
"""What a column is called here and in the job, and its type; BINARY: texts of base64, as bytes."""
BINARY = Type(Kind.STRING, 1)


def job_columns(document: JobDocument, binary: Sequence[str] = ()) -> list[tuple[str, str, Type]]:
    """Of a job as the API has it; one called like ours gets a _ behind its name. Those named `binary` hold base64, as
    hll_sketch_agg gives it. Raises ResultOptionError where there is no such column of texts, FleetReadError for a type that
    is not known here."""
    try:
        given = [(one["name"], type_of(one["type"])) for one in document["columns"]]
    except ValueError as error:
        raise FleetReadError(f"job {document['name']}: {error} that this version of elfstream knows") from None
    names = free_names([name for name, _ in given], [name for name, _ in OWN])
    texts = {name for name, type in given if type == STRING}
    for name in binary:
        if name not in texts:
            raise ResultOptionError(f"option binary: the job has no column {name} of texts")
    return [
        (here, name, BINARY if name in binary else type) for here, (name, type) in zip(names, given, strict=True)
    ]


def result_schema(columns: Columns | None) -> pyarrow.Schema:
    """None: of a row a result, not of its rows."""
    if columns is None:
        return arrow_schema([*OWN, ("_status", STRING)])
    fields = [
        pyarrow.field(here, pyarrow.binary() if type == BINARY else arrow_type(type))
        for here, _, type in columns
    ]
    return pyarrow.schema([*arrow_schema(OWN), *fields])


def result_batch(document: ResultDocument, columns: Columns | None, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    """The rows of one result, or a row for it. A column that the job did not have then is NULL. Raises FleetReadError where
    it had another type: then the query has to be planned anew; and for values that are none of their type."""
    rows = document["rows"] if columns is not None else [{}]
    told = {one["name"]: one["type"] for one in document["columns"]}
    window = document["window"]
    times = (None, None) if window is None else (window["start"], window["end"])
    first = [document["id"], *times, document["revision"]] + ([document["status"]] if columns is None else [])
    arrays = [
        pyarrow.repeat(pyarrow.scalar(value, field.type), len(rows))
        for value, field in zip(first, schema, strict=False)
    ]
    for (_, name, type), field in zip(columns or (), list(schema)[len(first) :], strict=True):
        if told.get(name, str(type)) != str(type):
            raise FleetReadError(
                f"column {name} of result {document['id']} is {told[name]}, and {type} in the job as it was when the query "
                "was planned: start the query anew, and leave older results out with startingFrom or from"
            )
        try:
            arrays.append(_array([row.get(name) for row in rows], type, field.type))
        except (ValueError, TypeError, LookupError, ArithmeticError, pyarrow.ArrowException) as error:
            text = f"column {name} of result {document['id']} has a value that is no {told.get(name, type)}: {error}"
            raise FleetReadError(text) from None
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Sequence[Any], type: Type, arrow: pyarrow.DataType) -> pyarrow.Array:
    """Values of JSON. Raises what the making of values and arrays raises."""
    convert = b64decode if type == BINARY else from_json(type)
    if convert is not None:
        values = [None if value is None else convert(value) for value in values]
    return pyarrow.array(arrow_values(values), type=arrow)

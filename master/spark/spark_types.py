"""Our types as Spark's, and back, both by way of Arrow (master/arrow_types.py): so the log source, the results source and
Parquet files agree. Arrow is imported where it is needed: it takes 40 MiB of each process, and Spark plans in several.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import types as spark

from job.types import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP, Kind, Type

FIELD_TYPES = (STRING, BIGINT, DOUBLE, BOOLEAN, TIMESTAMP)
"""What fields of logs are, but for decimals."""


def spark_schema(fields: Mapping[str, Type]) -> spark.StructType:
    """The table that has `fields`; every one may be NULL."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from master.arrow_types import arrow_schema

    return from_arrow_schema(arrow_schema(fields.items()))


def types_of(schema: spark.StructType) -> dict[str, Type]:
    """The columns that a schema asks for. Raises ValueError for types that no field of a log has."""
    return {field.name: _type_of(field) for field in schema.fields}


def _type_of(field: spark.StructField) -> Type:
    from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

    from master.arrow_types import arrow_type, type_of_arrow

    try:
        found = type_of_arrow(to_arrow_type(field.dataType, timezone="UTC"))
    except (PySparkException, TypeError):  # Arrow has no such type
        found = None
    # Arrow takes more for ours than is the same to Spark: an INT, a STRING with a collation of its own.
    is_field = found is not None and (found.kind is Kind.DECIMAL or found in FIELD_TYPES)
    if found is None or not is_field or from_arrow_type(arrow_type(found)) != field.dataType:
        raise ValueError(
            f"column {field.name}: no field is a {field.dataType.simpleString()}; fields are string, bigint, double, "
            f"boolean, timestamp or decimal"
        )
    return found

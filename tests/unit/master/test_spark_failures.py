"""What people are told of what came through Spark."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.errors import AnalysisException

from master.spark.errors import FleetReadError
from master.spark.failures import told

WRAPPED = """[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: Traceback (most recent call last):
  File "results_source.py", line 103, in __init__
master.spark.errors.FleetReadError: there is no such job
 SQLSTATE: 38000"""
SPARKS = """[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `hit` cannot be resolved. SQLSTATE: 42703; line 1 pos 7;
'Project ['hit]
+- SubqueryAlias jobs"""


def test_what_is_told() -> None:
    assert told(AnalysisException(WRAPPED)) == "there is no such job"
    assert told(AnalysisException(SPARKS)) == SPARKS.split("\n")[0]
    assert told(FleetReadError("no node answers")) == "no node answers"
    assert told(ValueError("x")) is None

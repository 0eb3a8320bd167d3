"""Small plans for the tests of the fleet's cores, compiled from SQL once."""

from __future__ import annotations

from functools import cache

from job.plan import Plan, Schema
from job.sql import compile_sql
from job.types import BIGINT, STRING, TIMESTAMP

SECOND_US = 1_000_000
SCHEMA = Schema({"time": TIMESTAMP, "path": STRING, "status": BIGINT, "bytes": BIGINT})


@cache
def plan(window: str = "window(time, '10 seconds')", key: str = "path", having: str = "") -> Plan:
    """count, sum and distinct statuses by `key`, within a window unless `window` is empty."""
    keys = f"{window}, {key}" if window else key
    having = f" HAVING {having}" if having else ""
    select = f"{key}, count(*) AS hits, sum(bytes) AS volume, count(DISTINCT status) AS kinds"
    return compile_sql(
        f"SELECT {select} FROM access GROUP BY {keys}{having}",
        {"access": SCHEMA},
    )


@cache
def counting(window: str, key: str = "path") -> Plan:
    """count(*) by `key`: what tests/frame_data.py has frames of."""
    return compile_sql(
        f"SELECT {key}, count(*) AS hits FROM access GROUP BY {window}, {key}", {"access": SCHEMA}
    )

"""elfstream: exact SQL over web access logs.

    import elfstream as elf

    for row in elf.query("SELECT path, count(*) AS hits FROM access GROUP BY path ORDER BY hits DESC", "access.log*"):
        print(row.path, row.hits)

Names are loaded when first used, so that `elfstream --help` does not wait for kernels it will not run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.errors import InputError
    from cbt.errors import MemoryCapError, SpillError
    from elfstream.backfilled import BackfillScope
    from elfstream.client import AsyncClient, AsyncJob, connect_async
    from elfstream.client_errors import ApiError, ResultsLostError, UnreachableError
    from elfstream.client_sync import Client, Job, connect
    from elfstream.embedded import Progress, RejectedLineError, compile_plan, query
    from elfstream.remote_results import RemoteCoverage, WindowResult
    from elfstream.result import RejectSample, Result, ResultColumn, Row, Stats
    from elfstream.spark_query import backfill
    from job.errors import FormatError, JobError, ParameterError, SqlError
    from master.spark.catalog import JobsCatalog, jobs_catalog
    from master.window_values import Window

__version__ = "0.1.0"

_HOMES = {
    "agent.errors": ("InputError",),
    "cbt.errors": ("MemoryCapError", "SpillError"),
    "elfstream.backfilled": ("BackfillScope",),
    "elfstream.client": ("AsyncClient", "AsyncJob", "connect_async"),
    "elfstream.client_errors": ("ApiError", "ResultsLostError", "UnreachableError"),
    "elfstream.client_sync": ("Client", "Job", "connect"),
    "elfstream.embedded": ("Progress", "RejectedLineError", "compile_plan", "query"),
    "elfstream.remote_results": ("RemoteCoverage", "WindowResult"),
    "elfstream.result": ("RejectSample", "Result", "ResultColumn", "Row", "Stats"),
    "elfstream.spark_query": ("backfill",),
    "job.errors": ("FormatError", "JobError", "ParameterError", "SqlError"),
    "master.spark.catalog": ("JobsCatalog", "jobs_catalog"),
    "master.window_values": ("Window",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ApiError",
    "AsyncClient",
    "AsyncJob",
    "BackfillScope",
    "Client",
    "FormatError",
    "InputError",
    "Job",
    "JobError",
    "JobsCatalog",
    "MemoryCapError",
    "ParameterError",
    "Progress",
    "RejectSample",
    "RejectedLineError",
    "RemoteCoverage",
    "Result",
    "ResultColumn",
    "ResultsLostError",
    "Row",
    "SpillError",
    "SqlError",
    "Stats",
    "UnreachableError",
    "Window",
    "WindowResult",
    "backfill",
    "compile_plan",
    "connect",
    "connect_async",
    "jobs_catalog",
    "query",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'elfstream' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)

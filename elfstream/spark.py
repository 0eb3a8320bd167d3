"""Spark from Python: sessions that read logs and results of jobs as tables (docs/SPARK.md).

Needs `elfstream[spark]` and Java.

    from elfstream import spark

    session = spark.open_session("local[*]")
    reads = spark.register(session)
    logs = session.read.format("elfstream_logs").option("format", "combined").load("/var/log/nginx/access.log*")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from master.spark.session import SparkMissingError, archive, archive_settings, check_spark, open_session

if TYPE_CHECKING:
    from master.spark.log_report import LogReads

__all__ = [
    "SparkMissingError",
    "archive",
    "archive_settings",
    "check_spark",
    "open_session",
    "register",
]


def register(session: Any) -> LogReads:
    """Makes `elfstream_logs` and `elfstream_results` known to a session, which need not be one of `open_session`.

    What scans of logs read, and which lines were none, is in what this returns: `reads.last.counts`, `reads.last.samples`.
    """
    from master.spark import log_source, results_source

    results_source.register(session)
    return log_source.register(session)

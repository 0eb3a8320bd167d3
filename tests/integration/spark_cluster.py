"""Run by test_spark_cluster.py in a process of its own: reads logs on two executors that have our code from the archive
only, and writes what they saw as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from agent.errors import InputError
from master.spark.log_source import register
from master.spark.session import archive, open_session


def where(_: Any) -> Any:
    """Where executors have our code from, and whether it is compiled."""
    from master.spark import kernels

    yield kernels.__file__, kernels.COMPILED


def main(folder: str, pattern: str, kernels: str) -> None:
    path = archive(folder, kernels=False) if kernels == "plain" else None  # else it is made and sent unasked
    session = open_session(
        "local-cluster[2,1,1024]",
        archive_path=path,
        settings={
            "spark.ui.enabled": "false",
            "spark.executor.memory": "768m",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.driver.host": "127.0.0.1",
        },
    )
    context = session.sparkContext
    context.setLogLevel("ERROR")
    print("application", context.applicationId, flush=True)
    reads = register(session)
    logs = session.read.format("elfstream_logs").option("format", "combined").option("splitBytes", "16KiB").load(pattern)
    rows = logs.where("status <> 404").orderBy("time", "remote_addr", "request", "user_agent", "bytes").collect()
    last = reads.last
    if last is None:
        raise InputError(pattern, "nothing was read")
    found = {
        "rows": [[str(value) for value in row] for row in rows],
        "where": sorted(set(context.parallelize(range(4), 4).mapPartitions(where).collect())),
        "lines": last.counts.lines,
        "rejected": dict(last.counts.rejected),
        "splits": [last.splits, last.planned, last.plain_splits],
    }
    session.stop()
    print("found", json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A session for one piece of work: that of this process, or one that begins and ends with the work, and keeps quiet."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from master.spark.backfill import BackfillError
from master.spark.session import check_spark, is_local, open_session

SETTINGS = {"spark.log.level": "OFF"}
"""What fails is told by us."""
BACKFILL_SETTINGS = {"spark.shuffle.compress": "false"}
"""Groups are packed already."""
LOCAL_SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.task.maxDirectResultSize": "64m",
}
"""Of a local backfill, where Java only hands bytes on: no more than the cheap compiler and collector pays, and an answer
need not be fetched through a socket from the process that has it."""
LOG_BYTES = 2000
"""Of what Java wrote, when it does not start."""


def backfill_session(master: str, settings: Mapping[str, str] | None = None) -> AbstractContextManager[Any]:
    """As `session_at`, for a backfill: no rows pass through Java, so it needs little."""
    local = LOCAL_SETTINGS if is_local(master) else {}
    return session_at(master, {**BACKFILL_SETTINGS, **local, **(settings or {})}, "elfstream backfill")


@contextmanager
def session_at(master: str, settings: Mapping[str, str] | None = None, name: str = "elfstream") -> Iterator[Any]:
    """The session of this process, or where there is none one at `master` called `name`, which is stopped afterwards. Raises
    SparkMissingError, BackfillError when Spark does not start."""
    check_spark()
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:  # getActiveSession knows only those of this thread
        yield open_session(master)
        return
    with _java_log() as log:
        try:
            made = open_session(master, name=name, settings={**SETTINGS, **(settings or {})})
        except Exception as error:
            log.seek(-min(LOG_BYTES, log.seek(0, os.SEEK_END)), os.SEEK_END)
            told = log.read().decode("utf-8", "replace").strip()
            raise BackfillError(f"Spark did not start at {master}: {error}\n{told}".rstrip()) from error
    try:
        yield made
    finally:
        with suppress(OSError, Py4JError):  # Java is gone already
            made.stop()


@contextmanager
def _java_log() -> Iterator[Any]:
    """Java inherits a file without a name as its standard error: what it logs while it runs is not for people who ask about
    logs of their own."""
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield log
        finally:
            os.dup2(saved, 2)
            os.close(saved)

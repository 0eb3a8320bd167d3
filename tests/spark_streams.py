"""Streams of Spark that end by themselves, on a machine that may be busy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

TRIES = 30


def run_to_end(start: Callable[[], Any]) -> None:
    """Starts a stream and waits for its end. Raises what Spark fails with.

    Spark gives a process of Python ten seconds to start and to connect, whatever else the machine does, and has no setting
    for that (PythonWorkerFactory, createSimpleWorker). A stream whose process was too late has done nothing yet: it is
    started again."""
    from pyspark.errors import StreamingQueryException

    for _ in range(TRIES):
        try:
            start().awaitTermination()
            return
        except StreamingQueryException as error:
            if "Python worker failed to connect back" not in str(error):
                raise
    pytest.fail(f"Python did not start within ten seconds, {TRIES} times")

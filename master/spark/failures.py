"""What to say of an exception that came through Spark, whose text is mostly about Spark's inside."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException

from master.errors import MasterError

_OURS = re.compile(r"^(?:master\.spark\.errors|elfstream\.client_errors)\.\w+: (.+)$", re.MULTILINE)
_INSIDE = re.compile(r"\n\s*\n|\n=== |\n'|JVM stacktrace")


def told(error: Exception) -> str | None:
    """Our own message, also where Spark has wrapped it, else the first lines of Spark's; None: it is neither's."""
    if isinstance(error, MasterError):
        return str(error)
    if not isinstance(error, PySparkException):
        return None
    ours = _OURS.findall(str(error))
    return str(ours[-1]) if ours else _INSIDE.split(str(error))[0].strip()

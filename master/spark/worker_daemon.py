"""The process that Spark forks its Python workers from, with our code in it already: `spark.python.daemon.module`.

Spark's own takes PySpark from a zip without bytecode, so that it and each worker compile what they import, and each worker
imports by itself what a task needs. For sessions of this machine, whose Python is ours.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import PurePath

ZIPS = ("pyspark", "python", "lib")
"""The end of the folder where PySpark as pip installs it has itself and py4j again, as zips."""


def unzipped(path: Sequence[str]) -> list[str]:
    """`path` without those zips where the folder that PySpark is installed in is on it as well."""
    return [entry for entry in path if not (entry.endswith(".zip") and _installed_in(entry) in path)]


def _installed_in(entry: str) -> str | None:
    folders = PurePath(entry).parents
    return str(folders[3]) if len(folders) > 3 and folders[0].parts[-3:] == ZIPS else None


def main() -> None:
    """Imports nothing that starts threads, as pyarrow does: they would not be in the workers."""
    sys.path[:] = unzipped(sys.path)
    kernels = import_module("master.spark.kernels")
    import_module("master.spark.tasks" if kernels.COMPILED else "master.spark.plain_scan")
    daemon = import_module("pyspark.daemon")
    gc.freeze()  # a worker looks through its garbage behind each task, and none of this will ever be any
    daemon.manager()


if __name__ == "__main__":
    main()

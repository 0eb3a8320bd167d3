"""Executors in processes of their own, which have our code from the archive only: with compiled kernels and without."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from elfstream.embedded import query
from tests.conftest import require_spark

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]
GOOD = '192.0.2.%d - - [14/Mar/2024:09:%02d:%02d +0000] "GET /p%d?q=ü HTTP/1.1" %d %d "-" "curl/%d"\n'


def _write(folder: Path) -> None:
    folder.mkdir()
    for number in range(3):
        lines = [
            GOOD % (n % 250, n // 60 % 60, n % 60, n % 7, 404 if n % 5 == 0 else 200, n, number)
            if n % 50
            else "no line\n"
            for n in range(300)
        ]
        (folder / f"access.log.{number}").write_text("".join(lines))


@pytest.mark.parametrize("kernels", ["compiled", "plain"])
def test_executors_take_our_code_from_the_archive(tmp_path: Path, kernels: str) -> None:
    require_spark()
    _write(tmp_path / "logs")
    pattern = str(tmp_path / "logs" / "access.log.*")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("spark_cluster.py")), str(tmp_path), pattern, kernels],
        capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=900, check=False,
    )  # fmt: skip
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith(("application ", "found ")))
    _clean(told.get("application"))
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(told["found"])
    assert all("elfstream_code" in path for path, _ in found["where"]), found["where"]
    assert {compiled for _, compiled in found["where"]} == {kernels == "compiled"}
    result = query(
        """SELECT remote_addr, time, status, bytes, path, query, user_agent, count(*) AS n FROM access WHERE status <> 404
           GROUP BY remote_addr, time, status, bytes, path, query, user_agent""",
        pattern, format="combined",
    )  # fmt: skip
    columns = ("remote_addr", "time", "status", "bytes", "path", "query", "user_agent")
    want = sorted([str(row[name]) for name in columns if name != "time"] for row in result for _ in range(row.n))
    places = [0, 10, 11, 7, 8, 13]
    assert sorted([row[place] for place in places] for row in found["rows"]) == want
    assert (found["lines"], found["rejected"]) == (900, {"truncated": 18})
    done_splits, planned, plain = found["splits"]
    assert done_splits == planned > 3
    assert plain == (0 if kernels == "compiled" else planned)


def _clean(application: str | None) -> None:
    """A cluster in one call writes into Spark's own folder, whatever it is told."""
    import pyspark

    if application:
        shutil.rmtree(Path(pyspark.__file__).parent / "work" / application, ignore_errors=True)


def test_the_archive_is_written_once_and_has_what_executors_import(tmp_path: Path) -> None:
    from master.spark.session import archive

    path = archive(tmp_path)
    written = path.stat().st_mtime_ns
    assert archive(tmp_path) == path
    assert path.stat().st_mtime_ns == written
    with tarfile.open(path) as tar:
        names = set(tar.getnames())
    assert {"cython_ext/scan.py", "cython_ext/scan.pyi"}.isdisjoint(names)
    assert {"cython_ext/reference_scan.py", "master/spark/split_scan.py", "msgspec/__init__.py"} <= names
    assert any(name.startswith("cython_ext/scan.") and name.endswith(".so") for name in names)
    plain = archive(tmp_path, kernels=False)
    with tarfile.open(plain) as tar:
        assert not [name for name in tar.getnames() if not name.endswith(".py")]

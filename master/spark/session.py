"""A Spark session with what our code needs, and our code packed for executors that lack it.

Executors need our packages, compiled for their Python and processor. Where they are installed on every node nothing is to
do. Else `archive` packs them, with the compiled packages they import, from this interpreter; Spark unpacks the archive
beside each executor, and `PYTHONPATH` names that folder. What the archive does not bring: Python of the same minor version
itself, pyarrow and pandas.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import warnings
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17
JAVA_S = 60.0
"""How long `java -version` may take, on a machine that has much else to do."""
OURS = ("agent", "cbt", "cython_ext", "job", "master", "srt")
NEEDED = ("msgspec", "sortedcontainers", "zstandard")
OPTIONAL = ("re2", "_re2")
"""Regular expressions; jobs with some are refused by executors without it."""
LEFT_OUT = ("__pycache__", "page")
SHIPPED = ("spark://", "local-cluster", "yarn")
"""Masters whose executors are sent our code unasked. In Kubernetes it is in the image: nothing uploads files there."""
UNPACKED = "elfstream_code"
"""The folder that executors find the archive in."""
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""Whether Python sources are told conditions; Spark does not do so by itself."""
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    PUSHDOWN: "true",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
DAEMON_SETTINGS = {"spark.python.daemon.module": "master.spark.worker_daemon"}
"""Where Python of the workers is this one."""


class SparkMissingError(Exception):
    """Spark cannot run here; says what to install."""


def check_spark() -> None:
    """Raises SparkMissingError unless PySpark, what it needs, and Java are here. Asks `java` for its version."""
    missing = [name for name in ("pyspark", "pyarrow", "pandas") if find_spec(name) is None]
    if missing:
        raise SparkMissingError(
            f"Spark is not installed ({', '.join(missing)} missing): pip install 'elfstream[spark]'"
        )
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(os.path.join(home, "bin", "java")) if home else shutil.which("java")
    advice = f"install Java {JAVA_MIN} or newer (Debian, Ubuntu: apt install openjdk-{JAVA_MIN}-jre-headless)"
    if java is None:
        where = f"JAVA_HOME is {home} with no bin/java in it" if home else "there is no java on the PATH"
        raise SparkMissingError(f"Spark runs on Java, and {where}: {advice}, or set JAVA_HOME")
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=JAVA_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkMissingError(f"Spark runs on Java, and `{java} -version` does not answer ({error}): {advice}") from None
    version = java_version(told.stderr)
    if version is None or version < JAVA_MIN:
        found = told.stderr.strip().partition("\n")[0] or "no version"
        raise SparkMissingError(f"Spark needs Java {JAVA_MIN}, and {java} is {found}: {advice}, or set JAVA_HOME")


def java_version(told: str) -> int | None:
    """The major version in what `java -version` writes; None where it is no such text."""
    found = re.search(r'version "(?:1\.)?([0-9]{1,4})', told)
    return int(found[1]) if found else None


def open_session(
    master: str = "local[*]",
    *,
    name: str = "elfstream",
    archive_path: str | os.PathLike[str] | None = None,
    ship: bool | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session of this process, made for `master` (local[*], spark://host:7077, yarn, k8s://...) where there is none yet.

    `archive_path`, a file that `archive` made, is sent to executors. Without one it is made where `ship`; None: where
    `master` is of the kind that SHIPPED names. `settings` are Spark's own and come last. Python of executors is
    PYSPARK_PYTHON, else the path of this one. Raises SparkMissingError. Takes about ten seconds.
    """
    check_spark()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = settings_for(master)
    if archive_path is None and (master.startswith(SHIPPED) if ship is None else ship):
        archive_path = archive()
    if archive_path is not None:
        chosen |= archive_settings(archive_path)
    chosen |= settings or {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark warns of its own imports
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master).appName(name)
        for key, value in chosen.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()


def settings_for(master: str) -> dict[str, str]:
    """What we tell Spark of ourselves, before anybody's own settings."""
    here = _LOCAL_SETTINGS if master.startswith("local") else {}
    is_ours = is_local(master) and os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable
    return {**_SETTINGS, **here, **(DAEMON_SETTINGS if is_ours else {})}


def is_local(master: str) -> bool:
    """Whether all tasks run in processes of this machine, as `local` and `local[...]` say; `local-cluster` has executors."""
    return master == "local" or master.startswith("local[")


def archive_settings(path: str | os.PathLike[str]) -> dict[str, str]:
    """What Spark must be told to send the archive and to import from it; for standalone, local-cluster, YARN, Kubernetes."""
    return {
        "spark.archives": f"{os.path.abspath(path)}#{UNPACKED}",
        "spark.executorEnv.PYTHONPATH": f"./{UNPACKED}",
    }


def archive(folder: str | os.PathLike[str] | None = None, *, kernels: bool = True) -> Path:
    """Packs our code for executors into a file in `folder` (None: ~/.cache/elfstream, which only its owner may write to);
    returns its path. The name is a hash of its content, so what is there already is not written again.

    Without `kernels` the compiled modules are left out: for executors of another processor, which have msgspec,
    sortedcontainers and zstandard installed and scan with plain Python, slowly. Raises SparkMissingError where a package
    is not found.
    """
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as tar,
    ):
        for inside, path in sorted(_members(kernels)):
            entry = tarfile.TarInfo(inside)
            content = path.read_bytes()
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    digest = hashlib.sha256(packed.getvalue()).hexdigest()[:16]
    place = (_cache() if folder is None else Path(folder)) / f"elfstream-{digest}.tar.gz"
    if not place.exists() or place.stat().st_size != len(packed.getvalue()):
        partial = place.with_suffix(f".{os.getpid()}.partial")
        partial.write_bytes(packed.getvalue())
        partial.replace(place)
    return place


def _cache() -> Path:
    """A folder of this user's own: what lies there is run by executors."""
    given = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(given) if given else Path.home() / ".cache") / "elfstream"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _members(kernels: bool) -> Iterator[tuple[str, Path]]:
    """(name in the archive, file) of all that executors import."""
    for name in OURS:
        yield from _package(name, kernels)
    if kernels:
        for name in (*NEEDED, *OPTIONAL):
            yield from _package(name, True)


def _package(name: str, kernels: bool) -> Iterator[tuple[str, Path]]:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        if name in OPTIONAL:
            return
        raise SparkMissingError(f"package {name} is not installed here, so it cannot be sent to executors")
    origin = Path(spec.origin)
    if not spec.submodule_search_locations:
        yield origin.name, origin
        return
    for path in sorted(origin.parent.rglob("*")):
        inside = path.relative_to(origin.parent.parent)
        is_code = path.suffix == ".py" or (kernels and path.suffix in (".so", ".pyd"))
        if is_code and not set(inside.parts) & set(LEFT_OUT):
            yield inside.as_posix(), path

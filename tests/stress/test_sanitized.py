"""The kernels under AddressSanitizer and UndefinedBehaviorSanitizer: their own tests, run in a copy of the checkout.

Python allocates through malloc there, so that every object has a guarded neighbourhood: a read one byte behind a block
of lines, or of a text whose owner has gone, ends the process with a report.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = (".git", ".venv", "build", "dist", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info", "*.so")
TESTS = ("tests/unit/cython_ext", "tests/unit/cbt", "tests/property", "--ignore=tests/property/test_spark_oracle.py")
FUZZ_S = 60
REPORTS = ("ERROR: AddressSanitizer", "runtime error:")

pytestmark = [pytest.mark.stress, pytest.mark.skipif(sys.platform != "linux", reason="preloads libasan")]


def libasan() -> str:
    """The sanitizer's library of the compiler that setuptools uses."""
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    asked = [compiler, "-print-file-name=libasan.so"]
    path = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    if not Path(path).is_absolute() or not Path(path).exists():
        pytest.skip(f"{compiler} has no libasan.so")
    return path


def run(folder: Path, arguments: Sequence[str], **environment: str) -> str:
    """Runs Python in `folder`; fails on an error and on any report. Returns what it printed."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    reports = [report for report in REPORTS if report in done.stdout]
    assert (done.returncode, reports) == (0, []), f"{arguments}:\n{done.stdout[-20_000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout whose kernels are sanitized."""
    libasan()
    copy = tmp_path_factory.mktemp("sanitized") / "checkout"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
    headers = Path(sys.prefix) / "cflags"  # where .ci/preflight put Python's C headers
    flags = headers.read_text().strip() if headers.exists() else os.environ.get("CFLAGS", "")
    run(copy, ["setup.py", "build_ext", "--inplace"], ELFSTREAM_SANITIZE="1", CFLAGS=flags)
    return copy


def run_sanitized(folder: Path, arguments: Sequence[str]) -> str:
    # Leaks are not looked for: the interpreter itself leaves objects behind at its end.
    return run(
        folder,
        arguments,
        LD_PRELOAD=libasan(),
        ASAN_OPTIONS="detect_leaks=0",
        UBSAN_OPTIONS="print_stacktrace=1",
        PYTHONMALLOC="malloc",
    )


def test_the_copy_runs_its_own_sanitized_kernels(checkout: Path) -> None:
    """What the other tests say is worth nothing otherwise."""
    kernel = run_sanitized(checkout, ["-c", "import cython_ext.column as c; print(c.__file__)"]).strip()
    assert Path(kernel).is_relative_to(checkout)
    assert b"__asan_report_load" in Path(kernel).read_bytes()


def test_kernels_and_properties_without_a_report(checkout: Path) -> None:
    # Nothing is captured, so that a report, which ends the process, is seen.
    options = ["-q", "--capture=no", "-p", "no:cacheprovider", "-m", "not stress and not spark"]
    assert " passed" in run_sanitized(checkout, ["-m", "pytest", *options, *TESTS])


def test_fuzzed_blocks_without_a_report(checkout: Path) -> None:
    assert "kernel and reference agree" in run_sanitized(checkout, ["tests/stress/fuzz_scan.py", str(FUZZ_S)])


def test_fuzzed_runs_without_a_report(checkout: Path) -> None:
    assert "the others sound" in run_sanitized(checkout, ["tests/stress/fuzz_run.py", str(FUZZ_S)])


def test_a_query_of_many_kernels_on_two_threads_without_a_report(checkout: Path) -> None:
    """The demo groups, merges, sorts and finishes, and checks every row."""
    command = ["-m", "elfstream", "demo", "--questions", "--lines", "20000"]
    assert "Every answer is what the generator meant" in run_sanitized(checkout, command)

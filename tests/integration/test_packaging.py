"""What is installed is complete: sdist and wheel each work in a fresh virtual environment, away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
QUERY = "SELECT status, count(*) AS n FROM access GROUP BY status ORDER BY n DESC LIMIT 1"


def _run(*command: str | Path, cwd: Path) -> str:
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # it may lead to the checkout
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=own, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.stress
@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_installs_and_answers(tmp_path: Path, kind: str) -> None:
    source = tmp_path / "source"
    _run("git", "clone", "-q", ROOT, source, cwd=tmp_path)
    _run(sys.executable, "-m", "build", f"--{kind}", "--outdir", tmp_path / "dist", source, cwd=tmp_path)
    (package,) = (tmp_path / "dist").iterdir()
    _run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    _run(tmp_path / "venv/bin/python", "-m", "pip", "install", "-q", package, cwd=tmp_path)
    log = ROOT / "examples" / "access.log"
    shown = _run(tmp_path / "venv/bin/elfstream", "query", QUERY, log, "-o", "csv", cwd=tmp_path)
    assert shown.splitlines() == ["status,n", "200,278"]
    where = _run(
        tmp_path / "venv/bin/python", "-c", "import cython_ext.scan as m; print(m.__file__)", cwd=tmp_path
    )
    assert "venv" in where


def test_a_compiler_without_a_c_library_is_told_before_the_build(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    (tmp_path / "cflags").touch()  # no headers of Python are fetched
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["sh", str(ROOT / ".ci/preflight"), sys.executable, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "the C compiler finds no C library" in done.stderr
    assert "sudo apt-get install libc6-dev" in done.stderr

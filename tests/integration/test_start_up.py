"""Ctrl-C before a command has begun: no traceback, whatever is just being imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("module", ["elfstream.cli", "click", "elfstream.commands.query", "elfstream.embedded", "job.sql"])
def test_it_is_silent_at_any_time_of_the_start(module: str, tmp_path: Path) -> None:
    """The signal comes while `module` is looked for."""
    (tmp_path / "access.log").write_text('203.0.113.9 - - [28/Nov/2025:20:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-"\n')
    program = f"""
import os, runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            print("now")
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
sys.stdout.reconfigure(line_buffering=True)
sys.argv = ["elfstream", "query", "SELECT count(*) FROM access", {str(tmp_path / "access.log")!r}]
runpy.run_module("elfstream", run_name="__main__")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "now\n", "")


def test_where_it_is_ignored_it_stays_so() -> None:
    program = """
import os, runpy, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "elfstream.cli":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
sys.argv = ["elfstream", "version"]
runpy.run_module("elfstream", run_name="__main__")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stderr) == (0, "")

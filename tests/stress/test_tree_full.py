"""A full disk: a clear error for the tree that filled it, exact answers from all, nothing left, and the others go on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("tree_full.py")
DISK_BYTES = 32 << 20
ERRORS = {
    "limit": "has reached spill_max, 33,554,432 bytes: raise it",
    "file": "may not write files of that size",
    "disk": "is full: make room",
}


def mounted(directory: Path, command: list[str]) -> list[str]:
    """The command with a disk of DISK_BYTES at `directory`, which no other process sees."""
    unshare = shutil.which("unshare")
    mount = 'mount -t tmpfs -o size="$1" none "$2" && shift 2 && exec "$@"'
    found = [str(unshare), "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh", str(DISK_BYTES), str(directory)]
    if unshare is None or subprocess.run([*found, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system does not let its users mount a tmpfs")
    return [*found, *command]


@pytest.mark.stress
@pytest.mark.parametrize("how", list(ERRORS))
def test_a_full_disk_stops_only_who_filled_it(how: str, tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), how, str(tmp_path)]
    if how == "disk":
        command = mounted(tmp_path, command)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert ERRORS[how] in answer["error"]
    assert DISK_BYTES * 0.9 < answer["on_disk"] <= DISK_BYTES
    assert answer["large_is_exact"]
    assert all(answer["small_are_exact"])
    assert all(answer["after"])
    assert answer["left"] == [0, 0, 0]
    assert list(tmp_path.iterdir()) == []

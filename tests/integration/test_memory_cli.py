"""`elfstream query` under a memory cap: the options, what they say when something does not fit, and what stays behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner, Result

import elfstream as elf
from cbt.spill import Extent, SpillFile
from elfstream.cli import main
from elfstream.report import summary
from job.sizes import size_bytes
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
PATHS = 60_000
SOURCE = Random(11)
NAMES = [f"/{number:06}{SOURCE.randbytes(150).hex()}" for number in range(PATHS)]
BY_PATH = "SELECT path, count(*) AS n FROM access GROUP BY path"
TOP = BY_PATH + " ORDER BY n DESC, path LIMIT 3"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Every path once, the last one three times; they are long and hardly compress."""
    path = tmp_path_factory.mktemp("logs") / "access.log"
    line = '203.0.113.9 - - [28/Nov/2025:20:00:01 +0100] "GET %s HTTP/1.1" 200 1 "-" "-"\n'
    path.write_text("".join(line % name for name in [*NAMES, NAMES[-1], NAMES[-1]]))
    return str(path)


@pytest.fixture
def spill_dir(tmp_path: Path) -> Iterator[str]:
    yield str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["query", "-o", "csv", *arguments])


def test_groups_beyond_the_cap_go_to_disk(log: str, spill_dir: str) -> None:
    done = run(TOP, log, "--memory-max", "8MiB", "--spill-dir", spill_dir, "--stats")
    assert done.exit_code == 0, done.output
    expected = [f"{NAMES[-1]},3", f"{NAMES[0]},1", f"{NAMES[1]},1"]
    assert done.stdout.splitlines() == ["path,n", *expected]
    stats = json.loads(done.stderr)
    assert stats["spilled_bytes"] > 0
    assert 4 << 20 < stats["peak_tree_memory"] < 20 << 20
    assert stats["groups"] == PATHS


def test_the_summary_tells_of_memory_only_when_something_was_spilled(log: str, spill_dir: str) -> None:
    spilled = elf.query(TOP, log, memory_max="8MiB", spill_dir=spill_dir)
    assert " of memory, " in summary(spilled)
    assert summary(spilled).endswith(" went to disk")
    roomy = elf.query(TOP, log)
    assert roomy.stats.spilled_bytes == 0
    assert "disk" not in summary(roomy)
    assert list(spilled) == list(roomy)


def test_the_summary_says_which_format_was_found_and_why(log: str) -> None:
    found = elf.query("SELECT count(*) FROM access", log)
    assert "format combined, detected combined: 171 of 171 lines match" in summary(found)
    asked = elf.query("SELECT count(*) FROM access", log, format="combined")
    assert "format combined, as asked" in summary(asked)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(["--spill-max", "100KiB"], "has reached --spill-max, 102,400 bytes: raise it", id="spill-max"),
        pytest.param(["--spill-dir", "/proc"], "choose another --spill-dir", id="not writable"),
        pytest.param(["--spill-dir", "nowhere"], "there is no directory nowhere to spill to", id="not there"),
        pytest.param(["--memory-max", "100KiB"], "--memory-max is 102,400 bytes, too small", id="cap too small"),
    ],
)
def test_what_has_no_room_is_one_line_that_names_the_option(
    log: str, options: list[str], message: str, tmp_path: Path
) -> None:
    capped = ["--memory-max", "8MiB", "--spill-dir", str(tmp_path)]
    done = run(TOP, log, *capped, *options)
    assert (done.exit_code, done.stdout) == (1, "")
    assert message in done.stderr
    assert done.stderr.startswith("elfstream: error: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_rows_without_limit_that_do_not_fit(log: str, spill_dir: str) -> None:
    done = run(BY_PATH, log, "--memory-max", "8MiB", "--spill-dir", spill_dir)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "add LIMIT or HAVING, or raise --memory-max" in done.stderr
    nested = f"SELECT n, count(*) AS paths FROM ({BY_PATH}) AS counts GROUP BY n"
    done = run(nested, log, "--memory-max", "8MiB", "--spill-dir", spill_dir)
    assert done.stdout.splitlines() == ["n,paths", f"1,{PATHS - 1}", "3,1"]


def test_a_full_disk(log: str, spill_dir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: bytes, offset: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    done = run(TOP, log, "--memory-max", "8MiB", "--spill-dir", spill_dir)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "is full: make room, choose another --spill-dir, or raise --memory-max" in done.stderr


def test_a_block_that_the_disk_gives_back_damaged(
    log: str, spill_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = SpillFile.read

    def damaged(file: SpillFile, extent: Extent) -> bytes:
        data = read(file, extent)
        return data[:-1] + bytes([data[-1] ^ 1])

    monkeypatch.setattr(SpillFile, "read", damaged)
    done = run(TOP, log, "--memory-max", "8MiB", "--spill-dir", spill_dir)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("elfstream: error: ")


def test_the_default_directory_is_the_system_s(log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "dup", _fails)
    done = run(TOP, log, "--memory-max", "8MiB")
    assert f"the spill directory {tmp_path} cannot be written" in done.stderr


def _fails(_fd: int) -> int:
    raise OSError(13, "Permission denied")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64MiB", 64 << 20), ("1GiB", 1 << 30), ("1.5 gib", 3 << 29), ("500", 500), ("10kb", 10 << 10), ("2T", 2 << 40),
        ("7B", 7), (12345, 12345),
    ],
)  # fmt: skip
def test_sizes(text: str | int, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "1PiB", "-1MiB", "1e9", "1 2", "٣MiB", "0x10", "iB", "9" * 16])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is no size; write 64MiB"):
        size_bytes(text)
    done = run(TOP, "nothing.log", "--memory-max", text)
    assert done.exit_code == 2
    assert "is no size" in done.stderr


@pytest.mark.parametrize("output", ["table", "json", "csv", "markdown"])
def test_a_reader_that_has_had_enough(log: str, output: str) -> None:
    command = f"{sys.executable} -m elfstream query -o {output} '{BY_PATH}' {log} | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


def test_a_reader_of_a_followed_query_that_has_had_enough(log: str) -> None:
    sql = "SELECT window(time, '1 second') AS w, count(*) AS n FROM access GROUP BY w"
    follow = f'--follow --since beginning --idle 0s --delay 0s --emit 10ms -o json "{sql}" {log}'
    command = f"timeout {PATIENCE_S:.0f} {sys.executable} -m elfstream query {follow} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_followed_query_that_has_no_room(log: str, tmp_path: Path) -> None:
    options = ["--memory-max", "8MiB", "--spill-dir", str(tmp_path), "--spill-max", "100KiB"]
    done = run(TOP, log, "--follow", "--since", "beginning", *options)
    assert done.exit_code == 1
    assert "has reached --spill-max" in done.stderr

"""`elfstream query --follow` as a process: a log that is written, rotated and compressed under it."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
SQL = """SELECT window(time, '10 seconds') AS w, path, count(*) AS n FROM access
         GROUP BY window(time, '10 seconds'), path"""
START = datetime(2025, 11, 28, 20, 0, 0, tzinfo=UTC)


def lines(first: int, last: int) -> bytes:
    """One line a second, of seconds first to last - 1."""
    return b"".join(
        f"203.0.113.9 - - [{START + timedelta(seconds=second):%d/%b/%Y:%H:%M:%S +0000}] "
        f'"GET /{second % 3} HTTP/1.1" 200 1 "-" "-"\n'.encode()
        for second in range(first, last)
    )


def follow(pattern: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "elfstream", "query", "--follow", SQL, str(pattern), "-o", "json",
               "--format", "combined", "--emit", "20ms", *options]  # fmt: skip
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def published(child: subprocess.Popen[str]) -> dict[str, object]:
    assert child.stdout is not None
    told = child.stdout.readline()
    assert told, child.stderr and child.stderr.read()
    window: dict[str, object] = json.loads(told)
    return window


def counts(window: dict[str, object]) -> Counter[str]:
    rows = window["rows"]
    assert isinstance(rows, list)
    return Counter({row["path"]: row["n"] for row in rows})


def test_windows_close_while_the_log_is_written_rotated_and_compressed(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(lines(0, 15))
    with follow(tmp_path / "access.log*", "--since", "beginning") as child:
        try:
            first = published(child)
            log.rename(tmp_path / "access.log.1")
            log.write_bytes(lines(15, 27))
            second = published(child)
            (tmp_path / "access.log.1.gz").write_bytes(
                gzip.compress((tmp_path / "access.log.1").read_bytes())
            )
            (tmp_path / "access.log.1").unlink()
            with open(log, "ab") as writer:
                writer.write(lines(27, 33)[:-20])  # the last line is not whole
            third = published(child)
            with open(log, "ab") as writer:
                writer.write(lines(32, 33)[-20:])
            child.send_signal(signal.SIGINT)
            rest, errors = child.communicate()
        finally:
            child.kill()
    assert [window["revision"] for window in (first, second, third)] == [1, 1, 1]
    assert [window["status"] for window in (first, second, third)] == ["final"] * 3
    for number, window in enumerate((first, second, third)):
        assert counts(window) == Counter(f"/{second % 3}" for second in range(number * 10, number * 10 + 10))
    assert errors == ""
    assert child.returncode == 0
    assert [json.loads(line)["status"] for line in rest.splitlines()] in ([], ["tentative"])


def test_only_new_lines_by_default(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(lines(0, 20))
    with follow(log, "--delay", "0s") as child:
        try:
            # Its first listing is over once it holds the file open.
            wait_for_open(child, log)
            with open(log, "ab") as writer:
                writer.write(lines(20, 31))
            window = published(child)
            child.send_signal(signal.SIGTERM)
            child.communicate()
        finally:
            child.kill()
    assert counts(window) == Counter(f"/{second % 3}" for second in range(20, 30))


def wait_for_open(child: subprocess.Popen[str], log: Path) -> None:
    """Until the child holds the log open, asked every hundredth of a second."""
    for _ in range(round(PATIENCE_S / 0.01)):
        assert child.poll() is None
        if str(log) in held_open(child.pid):
            return
        signal.sigtimedwait([], 0.01)
    pytest.fail("the log was not opened")


def held_open(process: int) -> set[str]:
    """The files a process holds open; one it closes between the listing and the look is left out."""
    held = set()
    for link in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            held.add(os.readlink(link))
    return held


def test_standard_input_cannot_be_followed() -> None:
    command = [sys.executable, "-m", "elfstream", "query", "--follow", SQL, "-"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "leave --follow out" in done.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("fast", "'fast' is no duration; write 500ms, 10s, 5m, 1h or 1d"),
        ("0s", "0s is not between 10ms and 1h"),
        ("2h", "2h is not between 10ms and 1h"),
    ],
)
def test_durations_are_explained(given: str, said: str) -> None:
    command = [sys.executable, "-m", "elfstream", "query", "--follow", SQL, "x.log", "--emit", given]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"Invalid value for '--emit': {said}" in done.stderr

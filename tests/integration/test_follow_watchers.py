"""Who watches a followed query: readers that are slow or gone, terminals, Ctrl-C, logs that are not there yet."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path

import pytest

from tests.integration.test_follow import ROOT, SQL, counts, follow, lines, published, wait_for_open
from tests.patience import PATIENCE_S

COMMAND = [sys.executable, "-m", "elfstream", "query", "--follow", SQL]


def wait_until_blocked(process: int, fd: int, number: int | None = None) -> None:
    """Until a process sleeps in write(2) to this descriptor, with that signal, if any, heard; asked every twentieth of a
    second. Python's handler of a signal runs before it writes on."""
    for _ in range(round(PATIENCE_S / 0.05)):
        if number is None or not is_pending(process, number):
            call, *arguments = (Path(f"/proc/{process}/syscall").read_text() + " 0x0").split()
            if call in ("1", "64") and int(arguments[0], 16) == fd:  # write(2) of x86-64 and aarch64
                return
        signal.sigtimedwait([], 0.05)
    pytest.fail(f"the child does not wait at its descriptor {fd}")


def is_pending(process: int, number: int) -> bool:
    """Whether a signal was sent to a process and not taken yet."""
    masks = re.findall(r"^(?:Sig|Shd)Pnd:\t(\w+)", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


def resident_bytes(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_slow_reader_misses_nothing_and_costs_no_memory(tmp_path: Path) -> None:
    """While nobody reads, the log is the buffer."""
    log = tmp_path / "access.log"
    log.write_bytes(lines(0, 10_000))
    with follow(log, "--since", "beginning", "--delay", "0s") as child:
        try:
            wait_until_blocked(child.pid, 1)
            before = resident_bytes(child.pid)
            with open(log, "ab") as writer:
                for start in range(10_000, 100_000, 10_000):
                    writer.write(lines(start, start + 10_000))
            wait_until_blocked(child.pid, 1)
            assert resident_bytes(child.pid) < before + (4 << 20)
            assert child.stdout is not None
            windows = [published(child) for _ in range(9_999)]
            child.send_signal(signal.SIGTERM)
            rest, errors = child.communicate()
        finally:
            child.kill()
    assert (child.returncode, errors) == (0, "")
    assert all(counts(window).total() == 10 and window["revision"] == 1 for window in windows)
    assert [json.loads(line)["status"] for line in rest.splitlines()] == ["tentative"]


def test_a_stop_behind_a_full_pipe_waits_for_the_reader(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(lines(0, 10_000))
    with follow(log, "--since", "beginning", "--delay", "0s") as child:
        try:
            wait_until_blocked(child.pid, 1)
            child.send_signal(signal.SIGTERM)
            told, errors = child.communicate()
        finally:
            child.kill()
    assert (child.returncode, errors) == (0, "")
    windows = [json.loads(line) for line in told.splitlines()]
    assert sum(counts(window).total() for window in windows) == 10_000
    assert [window["status"] for window in windows[-2:]] == ["final", "tentative"]


def test_the_second_ctrl_c_does_not_wait(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(lines(0, 10_000))
    with follow(log, "--since", "beginning", "--delay", "0s") as child:
        try:
            wait_until_blocked(child.pid, 1)
            child.send_signal(signal.SIGINT)
            wait_until_blocked(child.pid, 1, signal.SIGINT)  # two signals at once are one
            child.send_signal(signal.SIGINT)
            child.communicate()  # frees what is buffered; the signal comes before
            code = child.returncode
        finally:
            child.kill()
    assert code == 130


def test_it_ends_when_its_reader_is_gone_though_the_log_is_quiet(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(lines(0, 15))
    with follow(log, "--since", "beginning", "--idle", "1h") as child:
        try:
            published(child)
            assert child.stdout is not None
            child.stdout.close()
            assert child.wait(timeout=PATIENCE_S) == 0
            assert child.stderr is not None
            assert child.stderr.read() == ""
        finally:
            child.kill()


def told_at_the_end(child: subprocess.Popen[str], signum: int) -> str:
    child.send_signal(signum)
    _, errors = child.communicate()
    assert child.returncode == 0
    return errors


def test_stats_at_the_end(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(lines(0, 15) + b"odd\n")
    with follow(log, "--since", "beginning", "--stats") as child:
        try:
            published(child)
            errors = told_at_the_end(child, signal.SIGINT)
        finally:
            child.kill()
    figures = json.loads(errors)
    assert (figures["lines"], figures["parsed"], figures["rejected"]) == (16, 15, 1)
    assert (figures["late"], figures["lost_bytes"], figures["bytes"]) == (0, 0, len(lines(0, 15)) + 4)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_terminal_keeps_the_last_table_and_gets_a_summary(tmp_path: Path, signum: int) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(lines(0, 25) + b"odd\n")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    environment |= {"TERM": "xterm-256color", "NO_COLOR": "1"}
    command = [*COMMAND, str(log), "--format", "combined", "--since", "beginning", "--emit", "20ms"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as child:
        os.close(theirs)
        shown = ""
        try:
            while "26 lines" not in shown or "/2" not in shown:
                shown += os.read(ours, 1 << 16).decode()
            child.send_signal(signum)
            try:
                while data := os.read(ours, 1 << 16):
                    shown += data.decode()
            except OSError:  # the end of a terminal
                pass
        finally:
            child.kill()
    os.close(ours)
    assert child.returncode == 0
    *_, table, summary, rejects = re.split(r"\n", re.sub(r"\x1b\[[?\d]*[a-zA-Z]|\r", "", shown).rstrip("\n"))
    assert re.fullmatch(r"2025-11-28 20:00:20 to 20:00:30Z +/2 +2", table.rstrip())
    assert re.fullmatch(r"26 lines \(1\.93 kB\) in \d+\.\d s · format combined · 0 late", summary)
    assert rejects == "1 line rejected: 1 truncated"
    assert "\x1b[?25h" in shown.rpartition("\x1b[?25l")[2]  # the cursor is back


def test_a_log_that_is_not_there_yet_is_waited_for_and_read_whole(tmp_path: Path) -> None:
    """Also when its format is to be found: in its first line."""
    log, pattern = tmp_path / "access.log", tmp_path / "*.json"
    command = [*COMMAND, str(log), str(pattern), "-o", "json", "--emit", "20ms"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stderr is not None
            assert child.stderr.readline() == f"elfstream: waiting for {log}: no such file yet\n"
            assert child.stderr.readline() == f"elfstream: waiting for {pattern}: no such file yet\n"
            log.write_bytes(lines(0, 15))
            assert counts(published(child)).total() == 10
            assert told_at_the_end(child, signal.SIGTERM) == ""
        finally:
            child.kill()


def test_an_empty_log_is_waited_for_to_find_its_format(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(lines(0, 1)[:-20])  # half a line says nothing yet
    command = [*COMMAND, str(log), "-o", "json", "--emit", "20ms"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stderr is not None
            note = child.stderr.readline()
            assert note == f"elfstream: waiting for the first line of {log}, to find its format; --format says it at once\n"
            with open(log, "ab") as writer:
                writer.write(lines(0, 1)[-20:] + lines(1, 15))
            assert counts(published(child)).total() == 10
            assert told_at_the_end(child, signal.SIGTERM) == ""
        finally:
            child.kill()


@pytest.mark.parametrize("options", [[], ["--format", "combined"]])
def test_waiting_can_be_ended(tmp_path: Path, options: list[str]) -> None:
    command = [*COMMAND, str(tmp_path / "access.log"), "-o", "json", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stderr is not None
            assert "no such file yet" in child.stderr.readline()
            assert told_at_the_end(child, signal.SIGINT) == ""
        finally:
            child.kill()


def test_lines_of_another_format_are_told_once_with_what_to_do(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(lines(0, 5))
    command = [*COMMAND, str(log), "-o", "json", "--emit", "20ms"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            wait_for_open(child, log)
            with open(log, "ab") as writer:
                writer.write(b"2025-11-28T20:00:00Z GET / 200\n" * 30)
            assert child.stderr is not None
            assert child.stderr.readline() == (
                "elfstream: 30 of 30 lines do not fit the format combined; the first stops at column 26 (truncated). "
                "Give the right one with --format; 'elfstream explain-format LINE' shows what a format finds in a line\n"
            )
            with open(log, "ab") as writer:
                writer.write(b"2025-11-28T20:00:00Z GET / 200\n" * 30 + lines(5, 100))
            published(child)
            assert told_at_the_end(child, signal.SIGTERM) == ""
        finally:
            child.kill()


def test_a_first_line_of_no_known_format_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(b"2025-11-28T20:00:00Z GET / 200\n")
    done = subprocess.run([*COMMAND, str(log)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no known format matches these lines" in done.stderr
    assert "Give the format with --format" in done.stderr


@pytest.mark.parametrize("option", [["--strict"], ["--rejects", "r.log"], ["--threads", "2"]])
def test_options_for_files_that_end_are_refused(option: list[str]) -> None:
    done = subprocess.run([*COMMAND, "x.log", *option], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"{option[0]} is for files that end; leave it out with --follow" in done.stderr


@pytest.mark.parametrize("option", ["--since", "--emit", "--delay", "--lateness", "--idle"])
def test_options_for_logs_that_grow_are_refused(option: str) -> None:
    command = [sys.executable, "-m", "elfstream", "query", SQL, "x.log", option, "1h"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"{option} is for logs that grow; add --follow, or leave it out" in done.stderr


def test_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    command = [*COMMAND, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{tmp_path}: is a folder; name its files" in done.stderr


def test_markdown_in_a_pipe(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_bytes(lines(0, 15))
    with follow(log, "--since", "beginning", "-o", "markdown") as child:
        try:
            assert child.stdout is not None
            header = child.stdout.readline()
            assert [cell.strip() for cell in header.split("|")[1:-1]] == ["w", "path", "n", "status", "edition"]
        finally:
            child.kill()


def test_columns_that_tell_of_the_window_give_way_to_those_of_the_query(tmp_path: Path) -> None:
    """Two columns of one name are none to a reader of CSV, and most logs have a `status`."""
    log = tmp_path / "access.log"
    log.write_bytes(lines(0, 15))
    sql = "SELECT window(time, '10 seconds') AS w, status, count(*) AS revision FROM access GROUP BY w, status"
    command = [*COMMAND[:-1], sql, str(log), "--since", "beginning", "-o", "csv"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "w.start,w.end,status,revision,status_,revision_\n"
        finally:
            child.kill()


@pytest.mark.parametrize("options", [[], ["--format", "combined"]])
def test_a_log_that_comes_while_it_is_waited_for_is_new(tmp_path: Path, options: list[str]) -> None:
    """However early: the note is told before the tail takes its first look, and nothing written after it may be skipped."""
    log, note = tmp_path / "access.log", tmp_path / "note"
    os.mkfifo(note)
    command = [*COMMAND, str(log), "-o", "json", "--emit", "20ms", *options]
    # The reader of a full pipe holds the child at its note until the log is there.
    reader = os.open(note, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(note, os.O_WRONLY | os.O_NONBLOCK)
    filled = 0
    try:
        while True:
            filled += os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    os.set_blocking(reader, True)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=writer, text=True) as child:
        os.close(writer)
        too_long = threading.Timer(PATIENCE_S, child.kill)
        too_long.start()
        try:
            wait_until_blocked(child.pid, 2)
            log.write_bytes(lines(0, 15))
            while filled > 0:
                filled -= len(os.read(reader, filled))
            assert counts(published(child)).total() == 10
        finally:
            too_long.cancel()
            child.kill()
            os.close(reader)

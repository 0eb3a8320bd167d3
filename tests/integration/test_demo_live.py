"""The live demonstration as a user sees it: four nodes as processes, rotation, a live change, and every number right."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest

from agent.errors import InputError
from elfstream.demo.playing import Webservers
from tests.integration.fleet_processes import until
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
DEMO = [sys.executable, "-m", "elfstream", "demo", "--rate", "3000", "--seconds", "4"]


def test_in_a_pipe_a_line_for_each_window(tmp_path: Path) -> None:
    done = subprocess.run(
        [*DEMO, "--dir", str(tmp_path / "shop")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "Every answer is what the generator meant: exactly, and percentiles within 1%." in done.stdout
    assert "\x1b" not in done.stdout
    windows = re.findall(r"^\d\d:\d\d:\d\d to \d\d:\d\d:\d\d  hot: walnut-desk", done.stdout, re.MULTILINE)
    assert len(windows) >= 3
    assert "web2 compressed access.log.1 to access.log.1.gz" in done.stdout
    (checked,) = re.findall(r"^windows of endpoints, value by value +(\d+) +(\d+) equal  yes$", done.stdout, re.MULTILINE)
    assert int(checked[0]) == int(checked[1]) >= 4
    kept = {str(path.relative_to(tmp_path / "shop")) for path in (tmp_path / "shop").glob("**/*") if path.is_file()}
    kept = {path for path in kept if not path.startswith("fleet/")}
    assert kept == {
        "nginx.conf", "web1/access.log", "web1/access.log.1", "web2/access.log", "web2/access.log.1.gz",
        "web3/access.log", "web3/access.log.1",
    }  # fmt: skip


def test_on_a_terminal_a_picture_that_ends_with_ctrl_c(tmp_path: Path) -> None:
    """With --keep it goes on; Ctrl-C ends it, and everything until then is checked."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    environment |= {"TERM": "xterm-256color", "NO_COLOR": "1"}
    command = [*DEMO, "--keep"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as child:
        os.close(theirs)
        try:
            shown = ""
            while "final windows compared" not in shown or "compressed" not in shown:
                shown += os.read(ours, 1 << 16).decode()
            child.send_signal(signal.SIGINT)
            try:
                while data := os.read(ours, 1 << 16):
                    shown += data.decode()
            except OSError:  # the end of a terminal
                pass
        finally:
            child.kill()
    os.close(ours)
    assert child.returncode == 0, shown[-2000:]
    assert "Every answer is what the generator meant: exactly, and percentiles within 1%." in shown
    assert "\x1b[3" not in shown  # no colours
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h") == 1
    frame = shown.rpartition("\x1b[?2026h")[2].partition("\x1b[?2026l")[0]
    assert re.search(r"^web1 .* lines/s +[\d,]+ lines", frame.replace("\r", ""), re.MULTILINE)


def _running(folder: Path) -> set[int]:
    """Processes with the folder in their arguments."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(folder).encode() in (process / "cmdline").read_bytes():
                found.add(int(process.name))
    return found


def test_nothing_goes_on_when_the_demo_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    with subprocess.Popen(
        [*DEMO, "--keep", "--dir", str(folder)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as demo:
        assert demo.stdout is not None
        while b"hot: " not in (line := demo.stdout.readline()):
            assert line, "it ended"
        assert len(_running(folder)) == 6  # the demo, its webservers, four nodes
        demo.kill()
    until(lambda: not _running(folder), PATIENCE_S, "the end of all processes of the demo")


def test_webservers_that_fail_say_why(tmp_path: Path) -> None:
    (tmp_path / "web2").write_text("in the way")
    webservers = Webservers(tmp_path, 1, 100.0, 4.0, keep=False)
    try:
        assert select.select([webservers.fd], [], [], 60)[0]
        with pytest.raises(InputError, match=r"webservers of the demonstration: FileExistsError: .*web2"):
            list(webservers.read())
    finally:
        webservers.close()

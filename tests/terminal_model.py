"""A terminal as far as ours draws on it: what is on the screen after some output; and a pseudo-terminal to get it from."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parent.parent
_TOKEN = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


class Terminal:
    """`shown()` are the lines of the screen that is visible. An unknown sequence is an error."""

    def __init__(self, columns: int = 80, lines: int = 24) -> None:
        self.columns, self.lines = columns, lines
        self._screens = {False: self._blank(), True: self._blank()}
        self._places = {False: (0, 0), True: (0, 0)}
        self.is_other, self.has_cursor = False, True
        self.frames = 0
        self.wrapped = 0
        self._rest = ""

    def _blank(self) -> list[list[str]]:
        return [[" "] * self.columns for _ in range(self.lines)]

    def shown(self) -> list[str]:
        return ["".join(line).rstrip() for line in self._screens[self.is_other]]

    def feed(self, text: str) -> None:
        text, self._rest = self._rest + text, ""
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                self._rest = text[at:]
                assert len(self._rest) < 40, f"not known here: {self._rest!r}"
                return
            at = found.end()
            if found[2]:
                self._control(found[1], found[2])
            elif found[3]:
                self._end_line(found[3])
            else:
                self._write(found[4])

    def _end_line(self, end: str) -> None:
        line, _ = self._places[self.is_other]
        if end == "\n":
            line += 1
            if line == self.lines:
                line -= 1
                screen = self._screens[self.is_other]
                del screen[0]
                screen.append([" "] * self.columns)
        self._places[self.is_other] = (line, 0)

    def _write(self, text: str) -> None:
        for letter in text:
            line, column = self._places[self.is_other]
            if column == self.columns:
                self.wrapped += 1
                self._end_line("\n")
                line, column = self._places[self.is_other]
            self._screens[self.is_other][line][column] = letter
            self._places[self.is_other] = (line, column + 1)

    def _control(self, numbers: str, letter: str) -> None:
        line, column = self._places[self.is_other]
        screen = self._screens[self.is_other]
        if letter == "m":
            return
        if letter in "hl" and numbers.startswith("?"):
            on = letter == "h"
            if numbers == "?1049":
                self.is_other = on
            elif numbers == "?25":
                self.has_cursor = on
            else:
                assert numbers == "?2026"
                self.frames += not on
        elif letter == "A":
            self._places[self.is_other] = (max(line - int(numbers or 1), 0), column)
        elif letter == "H":
            self._places[self.is_other] = (0, 0)
        elif letter == "K":
            screen[line][column:] = [" "] * (self.columns - column)
        else:
            assert letter == "J"
            if numbers == "2":
                screen[:] = self._blank()
            else:
                screen[line][column:] = [" "] * (self.columns - column)
                screen[line + 1 :] = [[" "] * self.columns for _ in range(self.lines - line - 1)]


def _take_terminal() -> None:
    """Makes the new session's terminal the one that Ctrl-C comes from."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Session:
    """A command on a pseudo-terminal; to be used in `with`."""

    def __init__(
        self, command: Sequence[str], columns: int = 80, lines: int = 24, environment: Mapping[str, str] | None = None
    ) -> None:
        self.terminal, self.raw = Terminal(columns, lines), ""
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.modes_before = termios.tcgetattr(theirs)
        kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env={**kept, "TERM": "xterm-256color", "NO_COLOR": "1", **(environment or {})},
            preexec_fn=_take_terminal,  # noqa: PLW1509  tests have no threads here
        )  # fmt: skip
        self.theirs, self._decoder = theirs, codecs.getincrementaldecoder("utf-8")()

    def until(self, seen: Callable[[list[str]], object], within_s: float = PATIENCE_S) -> list[str]:
        """The screen as soon as `seen` says so of it."""
        end = time.monotonic() + within_s
        while not seen(self.terminal.shown()):
            left = end - time.monotonic()
            assert left > 0, "\n".join(self.terminal.shown())
            if select.select([self.ours], [], [], min(left, 0.1))[0]:
                self._take()
        return self.terminal.shown()

    def press(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def end(self) -> int:
        """The exit code, once the command has ended; all that it wrote is on the screen by then."""
        while self.process.poll() is None or select.select([self.ours], [], [], 0.0)[0]:
            if select.select([self.ours], [], [], 0.05)[0]:
                self._take()
        return self.process.returncode

    @property
    def modes(self) -> list[object]:
        """Of the terminal: echo, line by line, ..."""
        return termios.tcgetattr(self.theirs)

    def _take(self) -> None:
        text = self._decoder.decode(os.read(self.ours, 1 << 16))
        self.raw += text
        self.terminal.feed(text)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)

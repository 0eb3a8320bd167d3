"""The process that plays the shop: its webservers write logs, and tell what they meant."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from agent.errors import InputError
from elfstream.demo.webservers import DECODER, Told


class Webservers:
    """The process that plays the shop. Raises InputError when it fails."""

    def __init__(self, folder: Path, seed: int, rate: float, play_s: float, keep: bool) -> None:
        command = [sys.executable, "-m", "elfstream.demo.webservers", str(folder), str(seed), str(rate), str(play_s),
                   "keep" if keep else "once"]  # fmt: skip
        # A session of its own: Ctrl-C is for us, and ends them by closing their input.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.fd = self._process.stdout.fileno()
        os.set_blocking(self.fd, False)
        self._half = b""
        self.ended = False

    def read(self) -> Iterator[Told]:
        """What they told since the last call."""
        while not self.ended:
            try:
                data = os.read(self.fd, 1 << 20)
            except BlockingIOError:
                return
            self.ended = not data
            *lines, self._half = (self._half + data).split(b"\n")
            yield from map(DECODER.decode, lines)
        if self._process.wait() != 0:
            assert self._process.stderr is not None
            message = self._process.stderr.read().decode().strip().splitlines()[-1:]
            raise InputError("the webservers of the demonstration", "".join(message) or "ended early")

    def stop(self) -> None:
        """Asks them to write what they hold and to end."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def close(self) -> None:
        """Ends the process if it still runs, and frees its pipes."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

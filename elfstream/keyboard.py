"""Keys as they are pressed, without Enter, on the terminal that is standard input."""

from __future__ import annotations

import os
import termios
import tty
from types import TracebackType
from typing import IO

from elfstream.terminal import is_terminal


class Keyboard:
    """Context manager: the terminal shows no keys and hands them out at once, and is as before at the end. Ctrl-C stays a
    signal, Ctrl-Z does nothing, as a stopped program would leave its picture behind. No terminal: no keys."""

    def __init__(self, stream: IO[str]) -> None:
        self.descriptor = stream.fileno() if is_terminal(stream) else None
        self._before: list[object] = []

    def read(self) -> str:
        """What was pressed since the last call; call it when there is something."""
        return "" if self.descriptor is None else os.read(self.descriptor, 64).decode("utf-8", "replace")

    def __enter__(self) -> Keyboard:
        if self.descriptor is not None:
            self._before = termios.tcgetattr(self.descriptor)
            tty.setcbreak(self.descriptor)
            mode = termios.tcgetattr(self.descriptor)
            mode[6][termios.VSUSP] = b"\0"
            termios.tcsetattr(self.descriptor, termios.TCSANOW, mode)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.descriptor is not None:
            termios.tcsetattr(self.descriptor, termios.TCSADRAIN, self._before)  # type: ignore[arg-type]

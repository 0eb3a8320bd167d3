"""A picture on a terminal that is drawn again and again in place, without flicker."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from math import ceil
from types import TracebackType
from typing import IO

from elfstream.terminal import is_terminal

_OWN, _BACK = "\x1b[?1049h\x1b[H\x1b[2J", "\x1b[?1049l"
_HIDE, _SHOW, _HOME, _REST_OF_LINE, _BELOW = "\x1b[?25l", "\x1b[?25h", "\x1b[H\x1b[2J", "\x1b[K", "\x1b[J"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"  # synchronized output; terminals that do not know it ignore it
BARS = " ▁▂▃▄▅▆▇█"


def can_draw(stream: IO[str]) -> bool:
    """Whether lines on `stream` can be drawn over: a terminal that is not dumb."""
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


class Screen:
    """Context manager. A frame replaces the one before in a single write, line over line, so nothing is ever blank. With
    `own` the terminal's other screen is drawn on, and what was there before comes back at the end."""

    def __init__(self, out: IO[str], own: bool = False) -> None:
        self._out, self._own = out, own
        self._drawn = 0
        self._size = self.size

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return tuple(shutil.get_terminal_size((80, 24)))  # type: ignore[return-value]

    def draw(self, lines: Sequence[str]) -> None:
        """Shows `lines`; each must fit the width, or the next frame will not lie over it."""
        size = self.size
        lines = lines[: size[1] - 1]
        if size != self._size:  # old lines may have been wrapped: nobody knows where they are
            self._size, self._drawn = size, 0
            start = _HOME
        else:
            start = f"\r\x1b[{self._drawn}A" if self._drawn else ""
        body = "".join(f"{line}{_REST_OF_LINE}\n" for line in lines)
        self._out.write(f"{_BEGIN}{start}{body}{_BELOW}{_END}")
        self._out.flush()
        self._drawn = len(lines)

    def __enter__(self) -> Screen:
        self._out.write(_OWN + _HIDE if self._own else _HIDE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._out.write(_SHOW + _BACK if self._own else _SHOW)
        self._out.flush()


def sparkline(values: Sequence[float], columns: int, top: float = 0.0) -> str:
    """The last `columns` values as bars, right-aligned; the highest is `top` or the greatest of them, blank is 0."""
    shown = values[-columns:] if columns > 0 else ()
    top = max(top, max(shown, default=0.0)) or 1.0
    bars = "".join(BARS[ceil(value / top * (len(BARS) - 1))] for value in shown)
    return bars.rjust(columns)

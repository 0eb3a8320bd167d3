"""What the terminal can show: colours, width, and text that must not steer it.

Log lines are written by strangers. A raw escape sequence inside a URL must not move the cursor of whoever reads the
log, so everything that goes to people passes through `visible`.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import IO, Any

BOLD, DIM, RED, GREEN, YELLOW = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"
RESET = "\x1b[0m"

# C0 and C1 controls, DEL, line and paragraph separators, and the marks that reorder text (CVE-2021-42574).
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    """`text` with control characters and direction marks written as `\\n`, `\\x1b`, `\\u202e`. O(length)."""
    if text.isprintable():
        return text
    return _CONTROL.sub(lambda match: _SHORT.get(match[0]) or _escape(ord(match[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def is_terminal(stream: IO[Any]) -> bool:
    """True when people look at `stream`."""
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def has_colour(stream: IO[Any]) -> bool:
    """True for a terminal that is not dumb, unless NO_COLOR (https://no-color.org) is set to anything."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, colour: bool) -> str:
    """`text` in a style such as BOLD, or as it is."""
    return f"{style}{text}{RESET}" if colour and text else text


def width() -> int:
    """Columns of the terminal; 80 where nobody knows."""
    return shutil.get_terminal_size((80, 24)).columns


def cells(text: str) -> int:
    """Columns that `text` takes: East Asian characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, columns: int) -> str:
    """`text`, ended by an ellipsis where it is wider than `columns`."""
    if cells(text) <= columns:
        return text
    if text.isascii():
        return text[: max(columns - 1, 0)] + "…"
    from rich.cells import set_cell_size

    return set_cell_size(text, max(columns - 1, 0)) + "…"


def cut_middle(text: str, columns: int) -> str:
    """`text` with an ellipsis in its middle where it is wider than `columns`: names often differ at their ends."""
    if cells(text) <= columns or columns < 3:
        return cut(text, columns)
    tail = (columns - 1) // 2
    return cut(text, columns - tail) + _tail(text, tail + 1)[1:]


def pad(text: str, columns: int, right: bool = False) -> str:
    """`text` filled up with blanks to `columns`, to the right edge when `right`."""
    blanks = " " * (columns - cells(text))
    return blanks + text if right else text + blanks


def quantity(number: float, unit: str = "") -> str:
    """`number` for people: 950, 12.3 k, 3.25 M, 1.2 G, followed by `unit`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size * 0.9995:
            scaled = number / size
            digits = 0 if scaled >= 99.95 else 1 if scaled >= 9.995 else 2
            return f"{scaled:.{digits}f} {letter}{unit}"
    return f"{number:.0f} {unit}".rstrip()


def readable(text: bytes) -> str:
    """Bytes of a log as text: what is no UTF-8 becomes `\\xHH`, and nothing steers the terminal."""
    return visible(text.decode("utf-8", "backslashreplace"))


def pointed(line: bytes, position: int) -> str:
    """The part of `line` around byte `position` that fits the terminal, and below it a caret under that byte."""
    room = max(width() - 8, 24)
    before, after = readable(line[:position]), readable(line[position:])
    if cells(before) + cells(after) > room:
        before = _tail(before, max(room // 2, room - cells(after)))
        after = cut(after, room - cells(before))
    return f"  {before}{after}\n  {' ' * cells(before)}^"


def _tail(text: str, columns: int) -> str:
    """The end of `text`, begun by an ellipsis where it is wider than `columns`."""
    if cells(text) <= columns:
        return text
    tail = text[-columns + 1 :]
    while cells(tail) > columns - 1:
        tail = tail[1:]
    return "…" + tail

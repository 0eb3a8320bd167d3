"""String literals as Spark 4 reads them, from the text itself: sqlglot's own unescaping differs in corners.
"""

from __future__ import annotations

import re

_LETTERS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_CODE = re.compile(r"u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})")


def read_strings(sql: str, start: int, count: int) -> str:
    """The value of `count` quoted strings one after the other, the first of which opens at `start`.

    A quote doubled inside a string is that quote. The text has passed the tokenizer, so each string is
    closed.
    """
    parts: list[str] = []
    position, quote_before = start, ""
    for index in range(count):
        opening = _next_quote(sql, position)
        if index and opening == position and sql[opening] == quote_before:
            parts.append(quote_before)
        quote_before = sql[opening]
        value, position = _read_one(sql, opening)
        parts.append(value)
    return "".join(parts)


def _next_quote(sql: str, position: int) -> int:
    """Skips blanks and comments between adjacent strings."""
    while sql[position] not in "'\"":
        if sql.startswith("--", position):
            position = sql.index("\n", position)
        elif sql.startswith("/*", position):
            position = sql.index("*/", position) + 1
        position += 1
    return position


def _read_one(sql: str, position: int) -> tuple[str, int]:
    quote = sql[position]
    position += 1
    out: list[str] = []
    while sql[position] != quote:
        if sql[position] == "\\" and position + 1 < len(sql):
            value, position = _read_escape(sql, position + 1)
            out.append(value)
        else:
            out.append(sql[position])
            position += 1
    return "".join(out), position + 1


def _read_escape(sql: str, position: int) -> tuple[str, int]:
    """One escape behind its backslash: a code point in hexadecimal or octal, a letter, or the character
    itself.
    """
    match = _CODE.match(sql, position)
    if match:
        hexadecimal = match[1] or match[2]
        code = int(hexadecimal, 16) if hexadecimal else int(match[3], 8)
        if code <= 0x10FFFF:
            return chr(code), match.end()
    return _LETTERS.get(sql[position], sql[position]), position + 1

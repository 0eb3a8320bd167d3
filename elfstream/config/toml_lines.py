"""On which line of a TOML text each key stands. `tomllib` reads values and tells no places.

The text has been read by `tomllib` already, so it is valid, and this only has to know where keys, strings, arrays and
inline tables begin and end, not what is allowed in them. A test compares the keys found here with those of `tomllib`.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left

KeyPath = tuple[str | int, ...]
"""Keys from the root; an int is the index of an array's element."""

_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*(?:(?P<bare>[A-Za-z0-9_-]+)|(?P<quoted>"(?:[^"\\\n]|\\.)*"|'[^'\n]*'))[ \t]*""")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})' r"|'''.*?'''(?:'{0,2})" r'|"(?:[^"\\]|\\.)*"' r"|'[^']*'", re.DOTALL
)
_SCALAR = re.compile(r"[^,\]}\n#]*")
_INLINE_BLANK = re.compile(r"[ \t]*")


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line, from 1, of every key, table and array element of a TOML text that `tomllib.loads` takes. Linear."""
    return _Finder(text.replace("\r\n", "\n")).found()


class _Finder:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._lines: dict[KeyPath, int] = {}
        self._tables: dict[KeyPath, int] = {}
        """Arrays of tables: the index of their last element."""

    def found(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while self._skip(_BLANK) < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._assignment(table)
        return self._lines

    def _skip(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self._text, self._at)
        assert found is not None
        self._at = found.end()
        return self._at

    def _note(self, path: KeyPath) -> None:
        self._lines.setdefault(path, bisect_left(self._ends, self._at) + 1)

    def _header(self) -> KeyPath:
        """`[a.b]` or `[[a.b]]`."""
        is_element = self._text.startswith("[[", self._at)
        self._at += 2 if is_element else 1
        path: KeyPath = ()
        keys = self._keys()
        for key in keys[:-1]:
            path = self._inside((*path, key))
        path = (*path, keys[-1])
        self._note(path)
        if is_element:
            index = self._tables.get(path, -1) + 1
            self._tables[path] = index
            path = (*path, index)
            self._note(path)
        self._at += 2 if is_element else 1
        return path

    def _inside(self, path: KeyPath) -> KeyPath:
        """The table that `path` means in front of a dot: of an array of tables the last one."""
        self._note(path)
        return (*path, self._tables[path]) if path in self._tables else path

    def _keys(self) -> list[str]:
        keys: list[str] = []
        while True:
            found = _KEY.match(self._text, self._at)
            assert found is not None
            quoted = found["quoted"]
            keys.append(found["bare"] if quoted is None else tomllib.loads(f"key = {quoted}")["key"])
            self._at = found.end()
            if self._text[self._at] != ".":
                return keys
            self._at += 1

    def _assignment(self, table: KeyPath) -> None:
        start = self._at
        keys = self._keys()
        end, self._at = self._at, start
        for depth in range(1, len(keys) + 1):
            self._note((*table, *keys[:depth]))
        self._at = end + 1  # behind the equals sign
        self._skip(_INLINE_BLANK)
        self._value((*table, *keys))

    def _value(self, path: KeyPath) -> None:
        sign = self._text[self._at]
        if sign == "[":
            self._array(path)
        elif sign == "{":
            self._inline_table(path)
        else:
            self._skip(_STRING if sign in "\"'" else _SCALAR)

    def _array(self, path: KeyPath) -> None:
        self._at += 1
        index = 0
        while self._text[self._skip(_BLANK)] != "]":
            self._note((*path, index))
            self._value((*path, index))
            index += 1
            if self._text[self._skip(_BLANK)] == ",":
                self._at += 1
        self._at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        while self._text[self._skip(_BLANK)] != "}":
            self._assignment(path)
            if self._text[self._skip(_BLANK)] == ",":
                self._at += 1
        self._at += 1

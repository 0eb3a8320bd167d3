"""The syntax of nginx's configuration: words, quotes, blocks and comments, as far as a log_format needs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from job.errors import FormatError

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_ENDS = " \t\r\n;{"


class Directive(NamedTuple):
    """A directive with its words; blocks appear as the words before their brace."""

    words: list[str]
    line: int


def directives(text: str) -> Iterator[Directive]:
    """All directives of a configuration file, those inside of blocks too, in the order they stand there.

    Raises FormatError for an unfinished quote.
    """
    words: list[str] = []
    first_line = line = 1
    index = 0
    while index < len(text):
        letter = text[index]
        if letter == "#":
            end = text.find("\n", index)
            index = len(text) if end < 0 else end
        elif letter in " \t\r\n":
            line += letter == "\n"
            index += 1
        elif letter in ";{}":
            if words:
                yield Directive(words, first_line)
            end = _lua_end(text, index) if letter == "{" and words and words[0].endswith("_lua_block") else index + 1
            line += text.count("\n", index, end)
            words = []
            index = end
        else:
            first_line = first_line if words else line
            word, end = _word(text, index, line)
            words.append(word)
            line += text.count("\n", index, end)
            index = end
    if words:
        yield Directive(words, first_line)


def _lua_end(text: str, brace: int) -> int:
    """Behind the brace that closes a block of Lua, which has quotes and comments of its own."""
    depth = 0
    for index in range(brace, len(text)):
        depth += (text[index] == "{") - (text[index] == "}")
        if depth == 0:
            return index + 1
    return len(text)


def _word(text: str, start: int, line: int) -> tuple[str, int]:
    """The word that starts at `start` and the index behind it."""
    quote = text[start] if text[start] in "\"'" else ""
    parts: list[str] = []
    index = start + len(quote)
    while index < len(text):
        letter = text[index]
        if letter == "\\" and index + 1 < len(text):
            parts.append(unescape(text[index : index + 2]))
            index += 2
            continue
        if letter == quote:
            return "".join(parts), index + 1
        if not quote and letter in _ENDS and text[index - 1 : index + 1] != "${":
            return "".join(parts), index
        parts.append(letter)
        index += 1
    if quote:
        raise FormatError(f"line {line}: the text that starts with {quote} is not closed")
    return "".join(parts), index


def unescape(text: str) -> str:
    """`text` with nginx's backslash escapes resolved; a backslash before another character stays."""
    if "\\" not in text:
        return text
    parts: list[str] = []
    index = 0
    while index < len(text):
        letter, following = text[index], text[index + 1 : index + 2]
        if letter == "\\" and following and following in "\"'\\nrt":
            parts.append(_ESCAPES.get(following, following))
            index += 2
        else:
            parts.append(letter)
            index += 1
    return "".join(parts)

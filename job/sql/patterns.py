r"""Patterns: which regular expressions the language accepts, and how Java has to be told what google-re2
understands.

The meaning of a pattern is google-re2's over UTF-8. Only syntax that Java can be given with the same meaning
is accepted; `java_pattern` writes that form for Spark. Refused, because one engine lacks it or the two
disagree for good: look-around, back-references, possessive quantifiers, atomic and named groups, `(?m)`,
`\Z`, `\G`, `\Q...\E`, Unicode classes, POSIX classes, nested classes and `&&`, a `{` that is no repetition,
repetition of a repetition.
"""

from __future__ import annotations

import re

ADVICE = "docs/SQL.md lists what is understood in the same way here and in Spark."
REPEAT_MAX = 1000
"""google-re2 refuses larger counted repetitions."""
PATTERN_CHARACTERS_MAX = 4096

_REPEAT = re.compile(r"\{(\d{1,4})(,(\d{1,4})?)?\}")
_FLAGS = re.compile(r"\?([is]*)(-[is]+)?([:)])")
_HEXADECIMAL = re.compile(r"x([0-9a-fA-F]{2}|\{[0-9a-fA-F]{1,6}\})")
_SPACE_CLASS = r"\t\n\f\r "
_WORD_EDGE = r"(?:(?<=[0-9A-Za-z_])(?![0-9A-Za-z_])|(?<![0-9A-Za-z_])(?=[0-9A-Za-z_]))"
_WORD_INSIDE = r"(?:(?<=[0-9A-Za-z_])(?=[0-9A-Za-z_])|(?<![0-9A-Za-z_])(?![0-9A-Za-z_]))"
_ESCAPES = {"s": f"[{_SPACE_CLASS}]", "S": f"[^{_SPACE_CLASS}]", "b": _WORD_EDGE, "B": _WORD_INSIDE}
_SAME_ESCAPES = frozenset("dDwWtnrfaAz")
_CLASS_ESCAPES = {"s": _SPACE_CLASS, "S": f"[^{_SPACE_CLASS}]"}
_SAME_CLASS_ESCAPES = frozenset("dDwWtnrfa")
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ")


class _Translator:
    """Reads a pattern once, left to right, and collects its Java form."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at, self.groups, self.depth = pattern, 0, 0, 0
        self.out: list[str] = []
        self.repeatable = False

    def run(self) -> None:
        while self.at < len(self.pattern):
            self._step(self.pattern[self.at])
        if self.depth:
            raise ValueError("has a ( without its )")

    def _emit(self, text: str, consumed: int, repeatable: bool) -> None:
        self.out.append(text)
        self.at += consumed
        self.repeatable = repeatable

    def _step(self, letter: str) -> None:
        if letter == "\\":
            self._escape()
        elif letter == "[":
            self._class()
        elif letter == "(":
            self._open()
        elif letter == ")":
            if not self.depth:
                raise ValueError("has a ) without its (")
            self.depth -= 1
            self._emit(")", 1, True)
        elif letter in "*+?{":
            self._repeat(letter)
        elif letter in "|^$":
            self._emit("\\z" if letter == "$" else letter, 1, False)
        else:
            self._emit(letter, 1, True)

    def _escape(self) -> None:
        letter = self.pattern[self.at + 1 : self.at + 2]
        hexadecimal = _HEXADECIMAL.match(self.pattern, self.at + 1)
        if hexadecimal:
            self._hexadecimal(hexadecimal, True)
        elif letter in _ESCAPES:
            self._emit(_ESCAPES[letter], 2, letter in "sS")
        elif letter and (letter in _SAME_ESCAPES or letter in _PUNCTUATION):
            self._emit("\\" + letter, 2, letter not in "Az")
        else:
            raise ValueError(f"uses \\{letter}, which is not supported" if letter else "ends in a backslash")

    def _hexadecimal(self, match: re.Match[str], repeatable: bool) -> None:
        if int(match[1].strip("{}"), 16) > 0x10FFFF:
            raise ValueError(f"uses \\{match[0]}, which is no character")
        self._emit("\\" + match[0], 1 + len(match[0]), repeatable)

    def _open(self) -> None:
        self.depth += 1
        if self.pattern[self.at + 1 : self.at + 2] != "?":
            self.groups += 1
            self._emit("(", 1, False)
            return
        flags = _FLAGS.match(self.pattern, self.at + 1)
        if not flags or (flags[3] == ")" and not flags[1] and not flags[2]):
            raise ValueError(f"uses {self.pattern[self.at : self.at + 4]!r}, which is not supported")
        if flags[3] == ")":
            self.depth -= 1
        # Java folds only ASCII letters without u; google-re2 folds all.
        on, off = flags[1].replace("i", "iu"), (flags[2] or "").replace("i", "iu")
        self._emit(f"(?{on}{off}{flags[3]}", 1 + len(flags[0]), False)

    def _repeat(self, letter: str) -> None:
        counted = _REPEAT.match(self.pattern, self.at) if letter == "{" else None
        if letter == "{" and not counted:
            raise ValueError("has a { that starts no repetition; write \\{")
        if not self.repeatable:
            raise ValueError(f"repeats nothing at {self.pattern[self.at : self.at + 6]!r}")
        if counted:
            low, high = int(counted[1]), int(counted[3] or counted[1])
            if max(low, high) > REPEAT_MAX or high < low:
                raise ValueError(f"repeats {counted[0]}; the limit is {REPEAT_MAX}")
        text = counted[0] if counted else letter
        if self.pattern.startswith("?", self.at + len(text)):
            text += "?"
        self._emit(text, len(text), False)

    def _class(self) -> None:
        negated = self.pattern.startswith("^", self.at + 1)
        self._emit("[^" if negated else "[", 2 if negated else 1, False)
        first, after_range = True, False
        while first or not self.pattern.startswith("]", self.at):
            after_range = self._class_member(first, after_range)
            first = False
        self._emit("]", 1, True)

    def _class_member(self, first: bool, after_range: bool) -> bool:
        """One character, escape or range; answers whether it was a range."""
        single = self._class_atom(first)
        if self.pattern.startswith("-", self.at) and not self.pattern.startswith("-]", self.at):
            if not single:
                raise ValueError("has a range that starts with a class")
            self._emit("-", 1, False)
            if not self._class_atom(False):
                raise ValueError("has a range that ends in a class")
            return True
        return False

    def _class_atom(self, first: bool) -> bool:
        """Emits one member of a class; answers whether it is a single character."""
        letter = self.pattern[self.at : self.at + 1]
        if not letter:
            raise ValueError("has a [ without its ]")
        if letter == "[" or (letter == "]" and first) or self.pattern.startswith("&&", self.at):
            raise ValueError(f"has {letter} inside brackets; write \\{letter}")
        if letter != "\\":
            # Java reads & and ^ inside brackets with care; a backslash is harmless to both.
            self._emit("\\" + letter if letter in "&^-" else letter, 1, False)
            return True
        escaped = self.pattern[self.at + 1 : self.at + 2]
        hexadecimal = _HEXADECIMAL.match(self.pattern, self.at + 1)
        if hexadecimal:
            self._hexadecimal(hexadecimal, False)
            return True
        if escaped and (
            escaped in _SAME_CLASS_ESCAPES or escaped in _PUNCTUATION or escaped in _CLASS_ESCAPES
        ):
            self._emit(_CLASS_ESCAPES.get(escaped, "\\" + escaped), 2, False)
            return escaped not in "dDwWsS"
        raise ValueError(f"uses \\{escaped} inside brackets, which is not supported")


def _translate(pattern: str) -> _Translator:
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise ValueError(f"has {len(pattern)} characters, the limit is {PATTERN_CHARACTERS_MAX}")
    translator = _Translator(pattern)
    translator.run()
    return translator


def check_regex(pattern: str) -> None:
    """Raises ValueError for a pattern that is no regular expression or not the same in both engines.

    Where google-re2 is installed it has the last word on size.
    """
    _translate(pattern)
    try:
        import re2
    except ImportError:
        return
    try:
        re2.compile(pattern)
    except re2.error as error:
        raise ValueError(f"cannot be compiled: {error}") from None


def group_count(pattern: str) -> int:
    """How many groups an accepted pattern has."""
    return _translate(pattern).groups


def java_pattern(pattern: str) -> str:
    r"""The pattern for java.util.regex: (?d) makes \n the only line end, `$` becomes \z, \s and \b are
    spelled out.
    """
    return "(?d)" + "".join(_translate(pattern).out)


def like_problem(pattern: str, escape: str) -> str:
    """What is wrong with a LIKE pattern, "" where nothing is: the escape stands before itself, % or _ only.
    """
    if len(escape) != 1:
        return "the escape of LIKE is one character"
    if escape in "%_":
        return "the escape of LIKE cannot be % or _"
    position = 0
    while position < len(pattern):
        if pattern[position] == escape:
            position += 1
            if position == len(pattern):
                return "the LIKE pattern ends in its escape character"
            if pattern[position] not in ("%", "_", escape):
                found = pattern[position]
                return f"in a LIKE pattern the escape {escape} stands before %, _ or itself, not {found}"
        position += 1
    return ""

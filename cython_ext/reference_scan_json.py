"""Lines that are JSON documents in plain Python: the oracle of `cython_ext.scan_json`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from cython_ext import reference_scan_time
from cython_ext.reference_scan_value import C_TEXT, TimeParts, contents_of, null_outputs, unescape
from cython_ext.reference_scan_verdict import Rejected

DEPTH_MAX = 64
DIGITS = b"0123456789"
SPACE = b" \t\r\n"


@dataclass
class Value:
    """A value of a document: `kind` is object, array, string or other; its text is [start, end), without quotes."""

    kind: str
    start: int
    end: int
    escaped: bool = False
    members: list[tuple[bytes, Value]] = field(default_factory=list)
    items: list[Value] = field(default_factory=list)


class _Parser:
    def __init__(self, line: bytes) -> None:
        self.line, self.position, self.depth = line, 0, 0

    def fail(self) -> Rejected:
        return Rejected("truncated" if self.position == len(self.line) else "bad_json", self.position)

    def peek(self) -> bytes:
        return self.line[self.position : self.position + 1]

    def space(self) -> None:
        while self.peek() and self.peek() in SPACE:
            self.position += 1

    def expect(self, text: bytes) -> None:
        for i in range(len(text)):
            if self.peek() != text[i : i + 1]:
                raise self.fail()
            self.position += 1

    def value(self) -> Value:
        start, first = self.position, self.peek()
        if first == b'"':
            return self.string()
        if first and first in b"{[":
            return self.nested(first)
        for word in (b"true", b"false", b"null"):
            if first == word[:1]:
                self.expect(word)
                return Value("null" if word == b"null" else "other", start, self.position)
        self.number()
        return Value("other", start, self.position)

    def nested(self, first: bytes) -> Value:
        if self.depth == DEPTH_MAX:
            raise Rejected("too_deep", self.position)
        self.depth += 1
        value = self.object() if first == b"{" else self.array()
        self.depth -= 1
        return value

    def separated(self, close: bytes) -> Iterator[None]:
        """Once for each member of what ends with `close`."""
        self.position += 1
        self.space()
        if self.peek() == close:
            self.position += 1
            return
        while True:
            yield
            self.space()
            if self.peek() == close:
                self.position += 1
                return
            self.expect(b",")
            self.space()

    def object(self) -> Value:
        value = Value("object", self.position, 0)
        for _ in self.separated(b"}"):
            if self.peek() != b'"':
                raise self.fail()
            key = self.string()
            self.space()
            self.expect(b":")
            self.space()
            value.members.append((unescape(self.line[key.start : key.end]), self.value()))
        value.end = self.position
        return value

    def array(self) -> Value:
        value = Value("array", self.position, 0)
        for _ in self.separated(b"]"):
            value.items.append(self.value())
        value.end = self.position
        return value

    def string(self) -> Value:
        self.position += 1
        value = Value("string", self.position, 0)
        while self.peek() != b'"':
            if not self.peek() or self.peek() < b" ":
                raise self.fail()
            if self.peek() == b"\\":
                value.escaped = True
                self.escape()
            else:
                self.position += 1
        value.end = self.position
        self.position += 1
        return value

    def escape(self) -> None:
        self.position += 1
        letter = self.peek()
        if not letter or letter not in b'"\\/bfnrtu':
            raise self.fail()
        self.position += 1
        for _ in range(4 if letter == b"u" else 0):
            if not self.peek() or self.peek() not in DIGITS + b"abcdefABCDEF":
                raise self.fail()
            self.position += 1

    def digits(self) -> None:
        if not self.peek() or self.peek() not in DIGITS:
            raise self.fail()
        while self.peek() and self.peek() in DIGITS:
            self.position += 1

    def number(self) -> None:
        if self.peek() == b"-":
            self.position += 1
        if self.peek() == b"0":
            self.position += 1
        else:
            self.digits()
        if self.peek() == b".":
            self.position += 1
            self.digits()
        if self.peek() and self.peek() in b"eE":
            self.position += 1
            if self.peek() and self.peek() in b"+-":
                self.position += 1
            self.digits()


def parse(line: bytes) -> Value:
    """The document of a line. Raises Rejected unless it is exactly one, and an object."""
    parser = _Parser(line)
    parser.space()
    start = parser.position
    value = parser.value()
    parser.space()
    if parser.position < len(line):
        raise parser.fail()
    if value.kind != "object":
        raise Rejected("not_object", start)
    return value


def _first(value: Value) -> Value | None:
    while value.kind == "array":
        if not value.items:
            return None
        value = value.items[0]
    return value


def lookup(document: Value, path: Sequence[str], whole: bool) -> Value | None:
    """The value at a path; the last of equal keys counts, an array stands for its first element (`whole`: not at the
    end of the path). None: not there, or null."""
    value: Value | None = document
    for key in path:
        value = _first(value) if value is not None else None
        if value is None:
            return None
        value = next((found for name, found in reversed(value.members) if name == key.encode()), None)
    if value is not None and not whole:
        value = _first(value)
    return None if value is None or value.kind == "null" else value


def read_document(program: Any, wanted: Sequence[str], line: bytes) -> dict[str, Any]:
    """The values of one line by field name. Raises Rejected."""
    document = parse(line)
    values: dict[str, Any] = {}
    times: TimeParts = {}
    for source in [*program.values, *(_open(name) for name in wanted if name not in program.fields)]:
        whole = getattr(source, "whole", False)
        found = (lookup(document, path, whole) for path in source.paths)
        value = next((value for value in found if value is not None), None)
        if value is None:
            if getattr(source, "required", False):
                raise Rejected("mismatch", 0)
            if not getattr(source, "overrides", False):
                values.update(null_outputs(source))
            continue
        text = line[value.start : value.end]
        if value.escaped:
            text = unescape(text)
        try:
            values.update(contents_of(program, source, text, times, value.start))
        except Rejected as rejected:
            if not getattr(source, "lenient", False):
                raise Rejected(rejected.reason, value.start) from None
            values.update(null_outputs(source))
    values.update(reference_scan_time.sums_of(program, program.values, times))
    return values


def _open(name: str) -> Any:
    nested = tuple(key.replace("\\.", ".") for key in re.split(r"(?<!\\)\.", name))
    paths = (nested, (name.replace("\\.", "."),)) if len(nested) > 1 else (nested,)
    return SimpleNamespace(paths=paths, content=C_TEXT, outputs=(name,), dash_null=True, nulls=(), whole=True)

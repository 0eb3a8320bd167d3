"""The scan kernel in plain Python: what a program means, said slowly. The oracle of the kernel's tests.

One line at a time, one field at a time, no thought of speed. docs/SCAN.md is the text that this follows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cython_ext import reference_scan_json, reference_scan_time
from cython_ext.reference_scan_value import TimeParts, contents_of, null_outputs, outputs_of
from cython_ext.reference_scan_verdict import Rejected

TEXT, WORD, QUOTED, SELF, BRACES, SYSLOG, MAYBE_QUOTED, LIST, NAME, REQUEST = range(1, 11)
BLANKS = b" \t"
LINE_BYTES_MAX = 4 << 20
PROTOCOL_END = re.compile(rb" HTTP/[0-9](\.[0-9])?\Z")


@dataclass
class ReferenceBatch:
    """What `cython_ext.scan.Batch` holds, as Python lists."""

    columns: list[list[Any]]
    rows: int = 0
    lines: int = 0
    directives: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    samples: list[tuple[int, int, str, int]] = field(default_factory=list)
    consumed: int = 0
    directive: bytes | None = None


def scan(
    program: Any, wanted: Sequence[str], block: bytes, samples_max: int = 8, line_bytes_max: int = LINE_BYTES_MAX
) -> ReferenceBatch:
    """`Scanner(program, wanted, ...).scan(block)`."""
    batch = ReferenceBatch([[] for _ in wanted])
    read = read_line if hasattr(program, "steps") else reference_scan_json.read_document
    while batch.consumed < len(block) and batch.directive is None:
        offset = batch.consumed
        newline = block.find(b"\n", offset)
        stop = newline if newline >= 0 else len(block)
        batch.consumed = stop + 1 if newline >= 0 else stop
        _scan_line(batch, program, wanted, offset, block[offset:stop], samples_max, line_bytes_max, read)
    return batch


def _scan_line(
    batch: ReferenceBatch, program: Any, wanted: Sequence[str], offset: int, line: bytes,
    samples_max: int, line_bytes_max: int, read: Callable[..., dict[str, Any]],
) -> None:  # fmt: skip
    batch.lines += 1
    line = line.removesuffix(b"\r")
    try:
        if len(line) > line_bytes_max:
            raise Rejected("too_long", 0)
        if not line:
            raise Rejected("blank", 0)
        if line.startswith(b"#") and getattr(program, "directives", False):
            batch.directives += 1
            batch.directive = line if line.startswith(b"#Fields:") else None
            return
        values = read(program, wanted, line)
    except Rejected as rejected:
        batch.rejected[rejected.reason] = batch.rejected.get(rejected.reason, 0) + 1
        if len(batch.samples) < samples_max:
            batch.samples.append((offset, len(line), rejected.reason, rejected.position))
        return
    batch.rows += 1
    for column, name in zip(batch.columns, wanted, strict=True):
        column.append(values.get(name))


def read_line(program: Any, wanted: Sequence[str], line: bytes) -> dict[str, Any]:
    """The values of one line by field name. Raises Rejected."""
    values: dict[str, Any] = {}
    times: TimeParts = {}
    if not program.steps:
        raise Rejected("no_fields", 0)
    position = _match(program.prefix, program.blank_run, line, 0)
    for number, step in enumerate(program.steps, 1):
        may_end = 0 < program.required <= number
        found = _find(program, step, line, position, may_end)
        if found.text is None:
            values.update(null_outputs(step))
        else:
            try:
                is_value = step.extent == SELF
                values.update(contents_of(program, step, found.text, times, found.start, is_value))
            except Rejected as rejected:
                raise Rejected(rejected.reason, found.start) from None
        if found.behind is None:
            for rest in program.steps[number:]:
                values.update(null_outputs(rest))
            break
        position = found.behind
    else:
        _check_end(program, line, position)
    values.update(reference_scan_time.sums_of(program, program.steps, times))
    return values


def _check_end(program: Any, line: bytes, position: int) -> None:
    if position == len(line):
        return
    if program.open_end and (program.steps[-1].until or line[position] in BLANKS):
        return
    raise Rejected("trailing", position)


@dataclass
class _Found:
    """A field: its text (None: it is NULL or not there) from `start`, and the place behind the literal that follows it
    (None: the line ended early, and may)."""

    start: int
    text: bytes | None
    behind: int | None


def _match(literal: bytes, blank_run: bool, line: bytes, position: int) -> int:
    """The place behind the literal, which must stand at `position`."""
    for byte in literal:
        if position == len(line):
            raise Rejected("truncated", position)
        if blank_run and byte == 0x20 and line[position] in BLANKS:
            while position < len(line) and line[position] in BLANKS:
                position += 1
        elif line[position] == byte:
            position += 1
        else:
            raise Rejected("mismatch", position)
    return position


def _search(literal: bytes, blank_run: bool, line: bytes, start: int) -> tuple[int, int] | None:
    """Where the literal first stands, and the place behind it."""
    for position in range(start, len(line)):
        try:
            return position, _match(literal, blank_run, line, position)
        except Rejected:
            continue
    return None


def _close(step: Any, blank_run: bool, line: bytes, stop: int, may_end: bool) -> int | None:
    if stop == len(line) and may_end:
        return None
    return _match(step.until, blank_run, line, stop)


def _find(program: Any, step: Any, line: bytes, start: int, may_end: bool) -> _Found:
    return _FINDERS[int(step.extent)](program, step, line, start, may_end)


def _find_text(program: Any, step: Any, line: bytes, start: int, may_end: bool) -> _Found:
    if not step.until:
        return _Found(start, line[start:], None if may_end else len(line))
    found = _search(step.until, program.blank_run, line, start)
    if found is not None:
        return _Found(start, line[start : found[0]], found[1])
    if may_end:
        return _Found(start, line[start:], None)
    raise Rejected("truncated", start)


def _find_word(program: Any, step: Any, line: bytes, start: int, may_end: bool) -> _Found:
    mismatch = None
    for stop in range(start, len(line)):
        if not step.until and line[stop] not in BLANKS:
            continue
        try:
            behind = _match(step.until, program.blank_run, line, stop)
        except Rejected as rejected:
            mismatch = rejected
        else:
            if stop == start:
                raise Rejected("mismatch", start)
            return _Found(start, line[start:stop], behind)
        if line[stop] in BLANKS:
            raise Rejected("mismatch", start) if stop == start else mismatch
    if start < len(line) and (may_end or not step.until):
        return _Found(start, line[start:], None if may_end else len(line))
    raise Rejected("truncated", start)


def _slashes_before(text: bytes, at: int) -> int:
    return len(text[:at]) - len(text[:at].rstrip(b"\\"))


def _find_quoted(program: Any, step: Any, line: bytes, start: int, may_end: bool) -> _Found:
    quote = step.until[0]
    for stop in range(start, len(line)):
        text = line[start:stop]
        if line[stop] == quote and _slashes_before(text, len(text)) % 2 == 0:
            if may_end and stop + 1 == len(line):
                return _Found(start, text, None)
            return _Found(start, text, _close(step, program.blank_run, line, stop, may_end))
    raise Rejected("truncated", start)


def _find_self(program: Any, step: Any, line: bytes, start: int, may_end: bool) -> _Found:
    rest = line[start:]
    if not rest:
        raise Rejected("truncated", start)
    size = None
    if step.dash_null and rest[:1] == b"-" and not rest[1:2].isdigit():
        size = 1
    for null in step.nulls:
        behind = rest[len(null) : len(null) + 1]
        if size is None and rest.startswith(null) and (not behind or behind in (b" ", b"\t", step.until[:1])):
            size = len(null)
    if size is not None:
        return _Found(start, None, _close(step, program.blank_run, line, start + size, may_end))
    try:
        size = outputs_of(step, rest)[1]
        contents_of(program, step, rest[:size], {}, start, True)  # all of it is read before `until` is looked for
    except Rejected as rejected:
        raise Rejected(rejected.reason, start) from None
    return _Found(start, rest[:size], _close(step, program.blank_run, line, start + size, may_end))


def _find_braces(program: Any, step: Any, line: bytes, start: int, may_end: bool) -> _Found:
    if line[start : start + 1] != b"{":
        return _Found(start, None, None if may_end and start == len(line) else start)
    found = _find_closing_brace(program, step, line, start + 1, may_end)
    if b"{" in (found.text or b""):
        raise Rejected("mismatch", start)
    return found


def _find_closing_brace(program: Any, step: Any, line: bytes, start: int, may_end: bool) -> _Found:
    if step.until.startswith(b"}"):
        found = _search(step.until, program.blank_run, line, start)
        if found is not None:
            return _Found(start, line[start : found[0]], found[1])
        if may_end and line[start:].endswith(b"}"):
            return _Found(start, line[start:-1], None)
    else:
        stop = line.find(b"}", start)
        if stop >= 0:
            return _Found(start, line[start:stop], _close(step, program.blank_run, line, stop + 1, may_end))
    raise Rejected("truncated", start - 1)


def _find_syslog(program: Any, step: Any, line: bytes, start: int, may_end: bool) -> _Found:
    at = line.find(b"]: ", start)
    stop = at + 3 if at >= 0 else start
    behind = _close(step, program.blank_run, line, stop, may_end)
    return _Found(start, line[start:stop] if at >= 0 else None, behind)


def _find_maybe_quoted(program: Any, step: Any, line: bytes, start: int, may_end: bool) -> _Found:
    if line[start : start + 1] != b'"':
        return _find_word(program, step, line, start, may_end)
    for stop in range(start + 1, len(line)):
        text = line[start + 1 : stop]
        if line[stop : stop + 1] == b'"' and _slashes_before(text, len(text)) % 2 == 0:
            return _Found(start + 1, text, _close(step, program.blank_run, line, stop + 1, may_end))
    raise Rejected("truncated", start)


def _find_list(program: Any, step: Any, line: bytes, start: int, may_end: bool) -> _Found:
    if not step.until.startswith(b" "):
        return _find_text(program, step, line, start, may_end)
    search_from = start
    while True:
        found = _search(step.until, program.blank_run, line, search_from)
        if found is None:
            if may_end:
                return _Found(start, line[start:], None)
            raise Rejected("truncated", start)
        text, rest = line[start : found[0]], line[found[0] + 1 :]
        if not (text.endswith((b",", b" :")) or rest.startswith(b": ")):
            return _Found(start, text, found[1])
        search_from = found[0] + 1


def _find_name(program: Any, step: Any, line: bytes, start: int, may_end: bool) -> _Found:
    if line.startswith(b"- ", start) and not (step.until and line.startswith(step.until, start + 1)):
        raise Rejected("mismatch", start)
    found = _find_text(program, step, line, start, may_end)
    text = found.text or b""
    quotes = [at for at, byte in enumerate(text) if byte == ord('"') and _slashes_before(text, at) % 2 == 0]
    if quotes:
        raise Rejected("mismatch", start)
    return found


def _find_request(program: Any, step: Any, line: bytes, start: int, may_end: bool) -> _Found:
    search_from = start
    while step.until and not line.startswith(b"-", start):
        found = _search(step.until, program.blank_run, line, search_from)
        if found is None:
            break
        text = line[start : found[0]]
        if PROTOCOL_END.search(text):
            return _Found(start, text, found[1])
        search_from = found[0] + 1
    return _find_text(program, step, line, start, may_end)


_FINDERS = {
    TEXT: _find_text,
    WORD: _find_word,
    QUOTED: _find_quoted,
    SELF: _find_self,
    BRACES: _find_braces,
    SYSLOG: _find_syslog,
    MAYBE_QUOTED: _find_maybe_quoted,
    LIST: _find_list,
    NAME: _find_name,
    REQUEST: _find_request,
}

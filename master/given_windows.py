"""Windows that were computed elsewhere, as they come: JSON lines (docs/SPARK.md), read with a limit on everything. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
import zstandard

from job.times import micros_of
from job.types import Kind, Type, type_of
from master.problems import Problem
from master.requests import GivenWindow, ResultColumn

WINDOWS_MAX = 1000
COLUMNS_MAX = 1024
LINES_MAX = 1 << 62
DIGEST_BYTES = 16
ZSTD_LEVEL = 3
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?Z\Z"
_AT = re.compile(r"(.*) - at `\$(.*)`", re.DOTALL)
_DIGITS = re.compile(r"\{(?:1,)?([0-9]+)\}")
_encode = msgspec.json.Encoder().encode

_Time = Annotated[str, msgspec.Meta(pattern=_TIME)]
_Bigint = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Double = float | Literal["NaN", "Infinity", "-Infinity"] | None


class _Edges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    start: _Time
    end: _Time


class _Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    type: str


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    window: _Edges | None
    revision: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    columns: Annotated[tuple[_Column, ...], msgspec.Meta(min_length=1, max_length=COLUMNS_MAX)]
    rows: msgspec.Raw
    lines: Annotated[int, msgspec.Meta(ge=0, le=LINES_MAX)]


_LINE = msgspec.json.Decoder(_Line)
_VALUES: dict[Kind, Any] = {
    Kind.NULL: None,
    Kind.BOOLEAN: bool | None,
    Kind.BIGINT: _Bigint | None,
    Kind.DOUBLE: _Double,
    Kind.STRING: str | None,
    Kind.TIMESTAMP: _Time | None,
    Kind.WINDOW: _Edges | None,
    Kind.ARRAY: list[_Double] | None,
}


def given_windows(body: bytes) -> tuple[GivenWindow, ...]:
    """The windows of a request, each once. Raises Problem, with the line. O(bytes)."""
    found: dict[tuple[int | None, int | None], GivenWindow] = {}
    for number, line in enumerate(body.split(b"\n"), 1):
        if not line.strip():
            continue
        if len(found) == WINDOWS_MAX:
            raise Problem("too-large", f"a request has at most {WINDOWS_MAX} windows", field="body", line=number)
        window = _window(number, line)
        first = found.setdefault((window.start_us, window.end_us), window)
        if first is not window:
            raise _wrong(number, "window", f"line {first.line} has the same window")
    if not found:
        raise Problem("invalid", "there is no window in the body", field="body", advice="Write one on each line.")
    return tuple(found.values())


def _window(number: int, text: bytes) -> GivenWindow:
    line: _Line = _decoded(number, "", lambda: _LINE.decode(text))
    columns = _columns(number, line.columns)
    rows = _decoded(number, "rows", lambda: _rows(columns).decode(line.rows))
    for at, column in enumerate(columns):
        if column.type in _WITH_TIMES:
            _check_times(number, at, rows)
    try:
        encoded = _encode(rows)
    except UnicodeEncodeError:
        raise _wrong(number, "rows", "a text is no Unicode") from None
    start, end = _edges(number, line.window)
    digest = hashlib.blake2b(_encode(columns) + encoded, digest_size=DIGEST_BYTES).digest()
    packed = zstandard.compress(encoded, ZSTD_LEVEL)
    return GivenWindow(number, start, end, line.revision, columns, line.lines, len(rows), packed, digest)


def _edges(number: int, window: _Edges | None) -> tuple[int | None, int | None]:
    if window is None:
        return None, None
    start, end = (
        _moment(number, f"window.{name}", getattr(window, name)) for name in ("start", "end")
    )
    if end <= start:
        raise _wrong(number, "window.end", "the window ends before it has begun")
    return start, end


def _moment(number: int, field: str, text: str) -> int:
    try:
        return micros_of(datetime.fromisoformat(text))
    except ValueError as problem:
        raise _wrong(number, field, f"{text!r}: {problem}") from None


def _columns(number: int, columns: Sequence[_Column]) -> tuple[ResultColumn, ...]:
    found = []
    for at, column in enumerate(columns):
        try:
            found.append(ResultColumn(column.name, str(type_of(column.type))))
        except ValueError as problem:
            raise _wrong(number, f"columns[{at}].type", str(problem)) from None
    if len({column.name for column in found}) < len(found):
        raise _wrong(number, "columns", "two columns have one name")
    return tuple(found)


_WITH_TIMES = {"TIMESTAMP": ("",), "STRUCT<start: TIMESTAMP, end: TIMESTAMP>": ("start", "end")}


def _check_times(number: int, at: int, rows: Sequence[Sequence[Any]]) -> None:
    """That there is no 30th of February; the pattern saw to the rest."""
    for row_number, row in enumerate(rows):
        value = row[at]
        for text in () if value is None else (value,) if isinstance(value, str) else (value.start, value.end):
            try:
                datetime.fromisoformat(text)
            except ValueError as problem:
                raise _wrong(number, f"rows[{row_number}][{at}]", f"{text!r}: {problem}") from None


@lru_cache(maxsize=64)
def _rows(columns: tuple[ResultColumn, ...]) -> msgspec.json.Decoder[list[tuple[Any, ...]]]:
    """Of arrays of values of these types."""
    row = tuple.__class_getitem__(tuple(_value(type_of(column.type)) for column in columns))
    return msgspec.json.Decoder(list[row])  # type: ignore[valid-type]


def _value(type: Type) -> Any:
    """What JSON may have for a value of a type."""
    if type.kind is not Kind.DECIMAL:
        return _VALUES[type.kind]
    before, after = max(type.precision - type.scale, 1), type.scale
    pattern = rf"^-?[0-9]{{1,{before}}}" + (rf"\.[0-9]{{{after}}}\Z" if after else r"\Z")
    return Annotated[str, msgspec.Meta(pattern=pattern)] | None


def _decoded(number: int, field: str, decode: Callable[[], Any]) -> Any:
    try:
        return decode()
    except msgspec.ValidationError as problem:
        told = _AT.fullmatch(str(problem))
        detail, at = (told[1], told[2]) if told else (str(problem), "")
        raise _wrong(number, (field + at).lstrip(".") or "body", _said(detail)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise _wrong(number, field or "body", f"this is no JSON: {problem}") from None
    except RecursionError:
        raise _wrong(number, field or "body", "it is nested too deep") from None


def _said(detail: str) -> str:
    """What a value has to look like, where msgspec shows the pattern that it does not match. Values have one form each, for
    their bytes tell whether a window is the same."""
    if "matching regex" not in detail:
        return detail
    if "T[0-9]" in detail:
        return "this is no time in UTC: write 2025-11-28T19:30:00Z, or 2025-11-28T19:30:00.250000Z with six digits"
    digits = _DIGITS.findall(detail)
    behind = f" and {digits[1]} behind the point" if len(digits) > 1 else ""
    return f"this is no DECIMAL of its column: write a text of at most {digits[0]} digits{behind}"


def _wrong(number: int, field: str, detail: str) -> Problem:
    return Problem("invalid", detail[:300], field=field[:100], line=number)

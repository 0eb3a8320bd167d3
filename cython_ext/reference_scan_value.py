"""What the text of a field means, in plain Python: the oracle's half of `cython_ext.scan_value` and `scan_number`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from cython_ext import reference_scan_time
from cython_ext.reference_scan_verdict import Rejected

REQUEST_ROLES = 6
INT64_MAX = 2**63 - 1
DECIMAL_LIMIT = 10**18
C_TEXT, C_REQUEST, C_URI, C_ADDRESS_PORT, C_INTEGER, C_TIMER, C_DECIMAL, C_STATUS = range(1, 9)
C_TIME, C_DATE, C_CLOCK, C_FLAG, C_FLOAT, C_URI_STEM, C_LOCATION = range(9, 16)

TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
THREE_PARTS = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) (.+) (HTTP(?:/\d(?:\.\d)?| \d\.\d))", re.DOTALL)
TWO_PARTS = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([^ ]+)", re.DOTALL)
HOST = re.compile(rb"[^/?]*(?=[/?])|.*(?=\*\Z)|.*", re.DOTALL)
ADDRESS_PORT = re.compile(rb"(.*):([0-9]{1,5})", re.DOTALL)
JSON_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[\"\\/bfnrt]"
)
SIMPLE_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}

TimeParts = dict[str | int, list[tuple[int, int]]]
"""By sum: the microseconds that DATE and CLOCK gave, each with the position of its text."""


def as_text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def null_outputs(field: Any) -> dict[str, Any]:
    return {} if int(field.content) in (C_DATE, C_CLOCK) else {name: None for name in field.outputs if name is not None}


def contents_of(
    program: Any, field: Any, text: bytes, times: TimeParts, position: int, is_value: bool = False
) -> dict[str, Any]:
    """The outputs of the whole `text`. DATE and CLOCK add to `times` instead. `is_value`: it is known not to be NULL."""
    if getattr(field, "json_escaped", False) and not is_value:
        text = unescape(text)
    if not is_value and ((text == b"-" and field.dash_null) or text in field.nulls):
        return null_outputs(field)
    try:
        values, size = outputs_of(field, text)
    except Rejected as rejected:
        raise Rejected(_reason_of(field) if rejected.reason == "truncated" else rejected.reason) from None
    if size != len(text):
        raise Rejected(_reason_of(field))
    if int(field.content) in (C_DATE, C_CLOCK):
        times.setdefault(reference_scan_time.sum_key(field), []).append((values[0], position))
        return {}
    if int(field.content) == C_TIME and not reference_scan_time.is_instant(field.layout, text):
        values = [reference_scan_time.checked(reference_scan_time.to_utc(program, values[0]))]
    return {name: value for name, value in zip(field.outputs, values, strict=False) if name is not None}


def _reason_of(field: Any) -> str:
    content = int(field.content)
    if content in (C_TIME, C_DATE, C_CLOCK):
        return "bad_time"
    return {C_STATUS: "bad_status", C_FLAG: "mismatch"}.get(content, "bad_number")


def outputs_of(field: Any, text: bytes) -> tuple[list[Any], int]:
    """The values by role, and how many bytes from the start of `text` they took. Raises Rejected, with the reason
    `truncated` where a longer text could have been good."""
    content = int(field.content)
    if content in TEXTS:
        return TEXTS[content](text), len(text)
    if content in (C_TIME, C_DATE, C_CLOCK):
        micros, size = reference_scan_time.read(field.layout, text)
        return [micros], size
    if content == C_LOCATION:
        return _location(text, field), len(text)
    if content == C_STATUS and field.argument:
        return _status(text[:3])
    if content == C_DECIMAL:
        return _decimal(text, field.argument)
    return NUMBERS[content](text)


def _request(text: bytes) -> list[Any]:
    found = THREE_PARTS.fullmatch(text)
    if found is not None:
        method, target, protocol = found.groups()
        return [as_text(text), as_text(method), *_uri(target), as_text(protocol)]
    found = TWO_PARTS.fullmatch(text)
    if found is not None:
        return [as_text(text), as_text(found[1]), *_uri(found[2]), None]
    return [as_text(text), None, None, None, None, None]


def _uri(text: bytes) -> list[Any]:
    path, mark, query = text.partition(b"?")
    return [as_text(text), as_text(path), as_text(query) if mark else None]


def _address_port(text: bytes) -> list[Any]:
    found = ADDRESS_PORT.fullmatch(text)
    if found is None or int(found[2]) > 65535:
        return [as_text(text), None]
    return [as_text(found[1]), int(found[2])]


def _location(text: bytes, field: Any) -> list[Any]:
    host = HOST.match(text)[0]  # type: ignore[index]
    target: list[Any] = [None] * 3
    if len(host) < len(text):
        target = _uri(text[len(host) :])
    elif field.dash_null:
        host = host.removesuffix(b"-")
    if host == b"-" and field.dash_null:
        return [None, None, *target]
    return [*(_address_port(host) if field.argument else [as_text(host), None]), *target]


TEXTS: dict[int, Callable[[bytes], list[Any]]] = {
    C_TEXT: lambda text: [as_text(text)],
    C_REQUEST: _request,
    C_URI: _uri,
    C_ADDRESS_PORT: _address_port,
    C_URI_STEM: lambda text: [as_text(text), as_text(text)],
}


def _number(pattern: bytes, text: bytes, start: int = 0, reason: str = "bad_number") -> re.Match[bytes]:
    found = re.compile(pattern).match(text, start)
    if found is None:
        raise Rejected(reason)
    return found


def _integer(text: bytes, start: int = 0) -> tuple[list[Any], int]:
    if start == len(text):
        raise Rejected("truncated")
    found = _number(rb"[0-9]+", text, start)
    return [_bounded(found[0], INT64_MAX)], found.end()


def _bounded(digits: bytes, most: int) -> int:
    # Long before Python's own limit on the digits of an int.
    digits = digits.lstrip(b"0")
    if len(digits) > 30 or int(digits or b"0") > most:
        raise Rejected("overflow")
    return int(digits or b"0")


def _timer(text: bytes) -> tuple[list[Any], int]:
    if text[:1] != b"-":
        return _integer(text, 1 if text[:1] == b"+" else 0)
    if text == b"-":
        raise Rejected("truncated")
    return [None], _number(rb"-[0-9]+", text).end()


def _status(text: bytes) -> tuple[list[Any], int]:
    found = _number(rb"[0-9]*", text)
    if len(found[0]) < 3 and found.end() == len(text):
        raise Rejected("truncated")
    if len(found[0]) != 3:
        raise Rejected("bad_status")
    return [int(found[0])], 3


def _decimal(text: bytes, power: int) -> tuple[list[Any], int]:
    if re.fullmatch(rb"[+-]?([0-9]+\.)?", text):
        raise Rejected("truncated")
    found = _number(rb"([+-]?)([0-9]+)(\.[0-9]*)?([eE][+-]?[0-9]+)?", text)
    if found[3] == b".":
        raise Rejected("bad_number")
    if found[1] == b"-":
        return [None], found.end()
    # The first `kept` digits are the value, with zeros where none are written; an exponent counts at most 9,999.
    digits = found[2] + (found[3] or b".")[1:]
    sign, exponent = re.fullmatch(rb"e?([+-]?)([0-9]+)", (found[4] or b"e0").lower()).groups()  # type: ignore[union-attr]
    shift = int(exponent) if len(exponent.lstrip(b"0")) <= 4 else 9999
    kept = len(found[2]) + power + (-shift if sign == b"-" else shift)
    return [_bounded(digits[: max(kept, 0)].ljust(kept, b"0"), DECIMAL_LIMIT - 1)], found.end()


def _flag(text: bytes) -> tuple[list[Any], int]:
    for word, value in ((b"true", True), (b"false", False)):
        if text.startswith(word):
            return [value], len(word)
    raise Rejected("mismatch")


def _float(text: bytes) -> tuple[list[Any], int]:
    if re.fullmatch(rb"[+-]?\.?", text):
        raise Rejected("truncated")
    found = _number(rb"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", text)
    value = float(found[0])
    if value in (float("inf"), float("-inf")):
        raise Rejected("overflow")
    return [value], found.end()


NUMBERS: dict[int, Callable[[bytes], tuple[list[Any], int]]] = {
    C_INTEGER: _integer,
    C_TIMER: _timer,
    C_STATUS: _status,
    C_FLAG: _flag,
    C_FLOAT: _float,
}


def unescape(text: bytes) -> bytes:
    """JSON escapes decoded; a lone surrogate and anything that is no escape stay as they are."""
    return JSON_ESCAPE.sub(_unescape_one, text)


def _unescape_one(found: re.Match[bytes]) -> bytes:
    escape = found[0]
    if escape[1:2] != b"u":
        return SIMPLE_ESCAPES.get(escape[1:], escape[1:])
    units = [int(escape[i + 2 : i + 6], 16) for i in range(0, len(escape), 6)]
    if len(units) == 2:
        return chr(0x10000 + ((units[0] - 0xD800) << 10) + (units[1] - 0xDC00)).encode()
    return escape if 0xD800 <= units[0] <= 0xDFFF else chr(units[0]).encode()

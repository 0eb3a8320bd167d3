"""The value types of a job, shared by formats, SQL, expressions and results.

The kinds are those of Spark SQL that a single-source aggregate needs (docs/SQL.md). Numbers are stored in
`cython_ext.column` as: BOOLEAN one byte, BIGINT and TIMESTAMP int64 (microseconds since 1970, UTC), DECIMAL a
128-bit integer scaled by 10**scale, DOUBLE an IEEE double, STRING UTF-8 bytes.
"""

from __future__ import annotations

import re
from enum import IntEnum

import msgspec


class Kind(IntEnum):
    """What a value is. The numbers are part of plans and of `cython_ext.column`: never renumber."""

    NULL = 0
    BOOLEAN = 1
    BIGINT = 2
    DECIMAL = 3
    DOUBLE = 4
    STRING = 5
    TIMESTAMP = 6
    WINDOW = 7
    ARRAY = 8


DECIMAL_PRECISION_MAX = 38


class Type(msgspec.Struct, frozen=True):
    """A kind, and for DECIMAL its precision (digits in all, <= 38) and scale (digits after the point).

    WINDOW is a struct of two TIMESTAMPs named start and end; ARRAY always holds DOUBLEs.
    """

    kind: Kind
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.precision},{self.scale})"
        if self.kind is Kind.ARRAY:
            return "ARRAY<DOUBLE>"
        if self.kind is Kind.WINDOW:
            return "STRUCT<start: TIMESTAMP, end: TIMESTAMP>"
        return self.kind.name

    @property
    def is_numeric(self) -> bool:
        return self.kind in (Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE)


NULL = Type(Kind.NULL)
BOOLEAN = Type(Kind.BOOLEAN)
BIGINT = Type(Kind.BIGINT)
DOUBLE = Type(Kind.DOUBLE)
STRING = Type(Kind.STRING)
TIMESTAMP = Type(Kind.TIMESTAMP)
WINDOW = Type(Kind.WINDOW)
ARRAY = Type(Kind.ARRAY)
SECONDS = Type(Kind.DECIMAL, 18, 6)
"""The type of durations that formats log in seconds, such as `request_time`."""


def decimal(precision: int, scale: int) -> Type:
    """DECIMAL(precision, scale). Raises ValueError unless 1 <= precision <= 38 and 0 <= scale <= precision."""
    if not 1 <= precision <= DECIMAL_PRECISION_MAX or not 0 <= scale <= precision:
        raise ValueError(f"DECIMAL({precision},{scale}): precision is 1 to 38 and scale 0 to precision")
    return Type(Kind.DECIMAL, precision, scale)


_DECIMAL = re.compile(r"DECIMAL\(([0-9]{1,2}),([0-9]{1,2})\)", re.ASCII)
_BY_TEXT = {str(one): one for one in (NULL, BOOLEAN, BIGINT, DOUBLE, STRING, TIMESTAMP, WINDOW, ARRAY)}


def type_of(text: str) -> Type:
    """The type that `str` writes so. Raises ValueError."""
    found = _DECIMAL.fullmatch(text)
    if found is not None:
        return decimal(int(found[1]), int(found[2]))
    if text not in _BY_TEXT:
        raise ValueError(f"{text[:60]!r} is no type")
    return _BY_TEXT[text]

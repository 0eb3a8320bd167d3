"""Constants: numbers, times, intervals and parameter values, typed as Spark types them (with every integer a
BIGINT).
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from decimal import Decimal

from job.errors import ParameterError
from job.plan import Literal
from job.times import EPOCH, micros_of
from job.types import BIGINT, BOOLEAN, DECIMAL_PRECISION_MAX, DOUBLE, NULL, STRING, TIMESTAMP, decimal

BIGINT_MIN, BIGINT_MAX = -(2**63), 2**63 - 1
_TIMESTAMP = re.compile(
    r"""\s*(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?
    (?:[ T](\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?|[ T](\d{1,2}):(\d{1,2}))?
    \s*(Z|UTC|GMT|[+-]\d{1,2}:?\d{2})?\s*""",
    re.VERBOSE,
)
_UNITS_US = {
    "MICROSECOND": 1,
    "MILLISECOND": 1000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
_INTERVAL_PART = re.compile(r"\s*(\d{1,18})\s+([A-Za-z]+)")


def number(text: str, suffix: str) -> Literal:
    """A number literal; ValueError says why it is none. `1` BIGINT, `1.50` DECIMAL(3,2), `1e3` and `1D`
    DOUBLE.
    """
    if suffix == "F":
        raise ValueError("FLOAT is not supported; write a DOUBLE: 1.5D")
    if suffix == "D" or (not suffix and "e" in text.lower()):
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise ValueError("the number is beyond DOUBLE")
        return Literal(value, DOUBLE)
    if suffix in ("", "L", "S", "Y") and text.lstrip("-").isdigit():
        return _integer(int(text), suffix)
    return decimal_literal(Decimal(text))


def _integer(value: int, suffix: str) -> Literal:
    bits = {"Y": 7, "S": 15}.get(suffix, 63)
    if -(2**bits) <= value < 2**bits:
        return Literal(value, BIGINT)
    if suffix:
        raise ValueError(f"{value} does not fit the suffix {suffix}")
    return decimal_literal(Decimal(value))


def decimal_literal(value: Decimal, parameter: str = "") -> Literal:
    """A DECIMAL of just the digits of `value`. Raises ValueError beyond 38 digits or where it is no number.
    """
    if not value.is_finite():
        raise ValueError("not a number")
    _, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    count = len(str(int("".join(map(str, digits))))) + max(int(exponent), 0)
    precision = max(count, scale)
    if precision > DECIMAL_PRECISION_MAX:
        raise ValueError(f"the number has {precision} digits; DECIMAL holds {DECIMAL_PRECISION_MAX}")
    return Literal(f"{value:f}", decimal(precision, scale), parameter)


def timestamp_micros(text: str) -> int:
    """Microseconds since 1970, UTC, of a text such as '2024-05-01 10:00:00.25+02:00'. Raises ValueError.

    Spark's forms with four-digit years; without a zone it is UTC.
    """
    match = _TIMESTAMP.fullmatch(text)
    if not match or (match[3] is None and (match[4] or match[8] or match[10])):
        raise ValueError("a TIMESTAMP is written 'YYYY-MM-DD HH:MM:SS[.ffffff][+hh:mm]'")
    day = datetime.datetime(int(match[1]), int(match[2] or 1), int(match[3] or 1), tzinfo=datetime.UTC)
    hour, minute, second = int(match[4] or match[8] or 0), int(match[5] or match[9] or 0), int(match[6] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("the time of day is out of range")
    seconds = (day - EPOCH) // datetime.timedelta(seconds=1) + hour * 3600 + minute * 60 + second
    return (seconds - _zone_s(match[10])) * 1_000_000 + int((match[7] or "0").ljust(6, "0")[:6])


def _zone_s(zone: str | None) -> int:
    if zone is None or zone[0] not in "+-":
        return 0
    hours, minutes = int(zone[1:-2].rstrip(":")), int(zone[-2:])
    if hours > 18 or minutes > 59:
        raise ValueError("the zone is out of range")
    return (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)


def interval_micros(text: str) -> int:
    """Microseconds of '10 seconds', 'INTERVAL 1 hour 30 minutes'. Raises ValueError for months, years and
    other text.
    """
    rest = re.sub(r"^\s*interval\b", "", text, flags=re.IGNORECASE)
    total, position = 0, 0
    for match in _INTERVAL_PART.finditer(rest):
        if match.start() != position:
            break
        position = match.end()
        unit = match[2].upper().removesuffix("S")
        if unit in ("MONTH", "YEAR", "QUARTER"):
            raise ValueError("months and years differ in length; write the interval in days")
        if unit not in _UNITS_US:
            raise ValueError(
                f"{match[2]!r} is no unit of time; write microseconds, milliseconds, seconds ... weeks"
            )
        total += int(match[1]) * _UNITS_US[unit]
    if position == 0 or rest[position:].strip():
        raise ValueError("an interval is written '10 seconds', '1 minute' or '1 hour 30 minutes'")
    if total > BIGINT_MAX:
        raise ValueError("the interval is too long")
    return total


def parameter_literal(name: str, parameters: Mapping[str, object]) -> Literal:
    """The typed value bound to `:name`. Raises ParameterError where it is missing or of a type SQL has not.
    """
    folded = {key.lower(): value for key, value in parameters.items()}
    if name.lower() not in folded:
        raise ParameterError(
            f"the query uses :{name}, but no such parameter was given; give it with --param {name}=..."
        )
    value = folded[name.lower()]
    try:
        return _bound(value, name)
    except ValueError as error:
        raise ParameterError(f"parameter {name}: {error}") from None


def _bound(value: object, name: str) -> Literal:
    if value is None:
        return Literal(None, NULL, name)
    if isinstance(value, bool):
        return Literal(value, BOOLEAN, name)
    if isinstance(value, int):
        if BIGINT_MIN <= value <= BIGINT_MAX:
            return Literal(value, BIGINT, name)
        return decimal_literal(Decimal(value), name)
    if isinstance(value, float):
        return Literal(value, DOUBLE, name)
    if isinstance(value, Decimal):
        return decimal_literal(value, name)
    if isinstance(value, str):
        return Literal(value, STRING, name)
    if isinstance(value, datetime.datetime):
        return Literal(micros_of(value), TIMESTAMP, name)
    raise ValueError(
        f"a {type(value).__name__} is no SQL value; give a number, text, truth value, time or None"
    )

"""Times as they are kept and compared everywhere: microseconds since 1970, UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import overload

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def zoned(moment: datetime) -> datetime:
    """A time without an offset is UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def micros_of(moment: datetime) -> int:
    """Microseconds since 1970; a time without an offset is UTC."""
    return (zoned(moment) - EPOCH) // MICROSECOND


@overload
def time_of(micros: int) -> datetime: ...
@overload
def time_of(micros: None) -> None: ...
@overload
def time_of(micros: int | None) -> datetime | None: ...
def time_of(micros: int | None) -> datetime | None:
    """Microseconds since 1970 as a datetime in UTC; what lies outside the years 1 to 9999 as the nearest there is."""
    if micros is None:
        return None
    try:
        return EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if micros > 0 else datetime.min.replace(tzinfo=UTC)


def later(one: int | None, other: int | None) -> int | None:
    """Of two times, neither of which need be there."""
    if one is None or other is None:
        return one if other is None else other
    return max(one, other)

"""The clock of a log whose times carry no offset: a fixed offset, or a zone of the IANA database with all its changes.

The scan takes a zone as plain data, so agents need no database of their own to agree on an hour.
"""

from __future__ import annotations

import difflib
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache

import msgspec

from job.errors import FormatError

FIRST_S = int(datetime(1970, 1, 1, tzinfo=UTC).timestamp())
LAST_S = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp())
"""Changes between these times are known; before and after them the first and the last offset hold."""
_DAY_S = 86_400
_LOOK_S = 7 * _DAY_S
"""No zone has changed its clock and changed it back within a week."""


class Zone(msgspec.Struct, frozen=True):
    """What a clock shows: `offset_s` ahead of UTC, and from each of `changes` (microseconds since 1970 in UTC) on that
    one's offset in seconds."""

    name: str = "UTC"
    offset_s: int = 0
    changes: tuple[tuple[int, int], ...] = ()


UNZONED = Zone()


def find_zone(text: str) -> Zone:
    """The zone that `text` names: `UTC`, an offset such as +02:00, or an IANA name such as Europe/Berlin, in any case.

    Raises FormatError, which says what to write instead. About 10 ms for a zone that changes its clock.
    """
    name = text.strip()
    if name.upper() in ("UTC", "Z", "GMT"):
        return UNZONED
    if name[:1] in ("+", "-"):
        return Zone(name, _offset_s(name))
    return _named(name)


def _offset_s(text: str) -> int:
    digits = text[1:].replace(":", "", 1) if text[3:4] == ":" else text[1:]
    if not (digits.isascii() and digits.isdigit() and len(digits) in (2, 4)):
        raise FormatError(f"{text!r} is no offset from UTC; write +02:00 or -0530")
    hours, minutes = int(digits[:2]), int(digits[2:] or "0")
    if hours > 23 or minutes > 59:
        raise FormatError(f"{text!r} is no offset from UTC: it takes up to 23 hours and 59 minutes")
    return (hours * 3600 + minutes * 60) * (-1 if text[0] == "-" else 1)


def _named(name: str) -> Zone:
    try:
        return _compiled(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        pass
    known = zoneinfo.available_timezones()
    by_key = {each.lower(): each for each in known}
    exact = by_key.get(name.lower().replace(" ", "_"))
    if exact is not None:
        return _compiled(exact)
    if not known:
        raise FormatError("this machine has no time zone database: install tzdata, or write an offset such as +02:00")
    near = difflib.get_close_matches(name.lower(), [*by_key, *(key.rpartition("/")[2] for key in by_key)], n=1)
    meant = [each for key, each in sorted(by_key.items()) if near and near[0] in (key, key.rpartition("/")[2])]
    hint = f" Did you mean {meant[0]}?" if meant else ""
    raise FormatError(
        f"there is no time zone called {name!r}.{hint} Write an IANA name such as Europe/Berlin, or an offset such as +02:00"
    )


@cache
def _compiled(name: str) -> Zone:
    zone = zoneinfo.ZoneInfo(name)
    first = _offset_at(zone, FIRST_S)
    return Zone(name, first, tuple(_changes(zone, first)))


def _offset_at(zone: zoneinfo.ZoneInfo, at_s: int) -> int:
    offset = datetime.fromtimestamp(at_s, zone).utcoffset()
    assert offset is not None
    return offset.days * _DAY_S + offset.seconds


def _changes(zone: zoneinfo.ZoneInfo, offset_s: int) -> Iterator[tuple[int, int]]:
    """The changes of a zone, found by looking at its clock: `zoneinfo` has no list of them."""
    for start in range(FIRST_S, LAST_S, _LOOK_S):
        stop = start + _LOOK_S
        now = _offset_at(zone, stop)
        if now == offset_s:
            continue
        low, high = start, stop  # offset_s holds at low, another one at high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _offset_at(zone, middle) == offset_s else (low, middle)
        offset_s = _offset_at(zone, high)
        yield high * 1_000_000, offset_s

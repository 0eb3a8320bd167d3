"""TIMESTAMPs as int microseconds since 1970, UTC: reading, writing, truncating, taking apart.

The proleptic Gregorian calendar reaches from year -290308 to 294247, beyond what `datetime` knows, so days
are counted here.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

from cython_ext.failure import Failure
from cython_ext.reference_numbers import checked_long

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
_UNIT_US = {
    "MICROSECOND": 1,
    "MILLISECOND": 1000,
    "SECOND": SECOND_US,
    "MINUTE": 60 * SECOND_US,
    "HOUR": 3600 * SECOND_US,
    "DAY": DAY_US,
}
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# Short names that java.time.ZoneId.SHORT_IDS maps; the rest of Spark's zone names are those of the tz
# database.
_SHORT_ZONES = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
    "EST": "-05:00", "MST": "-07:00", "HST": "-10:00",
}  # fmt: skip


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_before_year(year: int) -> int:
    """Days from 1970-01-01 to January 1 of `year`."""
    before = year - 1
    return before * 365 + before // 4 - before // 100 + before // 400 - 719_162


def month_days(year: int, month: int) -> int:
    return 29 if month == 2 and is_leap(year) else _MONTH_DAYS[month - 1]


def days_of(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date."""
    return days_before_year(year) + sum(month_days(year, m) for m in range(1, month)) + day - 1


def date_of(days: int) -> tuple[int, int, int]:
    """(year, month, day) of a day number."""
    year = 1970 + days * 400 // 146_097
    while days_before_year(year) > days:
        year -= 1
    while days_before_year(year + 1) <= days:
        year += 1
    rest = days - days_before_year(year)
    month = 1
    while rest >= month_days(year, month):
        rest -= month_days(year, month)
        month += 1
    return year, month, rest + 1


def truncate(unit: str, micros: int) -> int:
    """date_trunc. Raises Failure where the unit starts before the least TIMESTAMP."""
    if unit in _UNIT_US:
        return checked_long(micros - micros % _UNIT_US[unit])
    days = micros // DAY_US
    if unit == "WEEK":
        return checked_long((days - (days + 3) % 7) * DAY_US)
    year, month, _ = date_of(days)
    first = {"MONTH": month, "QUARTER": month - (month - 1) % 3, "YEAR": 1}[unit]
    return checked_long(days_of(year, first, 1) * DAY_US)


def iso_week(days: int) -> int:
    thursday = days - (days + 3) % 7 + 3
    return (thursday - days_before_year(date_of(thursday)[0])) // 7 + 1


def part(name: str, micros: int) -> int:
    """year, quarter, month, week, day, dayofweek, dayofyear, hour, minute or second."""
    days, rest = divmod(micros, DAY_US)
    second = rest // SECOND_US
    if name in ("hour", "minute", "second"):
        return {"hour": second // 3600, "minute": second // 60 % 60, "second": second % 60}[name]
    if name == "week":
        return iso_week(days)
    if name == "dayofweek":
        return (days + 4) % 7 + 1
    year, month, day = date_of(days)
    dayofyear = days - days_before_year(year) + 1
    parts = {"year": year, "quarter": (month + 2) // 3, "month": month, "day": day, "dayofyear": dayofyear}
    return parts[name]


def text_of(micros: int) -> str:
    """yyyy-MM-dd HH:mm:ss[.ffffff] without trailing zeros; years beyond four digits have a sign."""
    days, rest = divmod(micros, DAY_US)
    year, month, day = date_of(days)
    second, fraction = divmod(rest, SECOND_US)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    minute, second = divmod(second, 60)
    text = f"{sign}{abs(year):04}-{month:02}-{day:02} {minute // 60:02}:{minute % 60:02}:{second:02}"
    return text + f".{fraction:06}".rstrip("0") if fraction else text


_TIMESTAMP = re.compile(
    r"([+-]?)(\d{4,6})(?:-(\d\d?)(?:-(\d\d?)"
    r"(?:[ T](\d\d?)(?::(\d\d?)(?::(\d\d?)(?:\.(\d*))?([^\d.].*)?)?)?)?)?)?",
    re.ASCII | re.DOTALL,
)
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:(\d\d?)(?::(\d\d?)|:(\d\d):(\d\d))?|(\d\d)(\d\d)(\d\d)?)", re.ASCII
)


def read(text: str) -> int:
    """A TIMESTAMP from `[+-]yyyy[yy]-[M]M-[d]d[ T][h]h:[m]m:[s]s.f zone`, where all behind the year may be
    left off and only a time of day with seconds may have a zone. Raises Failure."""
    trimmed = text.strip("".join(map(chr, range(33))) + "\x7f")
    match = _TIMESTAMP.fullmatch(trimmed)
    if match is None:
        raise Failure("no timestamp")
    sign, *numbers, fraction, zone = match.groups()
    year, month, day, hour, minute, second = (
        int(number) if number is not None else default
        for number, default in zip(numbers, (0, 1, 1, 0, 0, 0), strict=True)
    )
    year = -year if sign == "-" else year
    if not 1 <= month <= 12 or not 1 <= day <= month_days(year, month):
        raise Failure("no such date")
    if hour > 23 or minute > 59 or second > 59:
        raise Failure("no such time of day")
    local = days_of(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
    if zone is not None:
        local -= zone_offset(zone.strip(), local)
    return checked_long(local * SECOND_US + int((fraction or "")[:6].ljust(6, "0")))


def zone_offset(zone: str, local_s: int) -> int:
    """Seconds that `zone` is ahead of UTC at a local time; Z, an offset, or a name of the tz database."""
    zone = _SHORT_ZONES.get(zone, zone)
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    match = _OFFSET.fullmatch(zone)
    if match is None:
        return _region_offset(zone, local_s)
    sign, *groups = match.groups()
    numbers = [int(group) for group in groups if group is not None]
    hours, minutes, seconds = (*numbers, 0, 0)[:3]
    offset = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or offset > 18 * 3600:
        raise Failure("no such offset")
    return -offset if sign == "-" else offset


@lru_cache(maxsize=64)
def _zone(name: str) -> object:
    import zoneinfo

    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9~/._+-]+", name):
        raise Failure("no such zone")
    try:
        return zoneinfo.ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise Failure("no such zone") from error


def _region_offset(name: str, local_s: int) -> int:
    """As java.time does it: a time skipped by a shift moves on by its length, a repeated one is the
    earlier."""
    zone = _zone(name)
    days, second = divmod(local_s, 86_400)
    year, month, day = date_of(days)
    if not 1 <= year <= 9999:  # the calendar repeats every 400 years, and rules do not change out there
        year = year % 400 + (400 if year < 1 else 9200)
    local = datetime(year, month, day, second // 3600, second // 60 % 60, second % 60, tzinfo=UTC)
    offset = local.replace(tzinfo=zone).utcoffset()  # type: ignore[arg-type]
    if offset is None:
        raise Failure("no such zone")
    return int(offset.total_seconds())

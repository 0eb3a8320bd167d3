"""Times of log lines in plain Python: the oracle of `cython_ext.scan_time`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from cython_ext.reference_scan_verdict import Rejected

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MICROS_MIN, MICROS_MAX = -62_135_596_800_000_000, 253_402_300_799_999_999
EPOCH_UNITS_US = {"s": 1_000_000, "L": 1000, "U": 1}
NUMBERS = {
    # directive: (part, digits, least, greatest)
    "d": ("day", 2, 1, 31),
    "m": ("month", 2, 1, 12),
    "Y": ("year", 4, 1, 9999),
    "y": ("short_year", 2, 0, 99),
    "H": ("hour", 2, 0, 23),
    "I": ("hour_12", 2, 1, 12),
    "M": ("minute", 2, 0, 59),
    "S": ("second", 2, 0, 60),
    "j": ("day_of_year", 3, 1, 366),
}
NAMES = {
    "b": ("month", [name[:3] for name in MONTHS]),
    "B": ("month", list(MONTHS)),
    "a": ("weekday", [name[:3] for name in DAYS]),
    "A": ("weekday", list(DAYS)),
    "p": ("afternoon", ["AM", "PM"]),
}


class _Reader:
    def __init__(self, text: bytes) -> None:
        self.text = text.decode("latin-1")
        self.position = 0
        self.parts: dict[str, int] = {}

    def digits(self, count: int, low: int, high: int) -> int:
        for i in range(self.position, self.position + count):
            if i == len(self.text):
                raise Rejected("truncated")
            if self.text[i] not in "0123456789":
                raise Rejected("bad_time")
        value = int(self.text[self.position : self.position + count])
        if not low <= value <= high:
            raise Rejected("bad_time")
        self.position += count
        return value

    def literal(self, byte: str) -> None:
        if self.position == len(self.text):
            raise Rejected("truncated")
        if self.text[self.position] != byte:
            raise Rejected("bad_time")
        self.position += 1

    def name(self, names: list[str]) -> int:
        rest = self.text[self.position :]
        fitting = [name for name in names if rest.startswith(name)]
        if not fitting:
            raise Rejected("truncated" if any(name.startswith(rest) for name in names) else "bad_time")
        best = max(fitting, key=len)
        self.position += len(best)
        return names.index(best)

    def run_of_digits(self, count_max: int) -> str:
        start = self.position
        while (
            self.position < min(len(self.text), start + count_max) and self.text[self.position] in "0123456789"
        ):
            self.position += 1
        if self.position == start:
            raise Rejected("truncated" if start == len(self.text) else "bad_time")
        return self.text[start : self.position]

    def peek(self, ahead: int = 0) -> str:
        return self.text[self.position + ahead : self.position + ahead + 1]


def read(layout: bytes, text: bytes) -> tuple[int, int]:
    """The microseconds that the start of `text` says, UTC where it names an instant, and the bytes it took."""
    reader = _parsed(layout, text)
    return _assemble(reader.parts), reader.position


def is_instant(layout: bytes, text: bytes) -> bool:
    """Whether a good time says its offset, or counts from 1970."""
    return not {"zone_s", "epoch_us"}.isdisjoint(_parsed(layout, text).parts)


def _parsed(layout: bytes, text: bytes) -> _Reader:
    reader = _Reader(text)
    spread = layout.replace(b"%T", b"%H:%M:%S").decode("latin-1")
    letters = iter(spread)
    for letter in letters:
        if letter != "%":
            reader.literal(letter)
            continue
        directive = next(letters)
        if directive == "%":
            reader.literal("%")
        else:
            _directive(reader, directive)
    return reader


def to_utc(program: Any, micros: int) -> int:
    """A time of the program's clock in UTC: with the offset of the last change that the clock has surely passed."""
    offset_s = program.zone_offset_s
    for at_us, next_s in program.zone_changes:
        if micros < at_us + max(offset_s, next_s) * 1_000_000:
            break
        offset_s = next_s
    return int(micros - offset_s * 1_000_000)


def _directive(reader: _Reader, letter: str) -> None:
    if letter in NUMBERS:
        part, count, low, high = NUMBERS[letter]
        reader.parts[part] = reader.digits(count, low, high)
        if letter == "y":
            reader.parts["year"] = reader.parts["short_year"] + (1900 if reader.parts["short_year"] >= 69 else 2000)
    elif letter in NAMES:
        part, names = NAMES[letter]
        reader.parts[part] = reader.name(names) + (part == "month")
    elif letter == "e":
        reader.parts["day"] = _padded_day(reader)
    elif letter == "f":
        reader.parts["micro"] = int(reader.run_of_digits(9).ljust(6, "0")[:6])
    elif letter == "N":
        if reader.peek() == ".":
            reader.position += 1
            _directive(reader, "f")
    elif letter == "+":
        _usual(reader)
    elif letter == "z":
        reader.parts["zone_s"] = _zone(reader)
    else:
        _epoch(reader, EPOCH_UNITS_US[letter])


def _usual(reader: _Reader) -> None:
    if len(reader.text) - reader.position > 2 and reader.peek(2) == "/":
        _sequence(reader, "d/b/Y:H:M:S z")
    elif reader.peek(4) not in ("-", "/"):
        _usual_epoch(reader)
    else:
        _sequence(reader, "Y-m-d" if reader.peek(4) == "-" else "Y/m/d")
        if reader.peek() in ("T", " "):
            reader.position += 1
            _sequence(reader, "H:M:SN")
            if reader.peek() in ("Z", "+", "-"):
                _directive(reader, "z")


def _sequence(reader: _Reader, script: str) -> None:
    for letter in script:
        if letter.isalpha():
            _directive(reader, letter)
        else:
            reader.literal(letter)


def _usual_epoch(reader: _Reader) -> None:
    count = 0
    while count < 21 and reader.peek(count) and reader.peek(count) in "0123456789":
        count += 1
    if count <= 11:
        _epoch(reader, EPOCH_UNITS_US["s"])
        return
    if count <= 17:
        _epoch(reader, EPOCH_UNITS_US["L" if count <= 14 else "U"])
    else:
        end = reader.position + count
        whole = _Reader(reader.text[reader.position : end - 3].encode("latin-1"))
        _epoch(whole, 1)
        reader.parts.update(whole.parts)
        reader.position = end
    if reader.peek() == ".":
        reader.position += 1
        while reader.peek() and reader.peek() in "0123456789":
            reader.position += 1


def _padded_day(reader: _Reader) -> int:
    if reader.peek() == " ":
        reader.position += 1
        return reader.digits(1, 1, 9)
    two = reader.peek(1) != "" and reader.peek(1) in "0123456789"
    return reader.digits(2, 1, 31) if two else reader.digits(1, 1, 9)


def _zone(reader: _Reader) -> int:
    sign = reader.peek()
    if sign == "":
        raise Rejected("truncated")
    if sign not in "Z+-":
        raise Rejected("bad_time")
    reader.position += 1
    if sign == "Z":
        return 0
    hours = reader.digits(2, 0, 23)
    if reader.peek() == ":":
        reader.position += 1
    seconds = hours * 3600 + reader.digits(2, 0, 59) * 60
    return seconds if sign == "+" else -seconds


def _epoch(reader: _Reader, unit_us: int) -> None:
    digits = reader.run_of_digits(len(reader.text) + 1)
    digits = digits.lstrip("0") or "0"
    if len(digits) > 20 or int(digits) > MICROS_MAX // unit_us:
        raise Rejected("bad_time")
    micros = int(digits) * unit_us
    if unit_us == 1_000_000 and reader.peek() == ".":
        reader.position += 1
        micros += int(reader.run_of_digits(len(reader.text) + 1).ljust(6, "0")[:6])
        reader.parts.pop("micro", None)
    reader.parts["epoch_us"] = micros


def _assemble(parts: dict[str, int]) -> int:
    zone_us = parts.get("zone_s", 0) * 1_000_000
    if "epoch_us" in parts:
        return checked(parts["epoch_us"] + parts.get("micro", 0) - zone_us)
    year = parts.get("year", 1970)
    try:
        if "day_of_year" in parts:
            day = date(year, 1, 1) + timedelta(parts["day_of_year"] - 1)
        else:
            day = date(year, parts.get("month", 1), parts.get("day", 1))
    except (ValueError, OverflowError):
        raise Rejected("bad_time") from None
    if day.year != year:
        raise Rejected("bad_time")
    hour = parts.get("hour", 0)
    if "hour_12" in parts:
        hour = parts["hour_12"] % 12 + 12 * parts.get("afternoon", 0)
    seconds = hour * 3600 + parts.get("minute", 0) * 60 + parts.get("second", 0)
    days = day.toordinal() - date(1970, 1, 1).toordinal()
    return checked((days * 86400 + seconds) * 1_000_000 + parts.get("micro", 0) - zone_us)


def checked(micros: int) -> int:
    """`micros`, if it lies in the years 1 to 9999. Raises Rejected."""
    if not MICROS_MIN <= micros <= MICROS_MAX:
        raise Rejected("bad_time")
    return micros


def has_zone(layout: bytes) -> bool:
    """Whether the layout names an instant by itself."""
    return any(directive in layout.replace(b"%%", b"") for directive in (b"%z", b"%s", b"%L", b"%U", b"%+"))


def sum_key(field: Any) -> str | int:
    """What a DATE or CLOCK field adds to: the sum of its output's name, or one of its own."""
    name = field.outputs[0] if field.outputs else None
    return id(field) if name is None else str(name)


def sums_of(program: Any, fields: Sequence[Any], times: dict[str | int, list[tuple[int, int]]]) -> dict[str, Any]:
    """The TIMESTAMPs that DATE (10) and CLOCK (11) fields add up to; NULL where a part was not there."""
    parts: dict[str | int, list[Any]] = {}
    for field in fields:
        if int(field.content) in (10, 11):
            parts.setdefault(sum_key(field), []).append(field)
    values: dict[str, Any] = {}
    for key, sources in parts.items():
        given = times.get(key, [])
        total = None
        if len(given) == len(sources):
            total = sum(micros for micros, _ in given)
            if not any(has_zone(source.layout) for source in sources):
                total = to_utc(program, total)
            if not MICROS_MIN <= total <= MICROS_MAX:
                raise Rejected("bad_time", given[-1][1])
        if isinstance(key, str):
            values[key] = total
    return values

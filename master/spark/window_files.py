"""How windows lie in a folder of Parquet files: partitions, names, which file has which edition. Pure.

A file has one window or, once small files were put together, several. Its name tells: of one window its times and its
edition, of several how many there are and a digest of what they are, so that other content has another name. The list
itself is in the footer.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from job.times import EPOCH, MICROSECOND, micros_of

SUFFIX = ".parquet"
PARTITIONS = ("hour", "day")
"""How windows are put into folders: date=2025-11-28/hour=19, or date=2025-11-28."""
NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Where a window without times is, read as NULL."""
_PARTITION = re.compile(
    rf"date=(?:{NO_PARTITION}|([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}))(?:/hour=(?:{NO_PARTITION}|([01][0-9]|2[0-3])))?"
)
_ONE = re.compile(r"(?:all|([0-9]{8}T[0-9.]{6,13})Z-([0-9]{8}T[0-9.]{6,13})Z)-r([0-9]{1,10})\.parquet", re.ASCII)


class WindowId(NamedTuple):
    """Microseconds since 1970; None: the one window of a job without windows."""

    start_us: int | None
    end_us: int | None


class Held(NamedTuple):
    """A window in a file, and the edition that is there."""

    window: WindowId
    edition: int


def partition_of(window: WindowId, by: str) -> str:
    """The folder of a window, by its start in UTC."""
    if window.start_us is None:
        date, hour = NO_PARTITION, NO_PARTITION
    else:
        start = EPOCH + window.start_us * MICROSECOND
        date, hour = f"{start.date()}", f"{start:%H}"
    return f"date={date}" if by == "day" else f"date={date}/hour={hour}"


def partition_end(partition: str) -> datetime | None:
    """Windows that start at this time or later are in other folders; None: none are. Raises ValueError."""
    found = _PARTITION.fullmatch(partition)
    if found is None:
        raise ValueError(f"{partition} is none of our folders")
    day, hour = found[1], found[2]
    if day is None:
        return None
    date = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC)
    return date + (timedelta(days=1) if hour is None else timedelta(hours=int(hour) + 1))


def file_name(windows: Sequence[Held]) -> str:
    """Of a file with these windows, ordered."""
    if len(windows) == 1:
        window, edition = windows[0]
        return f"{_times(window)}-r{edition}{SUFFIX}"
    digest = hashlib.sha256(msgspec.json.encode(windows)).hexdigest()[:16]
    return f"{_times(_span(windows))}-{len(windows)}w-{digest}{SUFFIX}"


def held_in(name: str) -> Held | None:
    """The one window that a file of this name has; None: the name does not tell."""
    found = _ONE.fullmatch(name)
    if found is None:
        return None
    try:
        window = WindowId(_moment(found[1]), _moment(found[2]))
    except ValueError:  # such as the 30th of February
        return None
    return Held(window, int(found[3]))


def _span(windows: Sequence[Held]) -> WindowId:
    starts = [one.window.start_us for one in windows if one.window.start_us is not None]
    ends = [one.window.end_us for one in windows if one.window.end_us is not None]
    return WindowId(min(starts, default=None), max(ends, default=None))


def _times(window: WindowId) -> str:
    if window.start_us is None or window.end_us is None:
        return "all"
    return f"{_stamp(window.start_us)}-{_stamp(window.end_us)}"


def _stamp(moment_us: int) -> str:
    moment = EPOCH + moment_us * MICROSECOND
    fraction = f".{moment.microsecond:06d}" if moment.microsecond else ""
    return f"{moment.year:04d}{moment:%m%dT%H%M%S}{fraction}Z"


def _moment(text: str | None) -> int | None:
    if text is None:
        return None
    form = "%Y%m%dT%H%M%S.%f" if "." in text else "%Y%m%dT%H%M%S"
    return micros_of(datetime.strptime(text, form))


# what a footer says

_Windows = msgspec.json.Decoder(list[Held])


def encoded_windows(windows: Sequence[Held]) -> bytes:
    """JSON: [[[start_us, end_us], edition], ...]."""
    return msgspec.json.encode(windows)


def decoded_windows(text: bytes) -> tuple[Held, ...]:
    """Raises msgspec.MsgspecError."""
    return tuple(_Windows.decode(text))


class PartitionFiles:
    """The files of one partition, and where each window is."""

    def __init__(self, files: Mapping[str, Sequence[Held]]) -> None:
        self._files = {name: tuple(windows) for name, windows in files.items()}
        self._at = {one.window: (name, one.edition) for name, windows in files.items() for one in windows}

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._files))

    def __len__(self) -> int:
        return len(self._files)

    def windows(self, name: str) -> tuple[Held, ...]:
        return self._files[name]

    def edition_of(self, window: WindowId) -> int | None:
        found = self._at.get(window)
        return None if found is None else found[1]

    def holder(self, window: WindowId) -> str | None:
        """The file that has the window."""
        found = self._at.get(window)
        return None if found is None else found[0]

    def replace(self, old: str | None, new: str, windows: Iterable[Held]) -> None:
        """The file `old` is now `new` and has these windows."""
        if old is not None:
            for one in self._files.pop(old):
                del self._at[one.window]
        self._files[new] = tuple(windows)
        self._at |= {one.window: (new, one.edition) for one in self._files[new]}

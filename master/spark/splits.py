"""Files to splits, the shares of a scan that tasks do: large plain files cut at byte offsets, all others whole.

A split has the lines that *begin* in [start, stop), so cuts need not be looked for and no line is in two splits. What a task
cannot know from its share alone is in the split: the `#Fields:` line in force at its start. Needs no session.

Which bytes can be left out when only a range of time is asked for? The first and the last line of a file say nothing about
those between, nor does the time of the file. So none are, unless the user promises how far lines are out of order
(`TimeRange.disorder_us`); rows outside the range are then still filtered by whoever reads, but lines that are not read are
not counted as rejects either.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from stat import S_ISREG
from typing import NamedTuple

import msgspec

from agent.compression import MAGIC_BYTES, compression_of
from agent.errors import InputError
from agent.files import LINE_BYTES_MAX, STDIN, LogFile, expand, input_error
from job.formats import Format, SourceScanner
from job.formats.w3c import DIRECTIVE, FIELDS_BYTES_MAX

SPLIT_BYTES = 64 << 20
"""Some 300,000 lines: about a second's work, against which starting a task is little."""
SPLIT_BYTES_MIN = 1 << 10
PROOF_BYTES = 4096
PACKED_WEIGHT = 8
"""A byte of a compressed log stands for so many, when tasks are made equal."""
SEARCH_BYTES = 64 << 10
"""A search by time ends at a stretch of so many bytes, and looks through as many for a line with a time."""
TIME = "time"


class TimeRange(NamedTuple):
    """Lines asked for: start_us <= time < end_us (microseconds since 1970; None: open). With `disorder_us`, a promise: no
    line is more than that older than any line before it in its file. In logs without offsets from UTC a change of the clock
    makes an hour of disorder."""

    start_us: int | None = None
    end_us: int | None = None
    disorder_us: int | None = None


class Split(msgspec.Struct, frozen=True):
    """The lines of `path` that begin in bytes [start, stop). A compressed file is one split, of its bytes on disk."""

    path: str
    start: int
    stop: int
    size_bytes: int
    """Of the file, when it was looked at: what is appended later is not read."""
    proof: bytes
    """Hash of its first bytes: another file under its name is not taken for it."""
    packed: bool = False
    directive: bytes = b""
    """The `#Fields:` line in force in front of `start`; empty without one."""

    @property
    def weight(self) -> int:
        """Bytes to scan, roughly."""
        return (self.stop - self.start) * (PACKED_WEIGHT if self.packed else 1)


def local_files(patterns: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The files that paths, globs and `file:` addresses name, absolute. Raises InputError, also for other file systems: a
    mounted one is read by its path."""
    return expand([os.path.abspath(local_path(given)) for given in patterns])


def local_path(given: str | os.PathLike[str]) -> str:
    """The path or glob that a path or a `file:` address names. Raises InputError for what tasks cannot share."""
    text = os.fspath(given)
    scheme, colon, rest = text.partition(":")
    if colon and scheme == "file":
        return "/" + rest.lstrip("/")
    if colon and rest.startswith("//"):
        raise InputError(text, f"{scheme}: is not read; logs are read from file systems that are mounted, by path")
    if text == STDIN:
        raise InputError(text, "standard input cannot be split among tasks; write it to a file first")
    return text


def plan_splits(
    paths: Sequence[str], format: Format, *, split_bytes: int = SPLIT_BYTES, times: TimeRange | None = None
) -> list[Split]:
    """The splits of the files `paths`, in order; empty files have none.

    Opens each file once. Formats with directives are read through where a file has several splits, to find what each starts
    with; with a promise of order (`times`), some lines of each file are looked at. Raises InputError.
    """
    if split_bytes < SPLIT_BYTES_MIN:
        raise ValueError(f"splits of {split_bytes} bytes; the smallest are {SPLIT_BYTES_MIN}")
    splits: list[Split] = []
    for path in paths:
        whole = look_at(path)
        first, last = (0, whole.stop) if times is None else _asked_for(whole, format, times)
        splits += cut(whole, range(first + split_bytes, last, split_bytes), format, first, last)
    return splits


def look_at(path: str) -> Split:
    """The whole file as one split. Raises InputError."""
    try:
        if not S_ISREG(os.stat(path).st_mode):
            raise InputError(path, "is no regular file, so it cannot be split among tasks; write it to a file first")
        with open(path, "rb") as raw:
            size, head = os.fstat(raw.fileno()).st_size, raw.read(PROOF_BYTES)
    except OSError as error:
        raise input_error(path, error) from error
    packed = (compression_of(head[:MAGIC_BYTES]) or "none") != "none"
    return Split(path, 0, size, size, proof_of(head), packed)


def proof_of(head: bytes) -> bytes:
    return blake2b(head, digest_size=16).digest()


def cut(whole: Split, offsets: Sequence[int], format: Format, first: int = 0, last: int | None = None) -> list[Split]:
    """Bytes [first, last) of a file, cut at `offsets` (ascending, inside of that). Compressed files stay whole."""
    last = whole.stop if last is None else last
    if last <= first:
        return []
    if whole.packed:
        return [whole]
    starts, stops = [first, *offsets], [*offsets, last]
    known = directives_before(whole, starts) if format.directives else [b""] * len(starts)
    return [
        msgspec.structs.replace(whole, start=start, stop=stop, directive=directive)
        for start, stop, directive in zip(starts, stops, known, strict=True)
    ]


def directives_before(whole: Split, offsets: Sequence[int]) -> list[bytes]:
    """The last `#Fields:` line that begins before each of `offsets` (ascending); empty where there is none. Reads the file
    up to the last of them."""
    found: list[bytes] = []
    latest = b""
    for at, line in _directives(whole, offsets[-1]):
        while offsets[len(found)] <= at:
            found.append(latest)
        latest = line
    return found + [latest] * (len(offsets) - len(found))


def _directives(whole: Split, stop: int) -> Iterator[tuple[int, bytes]]:
    """(offset, line) of the directives that say which columns follow, as the scan takes lines."""
    mark = DIRECTIVE.encode()
    with LogFile(whole.path) as file:
        for block in file.section(0, stop, whole.size_bytes):
            if block.skipped:
                continue  # a line beyond the limit is a reject, whatever it begins with
            at = 0 if block.data.startswith(mark) else _next(block.data, mark, 0, block.stop)
            while at >= 0:
                end = block.data.find(b"\n", at, block.stop)
                line = block.data[at : end if end >= 0 else block.stop].removesuffix(b"\r")
                if len(line) <= LINE_BYTES_MAX:
                    # One that no program is made of holds as well; it need not travel.
                    yield block.offset + at, line if len(line) <= 4 * FIELDS_BYTES_MAX else mark
                at = _next(block.data, mark, at, block.stop)


def _next(data: bytes, mark: bytes, at: int, stop: int) -> int:
    found = data.find(b"\n" + mark, at, stop)
    return found + 1 if found >= 0 else -1


def _asked_for(whole: Split, format: Format, times: TimeRange) -> tuple[int, int]:
    """The bytes [first, last) outside of which no line can be in the range; all where nothing was promised."""
    disorder = times.disorder_us
    if disorder is None or TIME not in format.fields:
        return 0, whole.stop
    with LogFile(whole.path) as file:
        found = _first_time(SourceScanner(format, [TIME]), file.head[: file.head.rfind(b"\n") + 1], 0)
        if found is not None and times.end_us is not None and found[1] >= times.end_us + disorder:
            return 0, 0
        if whole.packed or format.directives:  # what is further on cannot be read without all in front of it
            return 0, whole.stop
        look = _Look(file, whole.size_bytes, SourceScanner(format, [TIME]))
        first, last = 0, whole.stop
        if times.end_us is not None:
            until = times.end_us + disorder
            last = _search(0, last, look, lambda time: time >= until)[1]
        if times.start_us is not None:
            since = times.start_us - disorder
            first = _search(0, last, look, lambda time: time >= since)[0]
        return first, last


class _Look:
    """The first line with a time that begins at or behind an offset, within SEARCH_BYTES: (its offset, time) or None."""

    def __init__(self, file: LogFile, size_bytes: int, scanner: SourceScanner) -> None:
        self._file, self._size_bytes, self._scanner = file, size_bytes, scanner

    def __call__(self, offset: int) -> tuple[int, int] | None:
        stop = min(offset + SEARCH_BYTES, self._size_bytes)
        for block in self._file.section(offset, stop, self._size_bytes):
            if not block.skipped and (found := _first_time(self._scanner, block.data, block.offset, block.stop)):
                return found
        return None


def _first_time(
    scanner: SourceScanner, data: bytes, offset: int, stop: int | None = None
) -> tuple[int, int] | None:
    at, stop = 0, len(data) if stop is None else stop
    while at < stop:
        end = data.find(b"\n", at, stop) + 1 or stop
        for batch in scanner.feed(data, at, end):
            if batch.rows and (time := batch.columns[0].to_list()[0]) is not None:
                return offset + at, time
        at = end
    return None


def _search(
    low: int, high: int, look: Callable[[int], tuple[int, int] | None], is_late: Callable[[int], bool]
) -> tuple[int, int]:
    """Offsets of two lines, one that is not late (or `low`) and one that is (or `high`), as close as can be told. Each was
    looked at, so what the promise says of its neighbours holds of it, also where the lines between are out of order.
    O(log(size / SEARCH_BYTES)) looks."""
    left, right = low, high
    while right - left > SEARCH_BYTES:
        middle = (left + right) // 2
        found = look(middle)
        if found is None or found[0] >= high:
            right = middle  # nothing can be told of this stretch: it stays in, since only lines with a time become bounds
        elif is_late(found[1]):
            right, high = middle, min(high, found[0])
        else:
            left, low = found[0], found[0]
    return low, high


def tasks(splits: Sequence[Split], task_bytes: int = SPLIT_BYTES) -> list[tuple[Split, ...]]:
    """Splits for tasks: neighbours together while they are small, so that many little files are not many tasks."""
    found: list[tuple[Split, ...]] = []
    held: list[Split] = []
    for split in splits:
        if held and sum(each.weight for each in held) + split.weight > task_bytes:
            found.append(tuple(held))
            held = []
        held.append(split)
    return [*found, tuple(held)] if held else found

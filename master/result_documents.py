"""Published windows as JSON, as events and in pages. Pure. docs/API.md shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import zstandard

from master.errors import MasterError
from master.job_documents import cursor_text, time_text
from master.job_views import coverage_document
from master.requests import Place, ResultRecord

UNPACKED_BYTES_MAX = 1 << 30
PIECE_BYTES = 1 << 20
STATUSES = ("tentative", "final", "withdrawn")
_Rows = msgspec.json.Decoder(list[list[msgspec.Raw]])
_encode = msgspec.json.Encoder().encode


class RecordError(MasterError):
    """The rows of a stored result cannot be read."""


def packed_rows(record: ResultRecord) -> bytes:
    """The rows as a JSON array of arrays. Raises RecordError."""
    rows = bytearray()
    try:  # in pieces: what wrote it did not know its size
        with zstandard.ZstdDecompressor().stream_reader(record.packed) as reader:
            while piece := reader.read(PIECE_BYTES):
                rows += piece
                if len(rows) > UNPACKED_BYTES_MAX:
                    raise RecordError(f"result {record.index}: its rows take over {UNPACKED_BYTES_MAX} bytes")
    except zstandard.ZstdError as error:
        raise RecordError(f"result {record.index}: {error}") from None
    return bytes(rows)


def record_json(record: ResultRecord, rows_max: int | None = None) -> bytes:
    """A window with its first `rows_max` rows, each an object; numbers and texts are passed on as they were written."""
    rows: list[dict[str, msgspec.Raw]] = []
    if rows_max != 0 and record.rows:
        names = [column.name for column in record.columns]
        values = _Rows.decode(packed_rows(record))
        rows = [dict(zip(names, row, strict=True)) for row in values[:rows_max]]
    window = None
    if record.start_us is not None:
        window = {"start": time_text(record.start_us), "end": time_text(record.end_us)}
    document: dict[str, Any] = {
        "id": record.index,
        "window": window,
        "revision": record.edition,
        "status": record.status,
        "plan": record.plan or None,
        "published": time_text(record.published_us),
        "lines": record.lines,
        "coverage": coverage_document(record.coverage),
        "columns": [{"name": column.name, "type": column.type} for column in record.columns],
        "origin": record.origin,
        "row_count": record.rows,
        "rows": rows,
    }
    return _encode(document)


# pages


class Page(NamedTuple):
    """Windows in order of time. `next` is the cursor behind the last one; None: there are no more."""

    records: tuple[ResultRecord, ...]
    next: str | None


Fetch = Callable[[Place | None, int], Sequence[ResultRecord]]
"""Records behind a place, at most so many."""


def page_of(
    fetch: Fetch,
    after: Place | None,
    limit: int,
    bytes_max: int,
    same_columns: bool,
    batch: int = 16,
) -> Page:
    """Reads until there are `limit` windows or `bytes_max` of packed rows; with `same_columns` also until others begin, for
    a table has one header."""
    taken: list[ResultRecord] = []
    size = 0
    while True:
        wanted = min(batch, limit + 1 - len(taken))
        found = fetch(after, wanted)
        for record in found:
            other = same_columns and bool(taken) and record.columns != taken[0].columns
            if len(taken) == limit or other or (taken and size >= bytes_max):
                return Page(tuple(taken), cursor_text(taken[-1].place))
            taken.append(record)
            size += len(record.packed)
        if len(found) < wanted:
            return Page(tuple(taken), None)
        after = found[-1].place


def page_json(page: Page, last: int, rows_max: int | None) -> Iterator[bytes]:
    """`last` is the id of the newest result there was before the page was read: a stream from there misses nothing."""
    yield b'{"results":['
    for number, record in enumerate(page.records):
        yield (b"," if number else b"") + record_json(record, rows_max)
    yield b'],"last":' + _encode(last) + b',"next":' + _encode(page.next) + b"}\n"


def page_lines(page: Page, rows_max: int | None) -> Iterator[bytes]:
    """One window a line."""
    for record in page.records:
        yield record_json(record, rows_max) + b"\n"


# events


def event(name: str, data: bytes, id: int | None = None) -> bytes:
    """A server-sent event. `data` has no line ends."""
    head = b"" if id is None else b"id: %d\n" % id
    return head + b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


def told(name: str, **members: Any) -> bytes:
    """An event that is no result."""
    return event(name, _encode(members))


RETRY = b"retry: 500\n\n"
HEARTBEAT = b": alive\n\n"

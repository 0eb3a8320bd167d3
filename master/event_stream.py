"""Server-sent events from bytes, however these are cut. Pure."""

from __future__ import annotations

from typing import NamedTuple

from master.asking import ANSWER_BYTES_MAX

COMMENT = ":"
"""The name of a comment told as an event: there was nothing else to tell for a while."""


class StreamEvent(NamedTuple):
    name: str
    id: str
    """As the event had it; empty: it had none."""
    data: bytes


class EventParser:
    """Feed it what comes; it gives back the events that are whole (HTML standard, section 9.2), and, if asked for, comments
    as events. One event has at most `bytes_max`."""

    def __init__(self, comments: bool = False, bytes_max: int = ANSWER_BYTES_MAX) -> None:
        self._comments, self._bytes_max = comments, bytes_max
        self._rest = bytearray()
        self._name, self._id, self._data = "", "", bytearray()
        self._has_data = False

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Raises ValueError for an event without end."""
        searched = len(self._rest)
        self._rest += data
        end = self._rest.rfind(b"\n", searched)
        lines: list[bytes] = []
        if end >= 0:
            lines = bytes(self._rest[:end]).split(b"\n")
            del self._rest[: end + 1]
        events = [event for line in lines if (event := self._line(line.removesuffix(b"\r"))) is not None]
        if len(self._rest) + len(self._data) > self._bytes_max:
            raise ValueError(f"an event of the stream has more than {self._bytes_max} bytes")
        return events

    def _line(self, line: bytes) -> StreamEvent | None:
        if not line:
            return self._ended()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data += (b"\n" if self._has_data else b"") + value
            self._has_data = True
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        elif field == b"id":
            self._id = value.decode("utf-8", "replace")
        elif not field and self._comments:
            return StreamEvent(COMMENT, "", b"")
        return None

    def _ended(self) -> StreamEvent | None:
        event = StreamEvent(self._name or "message", self._id, bytes(self._data)) if self._has_data else None
        self._name, self._id, self._data, self._has_data = "", "", bytearray(), False
        return event

"""Server-sent events from bytes, however these are cut. Pure."""

from __future__ import annotations

from typing import NamedTuple

LINE_BYTES_MAX = 1 << 30


class StreamEvent(NamedTuple):
    name: str
    id: str
    """As the event had it; empty: it had none."""
    data: bytes


class EventParser:
    """Feed it what comes; it gives back the events that are whole (HTML standard, section 9.2)."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._name, self._id, self._data = "", "", bytearray()
        self._has_data = False

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Raises ValueError for a line without end."""
        searched = len(self._rest)
        self._rest += data
        end = self._rest.rfind(b"\n", searched)
        if end < 0:
            if len(self._rest) > LINE_BYTES_MAX:
                raise ValueError("an event has no end")
            return []
        lines = bytes(self._rest[:end]).split(b"\n")
        del self._rest[: end + 1]
        return [event for line in lines if (event := self._line(line.removesuffix(b"\r"))) is not None]

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
        return None

    def _ended(self) -> StreamEvent | None:
        event = StreamEvent(self._name or "message", self._id, bytes(self._data)) if self._has_data else None
        self._name, self._id, self._data, self._has_data = "", "", bytearray(), False
        return event

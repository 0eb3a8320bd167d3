"""A snapshot on its way to a member, part by part."""

from __future__ import annotations

from master.group_messages import SnapshotPart


class SnapshotParts:
    """Of the newest snapshot that was begun; another one takes its place."""

    def __init__(self, bytes_max: int) -> None:
        """A snapshot of more bytes than that is given up whenever it gets there."""
        self._bytes_max = bytes_max
        self._parts: dict[int, bytes] = {}
        self._bytes = 0
        self._of: tuple[int, int, int] | None = None

    def take(self, part: SnapshotPart) -> tuple[bool, bytes | None]:
        """Whether the part was kept, and the whole state once it is complete. O(1) until then."""
        if part.part >= part.parts:
            return False, None
        if self._of != (part.epoch, part.index, part.parts):
            self._forget()
            self._of = part.epoch, part.index, part.parts
        self._bytes += len(part.data) - len(self._parts.get(part.part, b""))
        self._parts[part.part] = part.data
        if self._bytes > self._bytes_max:
            self._forget()
            return False, None
        if len(self._parts) < part.parts:
            return True, None
        state = b"".join(self._parts[number] for number in range(part.parts))
        self._forget()
        return True, state

    def _forget(self) -> None:
        self._of, self._parts, self._bytes = None, {}, 0

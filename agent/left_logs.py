"""Logs of sources that the configuration does not name any more: cuts name them until no stream can need them (A7)."""

from __future__ import annotations

from agent.journal_format import FilePosition, Positions
from agent.sources import Source, Sources


class LeftLogs:
    """How far they were read. What comes back goes on there."""

    def __init__(self, cut: Positions, sources: Sources) -> None:
        """Of a start: what the newest cut has of no source."""
        tags = tuple(source.tag for source in sources.by_name.values())
        self._at = {name: at for name, at in cut.items() if not name.startswith(tags)}
        self._released: dict[bytes, FilePosition] = {}

    def leave(self, positions: Positions) -> None:
        """A source is named no more."""
        self._at.update(positions)

    def take(self, source: Source) -> dict[bytes, FilePosition]:
        """It is named again: where it was."""
        mine = {name: at for name, at in self._at.items() if name.startswith(source.tag)}
        for name in mine:
            del self._at[name]
            self._released.pop(name, None)
        return mine

    def release(self, files: Positions) -> None:
        """What lies before these positions is asked for no more."""
        self._released = {name: files[name] for name in self._at if name in files}

    def gone(self, start: Positions) -> set[bytes]:
        """Cuts behind `start`, the newest one, need not name these. What it does not name is forgotten."""
        self._at = {name: start[name] for name in self._at if name in start}
        released = self._released
        return {
            name for name, at in self._at.items() if name in released and released[name].offset >= at.offset
        }

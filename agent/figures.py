"""How the logs of an agent stand: plain values, made by the thread that reads them, for any other to look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agent.folding import SourceScan
from agent.line_counts import RejectSample
from agent.source_logs import SourceLogs
from agent.tail_events import FileKey
from agent.tail_life import FileState

AT_REST = frozenset({FileState.CAUGHT_UP, FileState.CLOSED})


class FileFigures(NamedTuple):
    """A file that is read: what of it was not read yet, in bytes (of the file, packed or not), and since when that is so."""

    path: str
    read_bytes: int
    lag_bytes: int
    lag_s: float


class SourceFigures(NamedTuple):
    """A source since the agent's start."""

    name: str
    files: tuple[FileFigures, ...]
    read_bytes: int
    lines: int
    """Of new lines; old ones that are read again are not counted."""
    rejected: Mapping[str, int]
    samples: tuple[RejectSample, ...]
    """The last rejected lines."""
    rotations: int
    gaps: int
    gap_bytes: int
    held_files: int
    """Descriptors that are kept for what is not committed."""
    waiting_files: int
    """Not read yet, as too many others are."""


def source_figures(
    logs: SourceLogs, scan: SourceScan, behind: dict[FileKey, float], now_s: float
) -> SourceFigures:
    """`behind` keeps since when each log is behind. O(files)."""
    files = []
    for file in logs.follower.tail.files.values():
        log = file.log
        if log is None or log.ignored:
            continue
        size = (
            0 if file.state in AT_REST else max(0, file.size_bytes - (0 if file.compressed else log.offset))
        )
        if size:
            behind.setdefault(log.key, now_s)
        else:
            behind.pop(log.key, None)
        files.append(FileFigures(file.path, log.offset, size, now_s - behind.get(log.key, now_s)))
    for key in behind.keys() - {file.log.key for file in logs.follower.tail.files.values() if file.log}:
        del behind[key]
    return SourceFigures(
        logs.source.name,
        tuple(files),
        logs.read_bytes,
        scan.lines,
        dict(scan.rejected),
        tuple(scan.samples),
        logs.rotations,
        logs.gaps,
        logs.gap_bytes,
        len(logs.holdings),
        logs.follower.tail.crowded,
    )

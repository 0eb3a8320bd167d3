"""The lives of a file and of a log, as tables; docs/TAIL.md shows the drawings made from them.

A *file* is an inode on disk, a *log* is content: the bytes a server wrote into one log from its first to its last. A
log lives in a file, and may move to another one when it is copied or compressed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from agent.errors import InvariantError


class FileState(Enum):
    """Where a file is in its life. FOUND has no descriptor, nor have DENIED, CLOSED and GONE."""

    FOUND = "found"
    OPENING = "opening"
    DENIED = "denied"
    PROBING = "probing"
    EMPTY = "empty"
    HELD = "held"
    READING = "reading"
    CAUGHT_UP = "caught_up"
    DRAINING = "draining"
    CLOSED = "closed"
    GONE = "gone"


class FileCause(Enum):
    """What moves a file on."""

    OPEN = "open"
    OPENED = "opened"
    REOPENED = "reopened"
    REFUSED = "refused"
    MISSED = "missed"
    NO_LINE = "no whole line"
    NEW_LOG = "new log"
    SAME_LOG = "same log"
    MAYBE_COPY = "maybe a copy"
    DIFFERS = "no copy"
    KNOWN = "nothing to read"
    GREW = "grew"
    END = "end"
    CHANGED = "content changed"
    HANDED_OVER = "log goes on elsewhere"
    FAILED = "read failed"
    UNLISTED = "unlisted"
    RELISTED = "relisted"
    IDLE = "idle"
    DONE = "done"


class LogState(Enum):
    """Where a log is in its life: in a file, in none although bytes of it may be missing, or read to its end."""

    LIVE = "live"
    LOST = "lost"
    FINISHED = "finished"


class LogCause(Enum):
    """What moves a log on."""

    TRUNCATED = "truncated"
    VANISHED = "vanished unread"
    READ_OUT = "read to its end, file gone"
    FOUND_AGAIN = "found in a file"
    GIVEN_UP = "gap counted"


_F, _C = FileState, FileCause

FILE_LIFE: Mapping[FileState, Mapping[FileCause, FileState]] = {
    _F.FOUND: {_C.OPEN: _F.OPENING, _C.UNLISTED: _F.GONE},
    _F.OPENING: {
        _C.OPENED: _F.PROBING,
        _C.REOPENED: _F.READING,
        _C.REFUSED: _F.DENIED,
        _C.MISSED: _F.FOUND,
    },
    _F.DENIED: {_C.OPEN: _F.OPENING, _C.UNLISTED: _F.GONE},
    _F.PROBING: {
        _C.NO_LINE: _F.EMPTY,
        _C.NEW_LOG: _F.READING,
        _C.SAME_LOG: _F.READING,
        _C.MAYBE_COPY: _F.HELD,
        _C.KNOWN: _F.CLOSED,
        _C.FAILED: _F.DENIED,
    },
    _F.EMPTY: {_C.GREW: _F.PROBING, _C.UNLISTED: _F.GONE, _C.IDLE: _F.FOUND},
    _F.HELD: {
        _C.GREW: _F.PROBING,
        _C.DIFFERS: _F.PROBING,
        _C.UNLISTED: _F.GONE,
    },
    _F.READING: {
        _C.NO_LINE: _F.EMPTY,
        _C.END: _F.CAUGHT_UP,
        _C.KNOWN: _F.CLOSED,
        _C.CHANGED: _F.PROBING,
        _C.FAILED: _F.DENIED,
        _C.UNLISTED: _F.DRAINING,
    },
    _F.CAUGHT_UP: {
        _C.GREW: _F.READING,
        _C.HANDED_OVER: _F.PROBING,
        _C.UNLISTED: _F.DRAINING,
        _C.IDLE: _F.CLOSED,
    },
    _F.DRAINING: {_C.RELISTED: _F.READING, _C.CHANGED: _F.PROBING, _C.FAILED: _F.DENIED, _C.DONE: _F.GONE},
    _F.CLOSED: {_C.OPEN: _F.OPENING, _C.UNLISTED: _F.GONE},
    _F.GONE: {},
}

_L, _K = LogState, LogCause

LOG_LIFE: Mapping[LogState, Mapping[LogCause, LogState]] = {
    _L.LIVE: {_K.TRUNCATED: _L.LOST, _K.VANISHED: _L.LOST, _K.READ_OUT: _L.FINISHED},
    _L.LOST: {_K.FOUND_AGAIN: _L.LIVE, _K.GIVEN_UP: _L.FINISHED},
    _L.FINISHED: {_K.FOUND_AGAIN: _L.LIVE},
}

_State = TypeVar("_State", FileState, LogState)
_Cause = TypeVar("_Cause", FileCause, LogCause)


def step(life: Mapping[_State, Mapping[_Cause, _State]], state: _State, cause: _Cause) -> _State:
    """The state after `cause`. Raises InvariantError where the table has no such step."""
    try:
        return life[state][cause]
    except KeyError:
        raise InvariantError(f"no step from {state.value} by {cause.value}") from None


def drawing(life: Mapping[_State, Mapping[_Cause, _State]]) -> str:
    """The table as a Mermaid state diagram; steps between the same two states share an arrow."""
    lines = ["stateDiagram-v2", f"    [*] --> {next(iter(life)).value}"]
    for state, steps in life.items():
        arrows: dict[str, list[str]] = {}
        for cause, target in steps.items():
            arrows.setdefault(target.value, []).append(cause.value)
        lines += [
            f"    {state.value} --> {target}: {', '.join(causes)}" for target, causes in arrows.items()
        ]
        if not steps:
            lines.append(f"    {state.value} --> [*]")
    return "\n".join(lines) + "\n"

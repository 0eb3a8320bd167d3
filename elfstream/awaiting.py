"""Logs that are not there yet: which ones, and the wait for a first line that shows the format."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from agent.errors import InputError
from agent.files import DENIED, Inputs, closed_folder, expand
from agent.follower import POLL_INTERVAL_S


def present(patterns: Sequence[str]) -> list[str]:
    """The files that are there."""
    found: list[str] = []
    for pattern in patterns:
        try:
            found += expand([pattern])
        except InputError:
            continue
    return found


def missing(patterns: Sequence[str]) -> list[str]:
    """What is waited for, one text for each pattern that names no file yet. Raises InputError for a folder, which never
    becomes a log."""
    expand(pattern for pattern in patterns if os.path.isdir(pattern))
    notes = []
    for pattern in patterns:
        if not present([pattern]):
            folder = closed_folder(pattern)
            why = "no such file yet" if folder is None else f"{folder}: {DENIED}"
            notes.append(f"waiting for {pattern}: {why}")
    return notes


def has_line(patterns: Sequence[str]) -> bool:
    """Whether one of the files has a whole line that is not blank near its start. Raises InputError for one that is there
    and cannot be read."""
    try:
        head = Inputs(present(patterns)).head()[1]
        return head[: head.rfind(b"\n") + 1].strip() != b""
    except InputError:
        if present(patterns):
            raise
        return False  # it went away meanwhile


def wait_for_line(patterns: Sequence[str], stopped: Callable[[], bool]) -> None:
    """Until one of the files has a whole line, or until `stopped`. Raises InputError."""
    while not stopped() and not has_line(patterns):
        time.sleep(POLL_INTERVAL_S)

"""Logs that are not there yet: which ones, and the wait for a first line that shows the format."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from agent.errors import InputError
from agent.files import Inputs, expand
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
    """What is waited for, one text for each pattern that names no file yet."""
    return [f"waiting for {pattern}: no such file yet" for pattern in patterns if not present([pattern])]


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

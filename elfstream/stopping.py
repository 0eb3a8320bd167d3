"""Ctrl-C and SIGTERM as a request to come to an end, for commands that run until they are told to stop."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType


def stop_on_signals() -> Callable[[], bool]:
    """From now on the first SIGINT or SIGTERM only makes the function returned say True; the second raises
    KeyboardInterrupt, for those who do not want to wait for the end."""
    heard: list[int] = []

    def hear(number: int, _frame: FrameType | None) -> None:
        heard.append(number)
        if len(heard) > 1:
            raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, hear)
    return lambda: bool(heard)

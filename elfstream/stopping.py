"""Ctrl-C and SIGTERM as a request to come to an end, for commands that run until they are told to stop."""

from __future__ import annotations

import signal
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any


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


async def until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Runs `work` until it ends, or until the first SIGINT or SIGTERM. Raises what `work` raises."""
    import asyncio

    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
    finally:
        for number in signals:
            loop.remove_signal_handler(number)

"""A bar on standard error for work that takes longer than a glance: share done, rate, time left.

It listens to the `progress` callback of `elfstream.query`; nothing below the face knows about terminals.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import IO, TYPE_CHECKING, Protocol

from elfstream.terminal import is_terminal, quantity

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

SHOWN_AFTER_S = 0.5
"""Shorter work shows no bar: it would only flicker."""


class Advance(Protocol):
    """How far the reading is: `bytes_total` is None for pipes."""

    @property
    def bytes_done(self) -> int: ...
    @property
    def bytes_total(self) -> int | None: ...
    @property
    def lines(self) -> int: ...
    @property
    def seconds(self) -> float: ...


class ProgressBar:
    """Context manager; pass `listener` as the `progress` callback. It vanishes at the end of the work."""

    def __init__(self, wanted: bool = True, stream: IO[str] | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._wanted = wanted and is_terminal(self._stream)
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None

    @property
    def listener(self) -> ProgressBar | None:
        """The callback; None where nobody looks, so that nothing is counted in vain."""
        return self if self._wanted else None

    def __call__(self, now: Advance) -> None:
        """Shows how far the work is."""
        if self._bar is None:
            if now.seconds < SHOWN_AFTER_S:
                return
            self._bar = _started_bar(self._stream, now.bytes_total is not None)
        rate = f"{quantity(now.lines)} lines, {rate_text(now.lines, now.seconds)}"
        if now.bytes_total is None:
            rate = f"{quantity(now.bytes_done, 'B')}, {rate}"
        if self._task is None:
            self._task = self._bar.add_task("", total=now.bytes_total, rate=rate)
        self._bar.update(self._task, completed=now.bytes_done, total=now.bytes_total, rate=rate)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def _started_bar(stream: IO[str], is_size_known: bool) -> RichProgress:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    size = [DownloadColumn()] if is_size_known else []
    left = [TimeRemainingColumn(compact=True), TextColumn("left")] if is_size_known else []
    rate = TextColumn("{task.fields[rate]}")
    bar = Progress(BarColumn(), *size, rate, *left, console=Console(file=stream), transient=True)
    bar.start()
    return bar


def rate_text(lines: int, seconds: float) -> str:
    """Lines a second, for people."""
    return f"{quantity(lines / seconds if seconds > 0 else 0.0)} lines/s"

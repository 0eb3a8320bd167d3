"""window(time, size[, slide]): at most one per query."""

from __future__ import annotations

import math
from collections.abc import Sequence

from job.errors import SqlError
from job.plan import WINDOW_END, WINDOW_START, ColumnRef, Expr, Window
from job.sql.limits import PANES_MAX
from job.sql.syntax import Apply
from job.types import TIMESTAMP, WINDOW

MARK = "\0"
"""Starts the name of a column that is no field: NUL cannot stand in one."""


class WindowSlot:
    """The window of one SELECT, set by the first window(...) met and checked by the others."""

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self.window: Window | None = None
        self.position: int | None = None

    def set(self, node: Apply, time: Expr, intervals: Sequence[int]) -> ColumnRef:
        """Takes window(time, size[, slide]) and answers the struct column. Lengths are microseconds."""
        size, slide = intervals[0], intervals[-1]
        if size < 1 or slide < 1:
            raise SqlError("a window is at least a microsecond long", self._sql, node.position)
        if slide > size:
            raise SqlError(
                "the slide of a window is at most its size",
                self._sql,
                node.position,
                "Else lines fall between windows.",
            )
        if size // math.gcd(size, slide) > PANES_MAX:
            panes = size // math.gcd(size, slide)
            message = f"the window has {panes} panes of gcd(size, slide), the limit is {PANES_MAX}"
            raise SqlError(
                message, self._sql, node.position, "Make size a multiple of slide, or slide longer."
            )
        window = Window(time, size, slide)
        if self.window is not None and self.window != window:
            raise SqlError("a query has one window", self._sql, node.position, "Run one query per window.")
        self.window = window
        self.position = node.position
        return self.whole()

    def whole(self) -> ColumnRef:
        """The struct."""
        return ColumnRef(MARK + "window", WINDOW)

    def part(self, name: str) -> ColumnRef:
        """Its start or end."""
        return ColumnRef(MARK + (WINDOW_START if name == "start" else WINDOW_END), TIMESTAMP)

"""Windows that were computed elsewhere, as the committed state knows them: which may come, and what numbers they get. Pure.

Their rows, editions and digests are in the store of results: there may be millions, so the state keeps only what tells
whether a number may have been used for a window that is not in the store any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from job.plan_book import NEVER_US, Revision
from master.entries import DerivedEntry, Ingest
from master.requests import ResultColumn


class Shape(NamedTuple):
    """What the windows of a revision look like."""

    columns: tuple[ResultColumn, ...]
    size_us: int
    """0: there is one, without end."""
    slide_us: int
    """Windows start at multiples of it; 0: anywhere."""
    boundary_us: int
    """They start before."""


class Ingested(msgspec.Struct, frozen=True, array_like=True):
    """What was committed of such windows."""

    count: int = 0
    """Of entries, not of windows: one may come again with other rows."""
    index: int = 0
    """Of the last result."""
    first_us: int = 0
    """Wall clock of the leader at the first."""
    low_us: int = 0
    high_us: int = 0
    """Between these all of them start."""
    retain_us: int = NEVER_US
    """The shortest time for which results were kept since the job began."""

    def after(self, entry: Ingest, index: int) -> Ingested:
        start, is_first = entry.start_us, not self.count
        return Ingested(
            self.count + 1,
            index,
            entry.made_us if is_first else self.first_us,
            start if is_first else min(self.low_us, start),
            start if is_first else max(self.high_us, start),
            self.retain_us,
        )

    def may_be_gone(self, start_us: int, now_us: int) -> bool:
        """Whether the window that starts there may have been here and was kept long enough."""
        within = self.low_us <= start_us <= self.high_us
        return bool(self.count) and within and now_us >= self.first_us + self.retain_us


def shape_of(
    number: int, derived: Iterable[DerivedEntry], revisions: Iterable[Revision], boundary_us: int
) -> Shape | None:
    """Of the windows of a revision; None: there is none of that number."""
    for one in derived:
        if one.number == number:
            columns = tuple(ResultColumn(field.name, str(field.type)) for field in one.derived.columns)
            return Shape(columns, one.derived.size_us, 0, NEVER_US)
    for known in revisions:
        if known.number == number:
            columns = tuple(ResultColumn(output.name, str(output.expr.type)) for output in known.plan.outputs)
            return Shape(columns, known.size_us, known.slide_us, boundary_us)
    return None


def window_fault(shape: Shape, start_us: int | None, end_us: int | None) -> tuple[str, str] | None:
    """(field, what is wrong) of a window that cannot be one of these. None as start: the endless one."""
    if not shape.size_us:
        if start_us is None:
            return None if shape.boundary_us == NEVER_US else ("window", "the one window of this job is live")
        return "window", "the job has one endless window; write null"
    if start_us is None or end_us is None:
        return "window", "the windows of this job have a start and an end"
    if end_us - start_us != shape.size_us:
        return "window.end", f"windows of this job are {shape.size_us} us long, not {end_us - start_us}"
    if shape.slide_us and start_us % shape.slide_us:
        return "window.start", f"windows of this job start at multiples of {shape.slide_us} us"
    if start_us >= shape.boundary_us:
        return "window.start", "the window is live: a backfill has those that start before `boundary`"
    return None

"""How a job stands at the node that leads it: plain values, made by the core, for any thread to look at."""

from __future__ import annotations

from typing import NamedTuple

from master.committed import Committed
from master.jobs import spec_of

FIGURES_S = 1.0
"""Least age of figures before new ones are made: they take O(roster + trees)."""


class JobFigures(NamedTuple):
    name: str
    watermark_us: int | None
    """None: nothing is known yet of the time of some agent."""
    agents: int
    missing: int
    """Those of them that have not begun."""
    late: int
    """Lines that came too late for their window, since the job began."""
    results: int
    groups: int
    """In open panes, each pane by itself; in runs that are not merged yet they count apart."""


def figures_of(state: Committed) -> JobFigures:
    """Raises IndexError while the job is starting. O(roster + trees)."""
    feed = state.book.feeds[-1] if state.book.feeds else 0
    marks = [state.agent_mark(feed, agent) for agent, on in state.roster.items() if on]
    return JobFigures(
        spec_of(state).name,
        state.reach(feed),
        len(marks),
        marks.count(None),
        sum((one.counters.late for one in state.streams.values()), state.closed.late + state.counts.late),
        state.editions,
        sum(len(tables[0]) for tables in state.content.tables.values() if 0 in tables),
    )

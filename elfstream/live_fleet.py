"""A query over the logs of several machines, in one process: agents that fold lines into panes, a master that merges them.

The seam between the two is `Piece`: what one agent adds to one plan since its last piece. Here pieces are handed over as
they are, in order and each once; between machines the reducer tree carries them (DESIGN: The life of a log line, 5 to 7).
Pure: lines and times come in, windows go out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from agent.pipeline import LineCounts
from cbt.memory import Memory
from elfstream.live_logs import LiveLogs
from job.formats import Format
from job.panes import PaneStore, StateShape
from job.plan import Plan
from job.row_phase import RowPhase
from job.watermark import Timing
from master.live import LiveWindows, Publication
from master.stages import innermost


class Piece(NamedTuple):
    """One agent's share of one plan: panes with the lines since its last piece, which the receiver owns, and how far the
    agent's event time had come behind them (None: it never had a line)."""

    panes: PaneStore
    watermark_us: int | None


class LiveAgent:
    """The logs of one machine under several plans; one scan feeds them all. Not thread-safe. `clock_us` is microseconds
    since 1970-01-01 UTC and must not go back."""

    def __init__(self, plans: Sequence[Plan], format: Format, timing: Timing, memory: Memory) -> None:
        """`memory` is what the panes of all plans may take."""
        self.gap_bytes = 0
        """Bytes that were gone before they could be read."""
        self._phases = [RowPhase(innermost(plan), memory) for plan in plans]
        self._logs = LiveLogs(format, self._phases, timing, timed=True)

    def lines(self, file: Hashable, data: bytes, start: int, stop: int, clock_us: int) -> None:
        """Adds the whole lines `data[start:stop]` of the log `file`."""
        self._logs.feed(file, data, start, stop, clock_us)

    def gap(self, bytes_lost: int) -> None:
        """Bytes of a log were gone before they could be read."""
        self.gap_bytes += bytes_lost

    def cut(self, clock_us: int) -> list[Piece]:
        """What came since the last cut: a piece for each plan. O(files)."""
        watermark = self._logs.watermark_us(clock_us)
        return [Piece(phase.take(), watermark) for phase in self._phases]

    def close_before(self, plan: int, start_us: int) -> None:
        """The master will not take panes of a plan that start earlier: lines that fall there are late."""
        self._phases[plan].store.close_before(start_us)

    @property
    def counts(self) -> LineCounts:
        """What became of all lines so far."""
        return self._logs.counts

    @property
    def late(self) -> int:
        """Lines that came when their windows were closed, and were dropped, summed over plans."""
        return sum(phase.late for phase in self._phases)


class LiveMaster:
    """The windows of one plan over all agents, which are known by number. The first window is final when every agent
    has had a line, a window when the watermarks of all have passed its end."""

    def __init__(self, plan: Plan, timing: Timing, agents: int, memory: Memory) -> None:
        """`memory` is what panes and rows may take."""
        self.plan = plan
        self._store = PaneStore(StateShape(innermost(plan)), memory)
        self._windows = LiveWindows(plan, timing.lateness_us, memory)
        self._watermarks: list[int | None] = [None] * agents

    def add(self, agent: int, piece: Piece) -> None:
        """Merges a piece. O(groups in it)."""
        self._store.merge(piece.panes)
        self._watermarks[agent] = piece.watermark_us

    def advance(self) -> Iterator[Publication]:
        """The windows that became final, and revisions of final ones, oldest first."""
        known = [mark for mark in self._watermarks if mark is not None]
        if len(known) == len(self._watermarks):
            yield from self._windows.advance(self._store, min(known))

    def current(self) -> Publication | None:
        """The window to look at now, as it stands: of those that hold the newest lines the fullest."""
        return self._windows.current(self._store)

    def drain(self) -> Iterator[Publication]:
        """Everything that is not final yet, as final: the logs have ended."""
        yield from self._windows.drain(self._store)

    @property
    def watermark_us(self) -> int | None:
        """Event time up to which windows are closed."""
        return self._windows.watermark_us

    @property
    def closed_before_us(self) -> int | None:
        """Panes that start earlier take nothing more; agents are told."""
        return self._store.closed_before_us

"""Which jobs nobody leads, for lists of jobs: gossip tells of a job only what its leader said last.

It asks the core who leads each job, as any request for the job does, a few at a time and seldom, and remembers the answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

from master.requests import FindMaster, MasterAt
from master.service import NodeService, Refused
from srt.ids import job_key

FRESH_S = 2.0
"""An answer does for so long."""
WAIT_S = 1.0
"""A list waits no longer; later answers are for the next one."""
ASKED_MAX = 100
"""Jobs that one list asks about, those first of which the answer is the oldest: a thousand take ten lists."""
AT_ONCE = 32
KNOWN_MAX = 20_000


class _Known(NamedTuple):
    at_s: float
    problem: str


class Standings:
    """Of one node's API."""

    def __init__(self, service: NodeService) -> None:
        self._service = service
        self._known: dict[str, _Known] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def troubles(self, names: Sequence[str]) -> dict[str, str]:
        """Why nobody leads them, of those of these jobs that nobody is known to lead. O(names) and at most ASKED_MAX
        questions."""
        now_s = time.monotonic()
        if len(self._known) > KNOWN_MAX:
            self._known.clear()
        due = [name for name in names if self._age_s(name, now_s) >= FRESH_S and name not in self._asking]
        for name in sorted(due, key=lambda name: -self._age_s(name, now_s))[:ASKED_MAX]:
            self._asking[name] = asyncio.create_task(self._ask(name))
        waited = [self._asking[name] for name in names if name in self._asking]
        if waited:
            await asyncio.wait(waited, timeout=WAIT_S)
        return {name: self._known[name].problem for name in names if name in self._known and self._known[name].problem}

    def _age_s(self, name: str, now_s: float) -> float:
        known = self._known.get(name)
        return float("inf") if known is None else now_s - known.at_s

    async def _ask(self, name: str) -> None:
        try:
            async with self._gate:
                problem = await self._problem(name)
            self._known[name] = _Known(time.monotonic(), problem)
        except TimeoutError:
            pass  # the core here has too much to do, which says nothing of the job
        finally:
            del self._asking[name]

    async def _problem(self, name: str) -> str:
        """Why nobody leads it; empty: somebody does, or it is not known. Raises TimeoutError."""
        try:
            found: MasterAt = await self._service.ask(job_key(name), FindMaster())
        except Refused as refused:
            return refused.refusal.detail if refused.refusal.kind == "leaderless" else ""
        return "" if found.ref is not None and found.leads else "no leader: the node that is closest to it knows none"

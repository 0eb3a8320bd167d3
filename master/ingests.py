"""Windows that were computed elsewhere, at the leader of their job: judged, given their editions, committed, stored. Pure.

One request after the other. Which edition of a window was the last stands in the store of results, so a request is judged
when everything ingested before is stored here; since nobody else leads, nothing can come between. What a former leader
committed is in the log, and the log is in the store before the first request is judged. So a (window, edition) is given
once, and a request that comes again, after a lost answer, finds its windows the same.

    waiting ─▶ reading ─▶ sending, a group commit after the other ─▶ storing ─▶ answered
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from job.plan_book import NEVER_US
from master.committed import ERA_EDITION_BITS
from master.entries import Ingest
from master.ingested import window_fault
from master.job_events import ReadResults, ResultsRead
from master.requests import Answer, Ask, GivenWindow, IngestView, Refusal, ResultColumn
from master.result_store import INDEX_END
from master.root import AppendIngests, Root
from srt.automaton import Instant

WAITING_MAX = 16
WAITING_BYTES_MAX = 64 << 20
"""Of packed rows in requests that are not answered; one request may be larger."""
COMMIT_BYTES = 256 << 10
COMMIT_WINDOWS = 64
"""Of one group commit, but for a window that is larger by itself: what the job reads now does not wait behind more."""
PATIENCE_S = 12.0
"""A request that waits longer is answered `busy`, before whoever asks gives it up."""


@dataclass
class _Request:
    token: int
    since_s: float
    windows: tuple[GivenWindow, ...]
    bytes: int
    read: int = 0
    """Token of the question which editions there are."""
    left: deque[Ingest] | None = None
    """To be sent; None: it is not judged yet."""
    sent: int = 0
    """Windows of the group commit on its way."""
    before: int = 0
    """Windows ingested before it."""
    told: dict[str, int] = field(default_factory=lambda: {"stored": 0, "same": 0, "replaced": 0})


class Ingests:
    """Methods return answers, questions to the store and events for the root."""

    def __init__(self, root: Root, is_stored: Callable[[int], bool]) -> None:
        """`is_stored`: whether all results up to an index are in the store here."""
        self._root, self._is_stored = root, is_stored
        self._requests: deque[_Request] = deque()
        self._token = 0

    @property
    def busy(self) -> bool:
        return bool(self._requests)

    def ask(self, ask: Ask, now: Instant) -> list[Any]:
        windows: tuple[GivenWindow, ...] = ask.request.windows
        size = sum(len(window.packed) for window in windows)
        waiting = sum(request.bytes for request in self._requests)
        if len(self._requests) >= WAITING_MAX or (waiting and waiting + size > WAITING_BYTES_MAX):
            return [Answer(ask.token, Refusal("busy", f"{len(self._requests)} requests with windows wait"))]
        self._requests.append(_Request(ask.token, now.s, windows, size))
        return self.go_on(now)

    def go_on(self, now: Instant) -> list[Any]:
        """Something was committed or stored, or time has passed. O(1) while nothing can be done."""
        out: list[Any] = []
        while self._requests and now.s >= self._requests[0].since_s + PATIENCE_S:
            out += self._ended(Refusal("busy", "not all windows are stored yet; send them again"))
        while self._requests:
            more = self._step(self._requests[0])
            if not more:
                break
            out += more
            if not isinstance(more[0], Answer):
                break  # the root, or the store, has to take it first
        return out

    def read(self, event: ResultsRead, now: Instant) -> list[Any]:
        """Which editions there are."""
        if not self._requests or self._requests[0].read != event.token:
            return []
        self._judge(self._requests[0], event.latest, now)
        return self.go_on(now)

    def lost(self) -> list[int]:
        """The lead is lost; returns who waited."""
        tokens = [request.token for request in self._requests]
        self._requests.clear()
        return tokens

    # one request

    def _step(self, request: _Request) -> list[Any]:
        """What to do for the first request; nothing: it waits."""
        state = self._root.committed
        if state.stopped:
            return self._ended(Refusal("invalid", "the job is stopped: it takes nothing any more", "state"))
        if self._root.ingesting:
            return []
        if request.left is None:
            return self._begin(request)
        if request.sent:
            if state.ingested.count != request.before + request.sent:
                return self._ended(Refusal("busy", "the job changed meanwhile; send the windows again"))
            request.sent = 0
        if request.left:
            return [self._commit(request, request.left)]
        if not self._is_stored(state.ingested.index):
            return []
        return self._ended(IngestView(**request.told))

    def _begin(self, request: _Request) -> list[Any]:
        refusal = self._refusal(request.windows)
        if refusal is not None:
            return self._ended(refusal)
        if request.read or not self._is_stored(self._root.committed.ingested.index):
            return []
        self._token += 1
        request.read = self._token
        windows = tuple((window.start_us, window.end_us) for window in request.windows)
        return [ReadResults(self._token, b"", INDEX_END, 1, windows)]

    def _refusal(self, windows: tuple[GivenWindow, ...]) -> Refusal | None:
        """What is wrong with the first window that cannot be one of the job's."""
        state = self._root.committed
        shapes = {window.revision: state.shape(window.revision) for window in windows}
        for window in windows:
            shape = shapes[window.revision]
            if shape is None:
                detail = f"the job has no revision {window.revision}, or it was closed long ago"
                return Refusal("invalid", detail, "revision", line=window.line)
            if window.columns != shape.columns:
                detail = f"revision {window.revision} has the columns {_shown(shape.columns)}"
                return Refusal("invalid", detail, "columns", line=window.line)
            fault = window_fault(shape, window.start_us, window.end_us)
            if fault is not None:
                return Refusal("invalid", fault[1], fault[0], line=window.line)
        return None

    def _judge(self, request: _Request, latest: tuple[tuple[int, bytes], ...], now: Instant) -> None:
        """Gives each window that is not there the same its next edition."""
        state, request.left = self._root.committed, deque()
        era = state.era << ERA_EDITION_BITS
        for window, (edition, digest) in zip(request.windows, latest, strict=True):
            start, end = (0, NEVER_US) if window.end_us is None else (window.start_us or 0, window.end_us)
            if edition and digest == window.digest:
                request.told["same"] += 1
                continue
            request.told["replaced" if edition else "stored"] += 1
            if not edition and state.ingested.may_be_gone(start, now.wall_us):
                edition = era + state.editions  # more than any that readers may have seen
            request.left.append(
                Ingest(
                    start, end, max(edition, era) + 1, window.revision, window.lines, window.rows,
                    window.packed, window.digest, now.wall_us,
                )
            )  # fmt: skip

    def _commit(self, request: _Request, left: deque[Ingest]) -> AppendIngests:
        entries: list[Ingest] = []
        size = 0
        while left and len(entries) < COMMIT_WINDOWS and (not entries or size + len(left[0].packed) <= COMMIT_BYTES):
            entries.append(left.popleft())
            size += len(entries[-1].packed)
        request.sent, request.before = len(entries), self._root.committed.ingested.count
        return AppendIngests(tuple(entries))

    def _ended(self, body: IngestView | Refusal) -> list[Any]:
        return [Answer(self._requests.popleft().token, body)]


def _shown(columns: tuple[ResultColumn, ...]) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in columns)

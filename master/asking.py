"""What whoever asks a fleet over HTTP keeps to: where it is by itself, when to ask again, how much of an answer to take.
No sockets: the client of Python (`elfstream/client.py`) and what Spark reads with (`master/spark/fleet_reader.py`) stand on
it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping

PORT = 7117
"""Of a node, unless its configuration names another one."""
URL = f"http://127.0.0.1:{PORT}"
RETRY_STATUSES = (429, 503, 504, 508)
"""Of problems that pass (master/problems.py)."""
ANSWER_BYTES_MAX = 1 << 30
"""The rows of one result have no more (master/result_documents.py), and a page ends long before."""
ERROR_BYTES_MAX = 65_536
WAIT_FIRST_S, WAIT_MAX_S = 0.1, 2.0


def backoff_s(attempt: int) -> float:
    """How long to wait behind so many attempts (from 1) that failed: 0.1 s to 2 s, spread."""
    return min(WAIT_FIRST_S * 2.0 ** min(attempt - 1, 10), WAIT_MAX_S) * random.uniform(0.75, 1.25)


def retry_after_s(headers: Mapping[str, str]) -> float:
    """What an answer asks for, up to half more, so that those who wait do not all come back at once."""
    told = headers.get("Retry-After", "")
    return (int(told) if told.isascii() and told.isdigit() and len(told) < 4 else 1) * random.uniform(1.0, 1.5)


class Tries:
    """How long one goes on asking the nodes of a fleet in turn: for `patience_s` since it last worked, but each of `nodes`
    once; and no longer than until each in a row failed in a way that asking again does not mend."""

    def __init__(self, patience_s: float, nodes: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience_s, self._nodes, self._clock = patience_s, nodes, clock
        self.worked()

    def worked(self) -> None:
        self._failures, self._hopeless, self._until_s = 0, 0, self._clock() + self._patience_s

    def wait_s(self, is_hopeless: bool = False, least_s: float = 0.0) -> float | None:
        """After a failure: how long to wait before the next attempt, at least `least_s`; None: give up."""
        self._failures += 1
        self._hopeless = self._hopeless + 1 if is_hopeless else 0
        wait_s = max(backoff_s(self._failures), least_s)
        is_over = self._failures >= self._nodes and self._clock() + wait_s > self._until_s
        if is_over or self._hopeless >= self._nodes:
            return None
        return wait_s

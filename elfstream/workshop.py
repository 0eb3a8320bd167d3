"""Threads beside the core for what it must not wait for: finished windows, and results that are read.

What takes long has a thread of its own, so that windows of small jobs do not wait for those of huge ones.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

Told = Callable[[Any], None]


class Workshop:
    """Work of the same length is done in its order."""

    def __init__(self, tell: Told, broken: Callable[[BaseException], None]) -> None:
        """`tell` gets what work gives, `broken` what it raises; in any thread."""
        self._tell, self._broken = tell, broken
        self._short = ThreadPoolExecutor(1, thread_name_prefix="work")
        self._long = ThreadPoolExecutor(1, thread_name_prefix="long-work")

    def give(self, work: Callable[[], Any], is_long: bool = False) -> None:
        """Never waits."""
        pool = self._long if is_long else self._short
        pool.submit(work).add_done_callback(self._done)

    def close(self) -> None:
        """Waits for what is being done."""
        self._short.shutdown()
        self._long.shutdown()

    def _done(self, done: Future[Any]) -> None:
        problem = done.exception()
        if problem is None:
            self._tell(done.result())
        else:
            self._broken(problem)

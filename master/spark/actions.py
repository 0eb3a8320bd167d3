"""Spark actions that can be watched and cancelled: each runs in a thread, and the caller looks at it ten times a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import uuid4

LOOK_S = 0.1
CANCEL_S = 30.0
"""How long a cancelled job may take to end before we go without it."""

Answer = TypeVar("Answer")


class Actions:
    """Runs actions of one Spark context. `look` is called while they run."""

    def __init__(self, context: Any, look: Callable[[], None]) -> None:
        self.context = context
        self._look = look
        self._group = f"elfstream-{uuid4().hex}"

    def run(self, action: Callable[[], Answer], text: str) -> Answer:
        """What `action` gives. Whatever ends the wait, Ctrl-C or an error of `look`, also ends the Spark job."""
        from pyspark import InheritableThread

        done: list[Answer] = []
        failed: list[BaseException] = []

        def work() -> None:
            try:
                self.context.setJobGroup(self._group, text, interruptOnCancel=True)
                done.append(action())
            except BaseException as error:
                failed.append(error)

        thread = InheritableThread(target=work, daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(LOOK_S)
                self._look()
        except BaseException:
            self.context.cancelJobGroup(self._group)
            thread.join(CANCEL_S)
            raise
        if failed:
            raise failed[0]
        return done[0]

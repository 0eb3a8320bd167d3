"""Work beside the core: what is long keeps nothing short waiting."""

from __future__ import annotations

import queue
import threading
from typing import Any

from elfstream.workshop import Workshop
from tests.patience import PATIENCE_S


def test_short_work_does_not_wait_for_long_work() -> None:
    told, held = queue.SimpleQueue[Any](), threading.Event()
    workshop = Workshop(told.put, told.put)

    def long() -> str:
        assert held.wait(PATIENCE_S)
        return "long"

    workshop.give(long, is_long=True)
    workshop.give(lambda: "longer", is_long=True)
    workshop.give(lambda: "short")
    assert told.get(timeout=PATIENCE_S) == "short"
    held.set()
    assert [told.get(timeout=PATIENCE_S) for _ in range(2)] == ["long", "longer"]
    workshop.close()


def test_what_work_raises_is_told() -> None:
    told, problems = queue.SimpleQueue[Any](), queue.SimpleQueue[BaseException]()
    workshop = Workshop(told.put, problems.put)
    workshop.give(lambda: 1 // 0)
    assert isinstance(problems.get(timeout=PATIENCE_S), ZeroDivisionError)
    workshop.give(lambda: "on")
    assert told.get(timeout=PATIENCE_S) == "on"
    workshop.close()

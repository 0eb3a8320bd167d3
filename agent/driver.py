"""The thread that reads the logs: asks of the core come in through a queue, events go out through a callback.

    thread = LogsThread(reader, tell=core_queue.put, trouble=log.warning, failed=node.abort)
    thread.start()
    thread.give(Advance(...))           # from any thread; Advanced comes through tell

An advance is answered at once, with whatever there is by then: the core asks again after its emit interval, or at once if
there was more. When nothing is new that costs a look at the hints of the kernel, and the answer has the positions of the
ask. Old ranges are read in slices between advances; a new ask ends a slice. Between asks the thread sleeps until names move
or a look is due, and reads nothing.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from agent.figures import SourceFigures
from agent.log_reader import LogReader
from agent.sources import Sources
from agent.stream_events import Advance, Fold, Folded, Release, Shrink

SLICE_S = 0.02
"""An old range is read for so long before it is another's turn."""
QUIET_S = 0.05
"""Least time between two looks that hints cause while nothing is asked."""
LOOK_S = 0.25
"""Between two looks at names while the thread rests."""
FIGURES_S = 0.25
"""Least age of figures before new ones are made."""
Ask = Advance | Fold | Release


@dataclass
class _Folding:
    ask: Fold
    steps: Generator[float, None, Folded]
    at_s: float = 0.0
    """When it may go on."""


class LogsThread:
    """Owns a LogReader once it is started."""

    def __init__(
        self,
        reader: LogReader,
        tell: Callable[[Any], None],
        trouble: Callable[[str], None],
        failed: Callable[[BaseException], None],
        rest_s: Callable[[], float] = lambda: 0.0,
        old_rest_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """The callbacks are called from this thread: `tell` with Started, Advanced, Folded and Shrink; `trouble` with what a
        person should know; `failed` at most once, with a fault of this program: nothing is answered any more. `rest_s` says,
        before each piece of work, how long to wait for processor time, `old_rest_s` the same for a slice of an old range."""
        self.figures: tuple[SourceFigures, ...] = ()
        """How the logs stand; replaced as a whole, for any thread."""
        self._reader, self._tell, self._trouble, self._failed = reader, tell, trouble, failed
        self._asks: deque[Ask] = deque()
        self._foldings: deque[_Folding] = deque()
        self._changed: Sources | None = None
        self._rest_s, self._old_rest_s = rest_s, old_rest_s
        self._fold_at_s = 0.0
        """No slice of an old range before."""
        self._stopping = False
        self._ended = threading.Event()
        self._figures_at = float("-inf")
        self._quiet_until = 0.0
        self._waker, self._waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def give(self, ask: Ask) -> None:
        """Thread-safe; never blocks."""
        self._asks.append(ask)
        self.nudge()

    def change(self, sources: Sources) -> None:
        """Thread-safe: reads these sources from now on, and goes on where it is in those that stay."""
        self._changed = sources
        self.nudge()

    def nudge(self) -> None:
        """Ends a sleep of the thread."""
        with contextlib.suppress(BlockingIOError):  # it is awake anyhow
            os.write(self._waking, b"\0")

    def stop(self, timeout_s: float = 10.0) -> bool:
        """Ends the thread, with what is known of the logs saved. Whether it did within the time."""
        self._stopping = True
        self._ended.set()
        self.nudge()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # in the thread

    def _run(self) -> None:
        try:
            self._tell(self._reader.begin())
            while not self._stopping:
                self._rest()
                self._work()
                self._report()
                self._wait()
        except BaseException as problem:
            self._failed(problem)
        finally:
            self._reader.close()

    def _rest(self) -> None:
        """Names are looked at meanwhile: what is deleted has to be held before."""
        while (rest_s := self._rest_s()) > 0 and not self._ended.wait(min(rest_s, LOOK_S)):
            if self._reader.due_s() <= 0:
                self._reader.idle()

    def _work(self) -> None:
        if self._changed is not None and not self._stopping:
            sources, self._changed = self._changed, None
            self._reader.change(sources)
            self._reader.begin()
            self._foldings = deque(_Folding(one.ask, self._reader.folding(one.ask)) for one in self._foldings)
        while self._asks and not self._stopping:
            ask = self._asks.popleft()
            if isinstance(ask, Advance):
                self._tell(self._reader.advance(ask))
            elif isinstance(ask, Fold):
                self._foldings.append(_Folding(ask, self._reader.folding(ask)))
            else:
                self._reader.release(ask)
        self._fold()
        if self._reader.due_s() <= 0:
            self._reader.idle()

    def _fold(self) -> None:
        """One slice of one old range. Live lanes first, as the frontier waits for them; those of the same kind in turns. A
        new ask ends the slice, but not before a step: whoever asks all the time must not stop them."""
        now = time.monotonic()
        ready = [one for one in self._foldings if one.at_s <= now]
        if not ready:
            return
        self._fold_at_s = now + self._old_rest_s()
        if now < self._fold_at_s:
            return
        folding = min(ready, key=lambda one: not one.ask.spec.key[1].is_live)
        self._foldings.remove(folding)
        rest_s = 0.0
        while rest_s == 0.0:
            try:
                rest_s = next(folding.steps)
            except StopIteration as done:
                self._tell(done.value)
                return
            if self._asks or time.monotonic() >= now + SLICE_S:
                break
        folding.at_s = time.monotonic() + rest_s
        self._foldings.append(folding)

    def _report(self) -> None:
        reader = self._reader
        if reader.wants_shrink:
            reader.wants_shrink = False
            self._tell(Shrink())
        for problem in reader.take_troubles():
            self._trouble(problem)
        now = time.monotonic()
        if now >= self._figures_at + FIGURES_S:
            self.figures, self._figures_at = reader.figures(), now

    def _wait(self) -> None:
        if self._asks or self._stopping:
            return
        now = time.monotonic()
        times = [self._reader.due_s(), *(max(folding.at_s, self._fold_at_s) - now for folding in self._foldings)]
        timeout_s = max(0.0, min(times))
        poller = select.poll()
        poller.register(self._waker, select.POLLIN)
        if now >= self._quiet_until:
            for fd in self._reader.filenos():
                poller.register(fd, select.POLLIN)
        else:
            timeout_s = min(timeout_s, self._quiet_until - now)
        ready = [fd for fd, _ in poller.poll(timeout_s * 1000)]
        if self._waker in ready:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._waker, 4096):
                    pass
        elif ready:
            self._quiet_until = time.monotonic() + QUIET_S
            self._reader.idle()

"""Every line is delivered once or counted as missing, whatever happens to the files between any two steps of the tail."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from agent.tail_options import TailOptions
from tests.tail_model import LIVE, World

HEADS = (b"", b"", b"#head\n", b"#Software: a head that all logs share\n")
OTHER = "other.log"
KEPT = 3


class TailMachine(RuleBasedStateMachine):
    """One server's log under rotation, a second log beside it, and a tail that polls whenever it likes."""

    @initialize(head=st.sampled_from(HEADS))
    def begin(self, head: bytes) -> None:
        self.head = head
        self.world = World(TailOptions.tiny())
        self.world.head_bytes = len(head)
        self.copying = False
        self._reopen(LIVE)

    def _reopen(self, name: str) -> None:
        fresh = name not in self.world.names
        self.world.reopen(name)
        if fresh and self.head:
            self.world.append(name, self.head)

    def _rotated(self, number: int) -> list[str]:
        return [name for name in self.world.names if name in (f"{LIVE}.{number}", f"{LIVE}.{number}.gz")]

    def _shift(self) -> None:
        for number in range(KEPT, 0, -1):
            for name in self._rotated(number):
                if number == KEPT:
                    self.world.unlink(name)
                else:
                    self.world.rename(name, name.replace(f".{number}", f".{number + 1}"))

    # --- the world moves ---

    @rule(count=st.integers(1, 6), name=st.sampled_from([LIVE, LIVE, OTHER]))
    def write(self, count: int, name: str) -> None:
        if name not in self.world.writers:
            self._reopen(name)
        self.world.write(name, count)

    @rule()
    def write_half(self) -> None:
        self.world.write_half(LIVE)

    @rule()
    def reopen(self) -> None:
        self._reopen(LIVE)

    @precondition(lambda self: not self.copying and LIVE in self.world.names)
    @rule(at_once=st.booleans())
    def rotate(self, at_once: bool) -> None:
        self._shift()
        self.world.rename(LIVE, f"{LIVE}.1")
        if at_once:
            self._reopen(LIVE)

    @precondition(lambda self: not self.copying and LIVE in self.world.names)
    @rule(share=st.sampled_from([0.3, 1.0]))
    def copy(self, share: float) -> None:
        """The first half of copytruncate; `share` of the copy is there at first."""
        self._shift()
        data = self.world.names[LIVE].data
        self.copy_data = data
        self.world.create(f"{LIVE}.1", data[: int(len(data) * share)])
        self.copying, self.copied_at = True, self.world.now_s

    @precondition(lambda self: self.copying)
    @rule()
    def truncate(self) -> None:
        self._truncate()

    def _truncate(self) -> None:
        self.copying = False
        copy = self.world.names.get(f"{LIVE}.1")
        if copy is not None and not copy.compressed:
            copy.data = self.copy_data
            self.world.touch(copy)
        if LIVE in self.world.names:
            self.world.tear(LIVE)
            self.world.truncate(self.world.names[LIVE])

    @precondition(lambda self: not self.copying and LIVE in self.world.names)
    @rule()
    def cut(self) -> None:
        """Somebody empties the log without a copy."""
        self.world.tear(LIVE)
        self.world.truncate(self.world.names[LIVE])

    @precondition(lambda self: not self.copying)
    @rule(number=st.integers(1, KEPT), complete=st.booleans())
    def compress(self, number: int, complete: bool) -> None:
        name = f"{LIVE}.{number}"
        if name not in self.world.names or f"{name}.gz" in self.world.names:
            return
        inode = self.world.names[name]
        if inode in self.world.writers.values():
            self._reopen(LIVE)
        packed = self.world.create(f"{name}.gz", inode.data, compressed=True)
        packed.complete = complete

    @rule(number=st.integers(1, KEPT))
    def compressed(self, number: int) -> None:
        """The compressor is done and removes what it packed."""
        name = f"{LIVE}.{number}"
        packed = self.world.names.get(f"{name}.gz")
        if packed is None or name not in self.world.names or self.world.names[name].data != packed.data:
            return
        packed.complete = True
        self.world.touch(packed)
        self.world.unlink(name)

    @rule(number=st.integers(0, KEPT))
    def delete(self, number: int) -> None:
        for name in self._rotated(number) if number else [LIVE]:
            if name in self.world.names and not self.copying:
                self.world.unlink(name)

    @rule(number=st.integers(0, KEPT), readable=st.booleans())
    def permit(self, number: int, readable: bool) -> None:
        for name in self._rotated(number) if number else [LIVE]:
            if name in self.world.names:
                self.world.names[name].readable = readable

    @precondition(lambda self: LIVE in self.world.names)
    @rule()
    def link(self) -> None:
        self.world.link("link.log", self.world.names[LIVE])

    # --- the tail moves ---

    @rule()
    def list(self) -> None:
        self.world.list()

    @rule(count=st.integers(1, 6))
    def run_some(self, count: int) -> None:
        self.world.run(count)

    @rule()
    def turn(self) -> None:
        self.world.turn()

    @rule()
    def poll(self) -> None:
        self.world.poll()

    @rule()
    def hint(self) -> None:
        self.world.hint(LIVE)

    @rule(seconds=st.sampled_from([0.2, 1.0, 4.0]))
    def wait(self, seconds: float) -> None:
        # A copy of a few bytes is truncated within settle_s, or the copy counts as a log of its own.
        if not self.copying or self.world.now_s + seconds < self.copied_at + self.world.options.settle_s:
            self.world.now_s += seconds

    @rule()
    def restart(self) -> None:
        self.world.restart()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            if self.copying:
                self._truncate()
            self.world.settle()
            self.world.audit()


class LongTailMachine(TailMachine):
    """The same, searched for longer."""


TestTail = TailMachine.TestCase
TestTail.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestTailLong = pytest.mark.stress(LongTailMachine.TestCase)
TestTailLong.settings = settings(
    max_examples=4000, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)

"""Any order of sends, losses, holds and grants: nothing of a job is lost or passes another, and no credit is exceeded."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from srt.automaton import WAKE, Instant, PeerLost, Received, Ref
from srt.link_messages import Grant, SentSoFar
from srt.links import Busy, LinkDown, Links, Room
from srt.options import LinkOptions

A, B = Ref(bytes(16), "a:1", 1), Ref(bytes(15) + b"\1", "b:1", 1)
KEYS = [bytes([number]) * 16 for number in range(8)]
OPTIONS = LinkOptions.tiny()
SIZE_MAX = 450

steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.sampled_from(KEYS), st.integers(1, SIZE_MAX)),
        st.tuples(st.just("control"), st.just(b""), st.integers(1, SIZE_MAX)),
        st.tuples(st.sampled_from(["hold", "free"]), st.sampled_from(KEYS[:3]), st.just(0)),
        st.tuples(st.sampled_from(["move", "done", "lose", "sleep"]), st.just(b""), st.integers(1, 5)),
    ),
    max_size=120,
)


class Pair:
    """A sender, a receiver and what is under way between them, in order; messages of the link itself may be lost."""

    def __init__(self) -> None:
        self.sender, self.receiver = Links(OPTIONS), Links(OPTIONS)
        self.under_way: deque[tuple[bytes, int, int]] = deque()
        self.answers: deque[Grant] = deque()
        self.sent: dict[bytes, list[int]] = defaultdict(list)
        self.arrived: dict[bytes, list[int]] = defaultdict(list)
        self.undone: deque[tuple[bytes, int]] = deque()
        self.busy: set[bytes] = set()
        self.held: set[bytes] = set()
        self.undone_bytes: dict[bytes, int] = defaultdict(int)
        self.now = Instant(0.0, 0)
        self.number = 0

    def step(self, what: str, key: bytes, size: int) -> None:
        if what == "send":
            self.number += 1
            self.sent[key].append(self.number)
            self._told(self.sender.send(B, key, (key, self.number, size), size))
        elif what == "control":
            self.sender.send(B, None, (None, 0, size), size)
        elif what == "hold":
            self.held.add(key)
            self.receiver.hold(key)
        elif what == "free":
            self.held.discard(key)
            self._answer(self.receiver.free(key))
        elif what == "move":
            for _ in range(size):
                self._move()
        elif what == "done":
            for _ in range(min(size, len(self.undone))):
                self._done()
        elif what == "lose":
            self.answers.clear()
        else:
            self._sleep()
        for links in (self.sender, self.receiver):
            links.check()

    def _move(self) -> None:
        found = self.sender.take(B, self.now)
        if found is None:
            return
        (key, number, size), effects = found
        self._told(effects)
        if key is None:
            return
        assert self.receiver.came(A, key, size), "the sender kept within the credit of the link"
        assert sum(self.undone_bytes.values()) < OPTIONS.credit_bytes
        self.undone.append((key, size))
        self.undone_bytes[key] += size
        self.arrived[key].append(number)

    def _done(self) -> None:
        key, size = self.undone.popleft()
        self.undone_bytes[key] -= size
        self._answer(self.receiver.done(A, key, size))

    def _sleep(self) -> None:
        self.now = Instant(self.now.s + 1.0, 0)
        for effect in self.sender.handle(WAKE, self.now):
            assert isinstance(effect.message, SentSoFar)
            self._answer(self.receiver.handle(Received(A, effect.message), self.now))
        while self.answers:
            self._told(self.sender.handle(Received(B, self.answers.popleft()), self.now))

    def _answer(self, effects: list[Any]) -> None:
        for effect in effects:
            granted = {job.key for job in effect.message.jobs}
            assert not granted & self.held, "a held job gets nothing"
            self.answers.append(effect.message)

    def _told(self, effects: list[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Busy):
                assert effect.key not in self.busy
                self.busy.add(effect.key)
            elif isinstance(effect, Room):
                self.busy.remove(effect.key)

    def finish(self) -> None:
        """Without holds and losses all of it arrives."""
        for key in KEYS:
            self.step("free", key, 0)
        for _ in range(400):
            self.step("move", b"", 5)
            self.step("done", b"", 5)
            self.step("sleep", b"", 1)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_all_of_every_job_arrives_in_order(script: list[tuple[str, bytes, int]]) -> None:
    pair = Pair()
    for what, key, size in script:
        pair.step(what, key, size)
    pair.finish()
    assert pair.arrived == pair.sent
    assert not pair.busy
    assert pair.sender.wake_at == float("inf")


@settings(max_examples=50, deadline=None)
@given(steps)
def test_a_broken_link_gives_back_all_that_waits(script: list[tuple[str, bytes, int]]) -> None:
    pair = Pair()
    for what, key, size in script:
        pair.step(what, key, size)
    for effect in pair.sender.handle(PeerLost(B), pair.now):
        if isinstance(effect, LinkDown):
            for key, (_, number, _size) in effect.waiting:
                if key is not None:
                    pair.arrived[key].append(number)
        else:
            pair._told([effect])
    assert {key: numbers for key, numbers in pair.arrived.items() if numbers} == pair.sent
    assert not pair.busy

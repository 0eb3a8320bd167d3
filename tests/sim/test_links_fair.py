"""A huge job whose root does not keep up, beside a small one, over the same links: who waits, who stops, what arrives.

Eight agents, two leaves, an inner vertex and a root, with the real reducers and links between them.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from typing import Any, NamedTuple

import pytest

from cbt.budget import Budget
from cbt.options import Options
from elfstream.simulated.network import Network
from elfstream.simulated.world import Process
from srt.automaton import NEVER, Instant, Received, Ref, Send
from srt.content import Content
from srt.frame_messages import PART_BYTES, Ack, ForJob, Nack, StreamId
from srt.frames import Assemblies, messages_of
from srt.ids import job_key
from srt.options import LinkOptions
from srt.reducer import ReducerOptions
from srt.vertices import Vertices
from tests.frame_data import frame, groups_of
from tests.sim.linked_world import LinkedWorld

HUGE, SMALL = job_key("huge"), job_key("small")
RATE = 12.5e6
HOPS = 3
VERTEX = ReducerOptions(frame_bytes_max=4 << 20, pending_bytes_max=8 << 20, burst_bytes=256 << 10)
LINKS = LinkOptions(
    job_bytes_max=512 << 10, queued_bytes_max=2 << 20, credit_bytes=2 << 20, job_credit_bytes=512 << 10
)
DELAY_MAX_S = HOPS * (VERTEX.hold_s + 2 * PART_BYTES / RATE + 0.002)
"""Per hop: the hold time, the part that is leaving, a turn of the other job of at most a part, and the way."""
PIECES_MAX = 3
"""Of a stream that are not acknowledged (A8)."""


class Emit(NamedTuple):
    """Event: an agent may cut a piece of a job."""

    key: bytes


class Agent:
    """Cuts a piece when it may: of the huge job always, of the small one now and then."""

    wake_at = NEVER

    def __init__(self, ref: Ref, parent: Ref, number: int, sent_at: dict[tuple[bytes, int], float]) -> None:
        self.ref, self.parent, self.sent_at = ref, parent, sent_at
        self.rng = random.Random(number)
        self.journal = bytes([number + 1]) * 16
        self.waiting: dict[bytes, deque[int]] = {HUGE: deque(), SMALL: deque()}
        self.closed = False
        self.cuts = Counter[bytes]()
        self.totals: dict[bytes, Counter[str]] = {HUGE: Counter(), SMALL: Counter()}

    def handle(self, event: Any, now: Instant) -> list[Any]:
        if isinstance(event, Received):
            assert not isinstance(event.message.body, Nack)
            assert isinstance(event.message.body, Ack)
            for number in event.message.body.numbers:
                self.waiting[event.message.key].remove(number)
            return self._emit(HUGE, now) if event.message.key == HUGE else []
        return self._emit(event.key, now)

    def _emit(self, key: bytes, now: Instant) -> list[Any]:
        if self.closed or len(self.waiting[key]) >= PIECES_MAX:
            return []
        cut = self.cuts[key]
        self.cuts[key] += 1
        self.waiting[key].append(cut)
        self.sent_at[key + self.journal, cut] = now.s
        count, size = (8, 30_000) if key == HUGE else (2, 12)
        groups = {self.rng.randbytes(size).hex(): 1 for _ in range(count)}
        self.totals[key].update(groups)
        piece = frame(cut, {StreamId(1, self.journal): (cut, cut + 1)}, {0: groups})
        return [Send(self.parent, ForJob(key, part)) for part in messages_of(piece)]


class Root:
    """Takes frames in order and acknowledges them; those of the huge job only while it keeps up."""

    wake_at = NEVER

    def __init__(self, ref: Ref, sent_at: dict[tuple[bytes, int], float]) -> None:
        self.ref, self.sent_at = ref, sent_at
        self.keeps_up = True
        self.owed: list[Send] = []
        self.delays: list[float] = []
        self.content = {key: Content(Budget(), Options()) for key in (HUGE, SMALL)}
        self.next = Counter[tuple[bytes, StreamId]]()
        self._begun = {key: Assemblies(1 << 24, 1 << 24, 9) for key in (HUGE, SMALL)}

    def handle(self, event: Any, now: Instant) -> list[Any]:
        if not isinstance(event, Received):
            owed, self.owed = self.owed, []
            return owed
        key = event.message.key
        whole = self._begun[key].take(event.sender, event.message.body)
        if whole is None:
            return []
        for span in whole.spans:
            assert self.next[key, span.stream] == span.start
            self.next[key, span.stream] = span.end
            for cut in range(span.start, span.end) if key == SMALL else ():
                self.delays.append(now.s - self.sent_at[key + span.stream.agent, cut])
        self.content[key].merge(self.content[key].staged(whole.panes, whole.runs, 1 << 24))
        answer = Send(event.sender, ForJob(key, Ack((whole.number,))))
        if key == HUGE and not self.keeps_up:
            self.owed.append(answer)
            return []
        return [answer]


class Parents:
    """What vertices ask of the trees."""

    def __init__(self, parent: Ref) -> None:
        self._parent = parent
        self.vertices = {HUGE: None, SMALL: None}

    def serves(self, key: bytes) -> bool:
        return False

    def parent(self, key: bytes) -> Ref:
        return self._parent


class Fleet:
    def __init__(self) -> None:
        self.world = LinkedWorld(1, Network(0.0005, 0.001), RATE, LINKS)
        self.sent_at: dict[tuple[bytes, int], float] = {}
        self.agents: list[Agent] = []
        self._spawn("root", lambda ref: Root(ref, self.sent_at))
        self._vertex("inner", "root")
        for leaf in ("leaf0", "leaf1"):
            self._vertex(leaf, "inner")
        for number in range(8):
            self._agent(number)

    def _spawn(self, name: str, make: Any) -> Any:
        return self.world.spawn(name, lambda process: make(self._ref(process.address))).core

    def _ref(self, name: str) -> Ref:
        return Ref(job_key(name), name, 1)

    def _vertex(self, name: str, parent: str) -> None:
        trees: Any = Parents(self._ref(parent))
        self._spawn(name, lambda ref: Vertices(ref, trees, Budget(), VERTEX, Options()))

    def _agent(self, number: int) -> None:
        parent = self._ref(f"leaf{number % 2}")
        self.agents.append(
            self._spawn(f"agent{number}", lambda ref: Agent(ref, parent, number, self.sent_at))
        )

    def process(self, name: str) -> Process:
        return self.world.processes[name]

    def emit(self, until: float, step: float = 0.05) -> None:
        """Agents may cut pieces of both jobs until then."""
        while self.world.now < until:
            for agent in self.agents:
                for key in (HUGE, SMALL):
                    self.world.give(self.process(agent.ref.address), Emit(key))
            self.world.run(self.world.now + step)

    @property
    def root(self) -> Root:
        core = self.process("root").core
        assert isinstance(core, Root)
        return core

    def huge_cuts(self) -> int:
        return sum(agent.cuts[HUGE] for agent in self.agents)


def test_a_huge_job_beyond_its_root_stops_and_delays_nobody() -> None:
    fleet = Fleet()
    fleet.emit(1.0)
    assert fleet.huge_cuts() > 50
    fleet.root.keeps_up = False
    fleet.emit(2.0)
    stopped = fleet.huge_cuts()
    fleet.emit(5.0)
    assert fleet.huge_cuts() == stopped, "agents read no further (A8)"
    assert fleet.world.counts.held > 0
    fleet.root.keeps_up = True
    fleet.world.give(fleet.process("root"), Emit(HUGE))
    fleet.emit(6.0)
    assert fleet.huge_cuts() > stopped + 50
    for agent in fleet.agents:
        agent.closed = True
    fleet.world.run(10.0)
    counts = fleet.world.counts
    assert (counts.busy, counts.held, counts.unsound) == (counts.room, counts.freed, 0)
    for key in (HUGE, SMALL):
        truth = sum((agent.totals[key] for agent in fleet.agents), Counter())
        assert groups_of(fleet.root.content[key], 1, 0) == truth
        assert not any(agent.waiting[key] for agent in fleet.agents)
    assert len(fleet.root.delays) == sum(agent.cuts[SMALL] for agent in fleet.agents) > 900
    print(f'{max(fleet.root.delays):.3f} of {DELAY_MAX_S:.3f} s', counts)
    assert max(fleet.root.delays) < DELAY_MAX_S


def test_as_one_job_they_would_delay_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.sim.linked_world.charged_to", lambda message: bytes(16))
    fleet = Fleet()
    fleet.emit(3.0)
    print(f'{max(fleet.root.delays):.3f}', fleet.world.counts)
    assert max(fleet.root.delays) > DELAY_MAX_S

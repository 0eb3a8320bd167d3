"""What the leader publishes, found from what has changed: the same entries as by looking at every window each time."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cbt.budget import Budget
from cbt.options import Options
from job.settings import Settings
from master.committed import Committed
from master.entries import Era, Forget, FrameEntry, PlanEntry, Publish, Reg, encode_entry
from master.finality import Finality, FinalityOptions
from master.snapshots import restored, snapshot
from srt.automaton import NEVER, Instant
from tests.frame_data import AGENTS, frame, stream
from tests.plans import SECOND_US, plan

STEPS = 150
WINDOWS = ["window(time, '10 seconds')", "window(time, '20 seconds', '5 seconds')"]


class Plain(Finality):
    """Goes over all open windows at each look."""

    def applied(self, now_s: float) -> None:
        self._look = True
        windows = self._committed.windows
        for known in (self._since, self._published):
            for key in [key for key in known if key not in windows]:
                del known[key]
        self._told_late &= set(windows)

    def due(self, now: Instant) -> list[Publish]:
        now_s, state = now.s, self._committed
        if self.held or state.stopped or (not self._look and now_s < self._deadline_s):
            return []
        self._look = False
        found: list[Publish] = []
        self._started = self._started or self._may_start(now_s)
        self._deadline_s = NEVER if self._started else self._start_s
        keys = sorted(state.windows)
        newest = next((key for key in keys if key[1] > keys[-1][0]), None)
        for key in keys:
            if key in self._waiting or len(found) >= self._options.publish_max:
                continue
            entry = self._entry(key, state.windows[key], now, key == newest)
            if entry is not None:
                self._waiting.add(key)
                self._published[key] = now_s
                found.append(entry)
        return found

    def _anybody_beyond(self, feed: int, end_us: int) -> bool:
        return len(self._committed.missing(feed, end_us)) < sum(self._committed.roster.values())


class History:
    """One log, and both ways to look at it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.state = Committed(Budget(), Options.tiny())
        options = FinalityOptions(grace_s=1.0, publish_max=self.rng.choice([2, 256]))
        self.finality, self.plain = Finality(self.state, options), Plain(self.state, options)
        self.now_s = 100.0
        self.next: dict[int, int] = {}
        self.at_s = [0, 0, 0, 0]
        self.flight: list[Publish] = []
        self.found = 0

    def apply(self, entry: Any) -> None:
        self.state.apply(self.state.index + 1, encode_entry(entry))
        for one in (self.finality, self.plain):
            one.applied(self.now_s)

    def change_plan(self) -> None:
        rng, book = self.rng, self.state.book
        settings = Settings(
            delay_us=0,
            lateness_us=rng.choice([0, 40]) * SECOND_US,
            emit_us=rng.choice([1, 3]) * SECOND_US,
            deadline_us=rng.choice([2, 7]) * SECOND_US,
            empty=rng.random() < 0.2,
        )
        start = max(self.at_s) + rng.choice([-10, 0, 30])
        wanted = plan(rng.choice(WINDOWS), rng.choice(["path", "status"]))
        self.apply(PlanEntry(book.revised(max(start, 0) * SECOND_US, wanted, settings)))

    def take_part(self) -> None:
        agent = self.rng.randrange(4)
        for feed in self.state.book.feeds:
            self.apply(Reg(feed, AGENTS[agent], f"web{agent}", 0))

    def send(self) -> None:
        rng = self.rng
        if not self.state.streams:
            return
        one = rng.choice(sorted(self.state.streams))
        agent = AGENTS.index(one.agent)
        at = self.state.streams[one].next
        self.at_s[agent] += rng.choice([0, 1, 7, 25])
        starts_s = [(self.at_s[agent] - rng.choice([0, 0, 10, 35])) // 5 * 5 for _ in range(rng.randrange(3))]
        panes = {max(0, start) * SECOND_US: {"/a": 1} for start in starts_s}
        mark = rng.choice([None, self.at_s[agent] * SECOND_US])
        spans = {stream(agent, one.revision, one.lane): (at, at + 1)}
        whole = frame(0, spans, panes, watermark_us=mark, revision=one.revision)
        self.apply(FrameEntry(whole.spans, whole.panes, whole.runs))

    def commit(self) -> None:
        lost = self.rng.random() < 0.1
        for entry in [] if lost else self.flight:
            self.apply(entry)
        self.flight = []
        for one in (self.finality, self.plain):
            one.settled(())

    def lead(self) -> None:
        self.flight = []
        for one in (self.finality, self.plain):
            one.lead(self.now_s)

    def recover(self) -> None:
        """Another lineage: what readers saw may be lost."""
        self.lead()
        self.apply(Era(self.state.history + 1))

    def step(self) -> None:
        does = [self.send] * 12 + [self.commit] * 6 + [self.take_part, self.lead]
        if self.rng.random() < 0.04:
            does = [self.change_plan, self.recover, lambda: self.apply(Forget(self.rng.choice(AGENTS[:4])))]
        self.rng.choice(does)()
        if self.rng.random() < 0.4:
            self.now_s += self.rng.choice([0.1, 1.0, 2.5])
        now = Instant(self.now_s, int(self.now_s * 1e6))
        found, expected = self.finality.due(now), self.plain.due(now)
        assert found == expected
        if not found:
            assert self.finality.wake_at == self.plain.wake_at
        self.flight += found
        self.found += len(found)
        self.state.windows.check()


@pytest.mark.parametrize("seed", range(60))
def test_what_is_found_is_what_looking_at_all_windows_finds(seed: int) -> None:
    history = History(seed)
    history.change_plan()
    history.take_part()
    history.lead()
    for _ in range(STEPS):
        history.step()
    assert history.found > 5
    copy = restored(list(snapshot(history.state)), Budget(), Options.tiny())
    copy.windows.check()
    assert list(copy.windows.items()) == list(history.state.windows.items())

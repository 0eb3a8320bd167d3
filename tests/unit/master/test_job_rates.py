"""How fast a job goes, from what is committed and when."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cbt.budget import Budget
from cbt.options import Options
from job.derived import Derived
from job.plan import Field
from job.settings import Settings
from job.types import STRING
from master.committed import Committed
from master.entries import DerivedEntry, FrameEntry, PlanEntry, PlanText, Reg, encode_entry
from master.job_rates import RateMeter
from master.requests import Rates
from srt.frame_messages import Counters, Span
from tests.frame_data import AGENTS, stream
from tests.plans import SECOND_US, plan

SETTINGS = Settings(emit_us=SECOND_US // 2)


class Job:
    """Its state and its meter."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.state, self.meter = Committed(Budget(), Options.tiny()), RateMeter()
        self.next: dict[Any, int] = {}
        self.plan(settings, 0.0)

    def apply(self, now_s: float, *entries: Any) -> None:
        for entry in entries:
            self.state.apply(self.state.index + 1, encode_entry(entry))
        assert self.state.counts.void == 0
        self.meter.note(self.state, now_s)

    def plan(self, settings: Settings, now_s: float, key: str = "path") -> None:
        revision = self.state.book.revised(0, plan("window(time, '10 seconds')", key), settings)
        self.apply(now_s, PlanEntry(revision), *(Reg(revision.feed, agent, "", 0) for agent in AGENTS[:2]))

    def read(self, now_s: float, lines: int, rejected: int = 0, late: int = 0, agent: int = 0) -> None:
        """An agent's piece is committed."""
        feed = self.state.book.feeds[-1]
        key = stream(agent, feed)
        start = self.next.get(key, 0)
        self.next[key] = start + 1
        counters = Counters(lines, filtered=lines - rejected - late, rejected=rejected, late=late)
        self.apply(now_s, FrameEntry((Span(key, start, start + 1, None, counters),), (), ()))

    def rates(self, now_s: float) -> Rates | None:
        return self.meter.rates(self.state, now_s)


@pytest.fixture
def job() -> Job:
    return Job()


def test_a_steady_job_shows_what_it_reads_a_second(job: Job) -> None:
    for half in range(1, 60):
        job.read(half / 2, 100, rejected=10, late=5)
        job.read(half / 2 + 0.1, 50, agent=1)
    rates = job.rates(29.7)
    assert rates is not None
    assert (rates.lines, rates.parsed, rates.rejected, rates.late) == pytest.approx((300, 280, 20, 10), rel=0.02)
    assert 5 <= rates.over_s <= 6
    assert rates.results == 0


def test_nothing_is_told_before_a_second_is_known(job: Job) -> None:
    job.read(0.5, 1000)
    assert job.rates(0.9) is None
    job.read(1.0, 1000)
    rates = job.rates(1.2)
    assert rates is not None
    assert (rates.over_s, rates.lines) == (1.0, 2000)


def test_a_job_that_stands_still_comes_to_nothing(job: Job) -> None:
    for second in range(1, 11):
        job.read(second, 100)
    shown = [job.rates(now_s) for now_s in (10.9, 12.0, 14.0, 17.1, 1000.0)]
    told = [one.lines for one in shown if one is not None and one.lines is not None]
    assert told[0] == 100
    assert told == sorted(told, reverse=True)
    assert told[-2:] == [0, 0]


def test_what_comes_after_a_long_rest_is_not_spread_over_the_rest(job: Job) -> None:
    job.read(1, 100)
    job.read(1000, 600)
    rates = job.rates(1000.5)
    assert rates == Rates(6.0, 0, 100, 100, 0, 0)
    job.read(1003, 600)
    rates = job.rates(1003.5)
    assert rates == Rates(6.0, 0, 200, 200, 0, 0)


def test_a_long_emit_is_told_over_several_of_them() -> None:
    job = Job(Settings(emit_us=60 * SECOND_US))
    for minute in range(1, 20):
        job.read(60.0 * minute, 6000)
        for ahead in (1, 30, 59):
            rates = job.rates(60.0 * minute + ahead)
            assert rates is not None
            assert rates.lines == 100  # neither nothing nor all of a minute at once


def test_a_change_that_reads_anew_begins_anew(job: Job) -> None:
    for second in range(1, 8):
        job.read(second, 100)
    job.plan(SETTINGS, 7.4, "status")
    assert job.rates(7.6) is None  # what was counted until now says nothing of it
    for second in (8.4, 9.4):
        job.read(second, 300)
    assert job.rates(9.5) == Rates(1.0, 0, 300, 300, 0, 0)


def test_another_setting_reads_on(job: Job) -> None:
    for second in range(1, 8):
        job.read(second, 100)
    revision = job.state.book.revised(0, plan("window(time, '10 seconds')", "path"), Settings(emit_us=SECOND_US))
    assert revision.feed == job.state.book.feeds[-1]
    job.apply(7.5, PlanEntry(revision))
    rates = job.rates(7.6)
    assert rates is not None
    assert rates.lines == pytest.approx(100, rel=0.2)


def test_counters_are_added_up_once_a_step(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, real = [], Committed.coverage
    monkeypatch.setattr(Committed, "coverage", lambda *given: calls.append(1) or real(*given))
    for hundredth in range(1, 501):
        job.read(hundredth / 100, 1)
    assert len(calls) <= 6
    for second in range(6, 60):
        job.meter.note(job.state, second)
    assert len(calls) <= 7


def test_a_derived_job_has_results_only() -> None:
    state, meter = Committed(Budget(), Options.tiny()), RateMeter()
    derived = Derived((Field("path", STRING),), 0, "")
    state.apply(1, encode_entry(DerivedEntry(1, derived, SETTINGS, PlanText("joined", "", made_us=1), 1)))
    assert state.exists
    meter.note(state, 0.0)
    assert meter.rates(state, 2.0) == Rates(2.0, 0)


@pytest.mark.parametrize("seed", range(20))
def test_a_rate_times_its_span_is_what_was_read_in_it(seed: int) -> None:
    """Within the step that looks are apart."""
    draw = random.Random(seed)
    emit_s = draw.choice((0.1, 0.5, 1.0, 7.0))
    step_s = max(1.0, emit_s)
    job, now_s = Job(Settings(emit_us=int(emit_s * SECOND_US))), 0.0
    read: list[tuple[float, int]] = []
    for _ in range(400):
        before_s, now_s = now_s, now_s + draw.choice((emit_s, emit_s, emit_s, draw.random() * 20))
        if now_s > before_s + step_s:
            job.meter.note(job.state, before_s + step_s)  # a leader has something to do in each second
        lines = draw.randrange(1000)
        job.read(now_s, lines)
        read.append((now_s, lines))
        asked_s = now_s + draw.choice((0.0, emit_s / 2, 30.0))
        rates = job.rates(asked_s)
        if rates is None or rates.lines is None:
            continue
        step_s = max(1.0, emit_s)
        end_s = now_s if asked_s <= now_s + step_s else asked_s
        counted = rates.lines * rates.over_s
        least = sum(lines for at, lines in read if end_s - rates.over_s + step_s < at)
        most = sum(lines for at, lines in read if end_s - rates.over_s - step_s <= at)
        assert least - 1e-6 <= counted <= most + 1e-6
        assert rates.over_s <= 6 * step_s
        assert len(job.meter._looks) <= 8
        now_s = asked_s

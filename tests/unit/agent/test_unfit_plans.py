"""Plans that a changed format does not fit: what is lost to them is counted, through another change as well."""

from __future__ import annotations

from agent.sources import Source, Sources
from agent.stream_events import FoldSpec
from agent.unfit_plans import UnfitPlans
from job.formats import find
from srt.frame_messages import LIVE, StreamId
from tests.plans import plan

KEY = bytes(16), StreamId(1, bytes(16), LIVE)
SPEC = FoldSpec(KEY, plan(), 0, 1, 0, fresh=False)
FRESH = SPEC._replace(fresh=True)


def sources(format: str) -> Sources:
    return Sources([Source("access", ("/log",), find(format))])


def test_what_was_lost_before_a_change_is_told_after_it() -> None:
    fit, unfit = sources("combined"), sources("$remote_addr [$time_local]")
    plans = UnfitPlans(fit)
    assert plans.asked([SPEC]) == set()
    plans.change(unfit)
    assert plans.is_unfit(SPEC)
    assert plans.asked([FRESH]) == set()
    plans.lose("access", 100)
    plans.lose("other", 7)
    plans.change(sources("$remote_addr [$time_local] $status"))
    assert len(plans.troubles) == 1, "nobody has been told yet"
    assert plans.is_unfit(SPEC)
    assert plans.asked([SPEC]) == set()
    plans.lose("access", 20)
    assert [plans.portion(KEY).counters.lost_bytes for _ in range(2)] == [120, 0]
    plans.change(fit)
    assert not plans.is_unfit(SPEC)


def lost(plans: UnfitPlans) -> int:
    return plans.portion(KEY).counters.lost_bytes


def test_what_is_read_again_is_lost_once() -> None:
    fit, unfit = sources("combined"), sources("$remote_addr [$time_local]")
    plans = UnfitPlans(fit)
    plans.change(unfit)
    assert plans.asked([SPEC]) == {KEY}, "some of it was read before that and is nowhere"
    plans.lose("access", 100)
    assert lost(plans) == 0
    plans.asked([FRESH])
    plans.lose("access", 1)
    assert lost(plans) == 1
    plans.lose("access", 10)
    plans.asked([])
    assert plans.asked([SPEC]) == {KEY}, "it was not asked for meanwhile"
    plans.lose("access", 1000)
    plans.asked([FRESH])
    assert lost(plans) == 0


def test_a_stream_that_fits_again_has_lost_nothing_that_is_read_again() -> None:
    fit, unfit = sources("combined"), sources("$remote_addr [$time_local]")
    plans = UnfitPlans(fit)
    plans.change(unfit)
    plans.asked([FRESH])
    plans.lose("access", 100)
    plans.change(fit)
    assert plans.asked([SPEC]) == set()
    plans.change(unfit)
    plans.asked([FRESH])
    assert lost(plans) == 0

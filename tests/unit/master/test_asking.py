"""When one asks again."""

from __future__ import annotations

from master.asking import RETRY_STATUSES, WAIT_FIRST_S, WAIT_MAX_S, Tries, backoff_s
from master.problems import KINDS


def test_problems_that_pass_are_those_that_nodes_say_so_of() -> None:
    assert set(RETRY_STATUSES) == {kind.status for kind in KINDS.values() if kind.retry_s}


def test_waits_grow_and_end() -> None:
    assert 0.75 * WAIT_FIRST_S <= backoff_s(1) <= 1.25 * WAIT_FIRST_S
    assert all(0.75 * WAIT_MAX_S <= backoff_s(attempt) <= 1.25 * WAIT_MAX_S for attempt in (6, 10**6))


def test_patience_begins_anew_when_it_worked() -> None:
    now_s = 0.0
    tries = Tries(10.0, clock=lambda: now_s)
    assert tries.wait_s() is not None
    now_s = 9.99
    assert tries.wait_s() is None
    tries.worked()
    assert tries.wait_s() is not None


def test_each_node_is_asked_once_however_long_one_took() -> None:
    now_s = 0.0
    tries = Tries(10.0, 3, lambda: now_s)
    now_s = 30.0
    assert tries.wait_s() is not None
    assert tries.wait_s() is not None
    assert tries.wait_s() is None


def test_what_asking_again_does_not_mend_is_asked_once_of_each_node() -> None:
    tries = Tries(10.0, 2, lambda: 0.0)
    assert tries.wait_s(is_hopeless=True) is not None
    assert tries.wait_s() is not None
    assert tries.wait_s(is_hopeless=True) is not None
    assert tries.wait_s(is_hopeless=True) is None

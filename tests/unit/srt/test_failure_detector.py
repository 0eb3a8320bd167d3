"""Questions, quarantine, the lost."""

from __future__ import annotations

import random

from srt.automaton import NEVER, Ref
from srt.failure_detector import FailureDetector, Lost, Quarantine
from srt.options import RingOptions

A = Ref(bytes(15) + b"\1", "a:1", 3)


def test_a_silent_node_is_asked_again_and_then_dead() -> None:
    detector = FailureDetector(RingOptions())
    assert detector.ask(A, 1, "ping", 0.0, tell=True)
    assert not detector.ask(A, 1, "ping", 0.1, tell=True), "it is being asked"
    for now in (0.25, 0.5, 0.75):
        again, dead = detector.overdue(now)
        assert (len(again), dead) == (1, [])
        assert detector.silent(1)
    again, dead = detector.overdue(1.0)
    assert again == []
    assert [question.ref for question in dead] == [A]
    assert detector.next_due == NEVER


def test_an_older_boot_does_not_answer_for_a_newer() -> None:
    detector = FailureDetector(RingOptions())
    detector.ask(A, 1, "ping", 0.0, tell=True, joins=True)
    assert not detector.heard(Ref(A.id, A.address, 2), 1)
    assert detector.candidates() == [1]
    assert detector.heard(A, 1)
    assert detector.candidates() == []


def test_who_was_stopped_gives_all_the_whole_time_again() -> None:
    detector = FailureDetector(RingOptions())
    detector.ask(A, 1, "ping", 0.0, tell=True)
    for now in (0.25, 0.5, 0.75):
        detector.overdue(now)
    detector.postpone(60.0)
    assert detector.overdue(60.2) == ([], [])
    assert [len(detector.overdue(60.25 + index / 4)[0]) for index in range(3)] == [1, 1, 1]
    assert len(detector.overdue(61.0)[1]) == 1


def test_quarantine_is_for_a_boot_and_for_a_time() -> None:
    quarantine = Quarantine(2, 10.0)
    quarantine.add(1, 3, 0.0)
    assert quarantine.holds(1, 3, 9.9)
    assert quarantine.holds(1, 2, 9.9)
    assert not quarantine.holds(1, 4, 9.9)
    assert not quarantine.holds(1, 3, 10.0)
    for number in (5, 6, 7):
        quarantine.add(number, 1, 0.0)
    assert [quarantine.holds(number, 1, 1.0) for number in (5, 6, 7)] == [False, True, True]


def test_the_lost_are_tried_by_address_whatever_boot_they_have() -> None:
    lost = Lost(2, ("seed:1",))
    rng = random.Random(1)
    assert lost.choose(rng, 0.0) is None
    assert lost.choose(rng, 1.0) == Ref(bytes(16), "seed:1", 0)
    lost.add(A, 1)
    tried = {lost.choose(rng, 0.0) for _ in range(50)}
    assert tried == {None, Ref(A.id, A.address, 0)}
    assert lost.found(1)
    assert not lost.found(1)

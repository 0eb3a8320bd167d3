"""The cut protocol under faults: results equal the undisturbed fold of the logs, to the bit, and each rule is needed."""

from __future__ import annotations

import pytest

from tests.sim.cut_fleet import Broken, simulate
from tests.sim.cut_mutants import EXACT, MUTANTS, RARE

SEEDS = 40
MUTANT_SEEDS = 60


@pytest.mark.parametrize("first", range(0, SEEDS, 8))
def test_results_are_exact_whatever_happens(first: int) -> None:
    for seed in range(first, first + 8):
        simulate(seed)


def test_a_vertex_full_of_frames_without_answers_lets_syncs_pass() -> None:
    simulate(1227)  # once, an agent below it stayed silent until it was no longer waited for


def test_nothing_is_late_or_sent_twice_in_peace() -> None:
    fleet = simulate(1, faults=0, plan_changes=0, late=False, recover=False, split=False, forgetful=False)
    core = fleet.root.core
    assert core is not None
    counters = core.root.counters  # type: ignore[attr-defined]
    assert (counters.refused, counters.duplicates, counters.unsound) == (0, 0, 0)
    assert all(len(editions) <= 2 for editions in fleet.published.values())


def failing(rule: str, seeds: range) -> list[int]:
    """The seeds that notice that a rule is off."""
    failed = []
    with pytest.MonkeyPatch.context() as patch:
        ({**MUTANTS, **RARE, **EXACT})[rule](patch)
        for seed in seeds:
            try:
                simulate(seed)
            except Exception:
                failed.append(seed)
    return failed


@pytest.mark.parametrize("rule", MUTANTS)
def test_each_rule_is_needed(rule: str) -> None:
    for seed in range(MUTANT_SEEDS):
        if failing(rule, range(seed, seed + 1)):
            return
    pytest.fail(f"{MUTANT_SEEDS} seeds did not notice: {rule}")


@pytest.mark.parametrize("rule", EXACT)
def test_some_rules_only_save_time(rule: str) -> None:
    assert failing(rule, range(8)) == []


def test_a_fault_in_the_simulation_itself_is_noticed() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.sim.cut_logs.Logs.between", lambda logs, start, end: ([], 0))
        with pytest.raises(Broken):
            simulate(0, faults=0)


@pytest.mark.stress
def test_a_thousand_seeds() -> None:
    for seed in range(1000, 2000):
        simulate(seed)


@pytest.mark.stress
@pytest.mark.parametrize("rule", [*MUTANTS, *RARE, *EXACT])
def test_rules_off_over_many_seeds(rule: str) -> None:
    failed = failing(rule, range(100))
    print(f"{rule}: {len(failed)} of 100")
    assert rule in RARE or bool(failed) == (rule in MUTANTS)

"""The cut protocol under faults: results equal the undisturbed fold of the logs, to the bit, and each rule is needed."""

from __future__ import annotations

from typing import Any

import pytest

from agent.errors import JournalError
from cbt.errors import InvariantError
from master.entries import FINAL
from tests.sim.cut_fleet import simulate
from tests.sim.cut_mutants import EXACT, MUTANTS, RARE, Mutant
from tests.sim.cut_nodes import MasterNode
from tests.sim.cut_truth import Broken

SEEDS = 50
STRESS_SEEDS = 1000
MUTANT_SEEDS = 40
"""So many are tried, from the one that is known to notice."""
NOTICED = (AssertionError, InvariantError, JournalError)


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_results_are_exact_whatever_happens(first: int) -> None:
    for seed in range(first, first + 10):
        simulate(seed)


@pytest.mark.parametrize("seed", [0, 7, 12, 30])
def test_who_comes_when_windows_are_closed_has_no_lines_in_them(seed: int) -> None:
    """F4: they are late, and no others are."""
    fleet = simulate(seed, early=True, brief=True, split=True, faults=12)
    assert any(job.lines_behind() for job in fleet.jobs)


FOUND = {
    1387: "a forced recovery lost a plan, and windows that readers had seen under it never came again",
    1509: "a founder that lost the entries which name the other members began a new lineage alone",
    2198: "a window of which all lines came too late was waited for, by the check alone",
}
"""Seeds that found something, as the cores and the draws of that day made them."""


@pytest.mark.parametrize("seed", FOUND)
def test_seeds_that_found_something(seed: int) -> None:
    simulate(seed)


@pytest.mark.parametrize("seed", range(2))
def test_a_job_without_a_leader_stops_no_other(seed: int) -> None:
    """Agents cut their logs more often than journals have slots, and the job finds its cuts when it is back."""
    simulate(seed, absent=True, jobs=2, faults=8, plan_changes=0, recover=False, endless=False)


PEACE: dict[str, Any] = {
    "faults": 0, "plan_changes": 0, "late": False, "recover": False, "split": False, "forgetful": False, "jobs": 1,
    "endless": False, "slow": False, "dying": False, "early": False, "hopeless": False,
}  # fmt: skip


@pytest.mark.parametrize("group", [False, True])
def test_nothing_is_late_or_sent_twice_in_peace(group: bool) -> None:
    fleet = simulate(1, group=group, **PEACE)
    (job,) = fleet.jobs
    assert job.leader is not None
    core = job.leader.core
    assert isinstance(core, MasterNode)
    counters = core.root.counters
    assert (counters.refused, counters.duplicates, counters.unsound) == (0, 0, 0)
    statuses = [[content[0] for content in editions.values()] for editions in job.published.values()]
    assert all(known.count(FINAL) <= 2 for known in statuses)


def test_finality_lags_no_more_than_the_clock_of_the_root() -> None:
    """A6: a root whose clock is behind holds watermarks back by so much; nothing is late for that."""
    lags = []
    for behind_s in (0, 8):
        fleet = simulate(2, group=False, skewed=False, quiet=False, chunked=False, clock_behind_s=behind_s, **PEACE)
        lags.append(max(fleet.jobs[0].lags_s.values()))
    assert 0 < lags[1] - lags[0] <= 8


def noticed(mutant: Mutant, seed: int) -> bool:
    """Whether a seed fails with a rule off."""
    with pytest.MonkeyPatch.context() as patch:
        mutant.off(patch)
        try:
            simulate(seed, **dict(mutant.changes))
        except NOTICED:
            return True
    return False


@pytest.mark.parametrize("rule", [rule for rule in MUTANTS if rule not in RARE])
def test_each_rule_is_needed(rule: str) -> None:
    mutant = MUTANTS[rule]
    if not any(noticed(mutant, seed) for seed in range(mutant.found, mutant.found + MUTANT_SEEDS)):
        pytest.fail(f"{MUTANT_SEEDS} seeds from {mutant.found} on did not notice: {rule}")


@pytest.mark.parametrize("rule", EXACT)
def test_some_rules_only_save_time(rule: str) -> None:
    assert not any(noticed(Mutant(EXACT[rule]), seed) for seed in range(2))


def test_a_fault_in_the_simulation_itself_is_noticed() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.sim.cut_logs.Logs.between", lambda logs, start, end: ([], 0))
        with pytest.raises(Broken):
            simulate(0, faults=0)


@pytest.mark.stress
def test_a_thousand_seeds() -> None:
    for seed in range(STRESS_SEEDS, 2 * STRESS_SEEDS):
        simulate(seed)


@pytest.mark.stress
@pytest.mark.parametrize("rule", MUTANTS)
def test_rules_off_over_many_seeds(rule: str) -> None:
    mutant = MUTANTS[rule]
    failed = [seed for seed in range(mutant.found, mutant.found + 100) if noticed(mutant, seed)]
    print(f"{rule}: {len(failed)} of 100, first {failed[:3]}")
    assert failed or rule in RARE
    for seed in failed[:3]:
        simulate(seed, **dict(mutant.changes))  # it is the rule that is missing


@pytest.mark.stress
@pytest.mark.parametrize("rule", EXACT)
def test_rules_that_only_save_time_over_many_seeds(rule: str) -> None:
    assert not any(noticed(Mutant(EXACT[rule]), seed) for seed in range(100))

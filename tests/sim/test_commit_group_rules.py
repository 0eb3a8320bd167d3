"""Rules of the commit group without which the simulation soon finds a broken promise.

What matters only when several rare faults meet is in tests/unit/master/test_group_member.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from cbt.errors import InvariantError
from tests.sim import cut_master_mutants as masters
from tests.sim.test_commit_group import ALL_KINDS, CUT_OFF_WHILE_MEMBERS_CHANGE, run

SEEDS = 60
FAULTS = 20
TRIES = 8
"""So many seeds are tried, from the one that is known to notice."""


class Rule(NamedTuple):
    off: Callable[[pytest.MonkeyPatch], None]
    found: int
    """A seed that notices."""
    kinds: Sequence[int] = ALL_KINDS
    """The faults that bring it out."""


RULES = {
    "committed without a majority": Rule(masters.g1_no_majority, 6),
    "whoever asks is elected": Rule(masters.g1_vote_for_anybody, 4),
    "answered before it is durable": Rule(masters.g1_answer_before_durable, 4),
    "members change all at once": Rule(masters.g3_all_at_once, 1, CUT_OFF_WHILE_MEMBERS_CHANGE),
}


def noticed(rule: Rule, seed: int) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        rule.off(patch)
        try:
            run(seed, FAULTS, rule.kinds)
        except (AssertionError, InvariantError):
            return True
    return False


@pytest.mark.parametrize("name", RULES)
def test_no_rule_can_be_left_out(name: str) -> None:
    rule = RULES[name]
    seed = next((seed for seed in range(rule.found, rule.found + TRIES) if noticed(rule, seed)), None)
    assert seed is not None, f"{TRIES} seeds from {rule.found} on did not notice: {name}"
    run(seed, FAULTS, rule.kinds)  # it is the rule that is missing


@pytest.mark.stress
@pytest.mark.parametrize("name", RULES)
def test_rules_off_over_many_seeds(name: str) -> None:
    failed = [seed for seed in range(SEEDS) if noticed(RULES[name], seed)]
    print(f"{name}: {len(failed)} of {SEEDS}, first {failed[:3]}")
    assert failed

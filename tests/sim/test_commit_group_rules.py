"""Rules of the commit group without which the simulation soon finds a broken promise.

What matters only when several rare faults meet is in tests/unit/master/test_group_member.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cbt.errors import InvariantError
from master.commit_group import CommitGroup
from master.group_leader import Leadership
from tests.sim.test_commit_group import run

SEEDS = 60


def commit_without_majority(patch: pytest.MonkeyPatch) -> None:
    def alone(self: Leadership) -> int:
        return max(self._group.commit, self._log.stored)

    patch.setattr(Leadership, "committable", alone)


def vote_for_anybody(patch: pytest.MonkeyPatch) -> None:
    """Whatever the candidate lacks."""
    asked: Callable[..., Any] = CommitGroup._asked

    def values(self: Any) -> list[Any]:
        return [getattr(self, name) for name in self.__struct_fields__]

    def flattered(self: CommitGroup, sender: Any, ask: Any) -> None:
        asked(self, sender, type(ask)(*values(ask)[:5], 1 << 40, 1 << 40))

    patch.setattr(CommitGroup, "_asked", flattered)


def answer_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    write: Callable[..., Any] = CommitGroup.write

    def hasty(self: CommitGroup, changes: Any, then: Any = None) -> None:
        write(self, changes)
        self.log.stored = self.log.last
        if then is not None:
            then()

    patch.setattr(CommitGroup, "write", hasty)


RULES = [
    commit_without_majority,
    vote_for_anybody,
    answer_before_it_is_durable,
]


@pytest.mark.stress
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_rule_can_be_left_out(rule: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    rule(monkeypatch)
    for seed in range(SEEDS):
        try:
            run(seed, 20)
        except (AssertionError, InvariantError):
            return
    pytest.fail(f"{rule.__name__}: {SEEDS} seeds did not notice")

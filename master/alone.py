"""When a member of a commit group goes on without asking anybody (docs/FLEET.md, Lineages). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from master.group_log import Meta
from srt.automaton import NEVER, Ref


class Alone:
    """A group of one may that lost entries, and a group of two whose other member is away for `recover_s`: what the two
    committed is on both. Whoever followed there cannot know of a third member that the leader took in meanwhile, and those
    two may have committed more. So it goes on alone only if nobody else was wanted when it heard the leader last; who led
    in the newest epoch knows, as nobody leads two without the vote of both."""

    def __init__(self, recover_s: float) -> None:
        self._recover_s, self._since_s = recover_s, float("inf")
        self._may_have_grown = False

    def since(self, now_s: float) -> None:
        """It starts, or leads no more."""
        self._since_s = now_s

    def heard(self, now_s: float, members: Sequence[Ref], wanted: Sequence[Ref]) -> None:
        """From the leader. O(members)."""
        self._since_s = now_s
        self._may_have_grown = len(members) == 2 and _others(members, wanted)

    def told(self, members: Sequence[Ref], wanted: Sequence[Ref]) -> None:
        """Who shall be the members."""
        self._may_have_grown = self._may_have_grown or _others(members, wanted)

    def at_s(self, here: Ref, members: Sequence[Ref], meta: Meta) -> float:
        """When the member here goes on alone. `members` are those of the newest list that it knows."""
        ids = {member.id for member in members}
        if len(ids) > 2 or here.id not in ids:
            return NEVER
        if len(ids) == 1:
            return self._since_s if meta.damaged else NEVER
        return NEVER if self._may_have_grown and not _led(here, meta) else self._since_s + self._recover_s

    @staticmethod
    def steps(here: Ref, meta: Meta) -> int:
        """How far its lineage is ahead of the one before. Of two that go on alone who led is farther: no results of both
        have the same numbers, and those of who led stay when they meet."""
        return 2 if _led(here, meta) else 1


def _led(here: Ref, meta: Meta) -> bool:
    """In the newest epoch that it knows, if anybody did."""
    return meta.voted == here.id


def _others(members: Sequence[Ref], wanted: Sequence[Ref]) -> bool:
    """Whether somebody is wanted who is no member."""
    ids = {member.id for member in members}
    return any(node.id not in ids for node in wanted)

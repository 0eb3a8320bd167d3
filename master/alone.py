"""When a member of a commit group goes on without asking anybody (docs/FLEET.md, Lineages). Pure."""

from __future__ import annotations

from master.group_log import GroupLog
from srt.automaton import NEVER, Ref


class Alone:
    """A group of one may that lost entries, and a group of two whose other member is away for `recover_s`: what the two
    committed is on both. But a list of two may be one that nobody else has heard of, or there may be a third by now, of
    whom this member has not heard. So the log says it: PAIR, once both have the list; a plain list of the same two before
    anything is committed that one of them does not have. Who leads knows what it has appended since."""

    def __init__(self, recover_s: float) -> None:
        self._recover_s, self._since_s = recover_s, float("inf")
        self._led_epoch = -1
        """The last one in which it led, as this process."""

    def since(self, now_s: float) -> None:
        """It starts, or has heard its leader."""
        self._since_s = now_s

    def led(self, epoch: int, now_s: float) -> None:
        """It leads no more."""
        self._led_epoch, self._since_s = epoch, now_s

    def at_s(self, here: Ref, log: GroupLog, commit: int) -> float:
        """When the member here goes on alone; `commit`: what it knows to be committed."""
        ids = {member.id for member in log.last_known_members}
        if len(ids) > 2 or here.id not in ids:
            return NEVER
        if len(ids) == 1:
            return self._since_s if log.meta.damaged else NEVER
        return self._since_s + self._recover_s if self._may(log, commit) else NEVER

    def _may(self, log: GroupLog, commit: int) -> bool:
        if log.meta.damaged:
            return log.meta.newest_pair
        if log.pair:
            return True
        # Nobody leads two without the vote of both, so nobody did since. But three may go on without it, if the list of two
        # is its own alone.
        shrunk = not {member.id for member in log.members_before} <= {member.id for member in log.members}
        return self._led_epoch == log.meta.promised and (log.members_index <= commit or not shrunk)

    @staticmethod
    def steps(here: Ref, log: GroupLog) -> int:
        """How far its lineage is ahead of the one before. Of two that go on alone who led is farther: no results of both
        have the same numbers, and those of who led stay when they meet."""
        return 2 if log.meta.voted == here.id and log.last_epoch == log.meta.promised else 1

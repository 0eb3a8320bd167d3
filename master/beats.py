"""Signs of life of all groups that are led here: one message for each pair of nodes, however many groups. Pure.

The node says which leader and epoch stand here; the other node answers which of these are not so there, and for the others
the answer counts like one to an Append: so a leader lives as long as these messages come through, which wait for nothing in
the core's line, whatever its entries wait for. A leader whose members have everything, and know that it is committed, is
*quiet*: it sends nothing by itself, and its beat names the commit, too. Nothing is remembered from one beat to the next but
what is under way.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from master.commit_group import CommitGroup
from master.group_messages import BEATS_MAX, Beat, Beats, BeatsHeard
from master.options import GroupOptions
from srt.automaton import NEVER, Instant, Ref, Send


class _Sent(NamedTuple):
    at_s: float
    groups: dict[bytes, CommitGroup]


class SharedBeats:
    """Of one node."""

    def __init__(self, options: GroupOptions) -> None:
        self._options = options
        self.wake_at = NEVER
        self._led: dict[bytes, CommitGroup] = {}
        self._number = 0
        self._sent: OrderedDict[int, _Sent] = OrderedDict()
        """Under way: answers later than a lease are of no use."""

    def note(self, key: bytes, group: CommitGroup | None, now_s: float) -> None:
        """Something happened to a group. O(1)."""
        if group is None or group.leadership is None:
            self._led.pop(key, None)
            return
        self._led[key] = group
        if self.wake_at == NEVER:
            every_s = self._options.heartbeat_s
            self.wake_at = (now_s // every_s + 1) * every_s

    def wake(self, now_s: float) -> list[Any]:
        """To each node that is in a group that is led here. O(groups led here)."""
        self.wake_at = NEVER if not self._led else max(self.wake_at, now_s) + self._options.heartbeat_s
        while self._sent and next(iter(self._sent.values())).at_s < now_s - self._options.lease_s:
            self._sent.popitem(last=False)
        wanted: dict[Ref, dict[bytes, CommitGroup]] = defaultdict(dict)
        for key, group in self._led.items():
            if group.leadership is None:
                continue  # since an event that is still being dealt with
            for ref in group.others():
                wanted[ref][key] = group
        out = []
        for ref, groups in wanted.items():
            keys = list(groups)
            for first in range(0, len(keys), BEATS_MAX):
                some = {key: groups[key] for key in keys[first : first + BEATS_MAX]}
                self._number += 1
                self._sent[self._number] = _Sent(now_s, some)
                out.append(Send(ref, Beats(self._number, [_beat(group) for group in some.values()])))
        return out

    def heard(
        self,
        sender: Ref,
        message: Beats,
        group_of: Callable[[bytes], CommitGroup | None],
        now: Instant,
        late: bool = False,
    ) -> list[Any]:
        """Another node lives, and so do the groups that it leads; `group_of` finds those of this node, which is `late`.
        O(groups in it)."""
        strange = [beat.group for beat in message.beats if not _lives(group_of(beat.group), sender, beat, now.s)]
        return [Send(sender, BeatsHeard(message.number, strange, late))]

    def answered(self, sender: Ref, message: BeatsHeard, now: Instant) -> Iterable[bytes]:
        """What of a beat counts. Returns the groups that have to speak for themselves. O(groups in it)."""
        sent = self._sent.get(message.number)
        if sent is None:
            return []
        strange = set(message.strange)
        for key, group in sent.groups.items():
            if group.leadership is not None and (group.quiet or key not in strange):
                group.leadership.beat_answered(sender.id, sent.at_s, key not in strange, now.s, message.late)
        return [key for key in message.strange if key in sent.groups and sent.groups[key].quiet]


def _beat(group: CommitGroup) -> Beat:
    return Beat(group.log.key, group.log.meta.lineage, group.epoch, group.commit if group.quiet else 0)


def _lives(group: CommitGroup | None, sender: Ref, beat: Beat, now_s: float) -> bool:
    return group is not None and group.beat_heard(sender, beat, now_s)

"""The nodes nearest on the ring, on both sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sortedcontainers import SortedDict

from srt.automaton import Ref
from srt.ids import SPACE, clockwise, nearness

_MASK = SPACE - 1


class LeafSet:
    """At most `size` nodes: the first half of them clockwise from the owner, and the last half.

    While it holds fewer than `size`, it is all that the owner knows, whichever side. Kept in the order of the clockwise
    offset from the owner; every change costs O(log size).
    """

    __slots__ = ("_by_offset", "_half", "_reach_back", "_reach_on", "own", "size")

    def __init__(self, own: int, size: int) -> None:
        self.own = own
        self.size = size
        self._half = size // 2
        self._by_offset: SortedDict[int, Ref] = SortedDict()
        self._reach_on = 0
        """Offset of the last member on the clockwise side, 0 while the set is not full."""
        self._reach_back = 0

    def __len__(self) -> int:
        return len(self._by_offset)

    def __iter__(self) -> Iterator[Ref]:
        """Clockwise."""
        return iter(self._by_offset.values())

    def get(self, number: int) -> Ref | None:
        found: Ref | None = self._by_offset.get(clockwise(self.own, number))
        return found

    @property
    def full(self) -> bool:
        return self._reach_on != 0

    def fits(self, number: int) -> bool:
        """Whether a node there is, or would become, a member."""
        offset = clockwise(self.own, number)
        return offset != 0 and (self._reach_on == 0 or offset <= self._reach_on or offset >= self._reach_back)

    def lacks(self, number: int, boot: int) -> bool:
        """Whether it would take this boot of a node there, and has not got it."""
        offset = (number - self.own) & _MASK
        if offset == 0 or (self._reach_on and self._reach_on < offset < self._reach_back):
            return False
        held = self._by_offset.get(offset)
        return held is None or held.boot < boot

    def covers(self, number: int) -> bool:
        """Whether the closest node to that place is the owner or a member; a set that is not full does not know."""
        if self._reach_on == 0:
            return False
        offset = clockwise(self.own, number)
        return offset <= self._reach_on or offset >= self._reach_back

    def put(self, ref: Ref, number: int) -> Ref | None:
        """Adds a node that fits, or replaces its former boot. Returns the member that had to go, if any."""
        members = self._by_offset
        members[clockwise(self.own, number)] = ref
        gone = None
        if len(members) > self.size:
            gone = members.popitem(self._half)[1]
        self._measure()
        return gone

    def remove(self, number: int) -> Ref | None:
        gone: Ref | None = self._by_offset.pop(clockwise(self.own, number), None)
        self._measure()
        return gone

    def side(self, on: bool) -> list[Ref]:
        """One half, nearest first: clockwise (`on`) or back. In a small ring a node is on both sides."""
        values = self._by_offset.values()
        return list(values[: self._half]) if on else list(reversed(values[-self._half :]))

    def beside(self) -> tuple[Ref, ...]:
        """The nearest back and on: two nodes, one when they are the same, none when there is none."""
        members = self._by_offset
        if len(members) > 1:
            return members.peekitem(-1)[1], members.peekitem(0)[1]
        return tuple(members.values())

    def ends(self) -> tuple[Ref, ...]:
        """The farthest on both sides; in a set that is not full, those in the middle of it."""
        values = self._by_offset.values()
        if not values:
            return ()
        return values[min(self._half, len(values)) - 1], values[max(len(values) - self._half, 0)]

    def closest(self, key: int, without: frozenset[Ref] = frozenset()) -> Ref | None:
        """The closest to a key of the members and the owner; None when it is the owner."""
        members = self._by_offset
        if not members:
            return None
        if not without:
            # The two that the key lies between are enough.
            offsets = members.keys()
            index = members.bisect_left(clockwise(self.own, key))
            near = [offsets[index % len(offsets)], offsets[index - 1]]
            best = min(near, key=lambda offset: nearness(key, self.own + offset))
            ref: Ref = members[best]
            return ref if nearness(key, self.own + best) < nearness(key, self.own) else None
        best = min(
            (0, *(offset for offset, ref in members.items() if ref not in without)),
            key=lambda offset: nearness(key, self.own + offset),
        )
        return members[best] if best else None

    def best(self, offered: dict[int, Ref], taken: Iterable[int]) -> list[Ref]:
        """Which of the offered nodes would be members if they and those at the `taken` numbers all were there."""
        offsets = {clockwise(self.own, number): ref for number, ref in offered.items()}
        everyone = sorted({*self._by_offset, *offsets, *(clockwise(self.own, number) for number in taken)})
        if len(everyone) > self.size:
            everyone = everyone[: self._half] + everyone[-self._half :]
        return [offsets[offset] for offset in everyone if offset in offsets]

    def _measure(self) -> None:
        members = self._by_offset
        if len(members) < self.size:
            self._reach_on = self._reach_back = 0
        else:
            offsets = members.keys()
            self._reach_on = offsets[self._half - 1]
            self._reach_back = offsets[self._half]

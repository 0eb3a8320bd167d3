"""One node per prefix: the long-distance links of the ring."""

from __future__ import annotations

from collections.abc import Iterator

from srt.automaton import Ref
from srt.ids import BASE, digit, shared_prefix


class RoutingTable:
    """Row r, column d: a node that shares r digits with the owner and goes on with d. At most 32 x 15, about 15 log16 N."""

    __slots__ = ("_slots", "own")

    def __init__(self, own: int) -> None:
        self.own = own
        self._slots: dict[int, Ref] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Ref]:
        return iter(self._slots.values())

    def slot(self, number: int) -> int:
        """Where a node of another number belongs."""
        row = shared_prefix(self.own, number)
        return row * BASE + digit(number, row)

    def towards(self, key: int) -> Ref | None:
        """The node that shares one more digit with a key than the owner does."""
        return None if key == self.own else self._slots.get(self.slot(key))

    def get(self, number: int) -> Ref | None:
        """The node with this very number, if it is in its slot."""
        if number == self.own:
            return None
        found = self._slots.get(self.slot(number))
        return found if found is not None and found.number == number else None

    def offer(self, ref: Ref, number: int) -> bool:
        """Takes a node into an empty slot, or a newer boot of the one there. True when it was taken."""
        if number == self.own:
            return False
        slot = self.slot(number)
        held = self._slots.get(slot)
        if held is not None and (held.id != ref.id or held.boot >= ref.boot):
            return False
        self._slots[slot] = ref
        return True

    def remove(self, number: int) -> Ref | None:
        return None if self.get(number) is None else self._slots.pop(self.slot(number))

    def rows(self, first: int, last: int) -> list[Ref]:
        """The nodes of rows first to last, both included; O(size)."""
        return [ref for slot, ref in self._slots.items() if first <= slot // BASE <= last]

    def depth(self) -> int:
        """The number of rows up to the last that holds a node."""
        return max(self._slots, default=-BASE) // BASE + 1

    def items(self) -> Iterator[tuple[int, int, Ref]]:
        """(row, column, node) of all slots that are filled."""
        for slot, ref in self._slots.items():
            yield slot // BASE, slot % BASE, ref

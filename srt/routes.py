"""Where a key lies, as one node knows the ring: values read from its leaf set and routing table."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from srt.automaton import Ref
from srt.ids import SPACE, nearness, number_of, shared_prefix
from srt.leaf_set import LeafSet
from srt.routing_table import RoutingTable


class Routes:
    """The leaf set and the routing table of one node, and what follows from them."""

    __slots__ = ("_silent", "leaf", "number", "ref", "table")

    def __init__(self, ref: Ref, leaf_size: int, silent: Callable[[int], bool]) -> None:
        """`silent(number)`: the node there owes an answer, so ways around it are preferred."""
        self.ref = ref
        self.number = ref.number
        self.leaf = LeafSet(self.number, leaf_size)
        self.table = RoutingTable(self.number)
        self._silent = silent

    def next_hop(self, key: bytes, avoiding: Iterable[Ref] = ()) -> Ref | None:
        """The next node on the way to a key; None when this node is the closest it knows. O(1), O(log N) near the key.

        Routes end: every hop shares a longer prefix with the key, or as long a one and is closer.
        """
        place = number_of(key)
        without = frozenset(avoiding)
        if self.leaf.covers(place):
            return self.leaf.closest(place, without)
        if self.leaf.full:
            found = self.table.towards(place)
            if found is not None and found not in without and not self._silent(found.number):
                return found
        return self._closer(place, without)

    def _closer(self, place: int, without: frozenset[Ref]) -> Ref | None:
        """The closest of all known nodes with as long a prefix; of all there are while the leaf set is not full.

        A silent member still counts: who is closest does not change before it is found dead.
        """
        best, best_nearness = None, nearness(place, self.number)
        anywhere, row = not self.leaf.full, shared_prefix(self.number, place)
        for known in (self.leaf, self.table):
            for ref in known:
                number = ref.number
                if not (anywhere or shared_prefix(number, place) >= row) or (without and ref in without):
                    continue
                found = nearness(place, number)
                if found < best_nearness and (known is self.leaf or not self._silent(number)):
                    best, best_nearness = ref, found
        return best

    def neighbours(self, key: bytes, count: int) -> list[Ref]:
        """The `count` live nodes closest to a key, closest first, this one among them; true where this node is near it."""
        place = number_of(key)
        return sorted([self.ref, *self.leaf], key=lambda ref: nearness(place, ref.number))[:count]

    def known(self, number: int) -> Ref | None:
        """The node with this number, if it is in one of the two."""
        return self.leaf.get(number) or self.table.get(number)

    def peers(self) -> list[Ref]:
        """All nodes of both."""
        return list({ref.id: ref for ref in (*self.leaf, *self.table)}.values())

    def size_estimate(self) -> float:
        """About how many nodes the ring has, from how close together the leaf set is."""
        if not self.leaf.full:
            return len(self.leaf) + 1.0
        back, on = self.leaf.side(False)[-1], self.leaf.side(True)[-1]
        return len(self.leaf) * SPACE / max((on.number - back.number) % SPACE, 1)

"""The leaf set against a plain sorted list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from srt.automaton import Ref
from srt.ids import SPACE, clockwise, closest, key_of
from srt.leaf_set import LeafSet
from srt.routing_table import RoutingTable

NUMBERS = st.one_of(st.integers(0, 60), st.integers(SPACE - 60, SPACE - 1), st.integers(0, SPACE - 1))


def ref(number: int, boot: int = 1) -> Ref:
    return Ref(key_of(number), f"h{number}", boot)


def around(own: int, others: set[int], size: int) -> set[int]:
    order = sorted(others - {own}, key=lambda number: clockwise(own, number))
    return set(order) if len(order) <= size else {*order[: size // 2], *order[-size // 2 :]}


@given(NUMBERS, st.lists(st.tuples(NUMBERS, st.booleans()), max_size=60), st.lists(NUMBERS, min_size=1))
def test_holds_the_nearest_on_both_sides(own: int, steps: list[tuple[int, bool]], keys: list[int]) -> None:
    leaf, model = LeafSet(own, 6), set[int]()
    for number, add in steps:
        assert leaf.fits(number) == (number != own and number in around(own, model | {number}, 6))
        assert leaf.lacks(number, 1) == (leaf.fits(number) and number not in model)
        if add and leaf.fits(number):
            gone = leaf.put(ref(number), number)
            model = around(own, model | {number}, 6)
            assert gone is None or gone.number not in model
        elif not add:
            leaf.remove(number)
            model.discard(number)
        assert {held.number for held in leaf} == model
        assert leaf.full == (len(model) == 6)
    for key in keys:
        best = leaf.closest(key)
        assert (own if best is None else best.number) == closest(key, {own, *model})
        spared = leaf.closest(key, frozenset([best])) if best else None
        if best:
            assert (own if spared is None else spared.number) == closest(key, {own, *model} - {best.number})


def test_sides_beside_and_ends() -> None:
    leaf = LeafSet(100, 4)
    assert (leaf.beside(), leaf.ends()) == ((), ())
    leaf.put(ref(110), 110)
    assert [held.number for held in leaf.beside()] == [110]
    for number in (90, 120, 80):
        leaf.put(ref(number), number)
    assert [held.number for held in leaf.beside()] == [90, 110]
    assert [held.number for held in leaf.ends()] == [120, 80]
    assert [held.number for held in leaf.side(True)] == [110, 120]
    assert [held.number for held in leaf.side(False)] == [90, 80]
    assert leaf.covers(115)
    assert leaf.covers(100)
    assert not leaf.covers(130)


def test_best_counts_those_already_asked() -> None:
    leaf = LeafSet(100, 4)
    for number in (110, 90, 80):
        leaf.put(ref(number), number)
    offered = {number: ref(number) for number in (120, 130, 70)}
    assert [found.number for found in leaf.best(offered, ())] == [120]
    assert leaf.best(offered, [115]) == []


def test_a_newer_boot_replaces_the_older() -> None:
    leaf = LeafSet(100, 4)
    leaf.put(ref(110), 110)
    assert not leaf.lacks(110, 1)
    assert leaf.lacks(110, 2)
    assert leaf.put(ref(110, 2), 110) is None
    assert [held.boot for held in leaf] == [2]


def test_routing_table_slots() -> None:
    own = 0x1234 << 112
    table = RoutingTable(own)
    near, far, other_far = 0x1235 << 112, 0x2000 << 112, 0x2111 << 112
    assert table.offer(ref(near), near)
    assert table.offer(ref(far), far)
    assert not table.offer(ref(other_far), other_far), "the slot is taken"
    assert not table.offer(ref(far), far), "the same boot"
    assert table.offer(ref(far, 2), far)
    assert not table.offer(ref(own), own)
    assert table.towards(0x2999 << 112) == ref(far, 2)
    assert table.towards(0x3999 << 112) is None
    assert table.get(other_far) is None
    assert table.depth() == 4
    assert table.rows(1, 3) == [ref(near)]
    assert table.remove(other_far) is None
    assert table.remove(near) == ref(near)
    assert len(table) == 1

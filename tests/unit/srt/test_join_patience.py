"""A join that nobody answers is asked again, later and later: where all are late, joins would keep them so."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from srt.automaton import WAKE, Instant, Received, Ref, Send
from srt.reducer_tree import EAGER_JOINS, JOIN_PATIENCE_MAX, ReducerTree
from srt.ring import RingState
from srt.tree_events import Subscribe
from srt.tree_messages import Kind, PongItem, TreeJoin, TreePong

HERE, CLOSER, OTHER = (Ref(bytes([number]) * 16, f"host{number}:1", 1) for number in (1, 2, 3))
KEY = b"k" * 16


class TwoWays:
    """A ring on which others are closer to every key."""

    ref, active, state = HERE, True, RingState.ACTIVE

    def next_hop(self, key: bytes, avoiding: Sequence[Ref] = ()) -> Ref | None:
        return next((ref for ref in (CLOSER, OTHER) if ref not in avoiding), None)

    def is_closest(self, key: bytes) -> bool:
        return False

    def suspect(self, ref: Ref, now: Instant) -> list[Any]:
        return []


def joiner() -> ReducerTree:
    ring: Any = TwoWays()
    return ReducerTree(ring, Kind.AGENT, random.Random(1))


def waits(trees: ReducerTree, event: Any, now_s: float, joins: int) -> tuple[list[float], float, Ref]:
    """How long each of so many joins waits for its answer, at most; when the last was sent, and to whom."""
    found = list[float]()
    while True:
        for effect in trees.handle(event, Instant(now_s, 0)):
            if isinstance(effect, Send) and isinstance(effect.message, TreeJoin):
                found.append(trees.vertices[KEY].due - now_s)
                if len(found) == joins:
                    return found, now_s, effect.to
        event, now_s = WAKE, trees.wake_at


def test_it_waits_longer_the_more_joins_were_not_answered_up_to_a_limit() -> None:
    trees = joiner()
    period_s = trees.options.lease_s / 3
    found, _, _ = waits(trees, Subscribe(KEY), 0.0, EAGER_JOINS + JOIN_PATIENCE_MAX + 4)
    doubled = [round(wait_s / period_s) for wait_s in found]
    assert doubled == [1] * (EAGER_JOINS + 1) + [2, 4, 8] + [8] * 3


def test_an_answer_makes_it_eager_again() -> None:
    trees = joiner()
    _, now_s, parent = waits(trees, Subscribe(KEY), 0.0, EAGER_JOINS + JOIN_PATIENCE_MAX + 1)
    trees.handle(Received(parent, TreePong([PongItem(KEY, [parent.id], True, 0, None)])), Instant(now_s + 0.1, 0))
    assert trees.parent(KEY) == parent
    silent_s = now_s + 0.1 + trees.options.lease_s  # the parent says nothing any more
    found, _, _ = waits(trees, WAKE, silent_s + trees.options.lease_s, 1)
    assert round(found[0] / (trees.options.lease_s / 3)) == 1

"""Counting of multicast acknowledgements at one vertex."""

from __future__ import annotations

from typing import Any

from srt.automaton import Ref
from srt.multicast import Casts
from srt.options import TreeOptions
from srt.tree_events import CastDelivered, CastEnded
from srt.tree_messages import Kind, TreeCast, TreeCastAck
from srt.vertex import Child, Vertex

KEY = bytes(16)
A, B, C, D = (Ref(bytes([index]) * 16, f"{name}:1", 1) for index, name in enumerate("abcd", 1))


class Node:
    def __init__(self, *children: Ref, wanted: bool = True) -> None:
        self.sent: list[tuple[Ref, Any]] = []
        self.told: list[Any] = []
        self.casts = Casts(TreeOptions(), lambda to, message: self.sent.append((to, message)), self.told.append)
        self.vertex = Vertex(KEY, wanted=wanted)
        for ref in children:
            self.vertex.children[ref.id] = Child(ref, Kind.AGENT, 1, 0.0)

    def take(self) -> list[tuple[Ref, Any]]:
        sent, self.sent = self.sent, []
        return sent


def cast(attempt: int, payload: bytes | None = b"p") -> TreeCast:
    return TreeCast(KEY, b"c", attempt, 1000, payload)


def ack(attempt: int, agents: int, complete: bool = True) -> TreeCastAck:
    return TreeCastAck(KEY, b"c", attempt, agents, complete)


def test_a_vertex_counts_in_an_attempt_under_one_parent_only() -> None:
    node = Node()
    node.casts.on_cast(node.vertex, A, cast(1), 0.0)
    assert node.take() == [(A, ack(1, 1))]
    node.casts.on_cast(node.vertex, B, cast(1), 0.1)
    assert node.take() == [(B, ack(1, 0, False))], "it was counted by the other parent"
    node.casts.on_cast(node.vertex, A, cast(1), 0.2)
    assert node.take() == [(A, ack(1, 1))], "a doubled message gets the same answer"
    node.casts.on_cast(node.vertex, B, cast(2), 1.0)
    assert node.take() == [(B, ack(2, 1))]
    assert node.told == [CastDelivered(KEY, b"c", b"p")]


def test_it_reports_when_all_have_and_again_when_more_comes() -> None:
    node = Node(C, D)
    node.casts.on_cast(node.vertex, A, cast(1), 0.0)
    assert [to for to, _ in node.take()] == [C, D]
    node.casts.on_ack(node.vertex, C, ack(1, 5), 0.1)
    assert node.take() == []
    node.casts.wake({KEY: node.vertex}, 1.0)
    assert node.take() == [(A, ack(1, 6, False))], "its time is over"
    node.casts.on_ack(node.vertex, D, ack(1, 2), 1.1)
    assert node.take() == [(A, ack(1, 8))]
    node.casts.on_ack(node.vertex, D, ack(1, 2), 1.2)
    assert node.take() == []


def test_answers_of_an_earlier_attempt_or_of_strangers_do_not_count() -> None:
    node = Node(C)
    node.casts.on_cast(node.vertex, A, cast(2), 0.0)
    node.take()
    node.casts.on_ack(node.vertex, C, ack(1, 5), 0.1)
    node.casts.on_ack(node.vertex, D, ack(2, 5), 0.1)
    assert node.take() == []


def test_a_lost_child_is_not_waited_for_and_not_called_complete() -> None:
    node = Node(C)
    node.casts.on_cast(node.vertex, A, cast(1), 0.0)
    node.take()
    del node.vertex.children[C.id]
    node.casts.child_gone(node.vertex, C.id)
    assert node.take() == [(A, ack(1, 1, False))]


def test_a_recount_without_the_payload_needs_to_know_it() -> None:
    node = Node()
    node.casts.on_cast(node.vertex, A, cast(2, None), 0.0)
    assert node.take() == [(A, ack(2, 0, False))]
    assert node.told == []


def test_the_root_repeats_for_those_who_missed_it_and_recounts_the_others() -> None:
    node = Node(C, D, wanted=False)
    node.casts.begin(node.vertex, b"c", b"p", 0.0)
    node.take()
    node.casts.on_ack(node.vertex, C, ack(1, 1), 0.1)
    node.casts.wake({KEY: node.vertex}, 1.0)
    assert [(to, message.attempt, message.payload) for to, message in node.take()] == [(C, 2, None), (D, 2, b"p")]
    node.casts.on_ack(node.vertex, C, ack(2, 1), 1.1)
    node.casts.on_ack(node.vertex, D, ack(2, 1), 1.1)
    assert node.told == [CastEnded(KEY, b"c", 2, 2)]


def test_the_root_gives_up_and_says_how_many() -> None:
    node = Node(C, D, wanted=False)
    node.casts.begin(node.vertex, b"c", b"p", 0.0)
    for second in range(1, 6):
        node.casts.on_ack(node.vertex, C, ack(second, 1), second - 0.5)
        node.casts.wake({KEY: node.vertex}, float(second))
    assert node.told == [CastEnded(KEY, b"c", 1, 2)]

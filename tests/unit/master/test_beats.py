"""Shared signs of life: groups with nothing to say keep their leaders, and lose them as if each spoke for itself."""

from __future__ import annotations

import random
from collections import Counter, deque
from typing import Any

import pytest

from master.beats import SharedBeats
from master.commit_group import CommitGroup
from master.group_events import Propose, Role, Want
from master.group_messages import Append, Beat, Beats, BeatsHeard
from master.options import GroupOptions
from srt.automaton import WAKE, Instant, Received, Ref, Send, Stored, Write

REFS = [Ref(bytes([65 + number]) * 16, "abc"[number], 1) for number in range(3)]
KEYS = [bytes([number]) * 16 for number in range(4)]
OPTIONS = GroupOptions()
SLOW_S = 0.4
"""An answer takes twice as long, which is longer than from one sign of life to the next."""


class Node:
    def __init__(self, ref: Ref, net: Net) -> None:
        self.ref, self.net = ref, net
        self.groups: dict[bytes, CommitGroup] = {}
        self.beats = SharedBeats(OPTIONS)
        self.late = False

    def add(self, group: CommitGroup) -> CommitGroup:
        group.shares_beats = True
        self.groups[group.log.key] = group
        self.give(group, WAKE)
        return group

    def give(self, group: CommitGroup, event: Any) -> None:
        effects = deque(group.handle(event, self.net.now))
        while effects:
            effect = effects.popleft()
            if isinstance(effect, Write):
                effects.extend(group.handle(Stored(effect.token), self.net.now))
            elif isinstance(effect, Send):
                self.net.send(self.ref, effect)
        self.beats.note(group.log.key, group, self.net.now.s)

    def receive(self, sender: Ref, message: Any) -> None:
        if isinstance(message, Beats):
            for effect in self.beats.heard(sender, message, self.groups.get, self.net.now, self.late):
                self.net.send(self.ref, effect)
        elif isinstance(message, BeatsHeard):
            for key in self.beats.answered(sender, message, self.net.now):
                self.give(self.groups[key], WAKE)
        else:
            group = self.groups.get(message.group)
            if group is None:
                group = self.add(CommitGroup.join(message.group, self.ref, OPTIONS, random.Random(2)))
            self.give(group, Received(sender, message))

    def wake(self) -> None:
        for group in list(self.groups.values()):
            if group.wake_at <= self.net.now.s:
                self.give(group, WAKE)
        if self.beats.wake_at <= self.net.now.s:
            for effect in self.beats.wake(self.net.now.s):
                self.net.send(self.ref, effect)


class Net:
    """Three nodes; messages arrive at once, in order."""

    def __init__(self) -> None:
        self.now = Instant(10.0, 0)
        self.nodes = {ref.id: Node(ref, self) for ref in REFS}
        self.sent: Counter[type] = Counter()
        self.cut: set[bytes] = set()
        self.slow: set[bytes] = set()
        """Nodes to and from which a message takes `SLOW_S`."""
        self.waiting: list[tuple[float, Ref, Send]] = []

    def send(self, sender: Ref, effect: Send) -> None:
        self.sent[type(effect.message)] += 1
        if not {sender.id, effect.to.id} & self.cut:
            is_slow = {sender.id, effect.to.id} & self.slow and not isinstance(effect.message, Beats | BeatsHeard)
            self.waiting.append((self.now.s + SLOW_S * bool(is_slow), sender, effect))

    def run(self, seconds: float) -> None:
        until_s = self.now.s + seconds
        while self.now.s < until_s:
            self.now = Instant(self.now.s + 0.01, 0)
            for node in self.nodes.values():
                node.wake()
            while due := [one for one in self.waiting if one[0] <= self.now.s]:
                self.waiting = [one for one in self.waiting if one[0] > self.now.s]
                for _, sender, effect in due:
                    self.nodes[effect.to.id].receive(sender, effect.message)


@pytest.fixture
def net() -> Net:
    """Groups of all three, led by the first, with nothing to do any more."""
    net = Net()
    first = net.nodes[REFS[0].id]
    for number, key in enumerate(KEYS):
        group = first.add(CommitGroup.create(key, REFS[0], OPTIONS, random.Random(number)))
        first.give(group, Want(REFS))
        first.give(group, Propose([b"entry"]))
    net.run(5.0)
    assert all(group.quiet for group in first.groups.values())
    return net


def roles(net: Net, node: int) -> set[Role]:
    return {group.role for group in net.nodes[REFS[node].id].groups.values()}


def test_quiet_groups_share_their_beats_and_keep_their_leaders(net: Net) -> None:
    net.sent.clear()
    net.run(20.0)
    assert net.sent.keys() == {Beats, BeatsHeard}
    assert net.sent[Beats] == pytest.approx(2 * 20.0 / OPTIONS.heartbeat_s, abs=4)  # to two nodes, for all groups
    assert [roles(net, node) for node in range(3)] == [{Role.LEADER}, {Role.FOLLOWER}, {Role.FOLLOWER}]


def test_who_has_something_to_say_says_it_at_once_and_is_quiet_again(net: Net) -> None:
    first = net.nodes[REFS[0].id]
    group = first.groups[KEYS[1]]
    net.sent.clear()
    first.give(group, Propose([b"more"]))
    assert not group.quiet
    net.run(0.02)
    assert net.sent[Append] == 2
    net.run(2.0)
    assert group.quiet
    assert {node.groups[KEYS[1]].commit for node in net.nodes.values()} == {group.log.last}


def test_without_beats_the_leader_steps_down_and_another_one_is_elected(net: Net) -> None:
    net.cut = {REFS[0].id}
    net.run(OPTIONS.lease_s + OPTIONS.doubt_s + 2 * OPTIONS.heartbeat_s)
    assert Role.LEADER not in roles(net, 0)
    net.run(3 * OPTIONS.lease_s)
    assert all(
        sorted(net.nodes[REFS[node].id].groups[key].role is Role.LEADER for node in (1, 2)) == [False, True]
        for key in KEYS
    )
    for node in net.nodes.values():
        for group in node.groups.values():
            node.give(group, Want(REFS))
    net.cut = set()
    net.run(5.0)
    assert roles(net, 0) == {Role.LEADER}  # it is the closest
    assert all(group.quiet for group in net.nodes[REFS[0].id].groups.values())


def test_of_two_of_three_the_leader_goes_on(net: Net) -> None:
    net.cut = {REFS[2].id}
    net.run(10.0)
    assert roles(net, 0) == {Role.LEADER}


def test_a_member_that_follows_no_more_does_not_count_for_the_lease(net: Net) -> None:
    second = net.nodes[REFS[1].id].groups[KEYS[0]]
    leader = net.nodes[REFS[0].id].groups[KEYS[0]]
    beat = Beat(KEYS[0], leader.log.meta.lineage, leader.epoch, leader.commit)
    assert second.beat_heard(REFS[0], beat, net.now.s)
    assert not second.beat_heard(REFS[2], beat, net.now.s)
    for other in (
        Beat(beat.group, beat.lineage, beat.epoch - 1, beat.commit),
        Beat(beat.group, beat.lineage, beat.epoch + 1, beat.commit),
        Beat(beat.group, beat.lineage, beat.epoch, beat.commit + 1),
    ):
        assert not second.beat_heard(REFS[0], other, net.now.s)
    second._follow(None)
    assert not second.beat_heard(REFS[0], beat, net.now.s)
    assert leader.leadership is not None
    before_s = leader.leadership.peers[REFS[1].id].answered_s
    leader.leadership.beat_answered(REFS[1].id, net.now.s, False, net.now.s)
    assert leader.leadership.peers[REFS[1].id].answered_s == before_s
    net.run(2.0)
    assert (second.role, second.leader, leader.quiet) == (Role.FOLLOWER, REFS[0], True)


def test_who_stands_in_vain_stands_less_often(net: Net) -> None:
    net.cut = {REFS[0].id, REFS[1].id, REFS[2].id}
    net.run(30.0)
    tries = [node.groups[KEYS[0]]._patience.tries for node in net.nodes.values()]
    assert all(6 <= count <= 11 for count in tries)  # each lease or two it would be 15 to 30


def epochs(net: Net) -> list[int]:
    return [max(node.groups[key].epoch for node in net.nodes.values()) for key in KEYS]


def test_a_leader_whose_lease_is_over_decides_nothing_until_it_gets_it_back(net: Net) -> None:
    groups, before = net.nodes[REFS[0].id].groups.values(), epochs(net)
    net.cut = {REFS[0].id}
    while any(group.rules(net.now.s) for group in groups):
        net.run(0.01)
    assert {group.role for group in groups} == {Role.LEADER}
    net.cut = set()
    net.run(2 * OPTIONS.heartbeat_s)
    kept = [group for group, was, now in zip(groups, before, epochs(net), strict=True) if was == now]
    assert kept
    assert all(group.rules(net.now.s) for group in kept)


def test_nodes_that_were_all_stopped_elect_few(net: Net) -> None:
    before = epochs(net)
    net.now = Instant(net.now.s + OPTIONS.lease_s + 0.8 * OPTIONS.doubt_s, 0)
    for ref in REFS[::-1]:  # members first, whose time to stand for election is over
        net.nodes[ref.id].wake()
    net.run(3.0)
    assert sum(was == now for was, now in zip(before, epochs(net), strict=True)) > len(KEYS) / 2


def test_who_answers_nothing_is_told_less_and_less_often(net: Net) -> None:
    net.cut = {REFS[2].id}
    net.nodes[REFS[0].id].give(net.nodes[REFS[0].id].groups[KEYS[0]], Propose([b"more"]))
    net.run(2.0)
    net.sent.clear()
    net.run(16.0)
    assert net.sent[Append] <= 9  # 64 without any patience


def test_a_member_whose_answers_take_longer_than_a_heartbeat_catches_up(net: Net) -> None:
    first, third = net.nodes[REFS[0].id], net.nodes[REFS[2].id]
    for node in net.nodes.values():
        node.groups[KEYS[0]].shares_beats = False  # then it is asked with each heartbeat, whatever it has answered
    first.give(first.groups[KEYS[0]], Want(REFS[:2]))
    net.run(3.0)
    assert third.groups[KEYS[0]].role is Role.OUTSIDER  # and what it had is gone
    net.slow = {REFS[2].id}
    first.give(first.groups[KEYS[0]], Want(REFS))
    net.run(10.0)
    assert third.groups[KEYS[0]].commit == first.groups[KEYS[0]].log.last


def test_the_lead_is_not_handed_to_a_node_that_is_late(net: Net) -> None:
    first, second = net.nodes[REFS[0].id], net.nodes[REFS[1].id]
    second.late = True
    net.run(1.0)
    for node in net.nodes.values():
        node.give(node.groups[KEYS[0]], Want([REFS[1], REFS[0], REFS[2]]))
    net.run(6.0)
    assert first.groups[KEYS[0]].role is Role.LEADER
    second.late = False
    net.run(6.0)
    assert second.groups[KEYS[0]].role is Role.LEADER

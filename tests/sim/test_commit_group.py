"""Commit groups under crashes, partitions, bad disks and changing members: one log, whatever happens."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from elfstream.simulated.disks import KeyValueDisk
from elfstream.simulated.network import Network
from elfstream.simulated.world import Process, World
from master.commit_group import CommitGroup
from master.group_events import (
    Committed,
    Compact,
    Dismissed,
    Following,
    Leading,
    Propose,
    Recover,
    Restored,
    Role,
    Want,
)
from master.group_messages import Lineage
from master.options import GroupOptions
from srt.automaton import Instant, Ref

KEY = bytes(range(16))
OPTIONS = GroupOptions.tiny()
NAMES = ("a", "b", "c", "d", "e")
ALL_KINDS = range(11)
"""Of faults: `Group.fault` says what they are."""
CUT_OFF_WHILE_MEMBERS_CHANGE = (3, 7)


class Member:
    """A commit group with the simplest master above it: the list of what was committed."""

    def __init__(self, group: CommitGroup) -> None:
        self.group = group
        self.lineage: Lineage | None = None
        self.values: list[bytes] = []
        self.at = 0
        self.leading: int | None = None

    @property
    def ref(self) -> Ref:
        return self.group.ref

    @property
    def wake_at(self) -> float:
        return self.group.wake_at

    def handle(self, event: Any, now: Instant) -> list[Any]:
        if isinstance(event, Compact):
            if not self.at or self.at <= self.group.log.meta.base_index or self.group.log.stored < self.at:
                return []
            event = Compact(self.at, msgspec.msgpack.encode(self.values))
        effects = self.group.handle(event, now)
        for effect in effects:
            if isinstance(effect, Restored):
                self.lineage, self.at, self.leading = effect.lineage, effect.at, None
                self.values = msgspec.msgpack.decode(effect.state or b"\x90", type=list[bytes])
            elif isinstance(effect, Committed):
                assert effect.at > self.at
                self.at = effect.at
                self.values.append(effect.data)
            elif isinstance(effect, Dismissed):
                self.at, self.values = 0, []
            elif isinstance(effect, Leading):
                self.leading = effect.epoch
            elif isinstance(effect, Following):
                self.leading = None
        return effects


class Group:
    """Five machines, some of which are members, and what must always hold of them."""

    def __init__(self, seed: int, kinds: Sequence[int] = ALL_KINDS) -> None:
        self.kinds = kinds
        self.world = World(seed, Network())
        self.rng = random.Random(seed ^ 0x5EED)
        self.logs: dict[Lineage, list[bytes]] = {}
        self.leaders: dict[tuple[Lineage, int], str] = {}
        self.count = 0
        self.wanted: list[str] = []
        self.world.checks.append(self.check)
        self.world.fsync_s = self.rng.choice([0.002, 0.1])
        for name in NAMES:
            self.world.spawn(name, self.start, groups=KeyValueDisk())

    def start(self, process: Process) -> Member:
        ref = Ref(process.address.encode() * 16, process.address, process.boot)
        disk = process.disks["groups"]
        assert isinstance(disk, KeyValueDisk)
        rng = random.Random(f"{self.world.seed} {process.address} {process.boot}")
        if process.address == "a" and process.boot == 1:
            return Member(CommitGroup.create(KEY, ref, OPTIONS, rng))
        return Member(CommitGroup.reopen(KEY, ref, disk.durable, OPTIONS, rng))

    def member(self, name: str) -> Member | None:
        core = self.world.processes[name].core
        assert core is None or isinstance(core, Member)
        return core

    def check(self, process: Process) -> None:
        member = self.member(process.address)
        assert member is not None
        assert member.lineage is not None
        known = self.logs.setdefault(member.lineage, [])
        common = min(len(known), len(member.values))
        assert known[:common] == member.values[:common], "two histories"
        known += member.values[common:]
        if member.leading is not None:
            who = self.leaders.setdefault((member.lineage, member.leading), process.address)
            assert who == process.address, "two leaders of one epoch"
            if member.group.rules(self.world.now):
                assert member.values == known, "a leader that lacks what was committed"

    # the fleet

    def want(self, names: Sequence[str]) -> None:
        """The ring says who is closest; everybody hears of it."""
        self.wanted = list(names)
        refs = [Ref(n.encode() * 16, n, self.world.processes[n].boot) for n in names]
        for process in self.world.processes.values():
            self.world.give(process, Want(refs))

    def propose(self) -> None:
        self.count += 1
        for process in list(self.world.processes.values()):
            self.world.give(process, Propose([b"%d" % self.count]))

    def every(self, seconds: float, until: float, action: Any) -> None:
        at = self.world.now
        while at < until:
            self.world.at(at, action)
            at += seconds

    def fault(self) -> None:
        world, rng = self.world, self.rng
        process = world.processes[rng.choice(NAMES)]
        kind = rng.choice(self.kinds)
        if kind <= 1 and process.core is not None:
            world.crash(process)
            world.after(rng.random() * 4, lambda: self.revive(process))
        elif kind == 2:
            world.pause(process, rng.random() * 4)
        elif kind == 3:
            side = set(rng.sample(NAMES, rng.randint(1, 2)))
            world.network.partition(side, set(NAMES) - side, both_ways=rng.random() < 0.6)
            world.after(rng.random() * 6, world.network.cut.clear)
        elif kind == 4:
            world.network.loss = world.network.duplication = world.network.straying = 0.1
            world.after(rng.random() * 3, world.network.heal)
        elif kind == 5:
            process.full = True
            world.after(rng.random() * 3, lambda: setattr(process, "full", False))
        elif kind == 6 and process.core is not None:
            disk = process.disks["groups"]
            assert isinstance(disk, KeyValueDisk)
            world.crash(process)
            disk.rot(rng, KEY + rng.choice([b"e", b"s", b"m"]))
            world.after(rng.random() * 2, lambda: self.revive(process))
        elif kind == 7:
            self.want(rng.sample(NAMES, 3))
        elif kind == 8:  # the power fails
            for struck in rng.sample(NAMES, 3):
                if world.processes[struck].core is not None:
                    world.crash(world.processes[struck])
                    world.after(rng.random(), lambda struck=struck: self.revive(world.processes[struck]))
        elif kind == 9:  # a process that is started again and again
            for number in range(20):
                world.after(number * 0.15, lambda: self.restart(world.processes[rng.choice(NAMES)]))
        else:
            world.give(process, Compact(0, b""))

    def restart(self, process: Process) -> None:
        if process.core is not None:
            self.world.crash(process)
            self.world.boot(process)

    def revive(self, process: Process) -> None:
        if process.core is None:
            self.world.boot(process)

    def heal(self) -> None:
        self.world.network.heal()
        for process in self.world.processes.values():
            process.full = False
            self.revive(process)
        self.recover_where_lost()

    def recover_where_lost(self) -> None:
        """The operator's part: when a majority of the members has lost entries nobody may lead until he says from where."""
        cores = {name: self.member(name) for name in NAMES}
        groups = [core.group for core in cores.values() if core and core.group.role is not Role.OUTSIDER]
        newest = max(group.log.meta.lineage for group in groups)
        groups = [group for group in groups if group.log.meta.lineage == newest]
        best = max(
            groups, key=lambda group: (not group.log.meta.damaged, group.log.last_epoch, group.log.last)
        )
        sound = {group.ref.id for group in groups if not group.log.meta.damaged}
        members = {member.id for member in best.log.members}
        if 2 * len(sound & members) <= len(members):
            self.world.give(self.world.processes[best.ref.address], Recover())


def leading(group: Group) -> list[str]:
    return [name for name in NAMES if (member := group.member(name)) and member.leading is not None]


def run(seed: int, faults: int, kinds: Sequence[int] = ALL_KINDS) -> Group:
    """Faults, then peace, in which everything must heal within 20 virtual seconds."""
    group = Group(seed, kinds)
    world = group.world
    try:
        world.run(1.0)
        group.want(["a", "b", "c"])
        world.run(5.0)
        end = 5.0 + faults * 1.5
        group.every(0.05, end + 20, group.propose)
        for number in range(faults):
            world.at(5.0 + number * 1.5 + group.rng.random(), group.fault)
        world.run(end)
        group.heal()
        final = group.rng.sample(NAMES, 3)
        group.want(final)
        group.every(1.0, end + 20, lambda: group.want(final))
        world.run(end + 20)
        check_healed(group, final)
    except BaseException as problem:
        problem.add_note(f"seed {seed}, {faults} faults; the last steps:\n" + "\n".join(world.story))
        raise
    return group


def check_healed(group: Group, wanted: Sequence[str]) -> None:
    members = {name: group.member(name) for name in wanted}
    lineages = {member.lineage for member in members.values() if member}
    assert lineages == {max(group.logs)}, "members of other lineages"
    assert leading(group) == [wanted[0]], "the closest leads"
    last = [b"%d" % number for number in range(group.count - 40, group.count - 20)]
    for name, member in members.items():
        assert member is not None
        assert {m.address for m in member.group.log.members} == set(wanted)
        assert all(value in member.values for value in last), f"{name} does not keep up"
        assert member.values.count(last[0]) == 1


@pytest.mark.parametrize("seed", range(25))
def test_one_log_whatever_happens(seed: int) -> None:
    run(seed, 10)


def test_a_new_group_grows_to_those_wanted() -> None:
    group = run(0, 0)
    values = group.logs.pop(max(group.logs))
    assert set(group.logs) == {Lineage(0, bytes(8))}
    assert sorted(values, key=int) == values
    assert len(values) > group.count * 0.9


def test_a_group_of_three_waits_for_its_majority_and_can_be_recovered() -> None:
    group = Group(1)
    world = group.world
    world.run(1.0)
    group.want(["a", "b", "c"])
    world.run(5.0)
    group.propose()
    world.run(6.0)
    for name in "bc":
        world.crash(world.processes[name])
    world.run(30.0)
    assert leading(group) == []
    world.give(world.processes["a"], Recover())
    world.run(31.0)
    assert leading(group) == ["a"]
    member = group.member("a")
    assert member is not None
    assert member.lineage is not None
    assert (member.lineage.history, member.values) == (2, [b"1"])
    assert member.group.role is Role.LEADER

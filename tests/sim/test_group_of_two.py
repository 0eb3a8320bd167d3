"""A group of two whose members do not hear each other: who goes on alone, what is lost when they meet, and what stays."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from master.alone import Alone
from master.committed import ERA_EDITION_BITS
from master.group_events import Propose, Want
from master.group_messages import Lineage, steps_between
from srt.automaton import Ref
from tests.sim.fleet_of_nodes import NodeFleet
from tests.sim.node_faults import Shape
from tests.sim.test_commit_group import NAMES, OPTIONS, Group, Member, leading

FOUNDED = 1
"""The number of the lineage that a founder begins."""
APART_S = 10.0


class Pair(Group):
    """`a` leads and `b` follows; both have an entry."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.world.run(1.0)
        self.want("ab")
        self.world.run(5.0)
        self.propose()
        self.world.run(6.0)
        assert leading(self) == ["a"]

    def up(self, name: str) -> Member:
        member = self.member(name)
        assert member is not None
        return member

    def cut_off(self, *names: str) -> None:
        """Nobody else hears these for a while. All of them propose what is their own."""
        self.world.network.partition(set(names), set(NAMES) - set(names))
        self.every(0.5, self.world.now + APART_S, self.propose_own)
        self.world.run(self.world.now + APART_S)

    def want_at(self, name: str, wanted: str) -> None:
        """One node hears who is closest."""
        refs = [Ref(n.encode() * 16, n, self.world.processes[n].boot) for n in wanted]
        self.world.give(self.world.processes[name], Want(refs))

    def propose_own(self) -> None:
        self.count += 1
        for name, process in self.world.processes.items():
            self.world.give(process, Propose([b"%s%d" % (name.encode(), self.count)]))

    def meet(self, wanted: Sequence[str]) -> None:
        """Long enough to agree; `wanted` is told now and then, as by the ring."""
        self.world.network.heal()
        self.every(1.0, self.world.now + APART_S, lambda: self.want(wanted))
        self.world.run(self.world.now + 2 * APART_S)
        assert leading(self) == [wanted[0]]
        assert len({tuple(self.up(name).values) for name in wanted}) == 1

    def lineage(self, name: str) -> Lineage:
        lineage = self.up(name).lineage
        assert lineage is not None
        return lineage


@pytest.mark.parametrize("seed", range(8))
def test_two_apart_go_on_alone_and_one_gives_up_what_it_did_since(seed: int) -> None:
    """What was committed before is in both; what stays is of who led."""
    group = Pair(seed)
    if seed % 2:  # the ring says that the other is gone, before the lease is over
        group.world.after(0.8, lambda: group.want_at("a", "a"))
    group.cut_off("b")
    assert leading(group) == ["a", "b"]
    assert [group.lineage(name).history for name in "ab"] == [FOUNDED + 2, FOUNDED + 1]
    led, followed = (list(group.up(name).values) for name in "ab")
    assert led[0] == followed[0] == b"1"
    assert led[-1] != followed[-1]
    group.meet("ab")
    assert group.up("b").values[: len(led)] == led


def test_nothing_is_committed_until_the_other_is_given_up() -> None:
    group = Pair(1)
    group.world.network.partition({"b"}, set(NAMES) - {"b"})
    group.every(0.1, 10.0, group.propose_own)
    group.world.run(6.0 + OPTIONS.recover_s - 0.1)
    assert [group.up(name).values for name in "ab"] == [[b"1"], [b"1"]]


@pytest.mark.parametrize("seed", range(16))
def test_a_third_is_taken_in_and_who_is_cut_off_meanwhile_undoes_nothing(seed: int) -> None:
    """Only who leads hears whom the ring wants. The other may start again while it is cut off: what it must not forget is in
    its log."""
    group = Pair(seed)
    world = group.world
    group.every(0.05, world.now + APART_S, lambda: group.want_at("a", "abc"))
    world.run(world.now + group.rng.random() * 0.4)
    if seed % 2:
        world.after(0.2, lambda: group.restart(world.processes["b"]))
    group.cut_off("b")
    assert "a" in leading(group)
    assert {one.address for one in group.up("a").group.log.members} >= set("ac")
    done = list(group.up("a").values)
    group.meet("abc")
    assert group.up("b").values[: len(done)] == done


@pytest.mark.parametrize("wanted", ["ab", "a"])
@pytest.mark.parametrize("seed", range(4))
def test_who_is_cut_off_from_two_others_does_not_go_on_alone_with_a_list_of_two(seed: int, wanted: str) -> None:
    """Its ring says that others are gone before its lease is over; nobody else ever heard of that list."""
    group = Pair(seed)
    group.want("abc")
    group.world.run(12.0)
    assert leading(group) == ["a"]
    group.every(0.05, group.world.now + 0.8, lambda: group.want_at("a", wanted))
    group.cut_off("a")
    (leader,) = leading(group)
    done = list(group.up(leader).values)
    assert len(done) > 5
    group.meet("bca")
    assert group.up("a").values[: len(done)] == done
    assert group.lineage("a").history == FOUNDED


@pytest.mark.parametrize("seed", range(8))
def test_who_led_goes_on_though_the_second_is_gone_before_there_is_a_third(seed: int) -> None:
    """Also if it was started again meanwhile: its vote is on the disk."""
    group = Pair(seed)
    process = group.world.processes["b"]
    group.world.crash(process)
    group.world.run(10.0)  # it leads no more
    assert leading(group) == []
    if seed % 2:
        group.restart(group.world.processes["a"])
    group.every(1.0, 25.0, lambda: group.want("acd"))
    group.world.run(25.0)
    assert leading(group) == ["a"]
    assert {one.address for one in group.up("a").group.log.members} == set("acd")


def test_who_followed_goes_on_alone_again_when_a_third_has_come_and_gone() -> None:
    group = Pair(1)
    group.want("abc")
    group.world.run(7.0)
    group.want("ab")
    group.world.run(12.0)
    assert {one.address for one in group.up("b").group.log.members} == set("ab")
    group.world.crash(group.world.processes["a"])
    group.world.run(12.0 + OPTIONS.recover_s + 1.0)
    assert leading(group) == ["b"]


LED_BY_AGENT, LED_BY_WORKER = "hot", "n4"
"""Jobs whose key is closest to either of the two nodes."""


def two_nodes_apart(seed: int, exact: int) -> NodeFleet:
    """Until the jobs are drained, of which so many have to be exact."""
    fleet = NodeFleet(seed, Shape(agents=1, workers=1, write_s=60.0, jobs=2), (LED_BY_AGENT, LED_BY_WORKER))
    network = fleet.world.network
    assert [fleet.leader_of(key) for key in fleet.keys] == ["a0", "w0"]
    fleet.world.after(4.0, lambda: network.partition({"w0"}, {"a0"}))
    fleet.world.after(44.0, network.cut.clear)
    fleet.exact = fleet.keys[:exact]
    fleet.explained(fleet.run)
    return fleet


@pytest.mark.parametrize("seed", range(3))
def test_a_fleet_of_two_nodes_apart(seed: int) -> None:
    """For 40 s, and logs are deleted as soon as they may be. The job that the agent's node led is exact. That of the other
    node knows nothing of these 40 s: the agent has let go lines and cuts, and tells that some are lost. All is final."""
    fleet = two_nodes_apart(seed, exact=1)
    kept, given_up = fleet.keys
    assert [len(fleet.watches[key].lineages()) for key in fleet.keys] == [3, 3]
    for shown in (shown for key in fleet.keys for shown in fleet.watches[key].shown.values()):
        alone = [edition for _, edition in shown if edition >> ERA_EDITION_BITS]
        assert len(alone) == len(set(alone)), "an edition of one side and one of the other have the same number"
    counts = {key: [one.counters for one in fleet.state_of(key).streams.values()] for key in fleet.keys}
    read = {key: sum(one.lines for one in counts[key]) for key in fleet.keys}
    lost = {key: sum(one.lost_bytes for one in counts[key]) for key in fleet.keys}
    assert lost[kept] == 0 < lost[given_up]
    assert read[kept] == len(fleet.all_lines()) > read[given_up] + lost[given_up]


@pytest.mark.parametrize("seed", range(3))
def test_agents_see_that_a_log_is_another_one_though_it_counts_alike(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else they take its `next` for an old answer, for ever."""
    monkeypatch.setattr(Alone, "steps", lambda *_: 1)
    fleet = two_nodes_apart(seed, exact=0)
    assert all(len(fleet.watches[key].lineages()) > 1 for key in fleet.keys)


def test_numbers_of_lineages_are_in_their_order_and_fit_63_bits() -> None:
    seconds = 1_764_000_000
    lineages = [Lineage(seconds + n, bytes([top, *range(7)])) for n in range(3) for top in (0, 127, 255)]
    numbers = [one.number for one in lineages]
    assert numbers == sorted(set(numbers))
    assert Lineage((1 << 63) - 1, b"\xff" * 8).number < 1 << 63
    assert [steps_between(numbers[0], one) for one in numbers] == [1, 1, 1, 1, 1, 1, 2, 2, 2]

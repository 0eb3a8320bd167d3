"""What a member of a commit group must not do, whatever it has forgotten."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from master.commit_group import CommitGroup
from master.errors import GroupStoreError
from master.group_events import Role
from master.group_log import GroupLog, load
from master.group_messages import Append, Appended, Elect, Entry, EntryKind, Lineage, SnapshotPart, Vote
from master.options import GroupOptions, OptionsError
from srt.automaton import (
    WAKE,
    Delete,
    Instant,
    PeerLost,
    Put,
    Received,
    Ref,
    Send,
    Stored,
    StoreFailed,
    Write,
)

KEY = bytes(16)
ME, ONE, OTHER = (Ref(name * 16, name.decode(), 1) for name in (b"m", b"o", b"p"))
LINEAGE = Lineage(1, b"lineage!")


class Store:
    """What was written and reported as stored."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}

    def apply(self, changes: Any) -> None:
        for change in changes:
            if isinstance(change, Put):
                self.values[change.key] = change.value
            elif isinstance(change, Delete):
                for key in [key for key in self.values if change.first <= key < change.last]:
                    del self.values[key]


def reopened(store: Store) -> CommitGroup:
    group = CommitGroup.reopen(KEY, ME, store.values, GroupOptions(), random.Random(1))
    deliver(group, store, None)
    return group


def deliver(
    group: CommitGroup, store: Store, message: Any, sender: Ref = ONE, at: float = 100.0
) -> list[Any]:
    """The messages that the member sends once its disk has answered."""
    now = Instant(at, 0)
    effects = group.handle(Received(sender, message), now) if message else group.handle(Stored(0), now)
    sent = []
    while effects:
        effect = effects.pop(0)
        if isinstance(effect, Write):
            store.apply(effect.changes)
            effects += group.handle(Stored(effect.token), now)
        elif isinstance(effect, Send):
            sent.append(effect.message)
    return sent


@pytest.fixture
def store() -> Store:
    """Of a member of three with three entries of epoch 1."""
    store = Store()
    log = GroupLog(KEY, LINEAGE)
    store.apply(log.install(LINEAGE, 0, 0, [ME, ONE, OTHER], b""))
    store.apply(log.set_meta(promised=1))
    store.apply(log.append([Entry(1, EntryKind.DATA, b"%d" % number) for number in range(3)]))
    return store


def elect(epoch: int, trial: bool = False, last: int = 3) -> Elect:
    return Elect(KEY, LINEAGE, epoch, trial, False, 1, last)


def test_one_vote_an_epoch_also_after_a_restart(store: Store) -> None:
    assert deliver(reopened(store), store, elect(2))[-1] == Vote(KEY, LINEAGE, 2, False, True)
    group = reopened(store)
    assert deliver(group, store, elect(2), OTHER) == []
    assert deliver(group, store, elect(2), ONE)[-1].granted
    assert not any(vote.granted for vote in deliver(group, store, elect(1), OTHER))


def test_a_shorter_log_gets_no_vote(store: Store) -> None:
    assert not deliver(reopened(store), store, elect(2, last=2))[-1].granted


def test_a_trial_promises_nothing(store: Store) -> None:
    group = reopened(store)
    assert deliver(group, store, elect(5, trial=True))[-1].granted
    assert group.epoch == 1


def append(epoch: int, previous: int, entries: list[Entry], commit: int) -> Append:
    return Append(KEY, LINEAGE, epoch, previous, 1 if previous else 0, entries, commit, 7.0)


def rot(store: Store, index: int) -> None:
    key = KEY + b"e" + index.to_bytes(8, "big")
    store.values[key] = b"\xff" + store.values[key][1:]


def test_who_lost_entries_votes_again_only_when_it_has_them(store: Store) -> None:
    rot(store, 2)
    group = reopened(store)
    assert group.log.last == 1
    assert not deliver(group, store, elect(2))[-1].granted
    group = reopened(store)  # it knows that it was damaged, though nothing rotten is left
    assert group.log.meta.damaged
    entries = [Entry(1, EntryKind.DATA, b"1"), Entry(1, EntryKind.DATA, b"2")]
    stale = deliver(group, store, append(2, 1, entries[:1], 2), at=101.0)
    assert stale[-1] == Appended(KEY, LINEAGE, 2, True, 2, 7.0, votes=False)
    assert group.log.meta.damaged
    deliver(group, store, append(2, 2, entries[1:], 3), at=102.0)
    assert not group.log.meta.damaged
    assert deliver(group, store, elect(3), at=110.0)[-1].granted


@pytest.mark.parametrize("others", [[ONE], [ONE, OTHER]])
def test_a_founder_that_lost_the_names_of_the_others_does_not_go_on_alone(others: list[Ref]) -> None:
    """It would begin another lineage, and the others would give up what they have."""
    store, log = Store(), GroupLog(KEY, LINEAGE)
    store.apply(log.install(LINEAGE, 0, 0, [ME], b""))
    store.apply(log.set_meta(promised=1))
    lists = [[ME, *others[: number + 1]] for number in range(len(others))]
    store.apply(log.append([Entry(1, EntryKind.MEMBERS, msgspec.msgpack.encode(members)) for members in lists]))
    rot(store, 1)
    group = reopened(store)
    assert group.log.meta.damaged
    assert group.wake_at >= (105.0 if len(others) == 1 else 1e9)
    again = reopened(store)  # nothing rotten is left on the disk
    again.handle(WAKE, Instant(104.0, 0))
    assert again.log.meta.lineage == LINEAGE


def test_a_founder_that_is_alone_goes_on_with_what_is_left() -> None:
    store, log = Store(), GroupLog(KEY, LINEAGE)
    store.apply(log.install(LINEAGE, 0, 0, [ME], b""))
    store.apply(log.append([Entry(1, EntryKind.DATA, b"%d" % number) for number in range(3)]))
    rot(store, 2)
    group = reopened(store)
    group.handle(WAKE, Instant(100.1, 0))
    assert (group.log.meta.lineage.history, group.log.entry(1).data) == (2, b"0")


def test_a_later_leader_that_committed_something_has_all_there_was(store: Store) -> None:
    rot(store, 2)
    group = reopened(store)
    deliver(group, store, append(2, 1, [Entry(2, EntryKind.LEAD)], 2))
    assert not group.log.meta.damaged


def test_one_rotten_copy_of_the_meta_is_mended_and_two_are_told(store: Store) -> None:
    store.values[KEY + b"m"] = b"rotten"
    loaded = load(KEY, store.values)
    assert loaded is not None
    log, repairs = loaded
    assert (log.meta.promised, log.meta.damaged) == (1, False)
    assert repairs
    store.values[KEY + b"n"] = b"rotten"
    with pytest.raises(GroupStoreError, match="both copies of the meta"):
        load(KEY, store.values)


def test_a_rotten_state_leaves_nothing_and_promises_stay(store: Store) -> None:
    loaded = load(KEY, store.values)
    assert loaded is not None
    store.apply(loaded[0].compact(2, b"state"))
    sound = load(KEY, store.values)
    assert sound is not None
    assert (sound[0].state, sound[0].first, sound[0].last, sound[1]) == (b"state", 3, 3, [])
    store.values[KEY + b"s\0\0\0\0"] = b"rotten"
    loaded = load(KEY, store.values)
    assert loaded is not None
    log = loaded[0]
    assert (log.last, log.meta.promised, log.meta.lost_index) == (0, 1, 3)


def test_a_snapshot_that_a_full_disk_refused_is_stored_when_there_is_room(store: Store) -> None:
    """The leader sends nothing that is not there in memory, so the member itself has to remember to write."""
    group = reopened(store)
    part = SnapshotPart(KEY, LINEAGE, 1, 9, 1, [ME, ONE, OTHER], 0, 1, b"state", 100.0)
    refused = group.handle(Received(ONE, part), Instant(100.0, 0))
    for write in [effect for effect in refused if isinstance(effect, Write)]:
        group.handle(StoreFailed(write.token, "no space left on device"), Instant(100.0, 0))
    assert group.log.stored < 9
    soon = deliver(group, store, part, at=100.5)
    assert [answer.index for answer in soon if isinstance(answer, Appended)] == [group.log.stored]
    deliver(group, store, part, at=103.0)
    assert deliver(group, store, part, at=103.1)[-1].index == group.log.stored == 9
    assert reopened(store).log.meta.base_index == 9


def test_options_tell_all_that_is_wrong() -> None:
    with pytest.raises(OptionsError, match=r"heartbeat_s is 1\.0.*recover_s is 0\.0"):
        GroupOptions(heartbeat_s=1.0, recover_s=0.0)


def test_who_was_removed_remembers_that_it_once_agreed(store: Store) -> None:
    """Otherwise it would take part again, by an old list of members, in what it has forgotten."""
    others = [Entry(1, EntryKind.MEMBERS, msgspec.msgpack.encode([ONE, OTHER]))]
    group = reopened(store)
    deliver(group, store, append(1, 3, others, 3))
    deliver(group, store, append(1, 4, [], 4))
    for member in (group, reopened(store)):
        assert (member.role, member.log.last, member.log.meta.lost_index) == (Role.OUTSIDER, 0, 4)
    old = [Entry(1, EntryKind.MEMBERS, msgspec.msgpack.encode([ME, ONE, OTHER]))]
    deliver(group, store, append(1, 0, old, 0))
    assert not any(vote.granted for vote in deliver(group, store, elect(2), at=200.0))


def test_who_is_no_member_forgets_who_led() -> None:
    """A learner that the leader does not need any more is not told when that one comes back with another boot."""
    group = CommitGroup.join(KEY, ME, GroupOptions(), random.Random(1))
    beat = Append(KEY, LINEAGE, 1, 0, 0, [], 0, 100.0)
    deliver(group, Store(), beat, at=100.0)
    assert group.known_leader(100.9) == ONE
    assert group.known_leader(101.1) is None


def test_a_member_whose_disk_refused_what_is_committed_takes_it_from_a_snapshot(store: Store) -> None:
    group = reopened(store)
    entry = Entry(2, EntryKind.DATA, b"more")
    now = Instant(100.0, 0)
    effects = group.handle(Received(ONE, Append(KEY, LINEAGE, 2, 3, 1, [entry], 4, 0.0)), now)
    (token,) = [effect.token for effect in effects if isinstance(effect, Write)]
    group.handle(StoreFailed(token, "no space"), now)
    assert (group.commit, group.log.last) == (4, 3)
    part = SnapshotPart(KEY, LINEAGE, 2, 4, 2, [ME, ONE, OTHER], 0, 1, b"state", 0.0)
    answers = deliver(group, store, part, at=110.0)
    assert [(one.matched, one.index) for one in answers] == [(True, 4)]
    assert (group.log.last, group.log.stored) == (4, 4)


def test_who_loses_the_link_to_the_leader_does_not_wait_for_its_lease_to_end(store: Store) -> None:
    group = reopened(store)
    beat = Append(KEY, LINEAGE, 2, 3, 1, [], 0, 100.0)
    deliver(group, store, beat)
    assert deliver(group, store, elect(3, trial=True), OTHER) == [], "it hears its leader"
    assert group.wake_at >= 101.0
    group.handle(PeerLost(OTHER), Instant(100.1, 0))
    assert group.wake_at >= 101.0
    group.handle(PeerLost(ONE), Instant(100.1, 0))
    assert group.wake_at == pytest.approx(100.15), "its turn is the first of the two that are left"
    assert deliver(group, store, elect(3, trial=True), OTHER, at=100.11)[-1].granted
    assert group.handle(WAKE, Instant(100.2, 0))[-1].message.trial


def test_who_was_removed_does_not_stand_when_the_leader_goes(store: Store) -> None:
    """It follows until it hears that its removal is committed."""
    group = reopened(store)
    removal = Entry(2, EntryKind.MEMBERS, msgspec.msgpack.encode([ONE, OTHER]))
    deliver(group, store, Append(KEY, LINEAGE, 2, 3, 1, [removal], 3, 100.0))
    assert group.role is Role.FOLLOWER
    group.handle(PeerLost(ONE), Instant(100.1, 0))
    assert group.wake_at >= 101.0

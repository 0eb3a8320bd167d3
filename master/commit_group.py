"""A commit group: the members that keep a job's log, and their elections. A pure automaton.

It is Raft (Ongaro, Ousterhout 2014) with trial elections, leader leases and handing over. Members change one at a time, so
the majorities before and after overlap; forced recovery begins another lineage. docs/FLEET.md, docs/STATE.md.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from cbt.errors import InvariantError
from master.alone import Alone
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
)  # fmt: skip
from master.group_leader import GREETING_S, Leadership
from master.group_log import GroupLog, load
from master.group_messages import (
    Append,
    Appended,
    Beat,
    Elect,
    Entry,
    EntryKind,
    Exists,
    Handover,
    Lineage,
    PartTaken,
    SnapshotPart,
    Vote,
)  # fmt: skip
from master.options import GroupOptions
from master.patience import Patience
from master.snapshot_parts import SnapshotParts
from srt.automaton import (
    ANY_BOOT,
    NEVER,
    Delete,
    Instant,
    PeerLost,
    Put,
    Received,
    Ref,
    Send,
    Stored,
    StoreFailed,
    Wake,
    Write,
)  # fmt: skip

STORE = "groups"
_encode = msgspec.msgpack.Encoder().encode


class CommitGroup:
    """One member."""

    def __init__(
        self, ref: Ref, log: GroupLog, options: GroupOptions, rng: random.Random,
        writes: Sequence[Put | Delete] = (),
    ) -> None:  # fmt: skip
        """`writes` are carried out before anything else. Use `create`, `join` or `reopen`."""
        self.ref = ref
        self.log = log
        self.options = options
        self.role = Role.FOLLOWER if self._is_member(ref.id) else Role.OUTSIDER
        self.leader: Ref | None = None
        self.commit = log.meta.base_index
        self.leadership: Leadership | None = None
        self.wanted: list[Ref] = []
        self.shares_beats = False
        """Whether the node gives its signs of life while it is quiet."""
        self._rng = rng
        self._first_writes = list(writes)
        self._started = False
        self._refs: dict[bytes, Ref] = {}
        self._votes: set[bytes] = set()
        self._heard_s = -float("inf")
        self._alone = Alone(options.recover_s)
        self._patience = Patience(options, rng)
        self._no_disk_until = -float("inf")
        self._rewrite = False
        """A write failed: the next one writes everything."""
        self._token = 0
        self._waiting: dict[int, tuple[int, int | None, Callable[[], None] | None]] = {}
        self._incoming = SnapshotParts(options.state_bytes_max)
        self._now = Instant(0.0, 0)
        self._out: list[Any] = []

    @classmethod
    def create(
        cls, key: bytes, ref: Ref, options: GroupOptions, rng: random.Random, history: int = 1
    ) -> CommitGroup:
        """A new group with one member, which leads it as soon as that is durable. Of two groups of a key the one with the
        greater history wins."""
        log = GroupLog(key, Lineage(history, rng.randbytes(8)))
        return cls(ref, log, options, rng, log.install(log.meta.lineage, 0, 0, [ref], b""))

    @classmethod
    def join(cls, key: bytes, ref: Ref, options: GroupOptions, rng: random.Random) -> CommitGroup:
        """A node that knows nothing of the group and waits for its leader."""
        return cls(ref, GroupLog(key, Lineage(0, bytes(8))), options, rng)

    @classmethod
    def reopen(
        cls, key: bytes, ref: Ref, stored: Mapping[bytes, bytes], options: GroupOptions, rng: random.Random
    ) -> CommitGroup:
        """What a store holds. Raises GroupStoreError when that is not enough to take part."""
        loaded = load(key, stored)
        if loaded is None:
            return cls.join(key, ref, options, rng)
        log, repairs = loaded
        return cls(ref, log, options, rng, repairs)

    # the automaton

    @property
    def epoch(self) -> int:
        return self.log.meta.promised

    @property
    def wake_at(self) -> float:
        if not self._started:
            return 0.0
        if self.leadership is not None:
            return min(self.leadership.beat_at, self.leadership.lease_at + self.options.doubt_s)
        if self.role is Role.OUTSIDER:
            return NEVER
        if self.log.meta.damaged:
            return self._recover_at
        return max(min(self._patience.at_s, self._recover_at), self._no_disk_until)

    def rules(self, now_s: float) -> bool:
        """It leads, and a majority has heard that so lately that nobody else does. A leader whose lease is over decides
        nothing, and may get it back as long as nobody was elected: electing another one is much work for all."""
        return self.leadership is not None and now_s < self.leadership.lease_until(now_s)

    def known_leader(self, now_s: float) -> Ref | None:
        """Who leads, as far as is known here. Who is no member hears of another leader only by chance, and of a new boot of
        the old one as little, so what it knows ends with the lease."""
        if self.role is Role.OUTSIDER and now_s >= self._heard_s + self.options.lease_s:
            return None
        return self.leader

    def handle(self, event: Any, now: Instant) -> list[Any]:
        self._now, self._out = now, []
        if not self._started:
            self._start()
        if isinstance(event, Received):
            self._received(event.sender, event.message)
        elif isinstance(event, Stored):
            self._stored(event.token)
        elif isinstance(event, StoreFailed):
            self._store_failed(event.token)
        elif isinstance(event, Propose):
            if self.leadership is not None:
                entries = [Entry(self.epoch, EntryKind.DATA, data) for data in event.data]
                self.leadership.propose(entries, now.s)
        elif isinstance(event, Want):
            self.wanted = list(event.members)
            for ref in event.members:
                self._met(ref)
        elif isinstance(event, Compact):
            self.write(self.log.compact(event.at, event.state))
        elif isinstance(event, Recover):
            self._recover()
        elif isinstance(event, PeerLost):
            self._lost(event.peer)
        elif not isinstance(event, Wake):
            raise TypeError(f"{event!r} is no event of a commit group")
        self._time()
        return self._out

    def _start(self) -> None:
        self._started = True
        self._out.append(Restored(self.log.meta.lineage, self.log.meta.base_index, self.log.state))
        if self._first_writes:
            self.write(self._first_writes)
            self._first_writes = []
        self._alone.since(self._now.s)
        self._patience.rest(self._now.s)
        if len(self.log.members) == 1 and self.role is Role.FOLLOWER:
            self._patience.at_s = self._now.s
        for member in self.log.members:
            if member.id != self.ref.id:
                self.send(member.id, self._answer(False, self.log.last, GREETING_S))

    def _time(self) -> None:
        now_s = self._now.s
        if self.leadership is not None:
            self.leadership.wanted = self.wanted
            self.leadership.lease_at = self.leadership.lease_until(now_s)
            if self.leadership.lease_at + self.options.doubt_s <= now_s:
                self._follow(None)
            else:
                if self.leadership.beat_at <= now_s:
                    self.leadership.beat(now_s)
                self._commit_to(self.leadership.committable())
            if self.leadership is not None and self.shares_beats:
                self.leadership.rest(now_s)
        elif self.wake_at <= now_s:
            if self._recover_at <= now_s:
                self._recover(self._alone.steps(self.ref, self.log))
            elif not self._patience.excuses(self.wake_at, now_s):
                self._try()

    # shared beats (master/beats.py)

    @property
    def quiet(self) -> bool:
        """It leads, and has nothing to say but that it lives."""
        return self.leadership is not None and self.leadership.beat_at == NEVER

    def others(self) -> list[Ref]:
        """The members beside it, whatever their boots."""
        known = [self._refs.get(member.id, member) for member in self.log.members if member.id != self.ref.id]
        return [Ref(ref.id, ref.address, ANY_BOOT) for ref in known]

    def beat_heard(self, sender: Ref, beat: Beat, now_s: float) -> bool:
        """Whether it follows that leader and knows all that is committed; that is as good as an answer to an Append."""
        meta = self.log.meta
        if (
            self.role is not Role.FOLLOWER
            or self.leader != sender
            or (meta.lineage, self.epoch) != (beat.lineage, beat.epoch)
            or self.commit < beat.commit
            or meta.damaged
            or self._rewrite
        ):
            return False
        self._hear(now_s)
        self._patience.lives(now_s)
        return True

    def is_due(self, now_s: float) -> bool:
        """Whether its time has come, beats that were answered since included."""
        if self.leadership is not None:
            self.leadership.lease_at = self.leadership.lease_until(now_s)
        return self.wake_at <= now_s

    # messages

    def send(self, to: bytes, message: object) -> None:
        """What a member says is durable, so it holds for every boot of it."""
        known = self._refs.get(to)
        for ref in (*self.log.members, *self.wanted):
            if ref.id == to and (known is None or ref.boot > known.boot):
                known = ref
        if known is not None:
            self._out.append(Send(Ref(known.id, known.address, ANY_BOOT), message))

    def _met(self, ref: Ref) -> bool:
        """False for an older boot: what it said may have rotted since."""
        known = self._refs.setdefault(ref.id, ref)
        if known.boot < ref.boot:
            self._refs[ref.id] = ref
        return known.boot <= ref.boot

    def _received(self, sender: Ref, message: Any) -> None:
        if message.group != self.log.key or not self._met(sender):
            return
        lineage = self.log.meta.lineage
        if message.lineage < lineage:
            if not isinstance(message, Exists):
                self.send(sender.id, Exists(self.log.key, lineage, self.epoch))
            return
        if message.lineage > lineage:
            if not isinstance(message, Append | SnapshotPart | Exists):
                return
            self._give_in(message.lineage)
        if isinstance(message, Elect):
            self._asked(sender, message)
        elif isinstance(message, Vote):
            self._voted(sender, message)
        elif isinstance(message, Append | SnapshotPart):
            self._led(sender, message)
        elif isinstance(message, Appended | PartTaken):
            self._answered(sender, message)
        elif isinstance(message, Handover) and sender == self.leader and message.epoch == self.epoch:
            self._stand(handed=True)

    def _give_in(self, lineage: Lineage) -> None:
        """Another lineage won: what this one had is no more."""
        self._follow(None)
        self.role = Role.OUTSIDER
        self._waiting.clear()
        self.commit = 0
        changes = self.log.install(lineage, 0, 0, [], b"")
        self.write(changes + self.log.set_meta(promised=0, voted=b"", lost_index=0))
        self._out.append(Restored(lineage, 0, b""))

    # elections

    def _is_member(self, node: bytes) -> bool:
        return any(member.id == node for member in self.log.members)

    @property
    def _recover_at(self) -> float:
        """When it goes on without asking anybody."""
        return NEVER if self.role is Role.OUTSIDER else self._alone.at_s(self.ref, self.log, self.commit)

    def _hear(self, now_s: float) -> None:
        self._heard_s = now_s
        self._alone.since(now_s)

    def _lost(self, peer: Ref) -> None:
        """The leader may be gone: members ask one after the other to be elected, which nobody grants who still hears it."""
        others = [member.id for member in self.log.members if member.id != peer.id]
        if peer == self.leader and self.role is Role.FOLLOWER and self.ref.id in others:
            self._heard_s = -float("inf")
            self._patience.hurry(others.index(self.ref.id), self._now.s)

    def _follow(self, leader: Ref | None) -> None:
        """Steps down, or learns who leads."""
        changed = self.leader != leader or self.role is Role.LEADER
        if self.role is Role.LEADER:
            self._alone.led(self.epoch, self._now.s)
        if self.role is not Role.OUTSIDER:
            self.role = Role.FOLLOWER
        self.leadership = None
        self.leader = leader
        self._patience.rest(self._now.s)
        if changed:
            self._out.append(Following(leader))

    def _promise(self, epoch: int, voted: bytes = b"") -> list[Put | Delete]:
        return self.log.set_meta(promised=epoch, voted=voted)

    def _try(self) -> None:
        """Asks whether it would be elected, so that a member that hears nobody does not depose a leader that others hear."""
        if self.leader is not None:
            self._follow(None)
        self.role = Role.TRIAL
        self._votes = {self.ref.id}
        self._patience.tried(self._now.s)
        self._ask(trial=True, handed=False)
        self._count()

    def _stand(self, handed: bool) -> None:
        if self.role is Role.OUTSIDER or self.log.meta.damaged or self._now.s < self._no_disk_until:
            return
        self.role = Role.CANDIDATE
        self.leader = None
        self._votes = set()
        self._patience.rest(self._now.s)
        epoch = self.epoch + 1

        def promised() -> None:
            if self.role is Role.CANDIDATE and self.epoch == epoch:
                self._votes.add(self.ref.id)
                self._ask(trial=False, handed=handed)
                self._count()

        self.write(self._promise(epoch, self.ref.id), promised)

    def _ask(self, trial: bool, handed: bool) -> None:
        log = self.log
        epoch = self.epoch + 1 if trial else self.epoch
        message = Elect(log.key, log.meta.lineage, epoch, trial, handed, log.last_epoch, log.last)
        for member in log.members:
            if member.id != self.ref.id:
                self.send(member.id, message)

    def _count(self) -> None:
        members = {member.id for member in self.log.members}
        if 2 * len(self._votes & members) <= len(members):
            return
        if self.role is Role.TRIAL:
            self._stand(handed=False)
        elif self.role is Role.CANDIDATE:
            self._lead()

    def _asked(self, sender: Ref, ask: Elect) -> None:
        now_s = self._now.s
        if self.leadership is not None:
            if not self._is_member(sender.id):
                self.leadership.heard_of(sender.id, now_s)
            if not ask.handed:
                return
        if not ask.handed and now_s < self._heard_s + self.options.lease_s:
            return
        if ask.epoch < self.epoch:
            self.send(sender.id, Vote(self.log.key, ask.lineage, self.epoch, ask.trial, False))
            return
        free = ask.epoch > self.epoch or self.log.meta.voted in (b"", sender.id)
        as_long = (ask.last_epoch, ask.last_index) >= (self.log.last_epoch, self.log.last)
        grants = free and as_long and not self.log.meta.damaged
        vote = Vote(self.log.key, ask.lineage, ask.epoch, ask.trial, grants)
        if ask.trial:
            self.send(sender.id, vote)
            return
        if ask.epoch > self.epoch:
            self._follow(None)
        elif not grants:
            return
        to = sender.id
        self.write(self._promise(ask.epoch, to if grants else b""), lambda: self.send(to, vote))

    def _voted(self, sender: Ref, vote: Vote) -> None:
        if not vote.granted:
            if vote.epoch > self.epoch:
                self._follow(None)
                self.write(self._promise(vote.epoch))
            return
        wanted = self.epoch + 1 if vote.trial else self.epoch
        if vote.epoch == wanted and self.role is (Role.TRIAL if vote.trial else Role.CANDIDATE):
            self._votes.add(sender.id)
            self._count()

    def _lead(self) -> None:
        self.role = Role.LEADER
        self.leader = self.ref
        self.leadership = Leadership(self, self._now.s)

    def _recover(self, steps: int = 1) -> None:
        """Goes on alone in a new lineage, from the log as it is."""
        self._follow(None)
        self.role = Role.CANDIDATE
        lineage = Lineage(self.log.meta.lineage.history + steps, self._rng.randbytes(8))
        epoch = self.epoch + 1
        changes = self.log.set_meta(lineage=lineage, promised=epoch, voted=self.ref.id, lost_index=0)
        changes += self.log.append([Entry(epoch, EntryKind.MEMBERS, _encode([self.ref]))])
        self._votes = {self.ref.id}
        self._out.append(Restored(lineage, self.log.meta.base_index, self.log.state))
        self.commit = self.log.meta.base_index
        self.write(changes, self._count)

    # following

    def _led(self, sender: Ref, message: Append | SnapshotPart) -> None:
        if message.epoch < self.epoch:
            self.send(sender.id, self._answer(False, 0, message.sent_s))
            return
        if self.role is Role.LEADER and message.epoch == self.epoch:
            raise InvariantError(f"two leaders of epoch {self.epoch}: {self.ref.address}, {sender.address}")
        changes = self._promise(message.epoch) if message.epoch > self.epoch else []
        if self.leader != sender or self.role is not Role.FOLLOWER:
            self._follow(sender)
        self._hear(self._now.s)
        self._patience.led(self._now.s)
        if isinstance(message, Append):
            self._append(sender, message, changes)
        else:
            self._take_part(sender, message, changes)

    def _append(self, sender: Ref, message: Append, changes: list[Put | Delete]) -> None:
        log = self.log
        skipped = max(0, log.meta.base_index - message.previous_index)  # those are committed, the same
        previous, entries = message.previous_index + skipped, message.entries[skipped:]
        if not skipped and log.epoch_at(previous) != message.previous_epoch:
            self.write(changes)
            self.send(sender.id, self._answer(False, min(log.last, previous - 1), message.sent_s))
            return
        verified = message.previous_index + len(message.entries)
        for number, entry in enumerate(entries):
            index = previous + 1 + number
            if index <= log.last:
                if log.epoch_at(index) == entry.epoch:
                    continue
                if index <= self.commit:
                    raise InvariantError(f"entry {index} is committed and differs from the leader's")
                changes += log.truncate(index - 1)
            changes += log.append(entries[number:])
            break
        commit = min(message.commit, verified)
        if log.meta.damaged:
            changes += log.regain(commit, message.epoch)
        to, sent_s = sender.id, message.sent_s
        verified = max(verified, log.meta.base_index)

        def durable() -> None:
            self.send(to, self._answer(True, min(verified, log.stored), sent_s))

        if changes or self._behind:
            self.write(changes, durable)
        else:
            durable()
        self._commit_to(commit)
        self._see_members(commit == message.commit)

    def _take_part(self, sender: Ref, message: SnapshotPart, changes: list[Put | Delete]) -> None:
        self.write(changes)
        to, sent_s = sender.id, message.sent_s
        if message.index <= min(self.commit, self.log.last):  # a refused write may have taken what was committed
            self.send(to, self._answer(True, min(self.commit, self.log.stored), sent_s))
            return
        kept, state = self._incoming.take(message)
        if state is None:
            if kept:
                lineage, index, part = self.log.meta.lineage, message.index, message.part
                self.send(to, PartTaken(self.log.key, lineage, self.epoch, index, part, sent_s))
            return
        index = message.index
        installed = self.log.install(
            self.log.meta.lineage, index, message.index_epoch, message.members, state, message.pair
        )
        self.commit = index
        self._out.append(Restored(self.log.meta.lineage, index, state))
        self.write(installed, lambda: self.send(to, self._answer(True, index, sent_s)))
        self._see_members(False)

    def _answer(self, matched: bool, index: int, sent_s: float) -> Appended:
        meta = self.log.meta
        return Appended(self.log.key, meta.lineage, self.epoch, matched, index, sent_s, not meta.damaged)

    def _answered(self, sender: Ref, message: Appended | PartTaken) -> None:
        if message.epoch > self.epoch:
            self._follow(None)
            self.write(self._promise(message.epoch))
        elif self.leadership is not None:
            if isinstance(message, PartTaken):
                self.leadership.part_taken(sender.id, message, self._now.s)
            else:
                self.leadership.appended(sender.id, message, self._now.s)

    def _commit_to(self, index: int) -> None:
        while self.commit < index:
            self.commit += 1
            entry = self.log.entry(self.commit)
            if entry.kind == EntryKind.DATA:
                self._out.append(Committed(self.commit, entry.data))
            elif self.leadership is not None and self.commit == self.leadership.first:
                self._patience.established()
                self._out.append(Leading(self.log.meta.lineage, self.epoch))
        if self.leadership is not None:
            self._see_members(True)
            if self.leadership is not None:
                self.leadership.steer(self._now.s)

    def _see_members(self, newest: bool) -> None:
        """A member becomes an outsider once it is committed that it is none; `newest`: the log has all that is committed, so
        it is not about to read how it was removed once and came back."""
        log = self.log
        if self._is_member(self.ref.id):
            if newest and self.role is Role.OUTSIDER:
                self.role = Role.FOLLOWER
        elif newest and self.role is not Role.OUTSIDER and log.members and log.members_index <= self.commit:
            self._follow(self.leader if self.leader != self.ref else None)
            self.role = Role.OUTSIDER
            self.commit = 0
            self.write(log.retire())
            self._out.append(Dismissed())

    # the store

    def write(self, changes: list[Put | Delete], then: Callable[[], None] | None = None) -> None:
        """Writes; when that is durable, `then` is called."""
        if not changes and not self._behind:
            return
        if self._rewrite:
            changes = self.log.everything()
            self._rewrite = False
        self._token += 1
        self._waiting[self._token] = (self.log.last, self.log.epoch_at(self.log.last), then)
        self._out.append(Write(STORE, tuple(changes), self._token))

    @property
    def _behind(self) -> bool:
        """Memory is ahead of the disk since a write failed, and it is time to try again, whether there is more to write or
        not: what was installed from a snapshot is in no entry that the leader would send again."""
        return self._rewrite and self._now.s >= self._no_disk_until

    def _stored(self, token: int) -> None:
        written = self._waiting.pop(token, None)
        if written is None:
            return
        index, epoch, then = written
        if self.log.epoch_at(index) == epoch:
            self.log.stored = max(self.log.stored, index)
        if then is not None:
            then()

    def _store_failed(self, token: int) -> None:
        """Nothing is reported as durable that is not: the entries go, and it does not lead while its disk refuses."""
        if self._waiting.pop(token, None) is None:
            return
        self._waiting.clear()
        self._rewrite = True
        self._no_disk_until = self._now.s + 2 * self.options.lease_s
        self.log.truncate(max(self.log.stored, self.log.meta.base_index))
        self._follow(None if self.leader == self.ref else self.leader)

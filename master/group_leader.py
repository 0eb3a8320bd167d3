"""What a leader of a commit group knows and does: how far each peer is, what is committed, who shall be a member."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from master.group_log import GroupLog
from master.group_messages import (
    ENTRIES_MAX,
    Append,
    Appended,
    Entry,
    EntryKind,
    Handover,
    PartTaken,
    SnapshotPart,
)
from master.options import GroupOptions
from srt.automaton import NEVER, Delete, Put, Ref

GREETING_S = -float("inf")
"""`sent_s` of the answer that a member gives unasked when it starts."""
PATIENCE_MAX = 3
"""Signs of life that are not answered come after 1, 2, 4 and 8 heartbeats."""
LEAVER_LEASES = 10
"""How long a removed member is told that it is one."""
_encode = msgspec.msgpack.Encoder().encode


@dataclass
class Progress:
    """How far a peer is."""

    next: int
    """The first entry to send."""
    answered_s: float
    """When the newest message that it answered was sent."""
    match: int = 0
    """It has durably what the leader has up to here."""
    flight: deque[tuple[int, int]] = field(default_factory=deque)
    """(last index, bytes) of messages not answered."""
    flight_bytes: int = 0
    part: int = 0
    """The part of the snapshot to send, when `next` lies before the log."""
    part_sent: tuple[int, int] = (0, 0)
    """Index and part of the snapshot that it was sent last."""
    moved: bool = True
    """It answered something new since the last sign of life."""
    leaves_at: float = float("inf")
    """A removed member is forgotten then."""

    votes: bool = False
    """It may vote; a member that may not would only raise the majority."""
    late: bool = False
    """Its node has more to do than it can: it said so with the last shared beat."""
    beats: int = 0
    """Signs of life that it got since it answered the newest of them..."""
    beat_s: float = -float("inf")
    """... which left then..."""
    rest_until: float = 0.0
    """... and when it gets the next one."""
    strange: bool = False
    """It is not as a shared beat said, and has not answered by itself since."""
    told_index: int = -1
    """The commit in what was sent to it..."""
    told_s: float = 0.0
    """... and when that was sent first."""
    probe_s: float | None = None
    """Since when all that was sent asks whether it can go on at `next`; the answers tell where to go on."""
    probing: bool = True
    """It is not known where its log ends."""

    def probe(self, first: int) -> None:
        """What was sent and not answered counts as lost; asks whether it can go on at `first`."""
        self.next = first
        self.probing, self.probe_s = True, None
        self.flight.clear()
        self.flight_bytes = 0

    def heard(self, sent_s: float, now_s: float) -> None:
        """It answered a message that was sent then."""
        self.answered_s = max(self.answered_s, min(sent_s, now_s))
        if sent_s >= self.beat_s:
            self.beats, self.rest_until = 0, now_s

    def beaten(self, now_s: float, every_s: float) -> None:
        """It gets a sign of life now. While it answers none, each further one comes after twice the time: a node that is
        late would have to deal with all of them."""
        self.rest_until = now_s + every_s * ((1 << min(self.beats, PATIENCE_MAX)) - 0.5)
        self.beats += 1
        self.beat_s = now_s


class Outlet(Protocol):
    """What a leader needs from its group: to send by node id and to write."""

    ref: Ref
    log: GroupLog
    options: GroupOptions
    commit: int
    shares_beats: bool

    @property
    def epoch(self) -> int: ...
    def send(self, to: bytes, message: object) -> None: ...
    def write(self, changes: list[Put | Delete]) -> None: ...


class Leadership:
    """Made when a member is elected, dropped when it steps down."""

    def __init__(self, group: Outlet, now_s: float) -> None:
        self._group = group
        self._log = group.log
        self._options = group.options
        self.first = group.log.last + 1
        """The index of its LEAD entry."""
        self.peers: dict[bytes, Progress] = {}
        self.wanted: list[Ref] = []
        self.beat_at = now_s
        """NEVER: it is quiet."""
        self.lease_at = now_s
        """It has to be looked at whether a majority has answered lately."""
        self._held: list[Entry] = []
        self._hold_until = now_s
        """Proposals are held back until then: it hands over."""
        self._rest_until = now_s
        self._asked_s = -float("inf")
        """When the closest was asked to stand, at last."""
        self._pair_at = NEVER
        """Two members have been so long enough then."""
        for member in group.log.members:
            if member.id != group.ref.id:
                self.peers[member.id] = Progress(self.first, now_s)
        self.propose([Entry(group.epoch, EntryKind.LEAD)], now_s)

    @property
    def established(self) -> bool:
        """Its first entry is committed, so everything before it is."""
        return self._group.commit >= self.first

    def propose(self, entries: Sequence[Entry], now_s: float) -> None:
        """Appends entries and sends them."""
        if now_s < self._hold_until:
            self._held += entries
            return
        self._group.write(self._log.append(entries))
        for peer in self.peers:
            self._send(peer, now_s)

    def rest(self, now_s: float) -> None:
        """Says nothing by itself while there is nothing to say but that it lives (master/beats.py). O(members)."""
        if self._is_quiet:
            self.beat_at = NEVER
        elif self.beat_at == NEVER:
            self.beat_at = now_s + self._options.heartbeat_s

    @property
    def _is_quiet(self) -> bool:
        """Everybody who is wanted is a member, has everything, and knows that it is committed."""
        log, own, commit = self._log, self._group.ref.id, self._group.commit
        members = {member.id for member in log.members}
        return (
            self.established
            and commit == log.last
            and not self._held
            and self.peers.keys() | {own} == members
            and all(self._is_even(progress, commit) for progress in self.peers.values())
            and (len(members) != 2 or log.pair)
            and (not self.wanted or (self.wanted[0].id == own and {ref.id for ref in self.wanted} == members))
        )

    def _is_even(self, progress: Progress, commit: int) -> bool:
        return (
            progress.match == progress.told_index == commit
            and progress.answered_s >= progress.told_s
            and not (progress.probing or progress.strange)
            and progress.leaves_at == NEVER
        )

    # answers

    def beat_answered(self, peer: bytes, sent_s: float, as_thought: bool, now_s: float, late: bool = False) -> None:
        """The answer to a beat that was sent with those of other groups."""
        progress = self.peers.get(peer)
        if progress is None:
            return
        progress.late = late
        if as_thought:
            progress.answered_s = max(progress.answered_s, min(sent_s, now_s))
        else:
            progress.strange = True
            self.beat_at = min(self.beat_at, now_s)

    def appended(self, peer: bytes, answer: Appended, now_s: float) -> None:
        progress = self.peers.get(peer)
        if progress is None:
            return
        progress.heard(answer.sent_s, now_s)
        progress.votes = answer.votes
        if answer.matched:
            progress.moved = progress.moved or answer.index > progress.match
            progress.strange = False
            progress.match = max(progress.match, min(answer.index, self._log.last))
            progress.next = max(progress.next, progress.match + 1)
            progress.probing, progress.probe_s = False, None
            while progress.flight and progress.flight[0][0] <= progress.match:
                progress.flight_bytes -= progress.flight.popleft()[1]
            if (
                progress.leaves_at < float("inf")
                and progress.match >= self._log.members_index <= self._group.commit
            ):
                self._send(peer, now_s, alive=True)  # with the commit: it knows now
                del self.peers[peer]
                return
        elif answer.sent_s == GREETING_S or (progress.probe_s is not None and answer.sent_s >= progress.probe_s):
            # What rotted or was let go does not count as durable any more.
            progress.match = min(progress.match, answer.index)
            progress.probe(min(answer.index, self._log.last) + 1)
        elif not progress.probing:
            progress.probe(progress.match + 1)
        self._send(peer, now_s)

    def part_taken(self, peer: bytes, answer: PartTaken, now_s: float) -> None:
        progress = self.peers.get(peer)
        if progress is None:
            return
        progress.heard(answer.sent_s, now_s)
        if answer.index == self._log.meta.base_index and answer.part == progress.part:
            progress.part += 1
            progress.moved = True
            self._send(peer, now_s)

    def heard_of(self, peer: bytes, now_s: float) -> None:
        """A node that is no member takes itself for one: it is brought to the entry that removed it."""
        if peer not in self.peers and peer != self._group.ref.id:
            leaves_at = now_s + LEAVER_LEASES * self._options.lease_s
            self.peers[peer] = Progress(self._log.last + 1, now_s, leaves_at=leaves_at)
            self._send(peer, now_s, alive=True)

    # what follows from them

    def committable(self) -> int:
        """The log is durable on a majority up to here, the leader among them."""
        log, before = self._log, self._group.commit
        reached = sorted((self._match(member.id) for member in log.members), reverse=True)
        index = min(reached[len(reached) // 2], log.stored)
        return index if index > before and log.epoch_at(index) == self._group.epoch else before

    def _match(self, member: bytes) -> int:
        if member == self._group.ref.id:
            return self._log.stored
        return self.peers[member].match if member in self.peers else 0

    def lease_until(self, now_s: float) -> float:
        """A majority has heard it so lately that no other can lead before."""
        answered = sorted((self._answered(member.id, now_s) for member in self._log.members), reverse=True)
        return answered[len(answered) // 2] + self._options.lease_s

    def _answered(self, member: bytes, now_s: float) -> float:
        if member == self._group.ref.id:
            return now_s
        return self.peers[member].answered_s if member in self.peers else -float("inf")

    # time

    def beat(self, now_s: float) -> None:
        """Signs of life to all; what was not answered since the last one goes again."""
        self.beat_at = now_s + self._options.heartbeat_s
        if self._held and now_s >= self._hold_until:
            held, self._held = self._held, []
            self.propose(held, now_s)
        for peer, progress in list(self.peers.items()):
            if progress.leaves_at <= now_s:
                del self.peers[peer]
                continue
            needs_nothing = self._group.commit == self._log.last and self._is_even(progress, self._group.commit)
            if self._group.shares_beats and (needs_nothing or now_s < progress.rest_until):
                continue
            progress.beaten(now_s, self._options.heartbeat_s)
            if not (progress.moved or progress.probing):
                progress.probe(progress.match + 1)
            progress.moved = not progress.flight
            self._send(peer, now_s, alive=True)

    def _send(self, peer: bytes, now_s: float, alive: bool = False) -> None:
        """Sends what the peer lacks as far as its flight allows; `alive`: at least something."""
        progress, log = self.peers[peer], self._log
        if progress.next < log.first and log.meta.base_index:
            if alive or progress.part_sent != (log.meta.base_index, progress.part):
                self._send_part(peer, progress, now_s)
            return
        if progress.probing:
            if alive or progress.probe_s is None:
                progress.probe_s = now_s if progress.probe_s is None else progress.probe_s
                self._append(peer, progress.next, self._batch(progress.next)[0], now_s)
            return
        while progress.next <= log.last and progress.flight_bytes < self._options.flight_bytes_max:
            entries, size = self._batch(progress.next)
            self._append(peer, progress.next, entries, now_s)
            progress.next += len(entries)
            progress.flight.append((progress.next - 1, size))
            progress.flight_bytes += size
            alive = False
        if alive:
            self._append(peer, progress.next, [], now_s)

    def _batch(self, first: int) -> tuple[list[Entry], int]:
        entries: list[Entry] = []
        size = 0
        for index in range(first, self._log.last + 1):
            entry = self._log.entry(index)
            if (entries and size + len(entry.data) > self._options.append_bytes_max) or len(entries) == ENTRIES_MAX:
                break
            entries.append(entry)
            size += len(entry.data)
        return entries, size

    def _append(self, peer: bytes, first: int, entries: list[Entry], now_s: float) -> None:
        group, progress = self._group, self.peers[peer]
        if group.commit > progress.told_index:
            progress.told_index, progress.told_s = group.commit, now_s
        epoch = self._log.epoch_at(first - 1)
        assert epoch is not None
        message = Append(
            self._log.key, self._log.meta.lineage, group.epoch, first - 1, epoch, entries, group.commit, now_s
        )
        group.send(peer, message)

    def _send_part(self, peer: bytes, progress: Progress, now_s: float) -> None:
        log, size = self._log, self._options.part_bytes
        parts = max(1, -(-len(log.state) // size))
        if progress.part >= parts:  # it has all, or the snapshot changed under it
            progress.part = 0
        part = progress.part
        progress.part_sent = (log.meta.base_index, part)
        message = SnapshotPart(
            log.key, log.meta.lineage, self._group.epoch, log.meta.base_index, log.meta.base_epoch,
            log.meta.base_members, part, parts, log.state[part * size : (part + 1) * size], now_s, log.meta.base_pair,
        )  # fmt: skip
        self._group.send(peer, message)

    # members

    def steer(self, now_s: float) -> None:
        """One step from the members there are to those wanted: add who has caught up, then remove who is not wanted, then
        hand the lead to the closest."""
        log = self._log
        if not self.established or log.members_index > self._group.commit or not self.wanted:
            return
        members = {member.id for member in log.members}
        if now_s < self._hold_until:
            self._ask_to_stand(members, now_s)
            return
        missing = [ref for ref in self.wanted if ref.id not in members]
        self._keep_learners(members, missing, now_s)
        for ref in missing:
            learner = self.peers[ref.id]
            if self._fresh(ref.id, now_s) and learner.match >= self._group.commit and learner.votes:
                self._change_members([*log.members, ref], now_s)
                return
        wanted = {ref.id for ref in self.wanted}
        surplus = [ref for ref in log.members if ref.id not in wanted]
        if surplus and not missing:
            for ref in surplus:
                if ref.id != self._group.ref.id:
                    if len(log.members) == 2 and not self._is_here(ref.id, now_s):
                        return  # it may go on alone, so who led has to be ahead of it (master/alone.py)
                    if self._change_members([other for other in log.members if other.id != ref.id], now_s):
                        self.peers[ref.id].leaves_at = now_s + LEAVER_LEASES * self._options.lease_s
                    return
        self._hand_over(members, now_s)
        if len(members) != 2 or log.pair:
            self._pair_at = NEVER
        elif self._pair_at == NEVER:
            self._pair_at = now_s + self._options.lease_s  # more may be on their way into the group
        elif now_s >= max(self._pair_at, self._hold_until):
            self._list_members(EntryKind.PAIR, log.members, now_s)

    def _keep_learners(self, members: set[bytes], missing: Sequence[Ref], now_s: float) -> None:
        wanted = {ref.id for ref in missing}
        for peer, progress in list(self.peers.items()):
            if peer not in members and peer not in wanted and progress.leaves_at == float("inf"):
                del self.peers[peer]
        for ref in missing:
            if ref.id not in self.peers:
                self.peers[ref.id] = Progress(self._log.last + 1, -float("inf"))
                self._send(ref.id, now_s, alive=True)
            self.peers[ref.id].leaves_at = float("inf")

    def _fresh(self, peer: bytes, now_s: float) -> bool:
        return self.peers[peer].answered_s > now_s - self._options.lease_s

    def _is_here(self, peer: bytes, now_s: float) -> bool:
        """Whether it answers as often as it should."""
        return self.peers[peer].answered_s > now_s - 2 * self._options.heartbeat_s

    def _change_members(self, members: Sequence[Ref], now_s: float) -> bool:
        """Whether that is so from here on; of two first both have to know that neither may go on alone any more."""
        pair = self._log.pair
        self._list_members(EntryKind.MEMBERS, self._log.members if pair else members, now_s)
        return not pair

    def _list_members(self, kind: EntryKind, members: Sequence[Ref], now_s: float) -> None:
        self.propose([Entry(self._group.epoch, kind, _encode(list(members)))], now_s)

    def _hand_over(self, members: set[bytes], now_s: float) -> None:
        """Takes nothing new for at most a lease, so that the closest can catch up and be asked to stand."""
        closest = self.wanted[0].id
        if closest == self._group.ref.id or closest not in members or not self._fresh(closest, now_s):
            return
        if self.peers[closest].late:
            return  # it could not do that, too
        if now_s >= self._rest_until:
            self._hold_until = now_s + self._options.lease_s
            self._rest_until = now_s + 3 * self._options.lease_s
            self._ask_to_stand(members, now_s)

    def _ask_to_stand(self, members: set[bytes], now_s: float) -> None:
        closest = self.wanted[0].id
        if now_s < self._asked_s + self._options.heartbeat_s:
            return
        if closest in members and closest in self.peers and self.peers[closest].match == self._log.last:
            self._asked_s = now_s
            self._group.send(closest, Handover(self._log.key, self._log.meta.lineage, self._group.epoch))

"""The log of a commit group as one member holds it: in memory, and as changes of its store.

Keys begin with the job's key, so that all groups of a node share a store and an fsync:

    key 'm', key 'n'   meta, twice: lineage, promise, vote, members and epoch at the base
    key 's' part:u32   the state that stands for all entries up to the base
    key 'e' index:u64  entry

Every value ends with a checksum of key and value. A value that does not match it has rotted: what was reported as durable is
gone, so the member may neither vote nor lead until it has caught up (`damaged`). docs/STATE.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TypeVar

import msgspec

from master.errors import GroupStoreError
from master.group_messages import Entry, EntryKind, Lineage
from srt.automaton import Delete, Put, Ref

CHECKSUM_BYTES = 8
PART_BYTES = 1 << 20
META_NAMES = (b"m", b"n")
_MEMBERS = msgspec.msgpack.Decoder(list[Ref])
_T = TypeVar("_T")
_encode = msgspec.msgpack.Encoder().encode


class Meta(msgspec.Struct, frozen=True, array_like=True):
    """What a member must not forget, beside its entries."""

    lineage: Lineage
    promised: int
    """It refuses every smaller epoch."""
    voted: bytes
    """For which node in that epoch; empty: none."""
    base_index: int
    base_epoch: int
    base_members: list[Ref]
    parts: int
    """Of the state at the base."""
    lost_index: int = 0
    """Entries up to here, which it had reported as durable, have rotted or were let go; 0: none, or it has caught up."""
    lost_epoch: int = 0
    """The epoch that it had promised then."""
    newest: list[Ref] = []
    """The members by the newest list there ever was in the log: its entry may have rotted since."""
    base_pair: bool = False
    """The list at the base says that either of its two members may go on alone."""
    newest_pair: bool = False
    """The newest one does."""

    @property
    def damaged(self) -> bool:
        """It may neither vote nor lead, for it might outvote what it once helped to commit."""
        return self.lost_index > 0


class GroupLog:
    """Entries behind a base, whose state is a snapshot. Indexes count from 1; 0 is the empty log."""

    def __init__(self, key: bytes, lineage: Lineage) -> None:
        self.key = key
        self.meta = Meta(lineage, 0, b"", 0, 0, [], 0)
        self.state = b""
        self.entries: list[Entry] = []
        self.stored = 0
        """Entries up to here are durable."""
        self._membership: list[tuple[int, list[Ref], bool]] = []

    # reading

    @property
    def first(self) -> int:
        """The index of the first entry held."""
        return self.meta.base_index + 1

    @property
    def last(self) -> int:
        """The index of the last entry."""
        return self.meta.base_index + len(self.entries)

    @property
    def last_epoch(self) -> int:
        return self.entries[-1].epoch if self.entries else self.meta.base_epoch

    @property
    def members(self) -> list[Ref]:
        """Those of the newest list, committed or not."""
        return self._membership[-1][1] if self._membership else self.meta.base_members

    @property
    def pair(self) -> bool:
        """Whether that list says that either of its two members may go on alone."""
        return self._membership[-1][2] if self._membership else self.meta.base_pair

    @property
    def members_before(self) -> list[Ref]:
        """Those of the list before, if that is still known; else of the newest."""
        return self._membership[-2][1] if len(self._membership) > 1 else self.meta.base_members

    @property
    def last_known_members(self) -> list[Ref]:
        """Those who may have gone on without what was lost here: a founder that has lost the entries which name the others
        is not alone for that."""
        return self.meta.newest or self.members if self.meta.damaged else self.members

    @property
    def members_index(self) -> int:
        """The index of that entry."""
        return self._membership[-1][0] if self._membership else self.meta.base_index

    def entry(self, index: int) -> Entry:
        return self.entries[index - self.first]

    def epoch_at(self, index: int) -> int | None:
        """The epoch of an entry; None when it is not held."""
        if index == self.meta.base_index:
            return self.meta.base_epoch
        return self.entry(index).epoch if self.first <= index <= self.last else None

    # changing; each returns what has to be written

    def set_meta(self, **fields: object) -> list[Put | Delete]:
        self.meta = msgspec.structs.replace(self.meta, **fields)
        value = _encode(self.meta)
        return [self._put(name, value) for name in META_NAMES]

    def retire(self) -> list[Put | Delete]:
        """Lets go of everything but the promises, and remembers how far it went: a member once more, it must not vote from
        an old list of members for what it has forgotten."""
        last = self.last
        return [*self.install(self.meta.lineage, 0, 0, [], b""), *self.lose(last)]

    def lose(self, index: int) -> list[Put | Delete]:
        """Notes that durable entries up to `index` are gone."""
        return self.set_meta(lost_index=max(index, self.meta.lost_index, 1), lost_epoch=self.meta.promised)

    def regain(self, commit: int, epoch: int) -> list[Put | Delete]:
        """After a leader of `epoch` said that the entries here up to `commit` are committed: nothing is lost any more when
        they reach as far, or when a later leader has committed something, since all there was is in its log then."""
        meta = self.meta
        if commit >= meta.lost_index or (epoch > meta.lost_epoch and self.epoch_at(commit) == epoch):
            return self.set_meta(lost_index=0)
        return []

    def append(self, entries: Sequence[Entry]) -> list[Put | Delete]:
        changes: list[Put | Delete] = []
        for entry in entries:
            self.entries.append(entry)
            if entry.kind in (EntryKind.MEMBERS, EntryKind.PAIR):
                pair = entry.kind == EntryKind.PAIR
                self._membership.append((self.last, _MEMBERS.decode(entry.data), pair))
                changes += self.set_meta(newest=self.members, newest_pair=pair)
            changes.append(self._put(_entry_name(self.last), _encode(entry)))
        return changes

    def truncate(self, last: int) -> list[Put | Delete]:
        """Removes the entries behind `last`."""
        del self.entries[last - self.meta.base_index :]
        known = len(self._membership)
        while self._membership and self._membership[-1][0] > last:
            self._membership.pop()
        self.stored = min(self.stored, last)
        meta: list[Put | Delete] = []
        if len(self._membership) < known and not self.meta.damaged:
            meta = self.set_meta(newest=self.members, newest_pair=self.pair)
        return [Delete(self._entry_key(last + 1), self.key + b"f"), *meta]

    def compact(self, index: int, state: bytes) -> list[Put | Delete]:
        """Lets a state stand for the entries up to `index`."""
        epoch, (members, pair) = self.epoch_at(index), self._members_at(index)
        if epoch is None:
            raise ValueError(f"entry {index} is not held")
        del self.entries[: index - self.meta.base_index]
        self._membership = [known for known in self._membership if known[0] > index]
        changes = self._rebase(index, epoch, members, pair, state)
        return [*changes, Delete(self._entry_key(0), self._entry_key(index + 1))]

    def install(
        self, lineage: Lineage, index: int, epoch: int, members: list[Ref], state: bytes, pair: bool = False
    ) -> list[Put | Delete]:
        """Replaces the whole log by a state."""
        changes: list[Put | Delete] = [Delete(self.key + b"e", self.key + b"f")]
        self.entries, self._membership = [], []
        self.meta = msgspec.structs.replace(self.meta, lineage=lineage, newest=members, newest_pair=pair)
        self.stored = 0
        return changes + self._rebase(index, epoch, members, pair, state)

    def everything(self) -> list[Put | Delete]:
        """Writes all anew, whatever the store holds."""
        changes: list[Put | Delete] = [
            Delete(self.key, self.key + b"\xff"),
            *self._state_parts(),
            *self.set_meta(),
        ]
        return changes + [
            self._put(_entry_name(self.first + number), _encode(entry))
            for number, entry in enumerate(self.entries)
        ]

    def _rebase(self, index: int, epoch: int, members: list[Ref], pair: bool, state: bytes) -> list[Put | Delete]:
        self.state = state
        parts = self._state_parts()
        meta = self.set_meta(
            base_index=index, base_epoch=epoch, base_members=members, base_pair=pair, parts=len(parts)
        )
        return [Delete(self.key + b"s", self.key + b"t"), *parts, *meta]

    def _state_parts(self) -> list[Put | Delete]:
        starts = range(0, len(self.state), PART_BYTES)
        return [
            self._put(_part_name(number), self.state[at : at + PART_BYTES])
            for number, at in enumerate(starts)
        ]

    def _members_at(self, index: int) -> tuple[list[Ref], bool]:
        found = self.meta.base_members, self.meta.base_pair
        for at, members, pair in self._membership:
            if at <= index:
                found = members, pair
        return found

    # the store

    def _put(self, name: bytes, value: bytes) -> Put:
        key = self.key + name
        return Put(key, value + _checksum(key, value))

    def _entry_key(self, index: int) -> bytes:
        return self.key + _entry_name(index)


def load(key: bytes, stored: Mapping[bytes, bytes]) -> tuple[GroupLog, list[Put | Delete]] | None:
    """The log that a store holds under `key`, and what has to be written before anything else; None when there is none.

    Where something has rotted the log ends before it and is `damaged`. Raises GroupStoreError when no copy of the meta is
    sound: what the member promised is unknown then, so it cannot take part any more.
    """
    own = {name[len(key) :]: value for name, value in stored.items() if name.startswith(key)}
    if not own:
        return None
    metas = [_decode(key, name, own.get(name), Meta) for name in META_NAMES]
    meta = metas[0] or metas[1]
    if meta is None:
        raise GroupStoreError(
            f"both copies of the meta of group {key.hex()} have rotted; remove its keys and let the node join anew"
        )
    log = GroupLog(key, meta.lineage)
    parts = [_sound(key, _part_name(number), own.get(_part_name(number))) for number in range(meta.parts)]
    if None in parts:
        log.set_meta(promised=meta.promised, voted=meta.voted)
        lost = max(meta.base_index, *(_index(name) for name in own))
        return log, [*log.install(meta.lineage, 0, 0, [], b""), *log.lose(lost)]
    log.meta = meta
    log.state = b"".join(part for part in parts if part is not None)
    while (
        entry := _decode(key, _entry_name(log.last + 1), own.get(_entry_name(log.last + 1)), Entry)
    ) is not None:
        log.append([entry])
    log.meta, log.stored = meta, log.last
    repairs: list[Put | Delete] = []
    lost = max(_index(name) for name in own)
    if lost > log.last:
        repairs = [*log.truncate(log.last), *log.lose(lost)]
    elif metas[0] is None or metas[1] is None:
        repairs = log.set_meta()
    return log, repairs


def _entry_name(index: int) -> bytes:
    return b"e" + index.to_bytes(8, "big")


def _index(name: bytes) -> int:
    return int.from_bytes(name[1:], "big") if name[:1] == b"e" else 0


def _part_name(number: int) -> bytes:
    return b"s" + number.to_bytes(4, "big")


def _sound(key: bytes, name: bytes, value: bytes | None) -> bytes | None:
    if value is None or _checksum(key + name, value[:-CHECKSUM_BYTES]) != value[-CHECKSUM_BYTES:]:
        return None
    return value[:-CHECKSUM_BYTES]


def _decode(key: bytes, name: bytes, value: bytes | None, kind: type[_T]) -> _T | None:
    body = _sound(key, name, value)
    return None if body is None else msgspec.msgpack.decode(body, type=kind)


def _checksum(key: bytes, value: bytes) -> bytes:
    return blake2b(value, digest_size=CHECKSUM_BYTES, key=key[:64]).digest()

"""The directory: a map that every node keeps, spread by gossip. Few entries, read everywhere, changed seldom.

Rumour mongering tells a change to some neighbours at once, each of which tells it on; anti-entropy compares maps with a
random neighbour now and then, and mends what rumours missed (Demers and others, *Epidemic algorithms for replicated
database maintenance*, PODC 1987: push with counter and feedback; push-pull with digests; tombstones are their death
certificates). docs/DIRECTORY.md.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from srt.automaton import NEVER, Delete, Instant, Received, Ref, Send, Stored, StoreFailed, Wake, Write
from srt.automaton import Put as PutChange
from srt.directory_messages import (
    HELD_MAX,
    RUMOURS_MAX,
    Digests,
    Entry,
    Held,
    Holdings,
    Rumours,
    Stretch,
    Wanted,
)
from srt.directory_table import DirectoryTable, Put, bounds
from srt.options import DirectoryOptions
from srt.ring import Ring

STORE = "directory"
CHECKSUM_BYTES = 8
LOOKED_MAX = 8 * HELD_MAX
"""Own entries that one comparison looks at; more only if the other node names stretches that are much fuller here."""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Entry).decode


class Tell(NamedTuple):
    """Event: the owner of an entry tells it. Ignored if a greater one is known."""

    entry: Entry
    hasty: bool = False
    """Told on at once, whatever was told a moment ago: this node goes."""


class EntryChanged(NamedTuple):
    """Effect: this is the true entry of its name from now on, as far as is known here; own ones, too."""

    entry: Entry


class EntryEnded(NamedTuple):
    """Effect: its time is over."""

    entry: Entry


class _Hot:
    """A change that is being told on. `again`: only its version is new, so there is no hurry."""

    __slots__ = ("again", "first", "left", "source")

    def __init__(self, left: int, source: bytes, again: bool) -> None:
        self.left, self.source, self.again, self.first = left, source, again, True


class Directory:
    """One node's copy. Reads `ring` for its neighbours."""

    def __init__(
        self,
        ring: Ring,
        rng: random.Random,
        stored: Mapping[bytes, bytes],
        options: DirectoryOptions = DirectoryOptions(),  # noqa: B008 - frozen
    ) -> None:
        """`stored` is what the store holds; values that rotted are left out and counted."""
        self.ref, self.options = ring.ref, options
        self.counts: Counter[str] = Counter()
        """What came from outside and was not taken, by reason; messages sent, by kind."""
        self._ring, self._rng = ring, rng
        self._table = DirectoryTable(options)
        self._hot: dict[bytes, _Hot] = {}
        self._pushed_s = -NEVER
        self._push_at = NEVER
        self._mend_at = 0.0
        self._mend_gap_s = options.mend_soon_s
        """Grows to `mend_s`: who has just come knows nothing, and whom it asks first may be as new."""
        self._asked: Ref | None = None
        """The neighbour whose `Holdings` are expected."""
        self._wanted_of: tuple[Ref, int] | None = None
        """The neighbour that was asked for entries, and how many it has to send if there is to be no more to ask for."""
        self._answers: Counter[bytes] = Counter()
        """Answers given in the second that began at `_answers_s`, by neighbour."""
        self._answers_s = -NEVER
        self._dirty: dict[bytes, None] = {}
        self._writing: dict[bytes, None] | None = None
        self._token = 0
        self._write_at = 0.0
        """Not before, since the last write failed."""
        self._now = Instant(0.0, 0)
        self._out: list[Any] = []
        self._reopen(stored)

    # what others ask

    @property
    def wake_at(self) -> float:
        return min(self._mend_at, self._push_at)

    def __len__(self) -> int:
        return len(self._table)

    def get(self, kind: int, key: bytes) -> Entry | None:
        return self._table.get(key + bytes((kind,)))

    def entries(self) -> dict[bytes, Entry]:
        """All by name, as a copy. O(entries)."""
        return self._table.entries()

    def of_kind(self, kind: int) -> Iterator[Entry]:
        """In no order. O(entries)."""
        return self._table.of_kind(kind)

    # events

    def handle(self, event: Any, now: Instant) -> list[Any]:
        self._now, self._out = now, []
        if isinstance(event, Received):
            self._receive(event.sender, event.message)
        elif isinstance(event, Wake):
            self._wake()
        elif isinstance(event, Tell):
            self._take((event.entry,), self.ref, hot=True)
            if event.hasty:
                self._push_at = now.s
        elif isinstance(event, Stored):
            self._writing = None
        elif isinstance(event, StoreFailed):
            self.counts["write failed"] += 1
            self._dirty = {**(self._writing or {}), **self._dirty}
            self._writing, self._write_at = None, now.s + self.options.mend_s
        if now.s >= self._push_at:
            self._push()
        self._write()
        return self._out

    def _receive(self, sender: Ref, message: Any) -> None:
        if isinstance(message, Rumours):
            self._rumours(sender, message)
        elif isinstance(message, Digests):
            self._compare(sender, message)
        elif isinstance(message, Holdings):
            self._mend(sender, message)
        elif isinstance(message, Wanted) and self._may_answer(sender):
            known = (self._table.get(name) for name in message.names)
            self._send(sender, Rumours(_batch(known, self.options.mend_bytes), hot=False))

    def _wake(self) -> None:
        now = self._now
        self._out += [EntryEnded(self._ended(entry)) for entry in self._table.end(now.wall_us)]
        if now.s < self._mend_at:
            return
        peers = self._ring.routes.peers()
        self._asked, self._wanted_of = (self._rng.choice(peers) if peers else None), None
        if self._asked is None:
            self._mend_at = now.s + self.options.mend_soon_s
            return
        bits = self._table.bits()
        self._send(self._asked, Digests(bits, self._table.digests(bits)))
        self._mend_at = now.s + self._mend_gap_s * (0.75 + 0.5 * self._rng.random())
        self._mend_gap_s = min(2 * self._mend_gap_s, self.options.mend_s)

    def _ended(self, entry: Entry) -> Entry:
        self._hot.pop(entry.name, None)
        self._note(entry)
        return entry

    # rumours

    def _rumours(self, sender: Ref, message: Rumours) -> None:
        came = self._take(message.entries, sender, message.hot)
        if not message.hot and self._wanted_of is not None and self._wanted_of[0] == sender:
            if came and len(message.entries) < self._wanted_of[1]:
                self._mend_at = min(self._mend_at, self._now.s + self.options.mend_soon_s)
            self._wanted_of = None

    def _take(self, entries: Iterable[Entry], sender: Ref, hot: bool) -> int:
        """How many were new."""
        news: list[tuple[Entry, bool]] = []
        for entry in entries:
            former = self._table.get(entry.name)
            done = self._table.put(entry, self._now.wall_us)
            if done is Put.NEW:
                news.append((entry, former is not None and former.value == entry.value))
                self._note(entry)
                self._out.append(EntryChanged(entry))
            else:
                self.counts[done.value] += 1
                told = self._hot.get(entry.name) if done is Put.SAME and hot else None
                if told is not None:
                    told.left -= 1  # feedback: others tell it as well
        if hot or len(news) <= self.options.mend_hot_max:
            self._heat(news, sender.id)
        return len(news)

    def _heat(self, news: Iterable[tuple[Entry, bool]], source: bytes) -> None:
        for entry, again in news:
            self._hot.pop(entry.name, None)
            self._hot[entry.name] = _Hot(self.options.sends, source, again)
            self._plan_push(again)
        while len(self._hot) > self.options.hot_max:
            del self._hot[next(iter(self._hot))]
            self.counts["not told"] += 1

    def _plan_push(self, again: bool) -> None:
        gap_s = self.options.again_s if again else self.options.push_s
        self._push_at = min(self._push_at, self._pushed_s + gap_s)

    def _push(self) -> None:
        """One round: random neighbours hear the oldest changes, as many as fit into a message.

        The nearest on the ring hear each once, in any case: so on a ring that is whole everybody does, if nothing is lost.
        """
        self._pushed_s, self._push_at = self._now.s, NEVER
        for name in [name for name, told in self._hot.items() if told.left <= 0 and not told.first]:
            del self._hot[name]
        peers = self._ring.routes.peers()
        if not peers:
            self._hot.clear()  # whoever comes compares maps first
        if not self._hot:
            return
        few = len(peers) <= self.options.sends
        chosen = peers if few else self._rng.sample(peers, self.options.fanout)
        beside = () if few else self._ring.routes.leaf.beside()
        batch = _batch((self._table.get(name) for name in self._hot), self.options.batch_bytes)
        for peer in {peer.id: peer for peer in (*chosen, *beside)}.values():
            entries = [
                entry
                for entry in batch
                if (told := self._hot[entry.name]).source != peer.id and (told.first or peer in chosen)
            ]
            if entries:
                self._send(peer, Rumours(entries, hot=True))
        for entry in batch:
            told = self._hot[entry.name]
            told.first = False
            told.left -= self.options.sends if few else len(chosen)
            if told.left <= 0:
                del self._hot[entry.name]
        if self._hot:
            self._plan_push(all(told.again for told in self._hot.values()))

    # comparisons

    def _compare(self, sender: Ref, message: Digests) -> None:
        bits, theirs = message.bits, message.digests
        if len(theirs) != 8 << bits:
            self.counts["digests of another size"] += 1
            return
        mine = self._table.digests(bits)
        if mine == theirs or not self._may_answer(sender):
            return
        differing = [at for at in range(1 << bits) if mine[8 * at : 8 * at + 8] != theirs[8 * at : 8 * at + 8]]
        turn = self._rng.randrange(len(differing))
        stretches: list[Stretch] = []
        room = HELD_MAX
        for bucket in (*differing[turn:], *differing[:turn]):
            first, last = bounds(bits, bucket)
            held = self._table.held(first, last, room + 1)
            if len(held) > room:
                if not stretches:
                    stretches.append(self._part(first, last))
                break
            room -= len(held)
            stretches.append(Stretch(first, last, held))
        self._send(sender, Holdings(stretches, more=len(stretches) < len(differing)))

    def _part(self, first: bytes, last: bytes) -> Stretch:
        """Of a bucket that is larger than a message: a part that begins anywhere."""
        held = self._table.held(first, last, len(self._table))
        start = max(0, self._rng.randrange(-HELD_MAX, len(held)))  # the beginning is as likely as any other part
        part = held[start : start + HELD_MAX]
        return Stretch(
            first if start == 0 else part[0].name,
            last if start + HELD_MAX >= len(held) else part[-1].name,
            part,
        )

    def _mend(self, sender: Ref, message: Holdings) -> None:
        if sender != self._asked:
            self.counts["holdings that were not asked for"] += 1
            return
        self._asked = None
        give: list[bytes] = []
        want: list[bytes] = []
        looked = 0
        for stretch in message.stretches:
            mine = self._table.held(stretch.first, stretch.last, LOOKED_MAX - looked)
            looked += len(mine)
            _differ(mine, stretch.held, give, want)
            if looked >= LOOKED_MAX or len(want) > HELD_MAX:
                break
        entries = _batch((self._table.get(name) for name in give), self.options.mend_bytes)
        if entries:
            self._send(sender, Rumours(entries, hot=False))
        if want:
            more = message.more or len(want) > HELD_MAX or looked >= LOOKED_MAX
            self._wanted_of = sender, RUMOURS_MAX + 1 if more else len(want)
            self._send(sender, Wanted(want[:HELD_MAX]))

    def _may_answer(self, sender: Ref) -> bool:
        if self._now.s >= self._answers_s + 1.0:
            self._answers_s = self._now.s
            self._answers.clear()
        if (
            self._answers.total() >= self.options.answers_per_s
            or self._answers[sender.id] >= self.options.peer_answers_per_s
        ):
            self.counts["not answered"] += 1
            return False
        self._answers[sender.id] += 1
        return True

    # the store

    def _reopen(self, stored: Mapping[bytes, bytes]) -> None:
        for name, value in stored.items():
            entry = _sound(name, value)
            if entry is None or self._table.put(entry, None) is not Put.NEW:
                self.counts["rotten"] += 1
                self._dirty[name] = None

    def _note(self, entry: Entry) -> None:
        if entry.kind in self.options.durable_kinds:
            self._dirty[entry.name] = None

    def _write(self) -> None:
        """One write at a time; what changes meanwhile goes with the next."""
        if self._dirty and self._writing is None and self._now.s >= self._write_at:
            self._writing, self._dirty = self._dirty, {}
            self._token += 1
            self._out.append(Write(STORE, [self._change(name) for name in self._writing], self._token))

    def _change(self, name: bytes) -> PutChange | Delete:
        entry = self._table.get(name)
        if entry is None:
            return Delete(name, name + b"\0")
        data = _encode(entry)
        return PutChange(name, data + _checksum(name, data))

    def _send(self, to: Ref, message: Any) -> None:
        self.counts[type(message).__name__] += 1
        self._out.append(Send(to, message))


def _batch(entries: Iterable[Entry | None], bytes_max: int) -> list[Entry]:
    """The first of them that fit into a message, at least one."""
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        if entry is None:
            continue
        size += len(entry.value) + 64
        if batch and (size > bytes_max or len(batch) == RUMOURS_MAX):
            break
        batch.append(entry)
    return batch


def _differ(mine: Iterable[Held], theirs: Iterable[Held], give: list[bytes], want: list[bytes]) -> None:
    """What two maps have of one stretch: names of entries that the other lacks, and of those that are lacking here."""
    others = {held.name: held for held in theirs}
    for held in mine:
        other = others.pop(held.name, None)
        if other is None or (held.fingerprint != other.fingerprint and held.version >= other.version):
            give.append(held.name)
        if other is not None and held.fingerprint != other.fingerprint and held.version <= other.version:
            want.append(held.name)
    want += others


def _sound(name: bytes, value: bytes) -> Entry | None:
    """The entry that was stored, None if it has rotted."""
    data = bytes(value[:-CHECKSUM_BYTES])
    if value[-CHECKSUM_BYTES:] != _checksum(name, data):
        return None
    try:
        entry = _decode(data)
    except msgspec.DecodeError:
        return None
    return entry if entry.name == name else None


def _checksum(name: bytes, data: bytes) -> bytes:
    return blake2b(data, digest_size=CHECKSUM_BYTES, key=name).digest()


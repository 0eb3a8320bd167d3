"""The results of one job on one member of its group: finished, stored, kept, sent to members that lack them. Pure.

Every member finishes every published window for itself, as the rows follow from the log. One window at a time is with the
thread that finishes, in the order of publication, and one write is on its way; so whoever reads never sees a result
appear before one that he has seen. A member that began from a snapshot asks the others for what was published before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from job.plan_book import NEVER_US
from job.settings import Settings
from master.committed_parts import Published
from master.entries import TENTATIVE
from master.group_messages import AskResults, ResultsPart
from master.job_events import Finish, Finished, ReadResults, ResultsRead, ResultsStored
from master.requests import ResultRecord
from master.result_store import (
    INDEX_END,
    STORE,
    Marker,
    before,
    dropped_key,
    everything,
    index_key,
    ladder_key,
    marker_key,
    marker_of,
    older_editions,
    puts,
    removed,
)
from srt.automaton import NEVER, Delete, Instant, Put, Ref, Send, Stored, StoreFailed, Wake, Write

MINUTE_US = 60_000_000
TENTATIVE_MAX = 10_000
"""Windows of a job whose last tentative result is known; of others it is kept as long as final ones."""
_encode = msgspec.msgpack.Encoder().encode
_RECORD = msgspec.msgpack.Decoder(ResultRecord)


class Rung(msgspec.Struct, array_like=True):
    """Results that were stored one after the other."""

    last: int
    """The greatest index."""
    first_start_us: int
    last_start_us: int
    published_us: int
    edition: int


_LADDER = msgspec.msgpack.Decoder(list[Rung])


@dataclass(frozen=True)
class ResultsOptions:
    queue_max: int = 4
    """Windows that wait to be finished, before nothing more is published."""
    part_bytes: int = 1 << 20
    """Of a message with results."""
    record_bytes_max: int = 1 << 30
    """Of a result that another member sends in parts."""
    reads_max: int = 16
    """Requests of other members under way."""
    retry_s: float = 1.0
    ladder_max: int = 64
    """Steps in which results are let go."""


class Results:
    def __init__(self, key: bytes, options: ResultsOptions) -> None:
        self.key, self.options = key, options
        self.through = 0
        """All results up to here are stored, and were not let go but by retention."""
        self.to = 0
        """Above `through`: those between may be lacking."""
        self._newest = 0
        """Stored here; with `to` before it also all between the two."""
        self._queue: deque[Published] = deque()
        self._task: Finish | None = None
        self._handed = False
        self._records: deque[tuple[int, list[Put | Delete]]] = deque()
        """What is to be written: the index up to which that completes the results, and the changes."""
        self._writing: list[tuple[int, list[Put | Delete]]] = []
        self._write_token: int | None = None
        self._token = 0
        self._retry_at = NEVER
        self._tentative: dict[tuple[int | None, int | None], ResultRecord] = {}
        """The last record of each window whose last was tentative: the next one takes its place."""
        self._ladder: list[Rung] = []
        self._clean_at = 0.0
        self._reads: dict[int, tuple[Ref, AskResults]] = {}
        self._boot_read: int | None = None
        self._asked: tuple[int, int] | None = None
        """(after, part) of the request under way, to `_from`."""
        self._from: Ref | None = None
        self._ask_at = NEVER
        self._turn = 0
        self._parts: list[bytes] = []
        self._out: list[Any] = []
        self._now = Instant(0.0, 0)

    # what the master asks of it

    @property
    def settled(self) -> bool:
        """Everything that was published is stored: the log may be shortened."""
        return not self._queue and self._task is None and not self._records and not self._writing

    @property
    def crowded(self) -> bool:
        return len(self._queue) >= self.options.queue_max

    @property
    def lacking(self) -> bool:
        return self.through < self.to

    @property
    def wake_at(self) -> float:
        asks = self.lacking and self._boot_read is None
        return min(self._retry_at, self._ask_at if asks else NEVER, self._clean_at)

    def begun(self, last_published: int, booted: bool, now: Instant) -> list[Any]:
        """The state of the log begins behind that publication; at a boot it is read how far the store goes."""
        self._now, self._out = now, []
        self._queue.clear()
        self._task, self._handed = None, False
        self.to = max(self.to, last_published)
        if booted and last_published:
            self._token += 1
            self._boot_read = self._token
            self._out.append(ReadResults(self._token, self.key, INDEX_END, 1))
        elif self.lacking:
            self._note()
            self._ask_at = now.s
        return self._out

    def wiped(self, now: Instant) -> list[Any]:
        """The log was another one: nothing of it is true any more."""
        self._now, self._out = now, []
        self._queue.clear()
        self._task, self._handed, self._asked, self._parts = None, False, None, []
        self._boot_read = None  # its answer tells of what is gone now
        self.through = self.to = self._newest = 0
        self._ladder = []
        self._tentative.clear()
        self._writing = [(0, changes) for _, changes in self._writing]  # stored before it is removed
        self._records.clear()
        self._records.append((0, [everything(self.key)]))
        self._write()
        return self._out

    def published(self, windows: Sequence[Published], now: Instant) -> list[Any]:
        self._now, self._out = now, []
        self._queue.extend(windows)
        self._next()
        return self._out

    def stores(self, index: int) -> bool:
        """Whether all results up to there are stored here, but for those that were kept long enough."""
        return not self.lacking and self.through >= index

    def handle(
        self, event: Any, now: Instant, peers: Sequence[Ref], settings: Settings, size_us: int
    ) -> list[Any]:
        """`peers` are the other members; `size_us` is the length of the longest windows."""
        self._now, self._out = now, []
        if isinstance(event, Finished):
            self._finished(event)
        elif isinstance(event, Stored):
            self._stored(event.token)
        elif isinstance(event, StoreFailed):
            self._write_token, self._retry_at = None, now.s + self.options.retry_s
        elif isinstance(event, ResultsRead):
            self._read(event)
        elif isinstance(event, Wake):
            self._wake(peers, settings, size_us)
        return self._out

    def asked(self, sender: Ref, message: AskResults) -> list[Any]:
        """Another member lacks results."""
        if len(self._reads) >= self.options.reads_max:
            return []
        self._token += 1
        self._reads[self._token] = (sender, message)
        return [ReadResults(self._token, self.key, message.after, self.options.part_bytes)]

    def sent(self, message: ResultsPart, now: Instant) -> list[Any]:
        """Another member sends what is lacking."""
        self._now, self._out = now, []
        if self._asked == (message.after, message.part) and self.lacking:
            self._asked = None
            self._take(message)
        return self._out

    # finishing, in order

    def _next(self) -> None:
        while self._task is None and self._queue:
            window = self._queue.popleft()
            if isinstance(window, ResultRecord):  # it was computed elsewhere
                self._add(window.index, window, _encode(window))
                self._write()
                continue
            endless = window.end_us == NEVER_US
            owner = window.revision
            self._token += 1
            self._task = Finish(
                self._token, None if owner is None else owner.plan, window.tables, window.log_index,
                None if endless else window.start_us, None if endless else window.end_us, window.edition,
                window.status, 0 if owner is None else owner.number, window.published_us, window.lines,
                window.coverage,
            )  # fmt: skip
            self._handed = False
        if self._task is not None and not self._handed:
            self._handed = True
            self._out.append(self._task)

    def _finished(self, event: Finished) -> None:
        if self._task is None or event.token != self._task.token:
            return  # of a log that is no more
        if event.problem:
            self._handed, self._retry_at = False, self._now.s + self.options.retry_s
            return
        index, self._task = self._task.log_index, None
        self._add(index, _RECORD.decode(event.record), event.record)
        self._write()
        self._next()

    def _add(self, index: int, record: ResultRecord, encoded: bytes) -> None:
        self._climb(record)
        self._records.append((index, [*self._superseded(record), *puts(self.key, record, encoded)]))

    def _superseded(self, record: ResultRecord) -> list[Delete]:
        """A window that is not final is published at every emit; only the last of those is kept."""
        window = (record.start_us, record.end_us)
        last = self._tentative.pop(window, None)
        if record.status == TENTATIVE:
            self._tentative[window] = msgspec.structs.replace(record, packed=b"")
            while len(self._tentative) > TENTATIVE_MAX:
                del self._tentative[next(iter(self._tentative))]
        return [] if last is None else removed(self.key, last)

    # the store

    def _note(self) -> None:
        """Writes how far the results go."""
        self._records.append((0, []))
        self._write()

    def _write(self) -> None:
        if self._write_token is not None or self._retry_at < NEVER or self._boot_read is not None:
            return  # before it is read how far the store goes nothing may be noted of that
        if not self._writing:
            self._writing = list(self._records)
            self._records.clear()
        if not self._writing:
            return
        changes: list[Put | Delete] = [change for _, some in self._writing for change in some]
        marker = Marker(self._through(), max(self.to, self._through()))
        changes.append(Put(marker_key(self.key), _encode(marker)))
        self._token += 1
        self._write_token = self._token
        # The log has it until it is shortened, by a write behind this one; not what other members sent, nor that it is gone.
        lazy = not self.lacking and all(index for index, _ in self._writing)
        self._out.append(Write(STORE, tuple(changes), self._token, lazy))

    def _through(self) -> int:
        """What is stored without a gap when that is written."""
        if self.lacking:
            filled = [index for index, _ in self._writing if index <= self.to]
            return max([self.through, *filled])
        return max([self.through, *(index for index, _ in self._writing)])

    def _stored(self, token: int) -> None:
        if token != self._write_token:
            return
        self._write_token = None
        newest = max(index for index, _ in self._writing)
        self._newest = max(self._newest, newest)
        was = self.lacking
        self.through = self._through()
        self._writing = []
        if was:
            self._go_through()
        if newest:
            self._out.append(ResultsStored(self.key, newest))
        self._write()

    def _go_through(self) -> None:
        """If nothing is lacking any more, nothing is up to the newest."""
        if not self.lacking:
            self.through = self.to = max(self.through, self._newest)

    # what is lacking

    def _ask(self, peers: Sequence[Ref]) -> None:
        self._ask_at = self._now.s + self.options.retry_s
        if peers:
            peer = peers[self._turn % len(peers)]
            self._turn += 1
            self._parts = []
            self._from = peer
            self._ask_for(0)

    def _ask_for(self, part: int) -> None:
        after = max([self.through, *(at for at, _ in [*self._writing, *self._records] if at <= self.to)])
        self._asked = (after, part)
        if self._from is not None:
            self._out.append(Send(self._from, AskResults(self.key, after, part)))

    def _take(self, message: ResultsPart) -> None:
        self._ask_at = self._now.s + self.options.retry_s
        if message.parts > 1:
            del self._parts[message.part :]
            self._parts += message.records
            if sum(map(len, self._parts)) > self.options.record_bytes_max:
                self._parts = []  # somebody else is asked next
                return
            if len(self._parts) == message.part + 1 and len(self._parts) < message.parts:
                self._ask_for(len(self._parts))
                return
            records = [b"".join(self._parts)] if len(self._parts) == message.parts else []
            self._parts = []
        else:
            records = list(message.records)
        more = message.more
        for encoded in records:
            record = _RECORD.decode(encoded)
            if record.index > self.to:
                more = False  # the last of those that are lacking was tentative, and is gone
            else:
                self._climb(record)
                self._records.append((record.index, puts(self.key, record, encoded)))
        if not more and message.through > self.through:
            self._records.append((min(message.through, self.to), []))
        self._write()
        if more:
            self._ask_for(0)

    def _read(self, event: ResultsRead) -> None:
        if event.token == self._boot_read:
            self._boot_read = None
            self.through = max(self.through, min(marker_of(event.marker).through, self.to))
            self._ladder = [*(_LADDER.decode(event.ladder) if event.ladder else []), *self._ladder]
            self._ask_at = self._now.s
            self._write()
            return
        asker = self._reads.pop(event.token, None)
        if asker is None:
            return
        sender, ask = asker
        records = [one for one in event.records if not self.lacking or one[0] <= self.through]
        more = event.more and len(records) == len(event.records)
        parts, sent = 1, tuple(encoded for _, encoded in records)
        if len(sent) == 1 and len(sent[0]) > self.options.part_bytes:
            size = self.options.part_bytes
            parts = -(-len(sent[0]) // size)
            sent = (sent[0][ask.part * size : (ask.part + 1) * size],)
            more = True  # whether there is more behind it is asked next
        self._out.append(
            Send(sender, ResultsPart(self.key, ask.after, ask.part, parts, sent, more, self.through))
        )

    # what was kept long enough

    def _climb(self, record: ResultRecord) -> None:
        """Notes a record for retention."""
        start = NEVER_US if record.start_us is None else record.start_us
        rung = Rung(record.index, start, start, record.published_us, record.edition)
        last = self._ladder[-1] if self._ladder else None
        if last is None or record.published_us - last.published_us >= MINUTE_US or record.index < last.last:
            self._ladder.append(rung)
            return
        last.last, last.edition = record.index, record.edition
        last.first_start_us = min(last.first_start_us, start)
        last.last_start_us = max(last.last_start_us, start)

    def _let_go(self, settings: Settings, size_us: int) -> None:
        """Removes what ended and was published longer ago than `retain`."""
        self._clean_at = self._now.s + 60.0
        limit = self._now.wall_us - settings.retain_us
        gone: list[Rung] = []
        self._ladder.sort(key=lambda rung: rung.last)
        while len(self._ladder) > 1 and self._is_over(self._ladder[0], limit, size_us):
            gone.append(self._ladder.pop(0))
        if len(self._ladder) > self.options.ladder_max:
            self._ladder = _thinned(self._ladder)
        if not gone:
            return
        changes: list[Put | Delete] = [
            Delete(index_key(self.key, 0), index_key(self.key, gone[-1].last + 1)),
            Put(dropped_key(self.key), gone[-1].last.to_bytes(8)),
        ]
        if gone[-1].last_start_us == NEVER_US:
            changes.append(older_editions(self.key, gone[-1].edition + 1))
        else:
            kept = min(rung.first_start_us for rung in self._ladder)
            changes.append(before(self.key, min(limit - size_us, kept)))
        changes.append(Put(ladder_key(self.key), _encode(self._ladder)))
        self._records.append((0, changes))
        self._write()

    @staticmethod
    def _is_over(rung: Rung, limit: int, size_us: int) -> bool:
        ended = rung.last_start_us == NEVER_US or rung.last_start_us + size_us < limit
        return ended and rung.published_us < limit

    def _wake(self, peers: Sequence[Ref], settings: Settings, size_us: int) -> None:
        if self._retry_at <= self._now.s:
            self._retry_at = NEVER
            self._next()
            self._write()
        if self._clean_at <= self._now.s:
            self._let_go(settings, size_us)
        if self.lacking and self._ask_at <= self._now.s and self._boot_read is None:
            self._ask(peers)


def _thinned(ladder: list[Rung]) -> list[Rung]:
    """Every two neighbours as one."""
    made = []
    for low, high in zip(ladder[::2], ladder[1::2], strict=False):
        made.append(
            Rung(
                high.last,
                min(low.first_start_us, high.first_start_us),
                max(low.last_start_us, high.last_start_us),
                high.published_us,
                high.edition,
            )
        )
    return made + ladder[len(ladder) // 2 * 2 :]

"""A group of one: a root's log on one disk, with snapshots. It stands for `master/commit_group` in the simulation."""

from __future__ import annotations

from cbt.budget import Budget
from cbt.options import Options
from elfstream.simulated.disks import KeyValueDisk
from master.committed import Committed
from master.group_events import Committed as LogCommitted
from master.group_events import Leading, Propose
from master.group_messages import Lineage
from master.snapshots import restored, snapshot
from srt.automaton import Delete, Put, Write

STORE = "log"
ENTRY, SNAPSHOT, HISTORY = b"e", b"s", b"h"
SNAPSHOT_EVERY = 40


def _key(kind: bytes, number: int) -> bytes:
    return kind + number.to_bytes(8, "big")


class SingleLog:
    """What is appended is committed once it is stored."""

    def __init__(self, disk: KeyValueDisk, epoch: int) -> None:
        self._disk, self._epoch = disk, epoch
        self._token = 0
        self._waiting: dict[int, list[bytes]] = {}
        self._snapshot_at = 0
        self.history = int.from_bytes(disk.durable.get(HISTORY, b"\x01"), "big")

    def recover(self, budget: Budget) -> tuple[Committed, list[LogCommitted | Leading]]:
        """The state of the last snapshot and the events that lead from there to now."""
        parts = [value for key, value in self._disk.durable.items() if key[:1] == SNAPSHOT]
        state = restored(parts, budget, Options.tiny()) if parts else Committed(budget, Options.tiny())
        self._snapshot_at = state.index
        entries = [
            LogCommitted(int.from_bytes(key[1:], "big"), value)
            for key, value in self._disk.durable.items()
            if key[:1] == ENTRY
        ]
        self._length = max([state.index, *(entry.at for entry in entries)])
        later = [entry for entry in entries if entry.at > state.index]
        return state, [*later, Leading(Lineage(self.history, bytes(8)), self._epoch)]

    def append(self, effect: Propose) -> Write:
        self._token += 1
        self._waiting[self._token] = list(effect.data)
        first = self._length + 1 + sum(len(waiting) for waiting in list(self._waiting.values())[:-1])
        puts = [Put(_key(ENTRY, first + index), entry) for index, entry in enumerate(effect.data)]
        return Write(STORE, puts, self._token)

    def stored(self, token: int) -> list[LogCommitted]:
        committed = []
        for entry in self._waiting.pop(token, ()):
            self._length += 1
            committed.append(LogCommitted(self._length, entry))
        return committed

    def failed(self, token: int) -> Write:
        return self.append(Propose(self._waiting.pop(token)))

    def maybe_snapshot(self, state: Committed) -> list[Write]:
        """Once in a while the entries so far give way to the state."""
        if state.index < self._snapshot_at + SNAPSHOT_EVERY:
            return []
        self._snapshot_at = state.index
        self._token += 1
        changes: list[Put | Delete] = [Delete(_key(SNAPSHOT, 0), _key(SNAPSHOT, 1 << 62))]
        changes += [Put(_key(SNAPSHOT, number), part) for number, part in enumerate(snapshot(state))]
        changes.append(Delete(_key(ENTRY, 0), _key(ENTRY, state.index + 1)))
        return [Write(STORE, changes, self._token)]


def lose_tail(disk: KeyValueDisk, entries: int = 0, before: int | None = None) -> None:
    """A forced recovery: the last entries, or all behind `before`, are gone for good; the history number says so (G4)."""
    keys = [key for key in disk.durable if key[:1] == ENTRY]
    lost = keys[len(keys) - entries :] if before is None else [key for key in keys if key > _key(ENTRY, before)]
    for key in lost:
        del disk.durable[key]
    history = int.from_bytes(disk.durable.get(HISTORY, b"\x01"), "big") + 1
    disk.durable[HISTORY] = history.to_bytes(1, "big")

"""The logs of one source as cuts name them: what is found of them, how far each was read, and what is gone.

A follower reads them once, forward. This turns what it finds into stretches of lines and positions, and remembers enough to
go on after a restart and to find old ranges again.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator

import msgspec

from agent.folding import Stretch
from agent.follower import Follower
from agent.journal_format import FilePosition, Positions
from agent.known_logs import KnownLog, KnownSource, resumed
from agent.log_id import LogId, lost_bytes_id
from agent.lost_logs import found_in_place
from agent.reading import Holdings, Proofs
from agent.sources import Source
from agent.tail_events import Deliver, FileKey, Gap, Recovered, Rotated, Trouble
from agent.tail_life import FileState, LogState
from agent.tail_logs import Log, Position

UNDECIDED = frozenset({FileState.FOUND, FileState.OPENING, FileState.PROBING})


class ReadLog:
    """A log, and how far it was read."""

    __slots__ = (
        "end",
        "finished",
        "id",
        "identity",
        "latest_us",
        "marks",
        "proofs",
        "released",
        "released_to",
    )

    def __init__(self, id: LogId, end: int, proofs: Proofs) -> None:
        self.id, self.identity, self.proofs = id, id.encode(), proofs
        self.end = end
        """Offset in the log behind the last line that was handed out."""
        self.latest_us: int | None = None
        self.finished = self.released = False
        self.released_to = id.base
        self.marks: list[tuple[int, bytes]] | None = None
        """Directives met so far: offset behind the line, and the line. None: not looked for yet."""

    @property
    def position(self) -> FilePosition:
        return FilePosition(self.end - self.id.base, self.finished, self.latest_us)

    def directive_at(self, offset: int) -> bytes | None:
        """What holds there; None: it has to be looked for."""
        if not self.marks:
            return None
        index = bisect_right(self.marks, offset, key=lambda mark: mark[0])
        return self.marks[index - 1][1] if index else None


class SourceLogs:
    """Not thread-safe; one thread reads."""

    def __init__(
        self,
        source: Source,
        cut: Positions | None,
        known: KnownSource | None,
        *,
        hints: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`cut` are the files of the newest cut, None in a new journal; `known` is what was saved beside it."""
        self.source = source
        self.holdings = Holdings(source.tail.held_max)
        self.logs: dict[FileKey, ReadLog] = {}
        self.others: dict[bytes, FilePosition] = {}
        """Positions that no log stands behind: lost bytes, and what cannot be found any more."""
        self.lost: list[tuple[bytes, int]] = []
        """Identities and sizes of what was found lost since they were last looked at."""
        self.troubles: list[str] = []
        self.rotations = self.gaps = self.gap_bytes = self.read_bytes = 0
        self._missing: list[Gap] = []
        """Found since anything was read: they come into positions when that is done again."""
        self._let_go: set[bytes] = set()
        """Lost bytes that were released."""
        self._reported: set[bytes] = set()
        """Said to be gone: when cuts name them no more they are forgotten."""
        position = None
        if cut is not None and (known is not None or self._of(cut)):
            position = self._resume(self._of(cut), known)
        # Without what is known of the logs old files cannot be told from new ones: those that are not found begin as at a
        # first start.
        initial = position is None or known is None
        self.follower = Follower(
            source.patterns, source.tail, position, initial=initial, hints=hints, clock=clock
        )

    def _of(self, cut: Positions) -> dict[bytes, FilePosition]:
        return {name: at for name, at in cut.items() if name.startswith(self.source.tag)}

    # a restart

    def _resume(self, cut: dict[bytes, FilePosition], known: KnownSource | None) -> Position:
        found = []
        for one in () if known is None else known.logs:
            key = one.position.key
            if one.base < 0:
                found.append(one.position)
                continue
            log = ReadLog(
                LogId(self.source.tag, key, one.base), one.base, Proofs(one.position.head, one.proofs)
            )
            at = cut.pop(log.identity, None)
            if at is None and one.released:
                found.append(one.position)
                continue
            if at is not None:
                log.end, log.latest_us, log.finished = one.base + at.offset, at.latest_us, at.finished
            self.logs[key] = log
            log.released = one.released
            found.append(resumed(one, log.end))
        for name, at in cut.items():
            id = LogId.decode(name)
            again = (
                None if id is None or id.lost or at.finished else found_in_place(self.source, id, at.offset)
            )
            if id is not None and again is not None:
                log = ReadLog(id, again.offset, Proofs(again.head))
                log.latest_us = at.latest_us
                self.logs[id.key] = log
                found.append(again)
                continue
            if not at.finished and (id is None or not id.lost):
                self.troubles.append(
                    f"nothing is known any more of a log of source {self.source.name!r} that was read to byte "
                    f"{at.offset}; what follows there may be missing, or be counted again under another name"
                )
            self.others[name] = msgspec.structs.replace(at, finished=True)
        return Position(tuple(found))

    def saved(self) -> KnownSource:
        """All that a restart needs. O(logs)."""
        logs = []
        for position in self.follower.position().logs:
            log = self.logs.get(position.key)
            if log is None:
                logs.append(KnownLog(position, (), -1, False))
            else:
                logs.append(KnownLog(position, tuple(log.proofs.at.items()), log.id.base, log.released))
        return KnownSource(self.source.name, tuple(logs))

    def shape(self) -> frozenset[tuple[object, ...]]:
        """What has to be saved before a cut that rests on it is handed out. O(logs)."""
        return frozenset(
            (log.key, log.place, log.state is LogState.FINISHED, log.ignored, self._base(log.key))
            for log in self.follower.tail.logs
        )

    def _base(self, key: FileKey) -> tuple[int, bool]:
        log = self.logs.get(key)
        return (-1, False) if log is None else (log.id.base, log.released)

    def change(self, source: Source) -> None:
        """Other paths or another format, from the next look on: `name` is the same. Files that were found stay open until
        they are done with, listed or not."""
        self.source = source
        self.follower.change(source.patterns, source.tail)
        self.holdings.held_max = source.tail.held_max

    # reading

    def poll(self, reads: bool, room: int) -> Iterator[tuple[ReadLog, Stretch]]:
        """What one turn brings. Without `reads` only names and descriptors are kept up with. So many more logs may be begun
        as there is `room` for; other files wait."""
        tail = self.follower.tail
        tail.room, waited = room, tail.crowded
        if reads:
            self._lose()
        for found in self.follower.poll(reads):
            if isinstance(found, Deliver):
                log = self._log(found.key, found.offset)
                stretch = self._stretch(log, found)
                if stretch is not None:
                    yield log, stretch
                    log.end = max(log.end, found.end)
            elif isinstance(found, Gap):
                self._missing.append(found)
                if reads:
                    self._lose()
            elif isinstance(found, Rotated):
                self.rotations += 1
            elif isinstance(found, Trouble):
                self.troubles.append(f"{found.path}: {found.message}")
            elif isinstance(found, Recovered):
                self._recovered(found)
        if tail.crowded and not waited:
            self.troubles.append(
                f"source {self.source.name!r}: {tail.crowded} files wait until others are done with, for this agent "
                f"reads as many logs as it can; name fewer under paths"
            )
        self._keep_up()

    def _log(self, key: FileKey, offset: int) -> ReadLog:
        log = self.logs.get(key)
        if log is None:
            log = self.logs[key] = ReadLog(LogId(self.source.tag, key, offset), offset, Proofs())
        return log

    def _stretch(self, log: ReadLog, found: Deliver) -> Stretch | None:
        """The lines of it that were not handed out before a restart, and that began where reading did."""
        data, start = found.data, found.start
        self.read_bytes += found.stop - found.start
        if found.end <= log.end:
            return None
        start += max(0, log.end - found.offset)
        if start > 0 and data[start - 1] != 10:
            # The rest of a line whose beginning was handed out, or was not to be: read again it would be left out, too.
            start = data.find(b"\n", start, found.stop) + 1
            if start == 0:
                log.end = found.end
                return None
        if start >= found.stop:
            log.end = found.end
            return None
        is_long = (
            found.stop - start >= self.source.tail.line_bytes_max and data.find(b"\n", start, found.stop) < 0
        )
        return Stretch(found.path, found.offset + start - found.start, data, start, found.stop, is_long)

    def _lose(self) -> None:
        """What is missing is lost from now on. Positions of a log that was given up go on behind it: if it is found after
        all, nobody who was told of the loss reads it, and whoever reads that range later does."""
        for gap in self._missing:
            log = self.logs.get(gap.key)
            start = gap.start if log is None else max(gap.start, log.end)
            self.gaps += 1
            if gap.stop <= start:
                continue
            size = gap.stop - start
            self.gap_bytes += size
            if log is not None and gap.given_up:
                name, log.end = log.identity, gap.stop
            else:
                name = lost_bytes_id(self.source.tag, gap.key, start).encode()
                known = self.others.get(name, FilePosition(0))
                self.others[name] = FilePosition(known.offset + size, True, None)
            self.lost.append((name, size))
        self._missing.clear()

    def _recovered(self, found: Recovered) -> None:
        waiting = [gap for gap in self._missing if gap.key != found.key or not gap.given_up]
        if len(waiting) < len(self._missing):
            self._missing = waiting  # nobody was told
        elif found.key not in self.logs:  # cuts have forgotten it
            id = LogId(self.source.tag, found.key, found.stop)
            self.logs[found.key] = ReadLog(id, found.stop, Proofs())

    def _keep_up(self) -> None:
        tail = self.follower.tail
        for file in tail.files.values():
            log = file.log
            if log is not None and not log.ignored and log.key not in self.logs:
                self._log(log.key, log.offset)
        self.holdings.note(self.follower, self._is_needed)

    def _is_needed(self, key: FileKey) -> bool:
        log = self.logs.get(key)
        return log is not None and log.end > log.released_to

    # positions

    def positions(self) -> dict[bytes, FilePosition]:
        """How far everything was read. O(logs)."""
        tail = self.follower.tail
        found = dict(self.others)
        missing = {gap.key for gap in self._missing}
        for key, log in list(self.logs.items()):
            known = tail.logs.find(key)
            is_read = known is not None and log.end >= known.offset and key not in missing
            log.finished = known is None or (is_read and self._is_over(known))
            if known is not None:
                log.proofs.add(known)
            if log.end > log.id.base or (known is not None and self._has_more(known)):
                found[log.identity] = log.position
            elif known is None:
                del self.logs[key]
        return found

    def _has_more(self, log: Log) -> bool:
        """Whether there may be lines to read: files that were at their end when they were found need not be in cuts."""
        home = self.follower.tail.files.get(log.place) if log.place is not None else None
        at_rest = home is not None and (
            home.state in (FileState.CAUGHT_UP, FileState.CLOSED)
            or (not home.compressed and home.size_bytes <= log.offset)
        )
        return log.state is not LogState.FINISHED and not at_rest

    def _is_over(self, log: Log) -> bool:
        if log.state is LogState.FINISHED:
            return True
        home = self.follower.tail.files.get(log.place) if log.place is not None else None
        return (
            log.state is LogState.LIVE
            and home is not None
            and home.compressed
            and home.state is FileState.CLOSED
        )

    def log_of(self, id: LogId) -> ReadLog | None:
        """The log that an identity names; None: it is not known any more."""
        log = self.logs.get(id.key)
        return log if log is not None and log.id == id else None

    def is_sought(self, key: FileKey) -> bool:
        """Whether it is not known yet where the log is, after a restart or a truncation."""
        log = self.follower.tail.logs.find(key)
        return log is not None and log.state is LogState.LOST

    def gone(self, start: Positions) -> set[bytes]:
        """Finished and released, and in no file any more: cuts need not name them."""
        tail = self.follower.tail
        found = {name for name in self.others if name in self._let_go}
        for key, log in self.logs.items():
            known = tail.logs.find(key)
            if log.released and log.finished and (known is None or known.state is LogState.FINISHED):
                found.add(log.identity)
        found &= start.keys()
        self._reported |= found
        return found

    def forget(self, start: Positions) -> None:
        """Forgets what cuts do not name any more."""
        for name in [name for name in self._reported if name not in start]:
            self._reported.discard(name)
            self._let_go.discard(name)
            self.others.pop(name, None)
            id = LogId.decode(name)
            if id is not None and self.log_of(id) is not None:
                del self.logs[id.key]

    def release(self, files: Positions) -> None:
        """A7: what lies before these positions is asked for no more."""
        for name, at in files.items():
            if not name.startswith(self.source.tag):
                continue
            if name in self.others and at.finished:
                self._let_go.add(name)
            id = LogId.decode(name)
            log = None if id is None else self.log_of(id)
            if log is None or id is None:
                continue
            log.released_to = id.base + at.offset
            log.proofs.release(log.released_to)
            all_of_it = log.released_to >= log.end
            log.released = at.finished and all_of_it
            if all_of_it:
                self.holdings.release(id.key)

    @property
    def begun(self) -> int:
        """Entries that cuts may have of this source."""
        return len(self.logs) + len(self.others)

    @property
    def settled(self) -> bool:
        """Whether all files that were listed are judged, as far as there are descriptors."""
        tail = self.follower.tail
        return tail.full or not any(file.state in UNDECIDED and not file.shelved for file in tail.files.values())

    def close(self) -> None:
        self.follower.close()
        self.holdings.close()

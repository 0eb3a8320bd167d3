"""What an agent's core asks of its logs, answered from real files: read on, read again, let go (agent/stream_events.py).

Synchronous, for one thread; agent/driver.py has the thread. Old ranges are read step by step, so that the frontier goes on.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TypeVar

from agent import known_logs
from agent.figures import SourceFigures, source_figures
from agent.folding import NO_ROOM, SourceScan, StreamFold, Stretch, fold
from agent.follower import Handle
from agent.journal_format import FilePosition, Positions
from agent.left_logs import LeftLogs
from agent.log_id import LogId
from agent.reading import best_of, close_all, covered, directive_before, old_lines
from agent.source_logs import ReadLog, SourceLogs
from agent.sources import Sources
from agent.stream_events import (
    Advance,
    Advanced,
    Fold,
    Folded,
    FoldSpec,
    Portion,
    Release,
    Started,
    StreamKey,
)
from agent.tail_events import FileKey
from agent.unfit_plans import UnfitPlans, lost_range
from cbt.memory import Memory
from job.formats import SourceScanner
from job.plan_book import ALWAYS
from job.times import later
from job.watermark import FUTURE_US
from job.window import pane_us

SAVE_S = 2.0
"""What is known of logs is saved so often while they grow, and before a cut that rests on it at once."""
BEGIN_S = 10.0
"""For so long the files that are there at the start are looked at before their positions are told."""
IDLE_TURN_S = 0.2
"""An advance that finds nothing for so long, as it unpacks an archive, is answered."""
FOLD_BYTES_MIN = 64 << 10
"""Without memory a range is read again in parts no smaller than this; then it waits."""
REST_S = 0.25
"""Between two tries."""
FILES_MAX = 7168
"""Logs of all sources that are read at a time: below what a cut has room for (agent/journal.py)."""
LOOK_MAX_S = 30.0
"""What is not found when all files are judged is not there; if they cannot be judged for so long it counts as lost, too."""

T = TypeVar("T")


class _Moved(Exception):  # noqa: N818 - never leaves this module
    """A file was cut while it was read again: what was read of it is not to be believed."""


class _NoRoom(Exception):  # noqa: N818 - never leaves this module
    """The groups of an old range find no room. `read_bytes`: of how much of it."""

    def __init__(self, read_bytes: int) -> None:
        self.read_bytes = read_bytes


@dataclass
class _Source:
    """A source, and the scan of its new lines."""

    logs: SourceLogs
    scan: SourceScan
    shared: SourceScanner | None = None
    scanners: dict[FileKey, SourceScanner] = field(default_factory=dict)
    behind: dict[FileKey, float] = field(default_factory=dict)
    """Since when each log is behind."""


@dataclass
class _Target:
    """Where lines that are read again go."""

    scan: SourceScan
    folds: dict[StreamKey, StreamFold]
    full: set[StreamKey] = field(default_factory=set)
    latest_us: int | None = None
    read_bytes: int = 0

    def take(
        self, scanner: SourceScanner, stretch: Stretch, future_us: int | None
    ) -> list[tuple[int, bytes]]:
        scanned, latest_us, directives = self.scan.scan(scanner, stretch, future_us)
        for key in fold(scanned, self.folds):
            self.full.add(key)
            del self.folds[key]
        self.latest_us = later(self.latest_us, latest_us)
        self.read_bytes += stretch.stop - stretch.start
        return directives

    def next_file(self) -> None:
        self.latest_us = None

    def lose(self, size: int) -> None:
        for trees in self.folds.values():
            trees.lose(size)


class LogReader:
    """The logs of all sources of an agent."""

    def __init__(
        self,
        sources: Sources,
        start: Positions | None,
        memory: Memory,
        path: str,
        journal_id: bytes,
        *,
        hints: bool = True,
        clock: Callable[[], float] = time.monotonic,
        wall_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        files_max: int = FILES_MAX,
        aside: known_logs.Aside = lambda task: task(),
    ) -> None:
        """`start` are the files of the newest cut, None in a new journal; `path` is a file for what is known of the logs;
        `memory` is shared with all of the node; `aside` is at once without another thread. Raises OSError when that file may
        not be read."""
        self.sources, self.troubles = sources, list[str]()
        self.wants_shrink = False
        """Memory was short: the core should drop what it can fold again."""
        self._memory, self._file = memory, known_logs.LogsFile(path, journal_id, aside)
        self._hints, self._clock, self._wall_us = hints, clock, wall_us
        saved, problem = known_logs.load(path) if start is not None else (None, "")
        if problem:
            self.troubles.append(problem)
        mine = saved is not None and saved.journal_id == journal_id
        known = {one.name: one for one in saved.sources} if saved is not None and mine else {}
        self._by_name = {
            name: _Source(
                SourceLogs(source, start, known.get(name), hints=hints, clock=clock), SourceScan(source, ())
            )
            for name, source in sources.by_name.items()
        }
        self._files_max, self._cut_files = files_max, 0 if start is None else len(start)
        self._folds: dict[StreamKey, StreamFold] = {}
        self._unfit = UnfitPlans(sources)
        self._left = LeftLogs(start or {}, sources)
        self._shape: object = None
        self._saved_at = 0.0
        self._grown = False

    # the start, and between asks

    def begin(self) -> Started:
        """Looks at what is there. At most BEGIN_S, except that the disk may be slow."""
        end = self._clock() + BEGIN_S
        while True:
            self.idle()
            if all(source.logs.settled for source in self._by_name.values()) or self._clock() >= end:
                return Started(self._positions())

    def idle(self) -> None:
        """Keeps up with names, so that no file is missed. Reads nothing on."""
        for source in self._by_name.values():
            deque(source.logs.poll(False, self._room), maxlen=0)  # nothing is delivered without reading

    @property
    def _room(self) -> int:
        begun = sum(source.logs.begun for source in self._by_name.values())
        return self._files_max - max(begun, self._cut_files)

    def due_s(self) -> float:
        """Seconds until `idle` is due."""
        return min((source.logs.follower.due_s() for source in self._by_name.values()), default=3600.0)

    def filenos(self) -> list[int]:
        """Descriptors that are readable when something has changed."""
        found = [source.logs.follower.fileno() for source in self._by_name.values()]
        return [fd for fd in found if fd is not None]

    def _positions(self) -> dict[bytes, FilePosition]:
        return {name: at for source in self._by_name.values() for name, at in source.logs.positions().items()}

    def take_troubles(self) -> list[str]:
        """What a person should know, since the last call."""
        found, self.troubles = self.troubles + self._unfit.troubles + self._file.take_troubles(), []
        self._unfit.troubles = []
        for source in self._by_name.values():
            found += source.logs.troubles
            source.logs.troubles = []
        return found

    def change(self, sources: Sources) -> None:
        """Other sources from now on. One that stays goes on where it is, with all files that it holds open: some of them may
        be deleted by now. New ones begin as at a first start; those that were here before go on in the files that they
        left. What was read of one that is gone stays in the cuts while a stream may need it, and its files are let go.
        Streams over a source that changed are read again. `folding` has to be asked anew."""
        before, self._by_name, self.sources = self._by_name, {}, sources
        self._unfit.change(sources)
        for name, source in sources.by_name.items():
            known = before.pop(name, None)
            if known is None:
                at = self._left.take(source)
                logs = SourceLogs(source, at, None, hints=self._hints, clock=self._clock)
                known = _Source(logs, SourceScan(source, ()))
            elif known.logs.source != source:
                known.logs.change(source)
                scan = SourceScan(source, ())
                scan.keep_counts_of(known.scan)
                known.scan, known.shared, known.scanners = scan, None, {}
                for key in self._mine(known):
                    del self._folds[key]
            self._by_name[name] = known
        for gone in before.values():
            self._left.leave(gone.logs.positions())
            gone.logs.close()
            for key in self._mine(gone):
                del self._folds[key]

    def figures(self) -> tuple[SourceFigures, ...]:
        """How the logs stand. O(files)."""
        now_s = self._clock()
        return tuple(
            source_figures(source.logs, source.scan, source.behind, now_s)
            for source in self._by_name.values()
        )

    # reading on

    def advance(self, ask: Advance) -> Advanced:
        """O(bytes there are, at most about bytes_max)."""
        clock_us = self._wall_us() if ask.clock_us is None else ask.clock_us
        self._cut_files = len(ask.start)
        full = self._prepare(ask)
        heard: dict[bytes, int] = {}
        for source in self._by_name.values():
            source.logs.forget(ask.start)
            full |= self._go_back(source, ask, heard)
        more, lost = self._read_on(ask, clock_us + FUTURE_US, full, heard)
        files = {**ask.start, **self._positions()}
        for name, size in lost:
            (owner,) = [one.name for one in self.sources.by_name.values() if name.startswith(one.tag)]
            self._unfit.lose(owner, size)
            for trees in self._folds.values():
                if trees.plan.source == owner:
                    trees.lose(size)
        portions = self._deliver(ask, full)
        is_kept = self._save()
        gone = self._left.gone(ask.start)
        if is_kept:
            gone = gone.union(*(source.logs.gone(ask.start) for source in self._by_name.values()))
        self.wants_shrink = self.wants_shrink or bool(full)
        return Advanced(ask.token, files, heard, portions, frozenset(full), frozenset(gone), more)

    def _prepare(self, ask: Advance) -> set[StreamKey]:
        """The trees and scans for these streams; those whose trees are not there as they should be."""
        missing = self._unfit.asked(ask.specs)
        folds: dict[StreamKey, StreamFold] = {}
        for spec in ask.specs:
            if spec.plan.source not in self._by_name or self._unfit.is_unfit(spec):
                continue
            known = self._folds.get(spec.key)
            if spec.fresh:
                known = StreamFold(spec, self._memory)
            if known is None:
                missing.add(spec.key)
                continue
            known.bound(spec)
            folds[spec.key] = known
        self._folds = folds
        for name, source in self._by_name.items():
            scan = SourceScan(source.logs.source, self._specs(ask, name))
            if scan.wanted != source.scan.wanted:
                scan.keep_counts_of(source.scan)
                source.scan, source.shared, source.scanners = scan, None, {}
        return missing

    def _specs(self, ask: Advance, name: str) -> list[FoldSpec]:
        return [spec for spec in ask.specs if spec.plan.source == name and not self._unfit.is_unfit(spec)]

    def _mine(self, source: _Source) -> dict[StreamKey, StreamFold]:
        name = source.logs.source.name
        return {key: trees for key, trees in self._folds.items() if trees.plan.source == name}

    def _go_back(self, source: _Source, ask: Advance, heard: dict[bytes, int]) -> set[StreamKey]:
        """Reads again what is behind `start` and was read before: there was no room for that cut in the journal."""
        behind = {
            name: at
            for name, at in source.logs.positions().items()
            if at.offset > ask.start.get(name, FilePosition(0)).offset
        }
        if not behind:
            return set()
        specs = self._specs(ask, source.logs.source.name)
        target = _Target(SourceScan(source.logs.source, specs), self._mine(source))
        stale = {spec.key for spec in ask.specs if not spec.fresh and spec.key in target.folds}
        for key in stale:
            del target.folds[key]
        try:
            for name, at in behind.items():
                target.next_file()
                start = ask.start.get(name, FilePosition(0)).offset
                self._unfit.lose(source.logs.source.name, at.offset - start)
                if any(self._old_range(source.logs, name, start, at, target, 1 << 62)):
                    raise _Moved  # it has to be waited for, and nobody waits here
                if target.latest_us is not None:
                    heard[name] = target.latest_us
        except _Moved:
            stale |= target.folds.keys()
        for key in stale | target.full:
            self._folds.pop(key, None)
        return stale | target.full

    def _read_on(
        self, ask: Advance, future_us: int, full: set[StreamKey], heard: dict[bytes, int]
    ) -> tuple[bool, list[tuple[bytes, int]]]:
        begun, taken, crossed = self._clock(), 0, False
        pane = min((_pane_us(spec) for spec in ask.specs if _pane_us(spec)), default=0)
        while True:
            before = taken
            for source in self._by_name.values():
                mine = self._mine(source)
                for log, stretch in source.logs.poll(True, self._room):
                    taken += stretch.stop - stretch.start
                    self._unfit.lose(source.logs.source.name, stretch.stop - stretch.start)
                    old_us = log.latest_us
                    latest_us = self._feed(source, log, stretch, future_us, mine, full)
                    if latest_us is None:
                        continue
                    heard[log.identity] = max(latest_us, heard.get(log.identity, latest_us))
                    log.latest_us = latest_us if old_us is None else max(old_us, latest_us)
                    crossed = crossed or (bool(pane) and (old_us or latest_us) // pane < latest_us // pane)
            more = any(source.logs.follower.tail.busy for source in self._by_name.values())
            tired = taken == before and self._clock() - begun >= IDLE_TURN_S
            if not more or crossed or tired or taken >= ask.bytes_max:
                break
        self._grown = self._grown or taken > 0
        lost = [one for source in self._by_name.values() for one in source.logs.lost]
        for source in self._by_name.values():
            source.logs.lost = []
        return more, lost

    def _feed(
        self,
        source: _Source,
        log: ReadLog,
        stretch: Stretch,
        future_us: int,
        folds: dict[StreamKey, StreamFold],
        full: set[StreamKey],
    ) -> int | None:
        scanned, latest_us, directives = source.scan.scan(
            self._scanner(source, log, stretch.offset), stretch, future_us
        )
        if log.marks is not None:
            log.marks += directives
        for key in fold(scanned, folds):
            full.add(key)
            del folds[key]
            del self._folds[key]
        return latest_us

    def _scanner(self, source: _Source, log: ReadLog, offset: int) -> SourceScanner:
        if not source.logs.source.format.directives:
            if source.shared is None:
                source.shared = source.scan.scanner()
            return source.shared
        known = source.scanners.get(log.id.key)
        if known is None:
            directive = _finished(self._directive(source.logs, log, offset, None))
            known = source.scanners[log.id.key] = source.scan.scanner(directive)
        return known

    def _directive(
        self, logs: SourceLogs, log: ReadLog, offset: int, handle: Handle | None
    ) -> Generator[None, None, bytes]:
        """What the last #Fields line before `offset` says."""
        known = log.directive_at(offset)
        if known is not None or offset == 0:
            log.marks = [] if log.marks is None else log.marks
            return known or b""
        handles = logs.holdings.open(log.id.key, logs.follower) if handle is None else []
        try:
            if handle is None and not handles:
                return b""
            found = yield from directive_before(handle or handles[0], offset)
        finally:
            close_all(handles)
        if log.marks is None:
            log.marks = [(offset, found)] if found else []
        return found

    def _deliver(self, ask: Advance, full: set[StreamKey]) -> dict[StreamKey, Portion]:
        portions: dict[StreamKey, Portion] = {}
        for spec in ask.specs:
            if not spec.deliver or spec.key in full:
                continue
            trees = self._folds.pop(spec.key, None)
            try:
                portions[spec.key] = self._unfit.portion(spec.key) if trees is None else trees.portion(spec)
            except NO_ROOM:
                full.add(spec.key)
        return portions

    def _save(self) -> bool:
        """Whether what is known of the logs is on disk, as far as a cut rests on it."""
        shape = {name: source.logs.shape() for name, source in self._by_name.items()}
        due = self._grown and self._clock() >= self._saved_at + SAVE_S
        if shape == self._shape and not due:
            return True
        saved = tuple(source.logs.saved() for source in self._by_name.values())
        self._saved_at, self._grown = self._clock(), False
        if shape == self._shape:
            self._file.save_aside(saved)
            return True
        if not self._file.save(saved):
            return False
        self._shape = shape
        return True

    # reading again

    def folding(self, ask: Fold) -> Generator[float, None, Folded]:
        """Reads a range again, step by step. Yields the seconds for which nothing can be done; 0: it may go on."""
        limit = ask.bytes_max
        while True:
            try:
                return (yield from self._fold_once(ask, limit))
            except _Moved:
                yield REST_S
            except _NoRoom as problem:
                self.wants_shrink = True
                limit = max(problem.read_bytes // 2, FOLD_BYTES_MIN)
                yield REST_S

    def _fold_once(self, ask: Fold, limit: int) -> Generator[float, None, Folded]:
        spec, source = ask.spec, self._by_name.get(ask.spec.plan.source)
        if source is None or self._unfit.is_unfit(spec):
            return Folded(ask.token, lost_range(spec.plan.source, ask))
        trees = StreamFold(spec, self._memory)
        trees.bound(spec)
        target = _Target(SourceScan(source.logs.source, (spec,)), {spec.key: trees})
        reached: dict[bytes, FilePosition] = {}
        latest_us, left = None, limit
        is_partial = False
        for name, end in ask.end.items():
            start = ask.start.get(name, FilePosition(0))
            mine = name.startswith(source.logs.source.tag)
            if mine and start.offset < end.offset and left > 0:
                target.next_file()
                at = yield from self._old_range(source.logs, name, start.offset, end, target, left)
                if target.full:
                    raise _NoRoom(target.read_bytes)
                left -= at - start.offset
                latest_us = later(latest_us, target.latest_us)
                if at < end.offset:
                    reached[name] = FilePosition(at, False, later(start.latest_us, target.latest_us))
                    is_partial, left = True, 0
                    continue
            elif start.offset < end.offset:
                is_partial = is_partial or mine
                if name in ask.start:
                    reached[name] = start
                continue
            reached[name] = end
        try:
            portion = trees.portion(spec)
        except NO_ROOM:
            raise _NoRoom(target.read_bytes) from None
        return Folded(ask.token, portion, reached if is_partial else None, latest_us)

    def _old_range(
        self, logs: SourceLogs, name: bytes, start: int, end: FilePosition, target: _Target, limit: int
    ) -> Generator[float, None, int]:
        """Reads from position `start` of a file to `end`, or to a line end after about `limit` bytes; where it came to. What
        is gone is counted. Raises _Moved."""
        id = LogId.decode(name)
        log = None if id is None or id.lost else logs.log_of(id)
        if id is None or log is None:
            target.lose(end.offset - start)
            return end.offset
        first, stop = id.base + start, id.base + end.offset
        asked_s = self._clock()
        while True:
            while logs.is_sought(id.key):
                yield REST_S
            handles = logs.holdings.open(id.key, logs.follower)
            try:
                found = best_of(handles, log.proofs, stop, logs.source.tail.proof_bytes)
                handle, size = yield from _paused(found)
                if size < stop and not logs.follower.has_looked(asked_s):
                    yield REST_S  # it may have been cut or replaced a moment ago
                    if self._clock() < asked_s + LOOK_MAX_S:
                        continue
                if handle is None or size <= first:
                    break
                at, is_all = yield from self._old_lines(
                    logs, log, handle, (first, size, stop), end, target, limit
                )
                if not is_all:
                    return at - id.base
                target.lose(stop - at)
                return end.offset
            finally:
                close_all(handles)
        target.lose(stop - first)
        return end.offset

    def _old_lines(
        self,
        logs: SourceLogs,
        log: ReadLog,
        handle: Handle,
        bounds: tuple[int, int, int],
        end: FilePosition,
        target: _Target,
        limit: int,
    ) -> Generator[float, None, tuple[int, bool]]:
        """How far it came, and whether that is all there is."""
        first, size, stop = bounds
        options = logs.source.tail
        directive = b""
        if logs.source.format.directives:
            directive = yield from _paused(self._directive(logs, log, first, handle))
        scanner = target.scan.scanner(directive)
        # What was rejected for lying in the future lies behind the latest line that was not.
        future_us = ALWAYS if end.latest_us is None else end.latest_us
        at, is_all = first, False
        lines = old_lines(handle, first, size, size == stop, options)
        while True:
            try:
                stretch = next(lines)
            except StopIteration as done:
                at, is_all = done.value, True
                break
            if stretch is not None:
                target.take(scanner, stretch, future_us)
                at = stretch.offset + stretch.stop - stretch.start
                if at - first >= limit and at < size:
                    break
            yield 0.0
        if handle.packed is None:
            # It may have been cut meanwhile.
            still = yield from _paused(covered(handle, log.proofs, size, options.proof_bytes))
            if still < size:
                raise _Moved
        return at, is_all

    # letting go

    def release(self, ask: Release) -> None:
        """Takes effect with the next advance."""
        self._left.release(ask.files)
        for source in self._by_name.values():
            source.logs.release(ask.files)

    def close(self) -> None:
        """Saves what is known, and closes all files."""
        self._shape = None
        self._save()
        self.abandon()

    def abandon(self) -> None:
        """Closes all files and saves nothing, as the end of the process does."""
        for source in self._by_name.values():
            source.logs.close()


def _paused(steps: Generator[None, None, T]) -> Generator[float, None, T]:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            value: T = done.value
            return value
        yield 0.0


def _finished(steps: Generator[object, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            value: T = done.value
            return value


def _pane_us(spec: FoldSpec) -> int:
    window = spec.plan.window
    return 0 if window is None else pane_us(window.size_us, window.slide_us)

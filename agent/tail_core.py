"""The inner half of the tail: whose content a file is, reading it, and what to do when it is gone.

`agent.tail.Tail` adds the outer half: listings, turns, limits. See docs/TAIL.md.
"""

from __future__ import annotations

from collections import deque

from agent.tail_events import (
    Close,
    Compare,
    Deliver,
    Effect,
    FileKey,
    FindStart,
    Gap,
    Read,
    ReadDone,
    Reason,
    Recovered,
    Relist,
    Rotated,
)
from agent.tail_file import File, Place, Probing
from agent.tail_life import FileCause, FileState, LogCause, LogState
from agent.tail_logs import Catalogue, Log, Position, Probe, digest
from agent.tail_options import TailOptions

READABLE = frozenset({FileState.READING, FileState.DRAINING})
UNDECIDED = frozenset({FileState.FOUND, FileState.OPENING, FileState.PROBING})
NEVER_READ = -1
"""The generation in the key of a gap in a file that never came to be read."""
_LIKELY = {LogState.LOST: 0, LogState.FINISHED: 1, LogState.LIVE: 2}


class TailCore:
    """State and the steps of single files and logs. Not used by itself."""

    def __init__(self, options: TailOptions, position: Position | None) -> None:
        self.options = options
        self.logs = Catalogue(position, options.proof_bytes, options.logs_max)
        self.files: dict[Place, File] = {}
        self.open_files: dict[int, File] = {}
        self._ready: deque[File] = deque()
        self._effects: list[Effect] = []
        self._now = 0.0
        self._handles = 0

    def _emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    # --- descriptors and reads ---

    def _ask(self, file: File, offset: int, size_bytes: int) -> None:
        assert file.handle is not None
        file.asked, file.pending = (offset, size_bytes), False
        self._emit(Read(file.handle, offset, size_bytes))

    def _close(self, file: File) -> None:
        if file.handle is not None:
            del self.open_files[file.handle]
            self._emit(Close(file.handle))
        file.handle, file.asked, file.probing, file.unproven = None, None, None, False
        if file.queued:
            self._ready.remove(file)
            file.queued = False

    def _enqueue(self, file: File) -> None:
        """Has the file read in one of the next turns; those that may vanish go first."""
        if file.queued:
            return
        file.queued = True
        if file.state is FileState.DRAINING:
            self._ready.appendleft(file)
        else:
            self._ready.append(file)

    def _request(self, file: File) -> None:
        """Reads on, with the bytes before the offset that prove that the file still holds its log."""
        assert file.log is not None
        start = file.log.read_offset
        self._ask(file, start, file.log.offset - start + file.want)

    # --- whose content is it? ---

    def _probe(self, file: File) -> None:
        file.probing, file.starting = None, False
        self._ask(file, 0, self.options.proof_bytes + 1)

    def _probed(self, file: File, event: ReadDone) -> None:
        if file.starting:
            self._start_at_end(file, event)
        elif file.probing is None:
            self._headed(file, event)
        else:
            self._tested(file, file.probing, event)

    def _headed(self, file: File, event: ReadDone) -> None:
        file.read_to = file.size_bytes
        file.compressed = file.compressed or event.compressed
        head = event.data[: self.options.proof_bytes]
        if file.head and not head.startswith(file.head) and not file.compressed:
            self._maybe_lost(file, len(file.head))
        file.head, file.known_bytes = head, len(event.data)
        if not event.data:
            file.move(FileCause.NO_BYTES)
            if not file.listed:
                self._drop(file, FileCause.UNLISTED)
            return
        if file.initial and self._from_end(file):
            self._independent(file)
            return
        size = None if file.compressed and not event.end else len(event.data) if event.end else file.size_bytes
        probes = [probe for probe in self.logs.probes(head, size) if probe.log not in file.cleared]
        file.probing = Probing(head, probes, self.logs.added)
        self._next_test(file, file.probing)

    def _tested(self, file: File, probing: Probing, event: ReadDone) -> None:
        probe = probing.todo.pop(0)
        wanted = probe.at - max(0, probe.at - self.options.proof_bytes)
        file.known_bytes = max(file.known_bytes, event.offset + len(event.data))
        if len(event.data) >= wanted and digest(event.data[:wanted]) == probe.proof:
            probing.matched.append(probe)
        elif event.end and len(event.data) < wanted:
            # Shorter than thought, or compressed and only now known to be: test where it does have bytes.
            shorter = probe.log.probe(probing.head, event.offset + len(event.data))
            if shorter is not None and shorter.at < probe.at:
                probing.todo.insert(0, shorter)
        self._next_test(file, probing)

    def _next_test(self, file: File, probing: Probing) -> None:
        while probing.todo and probing.todo[0].at <= len(probing.head):
            probe = probing.todo.pop(0)
            start = max(0, probe.at - self.options.proof_bytes)
            if not probe.proof or digest(probing.head[start : probe.at]) == probe.proof:
                probing.matched.append(probe)
        if probing.todo:
            at = probing.todo[0].at
            start = max(0, at - self.options.proof_bytes)
            self._ask(file, start, at - start + 1)  # and whether anything follows
            return
        file.probing = None
        if self.logs.added != probing.added:
            self._probe(file)  # other files were judged meanwhile
        else:
            self._judge(file, probing.matched)

    def _judge(self, file: File, matched: list[Probe]) -> None:
        """Decides between a log of its own, one that is known, and waiting."""
        order = sorted(
            matched,
            key=lambda probe: (
                -probe.at, not probe.whole, probe.log.place != file.place, _LIKELY[probe.log.state],
            ),
        )  # fmt: skip
        for probe in order:
            verdict = self._verdict(file, probe)
            if verdict is FileCause.SAME_LOG:
                self._adopt(file, probe.log)
                return
            if verdict is FileCause.MAYBE_COPY:
                file.move(FileCause.MAYBE_COPY)
                file.held_by, file.held_state, file.evidence_bytes = probe.log, probe.log.state, probe.at
                file.held_stat = (file.size_bytes, file.mtime_ns)
                file.differs, file.compared_bytes, file.whole = False, -1, probe.whole
                if not file.listed:
                    self._drop(file, FileCause.UNLISTED)
                return
        self._independent(file)

    def _verdict(self, file: File, probe: Probe) -> FileCause | None:
        """What a passed test means; None: nothing. Few equal bytes prove little: logs may begin alike."""
        log = probe.log
        aside = self._set_aside(file, log)
        strong = probe.at >= self.options.proof_bytes or file.compressed or log.ignored or aside
        at_home = log.place == file.place
        if log.state is LogState.LIVE:
            return FileCause.MAYBE_COPY if strong else None
        if not probe.whole:
            # Shorter than what was read of a log that is gone: the copy was made before the last of it was written.
            return FileCause.MAYBE_COPY if aside or file.compressed else None
        if log.state is LogState.FINISHED:
            return FileCause.SAME_LOG if strong or at_home else None
        if at_home:
            return FileCause.SAME_LOG if strong or log.reason != "truncated" else None
        home = self.files.get(log.place) if log.place is not None else None
        if log.reason == "restart" and home is not None and home.state in UNDECIDED:
            return FileCause.MAYBE_COPY
        return FileCause.SAME_LOG if strong or log.reason != "restart" else None

    def _set_aside(self, file: File, log: Log) -> bool:
        """Whether `file` came beside the log's own file, which stayed where it was: so copytruncate begins."""
        home = self.files.get(log.place) if log.place is not None else None
        if home is None or home.moved or not home.listed:
            return False
        return log.path in home.paths and log.path not in file.paths

    def _from_end(self, file: File) -> bool:
        read_from = self.options.read_from
        return read_from == "end" or (
            read_from == "since" and file.mtime_ns < self.options.since_s * 1_000_000_000
        )

    def _independent(self, file: File) -> None:
        """The file holds a log of its own. Where does its reading start?"""
        if not file.initial or self.options.read_from == "beginning":
            self._begin(file, 0)
        elif self._from_end(file):
            self._skip(file)
        elif file.compressed:
            self._begin(file, 0)
        else:
            assert file.handle is not None
            file.starting = True
            self._emit(FindStart(file.handle, file.size_bytes))

    def _skip(self, file: File) -> None:
        if file.compressed:
            file.log = self.logs.add(file.place, file.path, file.head, 0)
            file.log.ignored = True
            file.move(FileCause.KNOWN)
            self._shut(file)
        elif file.first_bytes == 0:
            self._begin(file, 0)
        else:
            file.starting = True
            start = max(0, file.first_bytes - 2 * self.options.proof_bytes)
            self._ask(file, start, file.first_bytes - start)

    def _start_at_end(self, file: File, event: ReadDone) -> None:
        """Starts at the last line end before the size first seen: half a line that waits there is read whole."""
        end = event.data.rfind(b"\n") + 1
        if end == 0 and event.offset > 0:
            offset, skipping = event.offset + len(event.data), True
        else:
            offset, skipping = event.offset + end, False
        log = self._begin(file, offset)
        log.skipping = skipping
        if max(0, offset - self.options.proof_bytes) >= event.offset:
            log.proof = digest(event.data[log.read_offset - event.offset : offset - event.offset])

    def _begin(self, file: File, offset: int) -> Log:
        file.starting = file.initial = False
        file.log = log = self.logs.add(file.place, file.path, file.head, offset)
        file.held_by = None
        file.move(FileCause.NEW_LOG)
        self._reading(file)
        return log

    def _reading(self, file: File) -> None:
        assert file.log is not None
        file.read_to = len(file.head) if file.log.offset == 0 else 0
        file.want, file.final, file.fresh = self.options.read_bytes, False, False
        file.read_at = self._now
        if not file.listed:
            file.move(FileCause.UNLISTED)
        self._enqueue(file)

    def _adopt(self, file: File, log: Log) -> None:
        """`file` holds a log that has no file of its own: read on from there."""
        if log.gap_bytes >= 0 and not log.ignored:
            self._emit(Recovered(log.key, log.offset, log.offset + log.gap_bytes, log.open_ended))
        log.gap_bytes = -1
        elsewhere = log.place != file.place and log.place in self.files
        log.move(LogCause.FOUND_AGAIN)
        log.place, file.log, file.held_by, file.initial = file.place, log, None, False
        self._renamed(file)
        if log.ignored:
            file.move(FileCause.KNOWN)
            self._shut(file)
            return
        if log.reason == "restart":
            # Renamed or compressed: all is there. A copy beside a file that was cut may lack what came after it.
            log.open_ended = elsewhere and not file.compressed
        file.move(FileCause.SAME_LOG)
        self._reading(file)

    def _review(self, file: File) -> None:
        """Looks again at a file that may be a copy, because it or the log it resembles has changed."""
        log = file.held_by
        assert log is not None
        if self._judged_on_old_facts(file, log):
            if not file.compressed and file.size_bytes < file.held_stat[0]:
                self._cut_while_held(file, log, file.held_stat[0])
            file.move(FileCause.GREW)
            file.held_by = None
            self._probe(file)
        elif log.state is LogState.LIVE and log.place is not None:
            home = self.files[log.place]
            if self._differs(file, log, home):
                self._no_copy(file, log)
            elif home.compressed and file.whole:
                self._outgrown(file, home, log)
            elif not file.compressed and file.compared_bytes != file.size_bytes and not file.differs:
                self._compare(file, home)

    def _judged_on_old_facts(self, file: File, log: Log) -> bool:
        if (file.size_bytes, file.mtime_ns) != file.held_stat or log.state is not file.held_state:
            return True
        if log.state is LogState.LOST and log.reason == "restart":
            return True  # until its own file has been looked at
        return file.compressed and log.offset >= 2 * max(file.evidence_bytes, self.options.proof_bytes)

    def _differs(self, file: File, log: Log, home: File) -> bool:
        """Whether a file is no copy of the log that lives in `home`, although it began as one."""
        shared = min(len(file.head), len(log.head))
        if file.head[:shared] != log.head[:shared] or (file.differs and not home.unproven):
            return True
        settled = self._now - file.grown_at >= self.options.settle_s and not file.compressed
        if home.compressed:
            return settled and not file.whole and not self._set_aside(file, log)
        rested = home.state is FileState.CAUGHT_UP and home.size_bytes == home.read_to
        weak = file.evidence_bytes < self.options.proof_bytes
        size = file.known_bytes if file.compressed else file.listed_bytes
        return rested and (self._surpasses(size, log) or (weak and settled))

    def _outgrown(self, file: File, home: File, log: Log) -> None:
        """The log was read from an archive of it; when the file goes on behind that, reading goes on in the file."""
        if home.state is FileState.CLOSED and file.size_bytes > log.offset:
            home.log = None
            self._drop(home, FileCause.UNLISTED)  # and known anew at the next listing
            self._finish(log)

    def _no_copy(self, file: File, log: Log) -> None:
        file.cleared.append(log)
        file.move(FileCause.DIFFERS)
        file.held_by = None
        self._probe(file)

    def _compare(self, file: File, home: File) -> None:
        """The last bytes of a file tell whether it goes on as the log does that it began like."""
        if home.state is FileState.CLOSED and not home.compressed:
            home.failed_stat = None  # have it opened
        elif home.needs_handle and not home.compressed and home.size_bytes >= file.size_bytes:
            assert file.handle is not None
            assert home.handle is not None
            start = max(0, file.size_bytes - self.options.proof_bytes)
            self._emit(Compare(file.handle, home.handle, start, file.size_bytes - start))

    def _surpasses(self, size_bytes: int, log: Log) -> bool:
        """Whether a file of that size holds more than the log it may be a copy of."""
        home = self.files.get(log.place) if log.place is not None else None
        if home is not None and home.compressed:
            return False
        return size_bytes > max(log.seen_bytes, 0 if home is None else home.size_bytes)

    def _cut_while_held(self, file: File, log: Log, held_bytes: int) -> None:
        """What it held and may have held since is gone. If that was no copy, it is a log of its own, to be looked for."""
        if self._surpasses(held_bytes, log):
            own = self.logs.add(file.place, file.path, file.head, 0)
            own.seen_bytes = held_bytes
            self._lose(own, LogCause.TRUNCATED, "truncated", open_ended=True)
        else:
            self._maybe_lost(file, file.evidence_bytes)
        file.head = b""

    def _maybe_lost(self, file: File, known_bytes: int) -> None:
        """A file was cut before it was known whether it held a log of its own."""
        key = FileKey(*file.place, digest(file.head).hex(), NEVER_READ)
        self._emit(Gap(key, file.path, known_bytes, known_bytes, "truncated", True))

    def _renamed(self, file: File) -> None:
        """Tells when the log of a file is at another path."""
        if file.log is not None and file.log.path not in file.paths:
            file.log.path = file.path
            self._emit(Rotated(file.log.key, file.path))

    # --- reading ---

    def _read_on(self, file: File, event: ReadDone) -> None:
        log = file.log
        assert log is not None
        file.unproven = False
        reached = event.offset + len(event.data)
        shrunk = log.offset == 0 and reached < file.read_to  # nothing to prove, but something is gone
        if shrunk or not log.continues(event.data):
            self._changed(file)
            return
        if file.fresh:
            file.fresh = False
            self._renamed(file)
        file.troubled = False
        log.saw(event.data, event.offset)
        if reached != file.read_to:
            file.read_at = self._now
        file.read_to = reached
        final = event.end and (file.final or file.compressed)
        self._deliver(file, log, event, final)
        if event.end and not (file.dirty and not file.compressed):
            self._at_end(file, log)
        else:
            file.dirty = False
            self._enqueue(file)

    def _deliver(self, file: File, log: Log, event: ReadDone, final: bool) -> None:
        data, at = event.data, event.offset
        start = log.offset - at
        if log.skipping and start < len(data):
            end = data.find(b"\n", start) + 1
            log.skipping, start = end == 0, end or len(data)
            log.advance(data, at, at + start)
        stop = data.rfind(b"\n", start) + 1
        if final:
            stop = len(data)
        elif stop == 0 and len(data) - start >= self.options.line_bytes_max:
            stop, log.skipping = len(data), True
        elif stop == 0 and not event.end:
            file.want = min(file.want * 2, self.options.line_bytes_max)
        if stop > start:
            offset = log.offset
            log.advance(data, at, at + stop)
            file.want = self.options.read_bytes
            self._emit(Deliver(log.key, log.path, offset, data, start, stop))

    def _at_end(self, file: File, log: Log) -> None:
        self._settle_gap(file, log)
        if file.state is FileState.READING and file.compressed:
            file.move(FileCause.KNOWN)
            self._shut(file)
        elif file.state is FileState.READING:
            file.move(FileCause.END)
        elif file.final or file.compressed:
            self._drained(file)

    def _settle_gap(self, file: File, log: Log) -> None:
        """A log found again has been read to the end of what was found: is that all there was?"""
        missing = log.seen_bytes > file.read_to
        if missing or log.open_ended:
            stop = max(log.seen_bytes, file.read_to)
            self._emit(Gap(log.key, log.path, file.read_to, stop, log.reason, log.open_ended))
            log.open_ended = False
            log.seen_bytes = file.read_to

    def _shut(self, file: File) -> None:
        """Closes a file that stays listed; it is opened again when it changes."""
        self._close(file)
        if not file.listed:
            self._drop(file, FileCause.UNLISTED)

    def _drained(self, file: File) -> None:
        """A file no longer listed was read to its end."""
        log = file.log
        assert log is not None
        file.log = None
        self._drop(file, FileCause.DONE)
        log.place = None if file.unlinked else file.place
        self._finish(log)

    def _drop(self, file: File, cause: FileCause) -> None:
        self._close(file)
        file.move(cause)
        file.held_by = None
        del self.files[file.place]

    # --- logs whose file is gone ---

    def _changed(self, file: File) -> None:
        """The file holds something else now: it was cut, overwritten, or its inode was given to another file."""
        log = file.log
        assert log is not None
        reused = file.fresh and (log.path not in file.paths or file.compressed)
        file.log, file.head, file.initial, file.grown_at = None, b"", False, self._now
        file.cleared.clear()
        file.move(FileCause.CHANGED)
        if reused:
            log.place = None
            self._leave(log)
        else:
            self._lose(log, LogCause.TRUNCATED, "truncated", open_ended=True)
        if file.handle is not None:
            self._probe(file)

    def _leave(self, log: Log) -> None:
        """The file of a log has gone: is something missing?"""
        if log.seen_bytes > log.offset:
            self._lose(log, LogCause.VANISHED, "deleted", open_ended=False)
        else:
            self._finish(log)

    def _lose(self, log: Log, cause: LogCause, reason: Reason, open_ended: bool) -> None:
        log.move(cause)
        log.reason, log.open_ended, log.lost_at = reason, open_ended, self._now
        self._emit(Relist())
        self._review_copies(log)

    def _finish(self, log: Log) -> None:
        log.move(LogCause.READ_OUT)
        self._review_copies(log)

    def _review_copies(self, log: Log) -> None:
        held = [file for file in self.files.values() if file.held_by is log]
        for file in sorted(held, key=lambda file: -file.listed_bytes):
            if file.held_by is log and file.state is FileState.HELD:
                self._review(file)

    def _give_up(self, log: Log) -> None:
        """The rest of a lost log was not found in time."""
        stop = max(log.seen_bytes, log.offset)
        log.gap_bytes = stop - log.offset
        self._emit(Gap(log.key, log.path, log.offset, stop, log.reason, log.open_ended))
        log.move(LogCause.GIVEN_UP)

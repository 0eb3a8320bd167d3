"""Whose content is a file? The part of the tail that knows logs again: copies, archives, files that only begin alike.

See docs/TAIL.md, "How a log is known".
"""

from __future__ import annotations

from agent.tail_core import NEVER_READ, UNDECIDED, TailCore
from agent.tail_events import Compare, FileKey, FindStart, Gap, ReadDone, Recovered, Relist
from agent.tail_file import File, Probing
from agent.tail_life import FileCause, FileState, LogCause, LogState
from agent.tail_logs import Log, Probe, digest

_LIKELY = {LogState.LOST: 0, LogState.FINISHED: 1, LogState.LIVE: 2}


class TailKin(TailCore):
    """Judges files by their first bytes and by proofs. Not used by itself."""

    # --- probing ---

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
        seen = max(file.half_bytes, file.unjudged_bytes)
        cut = not head.startswith(file.head) or (event.end and len(event.data) < seen)
        if cut and not file.compressed:
            self._maybe_lost(file, 0 if seen else len(file.head), file.half_bytes if seen else len(file.head))
        file.half_bytes = file.unjudged_bytes = 0
        if file.known_stat != (file.size_bytes, file.mtime_ns):
            file.known_stat, file.known_bytes = (file.size_bytes, file.mtime_ns), 0
        file.head, file.known_bytes = head, max(file.known_bytes, len(event.data))
        file.unpacked_bytes = len(event.data) if event.end else None
        if not event.data:
            file.move(FileCause.NO_LINE)
            if not file.listed:
                self._drop(file, FileCause.UNLISTED)
            return
        if file.initial and self._from_end(file) and not self._is_sought_in(file):
            self._independent(file)
            return
        if self._half_a_line(file, event):
            file.half_bytes = len(event.data)
            file.move(FileCause.NO_LINE)
            return
        size = None if file.compressed and not event.end else len(event.data) if event.end else file.size_bytes
        probes = [probe for probe in self.logs.probes(head, size) if probe.log not in file.cleared]
        file.probing = Probing(head, probes, self.logs.added)
        self._next_test(file, file.probing)

    def _is_sought_in(self, file: File) -> bool:
        """Whether a log of an earlier life was in that file."""
        return any(log.place == file.place for log in self.logs.lost())

    def _tested(self, file: File, probing: Probing, event: ReadDone) -> None:
        probe = probing.todo.pop(0)
        wanted = probe.at - max(0, probe.at - self.options.proof_bytes)
        reached = event.offset + len(event.data)
        file.known_bytes = max(file.known_bytes, reached)
        if event.end:
            file.unpacked_bytes = reached
        if len(event.data) >= wanted and digest(event.data[:wanted]) == probe.proof:
            probing.matched.append(probe)
        elif event.end and len(event.data) < wanted:
            # Shorter than thought, or compressed and only now known to be: test where it does have bytes.
            shorter = probe.log.probe(probing.head, reached)
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
        judged = [(probe, self._verdict(file, probe)) for probe in matched]
        judged.sort(key=lambda pair: self._likeness(file, pair[0]))
        file.judged_among = self.logs.added
        file.rivals = [
            probe
            for probe, verdict in judged
            if verdict is FileCause.MAYBE_COPY and probe.log.state is LogState.LIVE
        ]
        for probe, verdict in judged:
            if verdict is FileCause.SAME_LOG:
                sure = probe.at >= self.options.proof_bytes or probe.log.place == file.place
                self._adopt(file, probe.log, sure)
                return
            if verdict is FileCause.MAYBE_COPY:
                self._hold(file, probe)
                return
        self._independent(file)

    def _likeness(self, file: File, probe: Probe) -> tuple[object, ...]:
        """Sorts the logs that a file may hold, the likeliest first. An archive may go on only a log that no other is
        likelier than: of logs that begin alike, the file of the right one has the rest of the archive, too."""
        log = probe.log
        outgrown = self._outgrown(file, log)
        short = probe.at < self.options.proof_bytes
        unproven = short and log.state is not LogState.LIVE and log.place != file.place
        goes_on = file.compressed and (outgrown or unproven)
        compared = log is file.compared_to and not (file.compressed and outgrown)
        return goes_on, not compared, -probe.at, not probe.whole, log.place != file.place, _LIKELY[log.state]

    def _outgrown(self, file: File, log: Log) -> bool:
        """Whether the file holds more than the one that log lives in."""
        return log.state is LogState.LIVE and log.place is not None and self._longer(file, log, self.files[log.place])

    def _verdict(self, file: File, probe: Probe) -> FileCause | None:
        """What a passed test means; None: nothing. Few equal bytes prove little: logs may begin alike."""
        log = probe.log
        aside = self._set_aside(file, log)
        strong = probe.at >= self.options.proof_bytes or file.compressed or log.packed or log.ignored or aside
        at_home = log.place == file.place
        if log.state is LogState.LIVE:
            return FileCause.MAYBE_COPY if strong else None
        if strong and not at_home and self._undecided_source(file, probe.at) is not None:
            return FileCause.MAYBE_COPY
        if not probe.whole:
            # Shorter than what was read of a log that is gone: the copy was made before the last of it was written.
            return FileCause.MAYBE_COPY if aside or file.compressed else None
        if log.state is LogState.FINISHED:
            return FileCause.SAME_LOG if strong or at_home else None
        if at_home:
            return FileCause.SAME_LOG if strong or log.reason != "truncated" else None
        if self._undecided_home(log) is not None:
            return FileCause.MAYBE_COPY
        return FileCause.SAME_LOG if strong else None

    def _undecided_home(self, log: Log) -> File | None:
        """The file a log was in before a restart, while it is not known whether it still is."""
        home = self.files.get(log.place) if log.place is not None and log.reason == "restart" else None
        return home if home is not None and home.state in UNDECIDED and not home.shelved else None

    def _undecided_source(self, file: File, evidence_bytes: int) -> File | None:
        """A file that an archive may be made of, while nobody knows what is in it: few equal bytes say nothing before."""
        if not file.compressed or evidence_bytes >= self.options.proof_bytes:
            return None
        for other in self.files.values():
            waits = other.state is FileState.FOUND and (self.full or other.shelved)
            if other.state in UNDECIDED and not other.compressed and not waits:
                return other
        return None

    def _set_aside(self, file: File, log: Log) -> bool:
        """Whether `file` came to another path while the log's own file stayed where it was, as copytruncate has it. What
        happened to that file since then does not matter."""
        if log in file.beside:
            return True
        if file.place == log.place or log.born in file.paths or (file.listed and log.path in file.paths):
            return False
        if log.place is None and log.away is None:
            return False
        beside = file.found_in <= min(log.away or file.found_in, log.moved_in or file.found_in)
        if beside:
            file.beside.append(log)
        return beside

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
        file.move(FileCause.NEW_LOG)
        self._reading(file)
        return log

    def _adopt(self, file: File, log: Log, sure: bool) -> None:
        """`file` holds a log that has no file of its own: read on from there."""
        if log.gap_bytes >= 0 and not log.ignored:
            self._emit(Recovered(log.key, log.offset, log.offset + log.gap_bytes, log.open_ended))
        log.gap_bytes, log.proven = -1, None if sure else log.offset
        elsewhere = log.place != file.place
        log.move(LogCause.FOUND_AGAIN)
        log.place, log.away, log.moved_in, log.born = file.place, None, None, file.path
        file.log, file.initial = log, False
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

    def _hold(self, file: File, probe: Probe) -> None:
        """The file may be a copy of that log: nothing of it is delivered until it turns out to be none."""
        file.move(FileCause.MAYBE_COPY)
        if file.compared_to is not probe.log or file.held_stat != (file.size_bytes, file.mtime_ns):
            file.compared_to, file.compared_bytes, file.unsure, file.outgrew_in = probe.log, -1, False, -1
        file.held_by, file.held_state, file.evidence_bytes = probe.log, probe.log.state, probe.at
        file.held_stat = (file.size_bytes, file.mtime_ns)
        file.differs, file.whole, file.held_offset = False, probe.whole, probe.offset
        file.awaited = self._undecided_home(probe.log) if probe.log.state is LogState.LOST else None
        if file.awaited is None and probe.log.state is not LogState.LIVE and probe.log.place != file.place:
            file.awaited = self._undecided_source(file, probe.at)
        file.measured_bytes, file.outgrew = -1, self._outgrown(file, probe.log)
        if probe.at == file.end_bytes:
            file.compared_bytes = probe.at
        probe.log.copies.add(file)
        if probe.log.state is LogState.LIVE:
            self._review(file)
            return
        known = probe.whole or file.compared_bytes == file.end_bytes or probe.at == file.end_bytes
        last = probe.log.state is LogState.FINISHED or not file.listed
        if last and not known and file.awaited is None:
            self._tell_unsure(file, probe.at)
        if not file.listed and file.awaited is None:
            self._drop(file, FileCause.UNLISTED)

    def _tell_unsure(self, file: File, start: int) -> None:
        """What it is a copy of is gone or packed, so nobody compares what follows from `start`."""
        if not file.unsure and file.end_bytes != start:
            file.unsure = True
            self._maybe_lost(file, start, start)

    def _review(self, file: File) -> None:
        """Looks again at a file that may be a copy, because it or the log it resembles has changed."""
        log = file.held_by
        assert log is not None
        if file.asked is not None:
            return  # the answer comes first
        if self._judged_on_old_facts(file, log):
            if not file.compressed and file.size_bytes < file.held_stat[0]:
                self._cut_while_held(file, log, file.held_stat[0])
            self._unhold(file, FileCause.GREW)
            self._probe(file)
        elif log.state is LogState.LIVE and log.place is not None:
            home = self.files[log.place]
            longer = self._longer(file, log, home)
            unpacked = home.compressed and home.state is FileState.CLOSED
            if (longer or unpacked) and file.whole and file.held_offset != log.offset:
                self._unhold(file, FileCause.GREW)  # the log was read on: does the file hold that, too?
                self._probe(file)
            elif longer and self._undecided_source(file, file.evidence_bytes) is not None:
                pass  # looked at again at the next listing
            elif longer and self._has_rivals(file):
                if file.rejudged_in != self._listings:
                    file.rejudged_in = self._listings
                    self._unhold(file, FileCause.GREW)
                    self._probe(file)
            elif longer and file.whole and self._alike(file, log):
                self._go_on(file, log, home)
            elif longer or self._differs(file, log, home):
                self._no_copy(file, log)
            elif unpacked and file.compressed and not file.whole:
                self._tell_unsure(file, file.evidence_bytes)
            elif not file.differs and file.end_bytes != file.compared_bytes:
                self._compare(file, log, home)

    def _has_rivals(self, file: File) -> bool:
        """Whether a log's file may have all of an archive, or more of it than is known of the one it would go on."""
        if not file.compressed:
            return False
        if file.judged_among != self.logs.added:
            return True
        rivals = [probe for probe in file.rivals if probe.log.state is LogState.LIVE and probe.log not in file.cleared]
        if len(rivals) > 1 and not file.outgrew:
            return True
        return any(probe.log.offset != probe.offset or not self._outgrown(file, probe.log) for probe in rivals)

    def _go_on(self, file: File, log: Log, home: File) -> None:
        """The file begins with all that was delivered of the log, and is longer than the log's own file."""
        short = file.evidence_bytes < self.options.proof_bytes
        if (short and home.compressed and file.compressed) or (file.differs and not home.unproven):
            self._no_copy(file, log)  # an archive is all of its log; half a line differs
        elif short and file.compressed and file.outgrew_in in (-1, self._listings):
            if file.outgrew_in < 0:  # it was unpacked after the other files were looked at
                file.outgrew_in = self._listings
                self._emit(Relist())
        elif home.compressed or home.size_bytes <= max(log.offset, file.compared_bytes):
            self._hand_over(file, log, home)
        else:
            self._compare_to(file, home, home.size_bytes)

    def _judged_on_old_facts(self, file: File, log: Log) -> bool:
        if (file.size_bytes, file.mtime_ns) != file.held_stat or log.state is not file.held_state:
            return True
        awaited = file.awaited
        if awaited is None:
            return False
        return awaited.state not in UNDECIDED or awaited.shelved or (self.full and awaited.state is FileState.FOUND)

    def _differs(self, file: File, log: Log, home: File) -> bool:
        """Whether a file is no copy of the log that lives in `home`, although it began as one."""
        if not self._alike(file, log) or (file.differs and not home.unproven):
            return True
        settled = self._now - file.grown_at >= self.options.settle_s and not file.compressed
        if home.compressed:
            return settled and not file.whole
        return settled and file.evidence_bytes < self.options.proof_bytes and self._rested(home)

    def _alike(self, file: File, log: Log) -> bool:
        """Whether they begin alike as far as is known by now: more may be known of the log than when the file was judged."""
        shared = min(len(file.head), len(log.head))
        return file.head[:shared] == log.head[:shared]

    def _rested(self, home: File) -> bool:
        return home.state is FileState.CAUGHT_UP and home.size_bytes == home.read_to

    def _longer(self, file: File, log: Log, home: File) -> bool:
        """Whether the file holds more than the one its log lives in."""
        if home.compressed:
            size = file.size_bytes if not file.compressed else 0 if log.ignored else file.known_bytes
            return home.state is FileState.CLOSED and size > log.offset
        size = file.known_bytes if file.compressed else file.listed_bytes
        return self._rested(home) and self._surpasses(size, log)

    def _hand_over(self, file: File, log: Log, home: File) -> None:
        """A log belongs to the longest file that holds it: as if that had been found first."""
        home.log = None
        log.move(LogCause.READ_OUT)
        self._unhold(file, FileCause.DIFFERS)
        self._adopt(file, log, sure=True)
        home.beside.append(log)
        if home.state is FileState.CLOSED:
            self._drop(home, FileCause.UNLISTED)  # known anew at the next listing
        else:
            home.move(FileCause.HANDED_OVER)
            self._probe(home)

    def _no_copy(self, file: File, log: Log) -> None:
        file.cleared.append(log)
        self._unhold(file, FileCause.DIFFERS)
        self._probe(file)

    def _measured(self, file: File, event: ReadDone) -> None:
        """How far a held archive reaches."""
        reached = event.offset + len(event.data)
        file.known_bytes = max(file.known_bytes, reached)
        if event.end:
            file.unpacked_bytes = reached
        self._review(file)

    def _compare(self, file: File, log: Log, home: File) -> None:
        """The last bytes of a file tell whether it goes on as the log does that it began like."""
        if home.state is FileState.CLOSED and not home.compressed:
            home.failed_stat = None  # have it opened
        elif file.end_bytes is None:
            size = max(log.seen_bytes, home.size_bytes)
            if self._rested(home) and size != file.measured_bytes:
                file.measured_bytes = size
                self._ask(file, size, 1)
        elif home.needs_handle and not home.compressed and home.size_bytes >= file.end_bytes:
            self._compare_to(file, home, file.end_bytes)

    def _compare_to(self, file: File, home: File, stop: int) -> None:
        assert file.handle is not None
        assert home.handle is not None
        start = max(0, stop - self.options.proof_bytes)
        file.comparing_bytes = stop
        self._emit(Compare(file.handle, home.handle, start, stop - start))

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
            self._maybe_lost(file, file.evidence_bytes, file.evidence_bytes)
        file.head = b""

    def _maybe_lost(self, file: File, start: int, stop: int) -> None:
        """A file was cut, or what it may be a copy of, before it was known whether it held a log of its own."""
        key = FileKey(*file.place, digest(file.head).hex(), NEVER_READ)
        self._emit(Gap(key, file.path, start, stop, "truncated", True))

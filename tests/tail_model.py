"""A file system in memory, a writer, and a bookkeeper who knows what the tail must have delivered."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from agent.tail import Tail, check
from agent.tail_events import (
    Close,
    Compare,
    Compared,
    Deliver,
    Effect,
    Event,
    FileKey,
    Gap,
    Listed,
    Modified,
    Open,
    Opened,
    OpenFailed,
    OpenSeen,
    Read,
    ReadDone,
    ReadFailed,
    ReadPending,
    Recovered,
    Relist,
    Rotated,
    Seen,
    Trouble,
    Turn,
)
from agent.tail_life import LogState
from agent.tail_logs import digest
from agent.tail_options import TailOptions

LIVE = "access.log"


@dataclass(eq=False)
class Inode:
    """A file. `data` are its uncompressed bytes; `past` what it held before it was truncated."""

    number: int
    data: bytes = b""
    past: list[bytes] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    compressed: bool = False
    complete: bool = True
    readable: bool = True
    mtime_ns: int = 0
    unbegun: list[bytes] = field(default_factory=list)
    """What it held that no log was begun for: whoever saw it forgets it in a restart."""
    opened: bool = False
    unpacked: int = 0

    @property
    def size_bytes(self) -> int:
        return len(self.data) // 2 + 10 if self.compressed else len(self.data)


class World:
    """File system, tail and books. Every effect waits in `pending` until `run` carries it out."""

    def __init__(self, options: TailOptions) -> None:
        self.options = options
        self.tail = Tail(options)
        self.now_s, self._tick, self._next_line = 100.0, 0, 0
        self.names: dict[str, Inode] = {}
        self.moved: set[Inode] = set()
        """Renamed since the last listing."""
        self.listed: set[Inode] = set()
        """In any listing before this one."""
        self.restarted = False
        self.free: list[int] = []
        self._inodes = 0
        self.handles: dict[int, Inode] = {}
        self.everyone: list[Inode] = []
        self.pending: deque[Effect] = deque()
        self.writers: dict[str, Inode] = {}
        self.halves: dict[str, bytes] = {}
        self.written: list[bytes] = []
        self.torn: set[bytes] = set()
        self.knowable: set[bytes] = set()
        self.delivered: Counter[bytes] = Counter()
        self.gaps: list[Gap] = []
        self.ends: dict[FileKey, int] = {}
        self.homes: dict[FileKey, set[int]] = {}
        self.list_wanted = False
        self.head_bytes = 0

    # --- the file system ---

    def create(self, name: str, data: bytes = b"", compressed: bool = False) -> Inode:
        if self.free:
            number = self.free.pop()
            for old in self.everyone:  # whoever was listed and never opened looks as if it were this one
                if old.number == number and not old.opened:
                    self.knowable.difference_update(old.data.splitlines(keepends=True))
        else:
            self._inodes += 1
            number = self._inodes
        inode = Inode(number, data, compressed=compressed)
        self.everyone.append(inode)
        self.link(name, inode)
        self.touch(inode)
        return inode

    def touch(self, inode: Inode) -> None:
        self._tick += 1
        inode.mtime_ns = self._tick

    def link(self, name: str, inode: Inode) -> None:
        self.unlink(name)
        self.names[name] = inode
        inode.names.add(name)

    def unlink(self, name: str) -> None:
        inode = self.names.pop(name, None)
        if inode is not None:
            inode.names.discard(name)
            self._release(inode)

    def rename(self, old: str, new: str) -> None:
        inode = self.names[old]
        self.link(new, inode)
        del self.names[old]
        inode.names.discard(old)
        self.moved.add(inode)

    def _release(self, inode: Inode) -> None:
        held = inode in self.handles.values() or inode in self.writers.values()
        if not inode.names and not held and inode.number not in self.free:
            self.free.append(inode.number)

    def truncate(self, inode: Inode) -> None:
        begun = any(log.place == (1, inode.number) and log.offset > self.head_bytes for log in self.tail.logs)
        if not inode.opened or not begun:  # at most the head that all logs share: nobody can tell what else was in it
            self.knowable.difference_update(inode.data.splitlines(keepends=True))
        if not any(log.place == (1, inode.number) and log.state is LogState.LIVE for log in self.tail.logs):
            inode.unbegun.append(inode.data)
        inode.past.append(inode.data)
        inode.opened = False
        inode.data = b""
        self.touch(inode)

    # --- writers ---

    def reopen(self, name: str = LIVE) -> None:
        """The server opens its log, a new one when the old was moved."""
        self.tear(name)
        old = self.writers.pop(name, None)
        if name not in self.names:
            self.create(name)
        self.writers[name] = self.names[name]
        if old is not None:
            self._release(old)

    def line(self) -> bytes:
        self._next_line += 1
        text = b"L%04d %s\n" % (self._next_line, b"x" * (self._next_line % 7))
        self.written.append(text)
        return text

    def append(self, name: str, data: bytes) -> None:
        inode = self.writers[name]
        inode.data += data
        self.touch(inode)

    def write(self, name: str, count: int) -> None:
        self.append(name, self.halves.pop(name, b""))
        for _ in range(count):
            self.append(name, self.line())

    def write_half(self, name: str) -> None:
        self.append(name, self.halves.pop(name, b""))
        line = self.line()
        self.append(name, line[:5])
        self.halves[name] = line[5:]

    def tear(self, name: str) -> None:
        """The rest of a half-written line never comes, or comes elsewhere."""
        rest = self.halves.pop(name, None)
        if rest is not None:
            self.torn.update(line for line in self.written if line.endswith(rest))

    # --- what the tail asks for ---

    def list(self, misses_moved: bool = False) -> None:
        """`misses_moved`: what was renamed last is in no listing, as its old name was gone when it was looked at, and its
        new one not there yet when names were read."""
        self.list_wanted = misses_moved and bool(self.moved)  # a rename is a hint, too
        missed = self.moved if misses_moved else set()
        self.moved = set()
        files = tuple(
            Seen(name, 1, inode.number, inode.size_bytes, inode.mtime_ns)
            for name, inode in sorted(self.names.items())
            if inode not in missed
        )
        opened = tuple(
            OpenSeen(handle, inode.size_bytes, inode.mtime_ns, len(inode.names))
            for handle, inode in self.handles.items()
        )
        if self.restarted:
            self._forget_cut()
        found = set(self.names.values()) - missed
        for inode in found:
            self._know(inode)
        self.tell(Listed(files, opened))
        self.listed |= found

    def _forget_cut(self) -> None:
        """A log cut while nobody followed it, whose copy is packed, looks like one whose inode is used again."""
        self.restarted = False
        packed = [inode.data for inode in self.names.values() if inode.compressed and inode.data]
        for log in self.tail.logs:
            for inode in self.everyone:
                for content in inode.past if log.place == (1, inode.number) else []:
                    if any(content.startswith(data) for data in packed):
                        self.knowable.difference_update(content.splitlines(keepends=True))

    def _know(self, inode: Inode) -> None:
        if inode.readable and inode.complete:
            self.knowable.update(inode.data.splitlines(keepends=True))

    def tell(self, event: Event) -> None:
        self._observed(event)
        for effect in self.tail.handle(event, self.now_s):
            if isinstance(effect, Deliver):
                self._delivered(effect)
            elif isinstance(effect, Gap):
                self._gap(effect)
            elif isinstance(effect, Recovered):
                self._recovered(effect)
            elif isinstance(effect, Relist):
                self.list_wanted = True
            elif isinstance(effect, Close):
                inode = self.handles.pop(effect.handle, None)
                if inode is not None:
                    self._release(inode)
                self.pending = deque(left for left in self.pending if getattr(left, "handle", None) != effect.handle)
            elif not isinstance(effect, Trouble | Rotated):
                self.pending.append(effect)
        for log in self.tail.logs:
            if log.place is not None:
                self.homes.setdefault(log.key, set()).add(log.place[1])
        check(self.tail)

    def _observed(self, event: Event) -> None:
        """Looking at a file, or reading in it, is a chance to read all of it; a hint or a turn is none."""
        looked = [looked.handle for looked in event.opened] if isinstance(event, Listed) else [getattr(event, "handle", 0)]
        for handle in () if isinstance(event, Modified) else looked:
            inode = self.handles.get(handle)
            if inode is not None and inode.opened:
                self._know(inode)

    def run(self, count: int = 1000) -> None:
        """Carries out pending effects, and those that follow from them."""
        while self.pending and count > 0:
            count -= 1
            effect = self.pending.popleft()
            assert isinstance(effect, Open | Read | Compare)
            if isinstance(effect, Compare):
                self.tell(self._compare(effect))
                continue
            self.tell(self._open(effect) if isinstance(effect, Open) else self._read(effect))

    def _compare(self, effect: Compare) -> Event:
        stop = effect.offset + effect.size_bytes
        both = [self.handles[number].data[effect.offset : stop] for number in (effect.handle, effect.other)
                if number in self.handles and self.handles[number].complete]  # fmt: skip
        if len(both) < 2 or min(len(data) for data in both) < effect.size_bytes:
            return Compared(effect.handle, None)
        return Compared(effect.handle, both[0] == both[1])

    def _open(self, effect: Open) -> Event:
        inode = self.names.get(effect.path)
        if inode is None:
            return OpenFailed(effect.handle, True, "no such file")
        if not inode.readable:
            return OpenFailed(effect.handle, False, "permission denied")
        self.handles[effect.handle] = inode
        inode.unpacked = 0
        return Opened(effect.handle, 1, inode.number, inode.size_bytes, inode.mtime_ns, inode.compressed)

    def _read(self, effect: Read) -> Event:
        inode = self.handles[effect.handle]
        stop = effect.offset + effect.size_bytes
        if inode.compressed and effect.offset > inode.unpacked + 20:
            inode.unpacked += 20
            return ReadPending(effect.handle)
        if stop >= len(inode.data) and not inode.complete:
            return ReadFailed(effect.handle, "ends too early")
        offset = min(effect.offset, len(inode.data)) if inode.compressed else effect.offset
        data = inode.data[offset:stop]
        inode.opened = inode.opened or bool(data)
        return ReadDone(effect.handle, offset, data, len(data) < effect.size_bytes)

    def turn(self) -> None:
        self.tell(Turn())

    def hint(self, name: str) -> None:
        inode = self.writers.get(name)
        for handle in [handle for handle, open_one in self.handles.items() if open_one is inode]:
            self.tell(Modified(handle))

    def restart(self) -> None:
        """A new tail goes on from the old one's position."""
        position = self.tail.position()
        logged = {log.place for log in self.tail.logs if log.offset > self.head_bytes}
        for inode in self.everyone:
            kept = (1, inode.number) in logged
            # The next tail cannot know what was there, if the position names nothing that was read of it.
            unknown = (inode.unbegun if kept else inode.past) + ([] if kept and inode.opened else [inode.data])
            for content in unknown:
                self.knowable.difference_update(content.splitlines(keepends=True))
            inode.opened = False
        self.pending.clear()
        for handle in list(self.handles):
            self._release(self.handles.pop(handle))
        self.tail = Tail(self.options, position)
        self.restarted = True

    # --- the books ---

    def _delivered(self, effect: Deliver) -> None:
        assert effect.stop > effect.start
        begin = 0 if self.options.read_from == "beginning" else effect.offset
        assert self.ends.get(effect.key, begin) == effect.offset, "a log is delivered without holes"
        self.ends[effect.key] = effect.end
        self.delivered.update(effect.data[effect.start : effect.stop].splitlines(keepends=True))

    def _gap(self, gap: Gap) -> None:
        """What is counted as gap must be out of reach, and be missing."""
        self.gaps.append(gap)
        for line in self._lines_in(gap):
            assert self.delivered[line] == 0, f"{line!r} is delivered and in {gap}"
            assert not self._reachable(line), f"{line!r} can be read, but is in {gap}"

    def _recovered(self, effect: Recovered) -> None:
        known = [gap for gap in self.gaps if gap.key == effect.key]
        assert known, "what was never missing cannot come back"
        self.gaps.remove(known[-1])
        assert (known[-1].start, known[-1].stop) == (effect.start, effect.stop)

    def _reachable(self, line: bytes) -> bool:
        listed = [inode for inode in self.names.values() if inode.readable and inode.complete]
        return any(line in inode.data for inode in [*listed, *self.handles.values()])

    def _lines_in(self, gap: Gap, open_ended: bool = False) -> list[bytes]:
        """Whole lines that begin in the gap, of all contents of the inodes the log was in."""
        found = []
        for inode in self.everyone:
            if inode.number not in self.homes.get(gap.key, {gap.key.inode}) or inode not in self.listed:
                continue
            for content in [*inode.past, inode.data]:
                at = 0
                if not open_ended and not self._begins(content, gap.key.head):
                    continue
                for line in content.splitlines(keepends=True):
                    end = at + len(line)
                    inside = end > gap.start if open_ended else gap.start <= at and end <= gap.stop
                    # A gap of the same range in another content of the inode is not about this line.
                    if inside and line in self.written and (open_ended or self.delivered[line] == 0):
                        found.append(line)
                    at = end
        return found

    def _begins(self, content: bytes, head: str) -> bool:
        """Whether `head` hashes some first bytes of the content."""
        return any(digest(content[:stop]).hex() == head for stop in range(self.options.proof_bytes + 1))

    def settle(self) -> None:
        """Nobody writes or moves anything any more; the tail gets all the time it needs."""
        for name in list(self.halves):
            self.write(name, 0)
        for inode in self.names.values():
            inode.readable = inode.complete = True
            self.touch(inode)
        for _ in range(24):
            self.poll()
            self.now_s += 0.5

    def poll(self) -> None:
        """Lists, and reads until there is nothing left to do; that must not take forever."""
        self.list()
        for _ in range(1000):
            self.run()
            assert not self.pending, "the tail asks without end"
            if self.list_wanted:
                self.list()
            elif self.tail.busy:
                self.turn()
            else:
                return
        raise AssertionError("the tail does not come to rest")

    def audit(self) -> None:
        """Every line once, or in a counted gap, or never within reach."""
        excused: set[bytes] = set(self.torn)
        for gap in self.gaps:
            excused.update(self._lines_in(gap, gap.open_ended))
        for line in self.written:
            count = self.delivered[line]
            assert count <= 1, f"{line!r} came {count} times"
            if count == 0 and line in self.knowable:
                assert line in excused, f"{line!r} is missing and not counted; gaps: {self.gaps}"

"""The frames of a vertex that wait for the parent or its answer: encoded, in order, on disk when memory is short."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import RLock
from zlib import crc32

from cbt.budget import Budget, Ledger
from cbt.errors import SpillError
from cbt.spill import Extent, SpillFile
from srt.automaton import NEVER, Ref
from srt.frame_messages import Frame

Source = tuple[Ref, int]
"""A child and the number of its frame."""
_OVERHEAD_BYTES = 400
"""What a frame takes beside its bytes, as measured."""


class _Part:
    """Bytes in memory or on disk."""

    __slots__ = ("_check", "_data", "_extent", "_spill", "size")

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data: bytes | None = data
        self._extent: Extent | None = None
        self._spill: SpillFile | None = None
        self._check = 0

    @property
    def memory_bytes(self) -> int:
        return 0 if self._data is None else self.size

    def spill(self, spill: SpillFile) -> None:
        """Raises SpillError, and then keeps its bytes."""
        if self._data is not None:
            self._check = crc32(self._data)
            self._extent, self._spill = spill.write(self._data), spill
            self._data = None

    def read(self) -> bytes:
        """Raises SpillError when the disk does not give back what it was given."""
        if self._data is not None:
            return self._data
        assert self._spill is not None
        assert self._extent is not None
        data = self._spill.read(self._extent)
        if crc32(data) != self._check:
            raise SpillError(
                f"the spill file in {self._spill.directory} gives back other bytes than were written"
            )
        return data

    def __del__(self) -> None:
        if self._spill is not None and self._extent is not None:
            self._spill.free(self._extent)


@dataclass(slots=True)
class _Flying:
    parts: list[_Part]
    sources: list[Source]
    size: int
    solo: bool
    since_s: float
    """When its last part left; until then, when it was closed."""
    sent: int = 0
    """Parts that left."""


class InFlight:
    """Frames by number, ascending. The budget may ask it to give way, as it asks trees: then bytes go to disk."""

    table_bytes = 0

    def __init__(self, budget: Budget) -> None:
        self.lock = RLock()
        self.ledger = Ledger(budget)
        self.size = 0
        """Bytes of all frames, wherever they are."""
        self._budget = budget
        self._frames: OrderedDict[int, _Flying] = OrderedDict()
        self._waiting: OrderedDict[int, None] = OrderedDict()
        """Those of which parts have not left, ascending: the last ones."""
        self._number = 0
        budget.register(self)

    def __len__(self) -> int:
        return len(self._frames)

    def __contains__(self, number: int) -> bool:
        return number in self._frames

    @property
    def waiting(self) -> int:
        """Frames that have not left, or not wholly."""
        return len(self._waiting)

    @property
    def waiting_bytes(self) -> int:
        """Their bytes. O(waiting)."""
        return sum(self._frames[number].size for number in self._waiting)

    @property
    def oldest(self) -> int:
        """The number of the first frame; there must be one."""
        return next(iter(self._frames))

    def due_s(self, forget_after_s: float, with_waiting: bool) -> float:
        """When the oldest frame has had no answer for so long. Those that wait are young unless `with_waiting`."""
        for number, flying in self._frames.items():
            if number in self._waiting and not with_waiting:
                break
            return flying.since_s + forget_after_s
        return NEVER

    def add(self, parts: list[bytes], sources: list[Source], solo: bool, now_s: float) -> None:
        """A frame that is to be sent. O(parts)."""
        with self.lock:
            self._number += 1
            size = sum(map(len, parts))
            self._frames[self._number] = _Flying([_Part(data) for data in parts], sources, size, solo, now_s)
            self._waiting[self._number] = None
            self.size += size
            self.ledger.charge(size + _OVERHEAD_BYTES)

    def send(self, bytes_max: int, now_s: float) -> tuple[list[Frame], list[int]]:
        """(parts to send next, of `bytes_max` bytes or little more; frames whose bytes the disk has lost)."""
        messages: list[Frame] = []
        lost: list[int] = []
        with self.lock:
            while self._waiting and bytes_max > 0:
                number = next(iter(self._waiting))
                flying = self._frames[number]
                try:
                    data = flying.parts[flying.sent].read()
                except SpillError:
                    lost.append(number)
                    del self._waiting[number]
                    continue
                last = flying.sent == len(flying.parts) - 1
                messages.append(Frame(number, flying.sent, last, flying.solo, data))
                bytes_max -= len(data)
                flying.sent += 1
                flying.since_s = now_s
                if last:
                    del self._waiting[number]
        return messages, lost

    def restart(self, now_s: float) -> None:
        """V3: all of them go again, unchanged, in order and alone."""
        for number, flying in self._frames.items():
            flying.sent, flying.solo, flying.since_s = 0, True, now_s
            self._waiting[number] = None
        for number in self._frames:
            self._waiting.move_to_end(number)

    def pop(self, number: int) -> list[Source]:
        """Whose frames were in it; nobody's if it is not there."""
        with self.lock:
            flying = self._frames.pop(number, None)
            self._waiting.pop(number, None)
            if flying is None:
                return []
            self.size -= flying.size
            self.ledger.charge(-_OVERHEAD_BYTES - sum(part.memory_bytes for part in flying.parts))
            return flying.sources

    def __del__(self) -> None:
        if hasattr(self, "_budget"):
            self.ledger.charge(-self.ledger.used_bytes)

    # as a tenant of the budget

    def drain(self) -> None:
        """There is no table."""

    def compress(self, enough: Callable[[], bool]) -> None:
        """Runs are compressed as they are."""

    def spill(self, enough: Callable[[], bool]) -> None:
        """Moves parts to disk until it is enough: the newest first, which are answered, and needed, last."""
        spill = self._budget.spill_file
        for flying in reversed(self._frames.values()):
            for part in flying.parts:
                before = part.memory_bytes
                if not before or spill is None:
                    continue
                try:
                    part.spill(spill)
                except SpillError as problem:
                    self._budget.refused = str(problem)
                    return
                self.ledger.charge(-before)
                if enough():
                    return

    def check(self) -> None:
        """Raises AssertionError unless the books agree. O(parts)."""
        parts = [part for flying in self._frames.values() for part in flying.parts]
        if sum(part.size for part in parts) != self.size:
            raise AssertionError(
                f"{sum(part.size for part in parts)} bytes are on their way, {self.size} are booked"
            )
        charged = sum(part.memory_bytes for part in parts) + _OVERHEAD_BYTES * len(self._frames)
        if charged != self.ledger.used_bytes:
            raise AssertionError(f"{charged} bytes are in memory, {self.ledger.used_bytes} are charged")
        if list(self._frames) != sorted(self._frames) or list(self._waiting) != sorted(self._waiting):
            raise AssertionError("frames are not in the order in which they were closed")
        if list(self._frames)[len(self._frames) - len(self._waiting) :] != list(self._waiting):
            raise AssertionError("frames wait that are not the last ones")

"""The disk threads: carry out `Write` effects and answer each with `Stored` or `StoreFailed` (docs/DAEMON.md).

All writes that wait become durable together: one transaction with one fsync for the stores of keys and values, and beside
it, in a thread of their own, one fdatasync for each file: a cut of an agent does not wait for the groups of jobs, nor they
for it. Of both the answers come in the order of the writes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from srt.automaton import Delete, Put, Stored, StoreFailed, Write, WriteAt
from srt.errors import StoreError
from srt.fixed_file import FixedFile
from srt.key_value_store import KeyValueStore, Readers, check_name

DATABASE = "store.db"
OWNER_BYTES = 16
"""Keys that agree in so many first bytes belong to one owner (a job), whose writes depend on each other."""

Answer = Callable[[Any, Callable[[], None] | None], None]
"""Takes an event for the core, and what to call in the core's thread when it has been dealt with."""


class _Waiting(NamedTuple):
    number: int
    """Writes so far, this one among them."""
    write: Write


@dataclass(slots=True)
class _Broken:
    """A write that failed; later ones of the same owners that the core made before it knew must not be stored."""

    store: str
    first: bytes
    last: bytes
    until: int | None = None
    """The last write made in ignorance; None: the core does not know yet."""


class Stores:
    """The stores and files in one directory. Read first, then `start`, then `write`."""

    def __init__(self, directory: Path) -> None:
        """StoreError: the database cannot be opened."""
        self.directory = directory
        self.syncs = 0
        """Batches made durable so far; with `stored`, `failed` and `waiting` for the metrics."""
        self.stored = 0
        self.failed = 0
        self._database = KeyValueStore(directory / DATABASE)
        self._readers = Readers(directory / DATABASE)
        self._files: dict[str, FixedFile] = {}
        self._woken = threading.Condition()
        self._keyed, self._filed = deque[_Waiting](), deque[_Waiting]()
        """Writes that wait for the thread of the database, and for that of the files."""
        self._count = 0
        self._broken: dict[int, _Broken] = {}
        self._closing = False
        self._threads: list[threading.Thread] = []
        self._answer: Answer
        self._crashed: Callable[[BaseException], None]

    # before the start

    def read(self, store: str) -> dict[bytes, bytes]:
        """All that a store of keys and values holds. StoreError when it is rotten. O(its size)."""
        self._before_start()
        return self._database.read(store)

    def file(self, store: str, size: int) -> bytes:
        """Opens the file of a store, or makes it of zeros, and returns its bytes. StoreError as `FixedFile`."""
        self._before_start()
        opened = FixedFile(self.directory / check_name(store), size)
        self._files[store] = opened
        return opened.read()

    def start(self, answer: Answer, crashed: Callable[[BaseException], None]) -> None:
        """`answer` is called in the disk threads; what it gets to call back has to be called in the core's thread, when the
        core has dealt with the event. `crashed` gets an error of our own that ended a thread."""
        self._before_start()
        self._answer, self._crashed = answer, crashed
        self._threads = [
            threading.Thread(target=self._run, args=(queue, store), name=name)
            for queue, store, name in (
                (self._keyed, self._to_database, "disk"),
                (self._filed, self._to_files, "journal"),
            )
        ]
        for thread in self._threads:
            thread.start()

    def _before_start(self) -> None:
        if self._threads:
            raise RuntimeError("the disk threads run: they alone use the stores now")

    # any thread

    def write(self, write: Write) -> None:
        """Queues a write; never waits for the disk. After `close` nothing is taken any more, nor answered."""
        with self._woken:
            if self._closing:
                return
            self._count += 1
            queue = self._filed if write.store in self._files else self._keyed
            queue.append(_Waiting(self._count, write))
            self._woken.notify_all()

    @property
    def waiting(self) -> int:
        """Writes that are not durable yet, without those being synced."""
        return len(self._keyed) + len(self._filed)

    def scan(
        self, store: str, first: bytes, last: bytes, limit: int, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """At most `limit` of the keys in [first, last) that are durable and their values, ascending or descending."""
        return self._readers.scan(store, first, last, limit, reverse)

    def close(self) -> None:
        """Makes durable what waits, answers it, and ends the threads. Once more does nothing."""
        with self._woken:
            self._closing = True
            self._woken.notify_all()
        for thread in self._threads:
            thread.join()
        self._readers.close()
        self._database.close()
        for file in self._files.values():
            file.close()
        self._files.clear()

    # the threads

    def _run(self, queue: deque[_Waiting], store: Callable[[list[_Waiting]], dict[int, str]]) -> None:
        try:
            while batch := self._next(queue):
                problems = store(batch)
                with self._woken:
                    self.syncs += 1
                    self.failed += len(problems)
                    self.stored += len(batch) - len(problems)
                self._tell(batch, problems)
        except BaseException as problem:  # nothing is stored any more: whoever started us has to know
            self._crashed(problem)

    def _next(self, queue: deque[_Waiting]) -> list[_Waiting]:
        """All writes that wait; empty: the end."""
        with self._woken:
            while not queue and not self._closing:
                self._woken.wait()
            batch = list(queue)
            queue.clear()
            return batch

    def _tell(self, batch: list[_Waiting], problems: dict[int, str]) -> None:
        for waiting in batch:
            problem = problems.get(waiting.number)
            if problem is None:
                self._answer(Stored(waiting.write.token), None)
            else:
                heard = partial(self._heard, waiting.number)
                self._answer(StoreFailed(waiting.write.token, problem), heard)

    def _to_files(self, batch: list[_Waiting]) -> dict[int, str]:
        """What went wrong, by number."""
        problems: dict[int, str] = {}
        for store, file in self._files.items():
            problems |= _to_file(file, [waiting for waiting in batch if waiting.write.store == store])
        return problems

    def _to_database(self, batch: list[_Waiting]) -> dict[int, str]:
        """What went wrong, by number."""
        problems: dict[int, str] = {}
        if not self._broken:
            with suppress(StoreError):
                self._database.commit([waiting.write for waiting in batch])
                return problems
        for waiting in batch:
            # One by one, so that only those fail that must.
            problem = self._stands_on_broken(waiting)
            if not problem:
                try:
                    self._database.commit([waiting.write])
                except StoreError as error:
                    problem = str(error)
            if problem:
                problems[waiting.number] = problem
                with self._woken:
                    self._broken[waiting.number] = _Broken(waiting.write.store, *_owners(waiting.write))
        self._forget_broken(batch[-1].number)
        return problems

    # writes that depend on one that failed

    def _stands_on_broken(self, waiting: _Waiting) -> str:
        first, last = _owners(waiting.write)
        for broken in self._broken.values():
            ignorant = broken.until is None or waiting.number <= broken.until
            if (
                ignorant
                and broken.store == waiting.write.store
                and first <= broken.last
                and broken.first <= last
            ):
                return f"{self.directory / DATABASE}: an earlier write of the same keys failed"
        return ""

    def _heard(self, number: int) -> None:
        """In the core's thread: what it writes from now on, it writes knowing that the write failed."""
        with self._woken:
            broken = self._broken.get(number)
            if broken is not None:
                broken.until = self._count

    def _forget_broken(self, done: int) -> None:
        with self._woken:
            for number, broken in list(self._broken.items()):
                if broken.until is not None and broken.until <= done:
                    del self._broken[number]


def _owners(write: Write) -> tuple[bytes, bytes]:
    """The least and the greatest beginning of a key that it changes."""
    keys = [change.key for change in write.changes if isinstance(change, Put)]
    for change in write.changes:
        if isinstance(change, Delete):
            keys += [change.first, change.last]
    owners = [key[:OWNER_BYTES] for key in keys] or [b""]
    return min(owners), max(owners)


def _to_file(file: FixedFile, batch: list[_Waiting]) -> dict[int, str]:
    problems: dict[int, str] = {}
    for waiting in batch:
        try:
            for change in waiting.write.changes:
                if not isinstance(change, WriteAt):
                    raise StoreError(
                        f"{file.path}: {type(change).__name__} is no change of a file of fixed size"
                    )
                file.write(change)
        except StoreError as error:
            problems[waiting.number] = str(error)
    written = [waiting.number for waiting in batch if waiting.number not in problems]
    if written:
        try:
            file.sync()
        except StoreError as error:
            problems |= dict.fromkeys(written, str(error))
    return problems

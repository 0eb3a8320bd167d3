"""The disk thread on real files."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from srt.automaton import Delete, Put, Stored, StoreFailed, Write, WriteAt
from srt.errors import StoreError
from srt.key_value_store import KeyValueStore
from srt.stores import Stores
from tests.patience import PATIENCE_S

A, B = b"a" * 16, b"b" * 16
ROOT = Path(__file__).resolve().parents[3]


class Disk:
    """Stores, and the answers that came."""

    def __init__(self, directory: Path, size: int = 0) -> None:
        self.stores = Stores(directory)
        self.journal = self.stores.file("journal", size) if size else b""
        self.answers: queue.Queue[tuple[Any, Callable[[], None] | None]] = queue.Queue()

    def start(self) -> Disk:
        self.stores.start(lambda event, dealt: self.answers.put((event, dealt)), self.crashed)
        return self

    def crashed(self, problem: BaseException) -> None:
        self.answers.put((problem, None))

    def answer(self, hear: bool = True) -> Any:
        event, dealt = self.answers.get(timeout=PATIENCE_S)
        if isinstance(event, BaseException):
            raise event
        if hear and dealt is not None:
            dealt()
        return event

    def put(self, token: int, key: bytes, value: bytes, store: str = "groups") -> None:
        self.stores.write(Write(store, [Put(key, value)], token))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path, 8192).start()
    yield made
    made.stores.close()


def reopened(tmp_path: Path, store: str = "groups") -> dict[bytes, bytes]:
    stores = Stores(tmp_path)
    found = stores.read(store)
    stores.close()
    return found


def test_writes_are_answered_in_order_and_there_after_a_restart(tmp_path: Path) -> None:
    disk = Disk(tmp_path).start()
    for token in range(100):
        disk.put(token, A + bytes([token % 10]), b"%d" % token)
    disk.stores.write(Write("groups", [Delete(A + b"\0", A + b"\5"), Put(B, b"x")], 100))
    disk.put(101, A, b"other", "results")
    assert [disk.answer() for _ in range(102)] == [Stored(token) for token in range(102)]
    disk.stores.close()
    assert disk.stores.syncs < 50, "writes that wait share a sync"
    assert reopened(tmp_path) == {**{A + bytes([n]): b"%d" % (90 + n) for n in range(5, 10)}, B: b"x"}
    assert reopened(tmp_path, "results") == {A: b"other"}
    assert reopened(tmp_path, "never_written") == {}


def test_closing_stores_what_waits(tmp_path: Path) -> None:
    disk = Disk(tmp_path).start()
    for token in range(20):
        disk.put(token, A + bytes([token]), b"")
    disk.stores.close()
    assert [disk.answer() for _ in range(20)] == [Stored(token) for token in range(20)]
    assert len(reopened(tmp_path)) == 20


def test_a_file_keeps_its_size_and_what_was_written(tmp_path: Path) -> None:
    disk = Disk(tmp_path, 8192).start()
    assert disk.journal == bytes(8192)
    assert (tmp_path / "journal").stat().st_blocks * 512 >= 8192, "the room is there already"
    disk.stores.write(Write("journal", [WriteAt(8190, b"xy"), WriteAt(0, b"ab")], 1))
    disk.stores.write(Write("journal", [WriteAt(8191, b"xy")], 2))
    disk.stores.write(Write("journal", [Put(A, b"")], 3))
    disk.stores.write(Write("groups", [WriteAt(0, b"ab")], 4))
    said = sorted([disk.answer() for _ in range(4)], key=lambda one: one.token)
    assert said[0] == Stored(1)
    assert "lie outside its 8192" in said[1].problem
    assert "Put is no change of a file" in said[2].problem
    assert "WriteAt is no change of the store groups" in said[3].problem
    disk.stores.close()
    again = Disk(tmp_path, 8192)
    assert again.journal == b"ab" + bytes(8188) + b"xy"
    with pytest.raises(StoreError, match="has 8192 bytes, not 4096: it was made with other options"):
        again.stores.file("journal", 4096)
    again.stores.close()


def test_only_the_guilty_write_fails(disk: Disk, tmp_path: Path) -> None:
    gate = Gate(disk)
    disk.put(1, A, b"one")
    disk.stores.write(Write("groups", [Put(B, b"lost with the rest"), WriteAt(0, b"")], 2))
    disk.put(3, A + b"3", b"three")
    gate.open()
    said = [disk.answer() for _ in range(3)]
    assert [type(one) for one in said] == [Stored, StoreFailed, Stored]
    assert [one.token for one in said] == [1, 2, 3]
    disk.stores.close()
    assert reopened(tmp_path) == {A: b"one", A + b"3": b"three"}


def test_a_cut_does_not_wait_for_the_groups_of_jobs(disk: Disk) -> None:
    gate = Gate(disk)
    disk.put(1, A, b"one")
    disk.stores.write(Write("journal", [WriteAt(0, b"j")], 2))
    assert disk.answer() == Stored(2)
    gate.open()
    assert disk.answer() == Stored(1)


def test_what_can_be_made_again_is_seen_without_a_sync_and_synced_by_what_follows(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    database = disk.stores._database
    database._connection.set_trace_callback(said.append)
    for token, lazy in ((1, True), (2, True), (3, False), (4, True)):
        disk.stores.write(Write("results", [Put(A + bytes([token]), b"x")], token, lazy))
        assert disk.answer() == Stored(token)
        assert len(disk.stores.scan("results", A, B, 9)) == token
    levels = [text.split()[-1] for text in said if text.startswith("PRAGMA synchronous")]
    assert levels == ["NORMAL", "FULL", "NORMAL"]
    gate = Gate(disk)
    disk.stores.write(Write("results", [Put(A + b"5", b"x")], 5, True))
    disk.put(6, A, b"one")
    gate.open()
    assert [disk.answer() for _ in range(2)] == [Stored(5), Stored(6)]
    assert database._connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_what_was_written_in_ignorance_of_a_failure_fails_too(disk: Disk, tmp_path: Path) -> None:
    """Or a log would have its later entries and lack the earlier ones."""
    gate = Gate(disk)
    disk.stores.write(Write("groups", [Put(A, b"1"), WriteAt(0, b"")], 1))
    disk.put(2, A + b"x", b"2")
    gate.open()
    said = [disk.answers.get(timeout=PATIENCE_S) for _ in range(2)]
    assert isinstance(said[0][0], StoreFailed)
    assert said[1][0].problem.endswith("an earlier write of the same keys failed")
    disk.put(3, A + b"y", b"3")
    disk.put(4, B, b"another owner")
    said += [disk.answers.get(timeout=PATIENCE_S) for _ in range(2)]
    assert [type(event) for event, _ in said[2:]] == [StoreFailed, Stored]
    for _, dealt in said[:3]:
        assert dealt is not None
        dealt()
    disk.put(5, A + b"z", b"the core knows")
    assert disk.answer() == Stored(5)
    disk.stores.close()
    assert reopened(tmp_path) == {B: b"another owner", A + b"z": b"the core knows"}


class Gate:
    """Holds the disk thread in an answer, so that writes queue up."""

    def __init__(self, disk: Disk) -> None:
        entered, self._opened = threading.Event(), threading.Event()
        answer = disk.stores._answer

        def held(event: Any, dealt: Any) -> None:
            disk.stores._answer = answer
            entered.set()
            self._opened.wait(PATIENCE_S)

        disk.stores._answer = held
        disk.put(0, b"gate", b"", "gates")
        assert entered.wait(PATIENCE_S)

    def open(self) -> None:
        self._opened.set()


def test_a_broken_callback_is_told(tmp_path: Path) -> None:
    disk = Disk(tmp_path)

    def answer(event: Any, dealt: Any) -> None:
        raise RuntimeError("oops")

    disk.stores.start(answer, disk.crashed)
    disk.put(1, A, b"")
    with pytest.raises(RuntimeError, match="oops"):
        disk.answer()
    disk.stores.close()


def test_ranges_are_read_from_any_thread_beside_the_writer(disk: Disk) -> None:
    assert disk.stores.scan("groups", b"", b"\xff", 10) == []
    for number in range(300):
        disk.put(number, number.to_bytes(2, "big"), b"v%d" % number)
    for _ in range(300):
        disk.answer()
    found: list[tuple[bytes, bytes]] = []
    reader = threading.Thread(target=lambda: found.extend(disk.stores.scan("groups", b"\0\5", b"\1\0", 1000)))
    reader.start()
    reader.join()
    assert found == [(number.to_bytes(2, "big"), b"v%d" % number) for number in range(5, 256)]
    assert disk.stores.scan("groups", b"\0\5", b"\1\0", 2, True) == [found[-1], found[-2]]
    with pytest.raises(StoreError, match="no name of a store"):
        disk.stores.scan("x; DROP TABLE kv_groups", b"", b"\xff", 1)


def test_a_rotten_database_is_told_plainly(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(os.urandom(8192))
    with pytest.raises(
        StoreError, match=r"store\.db: file is not a database; it has rotted, or is something else"
    ):
        Stores(tmp_path)
    path.unlink()
    store = KeyValueStore(path)
    for number in range(200):
        store.commit([Write("groups", [Put(b"%04d" % number, os.urandom(3000))], number)])
    store.close()
    data = bytearray(path.read_bytes())
    data[4096 * 3 :] = os.urandom(len(data) - 4096 * 3)
    path.write_bytes(data)
    with pytest.raises(StoreError, match="it has rotted; move the whole data directory away"):
        reopened(tmp_path)


def test_what_cannot_be_opened_is_told_with_advice(tmp_path: Path) -> None:
    (tmp_path / "store.db").mkdir()
    with pytest.raises(StoreError, match=r"store\.db: unable to open database file; give the user"):
        Stores(tmp_path)
    (tmp_path / "journal").mkdir()
    (tmp_path / "store.db").rmdir()
    stores = Stores(tmp_path)
    with pytest.raises(StoreError, match="journal: Is a directory"):
        stores.file("journal", 4096)
    stores.close()


FULL = """
import resource, signal, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.unit.srt.test_stores import A, B, Disk
from srt.automaton import Put, Stored, StoreFailed, Write, WriteAt
disk = Disk(Path({directory!r}), 4 << 20).start()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
disk.put(1, A, b"before")
assert disk.answer() == Stored(1)
resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, resource.RLIM_INFINITY))
disk.put(2, B, b"x" * (1 << 20))
failed = disk.answer()
assert isinstance(failed, StoreFailed), failed
print(failed.problem)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
disk.put(3, B, b"after")
assert disk.answer() == Stored(3)
disk.stores.close()
assert Disk(Path({directory!r})).stores.read("groups") == {{A: b"before", B: b"after"}}
"""


def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    """A write that finds no room fails with advice; others go on when there is room again."""
    code = FULL.format(root=str(ROOT), directory=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "store.db: disk I/O error; the disk refuses: it is full, has a limit" in done.stdout


LOOP = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.unit.srt.test_stores import A, Disk
from srt.automaton import Put, Stored, Write, WriteAt
disk = Disk(Path({directory!r}), 1 << 20).start()
done = [0, 0]
for token in range(10**9):
    number = token.to_bytes(8, "big")
    disk.stores.write(Write("groups", [Put(A + number, number * 50), Put(b"last", number)], 2 * token))
    disk.stores.write(Write("journal", [WriteAt(token % 100000 * 8, number)], 2 * token + 1))
    if token >= 8:
        for _ in range(2):
            event = disk.answer()
            assert isinstance(event, Stored), event
            done[event.token % 2] += 1
        if min(done):
            sys.stdout.write(f"{{min(done) - 1}}\\n")
            sys.stdout.flush()
"""


@pytest.mark.parametrize("lines", [1, 40, 150])
def test_what_was_reported_stored_survives_a_kill(tmp_path: Path, lines: int) -> None:
    code = LOOP.format(root=str(ROOT), directory=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(lines):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        said = process.stdout.read().splitlines()
    reported = int(said[-2]) if len(said) > 1 else -1  # the last line may be torn
    disk = Disk(tmp_path, 1 << 20)
    found = disk.stores.read("groups")
    last = int.from_bytes(found[b"last"], "big")
    assert last >= reported
    assert len(found) == last + 2, "no write without those before it"
    for number in range(reported + 1):
        key = number.to_bytes(8, "big")
        assert found[A + key] == key * 50
        assert disk.journal[8 * number : 8 * number + 8] == key
    disk.stores.close()

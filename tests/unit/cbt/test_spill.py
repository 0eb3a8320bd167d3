"""The spill file: space that is used again, nothing left behind, and disks that refuse."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from cbt.errors import SpillError
from cbt.spill import Extent, SpillFile


def test_blocks_come_back_and_space_is_used_again(tmp_path: Path) -> None:
    spill = SpillFile(str(tmp_path))
    source = random.Random(4)
    held: dict[Extent, bytes] = {}
    for _ in range(2000):
        if held and source.random() < 0.5:
            extent = source.choice(list(held))
            assert spill.read(extent) == held.pop(extent)
            spill.free(extent)
        else:
            data = source.randbytes(source.choice([1, 50, 51, 700]))
            held[spill.write(data)] = data
        spill.check()
    assert spill.bytes_used == sum(map(len, held.values()))
    assert all(spill.read(extent) == data for extent, data in held.items())
    for extent in held:
        spill.free(extent)
    spill.check()
    assert spill.length == 0
    spill.close()


def test_the_directory_stays_empty(tmp_path: Path) -> None:
    spill = SpillFile(str(tmp_path))
    spill.write(b"x" * 10_000)
    assert list(tmp_path.iterdir()) == []
    spill.close()


def test_an_unused_file_is_never_made(tmp_path: Path) -> None:
    SpillFile(str(tmp_path / "missing")).close()
    spill = SpillFile(str(tmp_path / "missing"))
    with pytest.raises(SpillError, match="cannot be written"):
        spill.write(b"x")
    assert spill.length == 0


def test_the_limit_is_kept(tmp_path: Path) -> None:
    spill = SpillFile(str(tmp_path), 100)
    first = spill.write(b"a" * 60)
    with pytest.raises(SpillError, match="spill_max, 100 bytes"):
        spill.write(b"b" * 41)
    second = spill.write(b"b" * 40)
    spill.free(first)
    assert spill.write(b"c" * 60) == first
    assert spill.read(second) == b"b" * 40
    spill.check()
    spill.close()


@pytest.mark.parametrize("written", [0, 7])
def test_a_full_disk_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int) -> None:
    spill = SpillFile(str(tmp_path))
    first = spill.write(b"a" * 20)
    pwrite = os.pwrite
    calls = []

    def full(number: int, data: bytes, offset: int) -> int:
        calls.append(offset)
        if len(calls) == 1 and written:
            return pwrite(number, bytes(data)[:written], offset)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(SpillError, match="is full: make room"):
        spill.write(b"b" * 20)
    monkeypatch.undo()
    spill.check()
    assert spill.length == spill.bytes_used == 20
    assert spill.read(first) == b"a" * 20
    assert spill.read(spill.write(b"c" * 20)) == b"c" * 20
    spill.close()


def test_a_file_that_shrank_is_noticed(tmp_path: Path) -> None:
    spill = SpillFile(str(tmp_path))
    extent = spill.write(b"a" * 20)
    os.ftruncate(spill._file, 10)
    with pytest.raises(SpillError, match="shorter"):
        spill.read(extent)
    spill.close()
    with pytest.raises(SpillError):
        spill.read(extent)


def test_a_closed_file_is_not_opened_again(tmp_path: Path) -> None:
    """Blocks that were in it give back space that a new file would not have."""
    spill = SpillFile(str(tmp_path))
    extent = spill.write(b"a" * 20)
    spill.close()
    spill.free(extent)
    with pytest.raises(SpillError, match="is closed"):
        spill.write(b"b" * 20)
    assert spill.length == 0


def test_a_limit_of_the_process_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(number: int, data: bytes, offset: int) -> int:
        raise OSError(errno.EFBIG, "File too large")

    spill = SpillFile(str(tmp_path))
    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(SpillError, match="ulimit -f"):
        spill.write(b"a")
    assert spill.length == 0
    spill.close()

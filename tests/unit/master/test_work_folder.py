"""The work folder of a backfill: what is there is there wholly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from master.spark.work_folder import WorkFolder, WorkFolderError, identity

RECORDS = [b"", b"\x00abc", bytes(range(256)) * 40]


def folder(path: Path) -> WorkFolder:
    return WorkFolder.made(str(path / "work"), identity("a"))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    work = folder(tmp_path)
    assert work.read("task-1") is None
    work.write("task-1", iter(RECORDS))
    assert folder(tmp_path).read("task-1") == RECORDS
    work.write("task-1", [])
    assert work.read("task-1") == []
    assert work.count("task") == 1
    assert work.count("windows") == 0


@pytest.mark.parametrize("at", [0, 4, 9, -1])
def test_a_damaged_piece_is_none(tmp_path: Path, at: int) -> None:
    """It is made again, then."""
    work = folder(tmp_path)
    work.write("task-1", RECORDS)
    path = work.path / "task-1.elf"
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert work.read("task-1") is None


def test_a_piece_that_was_cut_off_is_none(tmp_path: Path) -> None:
    work = folder(tmp_path)
    work.write("task-1", RECORDS)
    path = work.path / "task-1.elf"
    for size in (0, 3, 8, 100):
        os.truncate(path, size) if size < path.stat().st_size else path.write_bytes(b"x" * size)
        assert work.read("task-1") is None


def test_it_is_removed_with_the_folder_around_it_when_that_is_empty(tmp_path: Path) -> None:
    work = folder(tmp_path)
    work.write("task-1", RECORDS)
    other = WorkFolder.made(str(tmp_path / "work"), identity("b"))
    work.remove()
    assert not work.is_here
    assert other.is_here
    other.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "work").write_bytes(b"")
    with pytest.raises(WorkFolderError, match=r"work/backfill-\w+ cannot be made"):
        folder(tmp_path)


def test_a_piece_that_cannot_be_written_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    work = folder(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WorkFolderError, match="No space left on device; free space there"):
        work.write("task-1", RECORDS)
    assert list(work.path.iterdir()) == []


def test_identities_are_those_of_data() -> None:
    assert identity(1, ("a", b"b")) == identity(1, ("a", b"b"))
    assert len({identity(1), identity("1"), identity(1, None), identity(b"1")}) == 4

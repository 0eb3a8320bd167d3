"""The directory of a node: its lock and its identity."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from srt.data_dir import DataDir, write_whole
from srt.errors import StoreError


def test_a_directory_is_held_by_one_process(tmp_path: Path) -> None:
    with DataDir(tmp_path / "a" / "b") as held:
        code = "import sys, pathlib, srt.data_dir as d; d.DataDir(pathlib.Path(sys.argv[1]))"
        done = subprocess.run(
            [sys.executable, "-c", code, str(held.path)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert f"is in use by another node (process {os.getpid()}): stop it" in done.stderr
    DataDir(tmp_path / "a" / "b").close()


def test_the_identity_stays_and_starts_are_counted(tmp_path: Path) -> None:
    with DataDir(tmp_path) as directory:
        first, second = directory.identity(), directory.identity()
    assert (first.boot, second.boot) == (1, 2)
    assert first.node_id == second.node_id
    assert first.ring_id == sha256(first.node_id).digest()[:16]
    with DataDir(tmp_path / "other") as other:
        assert other.identity().node_id != first.node_id


@pytest.mark.parametrize("rot", [b"", b"{", b'{"node": "00", "boot": 1}', b'{"boot": 1}', b"\xff\xfe"])
def test_a_rotten_identity_is_no_fresh_one(tmp_path: Path, rot: bytes) -> None:
    (tmp_path / "node").write_bytes(rot)
    with DataDir(tmp_path) as directory, pytest.raises(StoreError, match="put back a copy, or empty"):
        directory.identity()
    assert (tmp_path / "node").read_bytes() == rot


def test_errors_name_the_path_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file: File exists; it is no directory: name another one"):
        DataDir(tmp_path / "file")
    with pytest.raises(StoreError, match=r"below: Not a directory; a part of the path is a file"):
        DataDir(tmp_path / "file" / "below")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_whole(path, b"old")
    (tmp_path / "f.new").mkdir()
    with pytest.raises(StoreError, match="Is a directory"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    (tmp_path / "f.new").rmdir()
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert sorted(tmp_path.iterdir()) == [path]

"""Every byte of a file comes out once, in blocks that end at line ends, whatever the file is packed in."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import lzma
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from agent import files
from agent.compression import MAGIC, GzipStream
from agent.errors import InputError
from agent.files import Inputs, LogFile, expand

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "none": lambda data: data,
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 64 bytes and lines of at most 256, so that a few bytes reach every edge."""
    monkeypatch.setattr(files, "BLOCK_BYTES", 64)
    monkeypatch.setattr(files, "LINE_BYTES_MAX", 256)


def _write(folder: Path, data: bytes, name: str = "access.log") -> str:
    path = folder / name
    path.write_bytes(data)
    return str(path)


def _pieces(path: str) -> list[bytes]:
    with LogFile(path) as file:
        pieces, offset = [], 0
        for block in file.blocks():
            piece = block.data[: block.stop]
            assert block.offset == offset
            offset += len(piece)
            pieces.append(piece)
        return pieces


@pytest.mark.parametrize("kind", PACKERS)
@given(
    lines=st.lists(st.binary(max_size=150).map(lambda line: line.replace(b"\n", b"")), max_size=30),
    last=st.booleans(),
)
@settings(deadline=None, max_examples=25)
def test_all_bytes_once_in_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, kind: str, lines: list[bytes], last: bool
) -> None:
    data = b"\n".join(lines) + (b"\n" if last and lines else b"")
    path = _write(tmp_path_factory.mktemp("logs"), PACKERS[kind](data))
    # A packed file is told by its first bytes; plain data that starts like one is not what this test is about.
    if kind == "none" and any(data.startswith(magic) for magic, _ in MAGIC):
        return
    # The fixture is per function, so Hypothesis runs see it too; sizes are checked to be sure.
    pieces = _pieces(path)
    assert b"".join(pieces) == data
    assert all(piece.endswith(b"\n") for piece in pieces[:-1])


@pytest.mark.parametrize("kind", PACKERS)
def test_an_endless_line_is_cut_and_skipped(tmp_path: Path, kind: str) -> None:
    path = _write(tmp_path, PACKERS[kind](b"a\n" + b"x" * 2000 + b"\nb\n"))
    with LogFile(path) as file:
        pieces = [block.data[: block.stop] for block in file.blocks()]
        assert file.offset == 2 + 2001 + 2
    long = [piece for piece in pieces if len(piece) > 256]
    assert len(long) == 1
    assert set(long[0]) == {ord("x")}
    assert [piece for piece in pieces if piece not in long] == [b"a\n", b"b\n"]


def test_concatenated_gzip_members_and_zstd_frames(tmp_path: Path) -> None:
    for kind in ("gzip", "zstd"):
        data = PACKERS[kind](b"one\n") + PACKERS[kind](b"two\n")
        assert b"".join(_pieces(_write(tmp_path, data, kind))) == b"one\ntwo\n"


def test_bytes_behind_gzip_data_are_padding_or_ignored_with_a_warning(tmp_path: Path) -> None:
    data = gzip.compress(b"one\n") + gzip.compress(b"two\n")
    for behind, garbage in ((bytes(70_000), False), (b"\0x", True), (b"\x1f", True), (b"no gzip" * 20_000, True)):
        with LogFile(str(_write(tmp_path, data + behind))) as file:
            assert b"".join(block.data[: block.stop] for block in file.blocks()) == b"one\ntwo\n"
            assert file.garbage == garbage
    padded = gzip.compress(b"one\n") + bytes(600) + gzip.compress(b"two\n")
    assert b"".join(_pieces(_write(tmp_path, padded))) == b"one\ntwo\n"


@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 20])
def test_a_gzip_stream_gives_all_bytes_in_pieces_of_any_size(size: int) -> None:
    data = b"".join(b"%d\n" % (i * i) for i in range(3000)) + bytes(300_000)
    stream = GzipStream(io.BytesIO(gzip.compress(data[:9000]) + gzip.compress(data[9000:])))
    parts = [stream.read(size) for _ in range(min(3000, len(data) // size + 1))]
    assert b"".join(parts) == data[: 3000 * size]


@pytest.mark.parametrize("kind", ["gzip", "zstd", "bzip2", "xz"])
def test_a_cut_archive_is_an_error_that_names_the_file(tmp_path: Path, kind: str) -> None:
    data = PACKERS[kind](os.urandom(600).hex().encode() + b"\n")
    for kept in (10, len(data) // 2, len(data) - 1):
        with pytest.raises(InputError, match=r"access\.log: the compressed data ends too early"):
            _pieces(_write(tmp_path, data[:kept]))


def test_a_zstd_file_cut_in_its_second_frame_is_an_error(tmp_path: Path) -> None:
    data = zstandard.compress(b"one\n") + zstandard.compress(b"two\n")
    with pytest.raises(InputError, match="ends too early"):
        _pieces(_write(tmp_path, data[:-2]))


def test_a_damaged_archive_is_an_error(tmp_path: Path) -> None:
    data = bytearray(zstandard.compress(os.urandom(4000)))
    data[200:300] = bytes(100)
    data[4] ^= 0xFF
    with pytest.raises(InputError, match=r"damaged|too early"):
        _pieces(_write(tmp_path, bytes(data)))


def test_lines_appended_while_reading_wait_for_the_next_run(tmp_path: Path) -> None:
    path = _write(tmp_path, b"one\n")
    with LogFile(path) as file:
        with open(path, "ab") as writer:
            writer.write(b"two\n")
        assert [block.data[: block.stop] for block in file.blocks()] == [b"one\n"]


def test_expand_keeps_order_and_drops_repeats(tmp_path: Path) -> None:
    names = [_write(tmp_path, b"", name) for name in ("a.log", "b.log", "c[1].log")]
    assert expand([names[1], str(tmp_path / "*.log")]) == [names[1], names[0], names[2]]
    assert expand([names[2]]) == [names[2]]
    assert expand(["-"]) == ["-"]


def test_expand_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file, and nothing matches"):
        expand([str(tmp_path / "nothing*")])
    with pytest.raises(InputError, match="is a folder"):
        expand([str(tmp_path)])


@pytest.mark.parametrize("below", ["access.log", "*.log", "*/access.log", "gone/access.log"])
def test_a_folder_that_may_not_be_looked_into_is_named(
    tmp_path: Path, below: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may look everywhere, and tests often run as root."""
    closed = tmp_path / "nginx"
    closed.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != closed)
    with pytest.raises(InputError, match=rf"^{closed}: permission denied"):
        expand([str(closed / below)])


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.log: no such file"):
        LogFile(str(tmp_path / "gone.log"))


def test_standard_input_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BufferedReader(_Pipe(b"one\ntwo\n"))

    monkeypatch.setattr("sys.stdin", Stdin)
    inputs = Inputs(["-"])
    assert inputs.head() == ("-", b"one\ntwo\n")
    assert inputs.total_bytes() is None
    assert [block.data[: block.stop] for block in inputs.open("-").blocks()] == [b"one\ntwo\n"]


def test_a_pipe_with_a_name_is_opened_once() -> None:
    reader, writer = os.pipe()  # as a shell's <(command) hands it over
    os.write(writer, b"one\ntwo\n")
    os.close(writer)
    path = f"/dev/fd/{reader}"
    inputs = Inputs([path])
    assert inputs.head() == (path, b"one\ntwo\n")
    assert inputs.total_bytes() is None
    with inputs.open(path) as file:
        assert [block.data[: block.stop] for block in file.blocks()] == [b"one\ntwo\n"]
    os.close(reader)


@pytest.mark.parametrize("kind", PACKERS)
def test_standard_input_is_read_from_where_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = _write(tmp_path, b"header\n" + PACKERS[kind](b"one\n"))
    with open(path, "rb") as stdin:
        stdin.readline()
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=stdin))
        inputs = Inputs(["-"])
        assert inputs.head() == ("-", b"one\n")
        assert [block.data[: block.stop] for block in inputs.open("-").blocks()] == [b"one\n"]


def test_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input is closed"):
        Inputs(["-"]).head()


class _Pipe(io.RawIOBase):
    """Bytes that cannot be read twice, as a pipe's."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 0

    def readinto(self, into: bytearray) -> int:  # type: ignore[override]
        piece, self._data = self._data[:3], self._data[3:]
        into[: len(piece)] = piece
        return len(piece)


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("end", [b"", b"\n", b"\nlast\n"])
def test_an_endless_line_has_its_true_size(tmp_path: Path, kind: str, end: bytes) -> None:
    with LogFile(_write(tmp_path, PACKERS[kind](b"a\n" + b"x" * 2000 + end))) as file:
        cut = [block for block in file.blocks() if block.skipped]
        assert [(block.offset, block.stop + block.skipped) for block in cut] == [(2, 2000)]
        assert file.offset == 2 + 2000 + len(end)


def test_the_head_to_look_at_has_more_than_blank_lines(tmp_path: Path) -> None:
    blank, log = _write(tmp_path, b"\n \r\n", "blank"), _write(tmp_path, b"a\n", "log")
    assert Inputs([blank, log]).head() == (log, b"a\n")
    assert Inputs([blank]).head() == ("", b"")


@given(
    lines=st.lists(
        st.integers(0, 700).map(lambda size: b"x" * size)
        | st.binary(max_size=90).map(lambda line: line.replace(b"\n", b"")),
        max_size=20,
    ),
    last=st.booleans(),
    cuts=st.lists(st.floats(0, 1), max_size=6),
    behind=st.sampled_from([b"", b"tail", b"\ntail\n"]),
)
@settings(max_examples=150, deadline=None)
def test_sections_have_each_line_once(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], last: bool, cuts: list[float], behind: bytes
) -> None:
    """Cut anywhere, also inside of lines, and whatever was appended since: the blocks of the whole file."""
    data = b"." + b"".join(line + b"\n" for line in lines)  # nothing that begins so is compressed
    data = data if last else data.removesuffix(b"\n")
    size = len(data)
    path = _write(tmp_path_factory.mktemp("logs"), data)
    with LogFile(path) as file:
        whole = [line for block in file.blocks() for line in _numbered(block)]
    with open(path, "ab") as log:
        log.write(behind)
    offsets = [0, *sorted(int(part * size) for part in cuts), size]
    found = []
    for start, stop in itertools.pairwise(offsets):
        with LogFile(path) as file:
            mine = [line for block in file.section(start, stop, size) for line in _numbered(block)]
        assert all(start <= at < stop for at, _, _ in mine)
        found += mine
    assert found == whole


def _numbered(block: files.Block) -> list[tuple[int, bytes, int]]:
    """(offset, line, bytes left out of it) of a block."""
    at, found = block.offset, []
    for line in _lines(block.data[: block.stop]):
        found.append((at, line, block.skipped))
        at += len(line)
    return found


def _lines(data: bytes) -> list[bytes]:
    pieces = data.split(b"\n")
    return [piece + b"\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def test_a_section_of_a_file_that_got_shorter_is_an_error(tmp_path: Path) -> None:
    path = _write(tmp_path, b"one\ntwo\n")
    with LogFile(path) as file, pytest.raises(InputError, match="leave it be"):
        list(file.section(4, 12, 12))
    with LogFile(path) as file:
        os.truncate(path, 4)
        with pytest.raises(InputError, match="got shorter"):
            list(file.section(4, 8, 8))

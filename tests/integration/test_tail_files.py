"""The follower on real files: every kind of rotation, a writer in another process, logrotate where it is installed."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from agent.follower import Follower
from agent.since import first_offset
from agent.tail import check
from agent.tail_events import Deliver, FileKey, Gap, Rotated, Trouble
from agent.tail_logs import Position
from agent.tail_options import TailOptions
from tests.patience import PATIENCE_S

OPTIONS = TailOptions(read_from="beginning", drain_s=1.0, lost_wait_s=2.0, settle_s=0.5)
BESIDE_OTHERS = replace(OPTIONS, lost_wait_s=PATIENCE_S)
"""Of processes that may wait for their turn: gzip, for one, while it packs what has no other name."""
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "zst": zstandard.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Watch:
    """A follower and what it has found."""

    def __init__(self, folder: Path, pattern: str = "access.log*", options: TailOptions = OPTIONS, hints: bool = True,
                 position: Position | None = None) -> None:  # fmt: skip
        self.clock = Clock()
        self.follower = Follower(
            [folder / pattern], options, position, hints=hints, clock=self.clock, find_start=_since(500)
        )
        self.lines: list[bytes] = []
        self.gaps: list[Gap] = []
        self.moves: list[Rotated] = []
        self.troubles: list[Trouble] = []
        self.ends: dict[FileKey, int] = {}

    def look(self, seconds: float = 0.3) -> Counter[bytes]:
        """Time passes, the follower polls until nothing is left to do. Returns all lines so far."""
        self.clock.now_s += seconds
        for _ in range(10_000):
            for found in self.follower.poll():
                self._keep(found)
            check(self.follower.tail)
            if not self.follower.tail.busy and not self.follower._list_wanted:
                return Counter(self.lines)
        raise AssertionError("the follower does not come to rest")

    def settle(self) -> Counter[bytes]:
        for _ in range(40):
            self.look()
        return self.look()

    def _keep(self, found: object) -> None:
        if isinstance(found, Deliver):
            assert self.ends.get(found.key, 0) <= found.offset
            self.ends[found.key] = found.end
            self.lines += found.data[found.start : found.stop].splitlines()
        elif isinstance(found, Gap):
            self.gaps.append(found)
        elif isinstance(found, Rotated):
            self.moves.append(found)
        elif isinstance(found, Trouble):
            self.troubles.append(found)


def _since(number: int) -> Callable[[int, int], int]:
    def time_at(fd: int, offset: int) -> float | None:
        data = os.pread(fd, 256, max(0, offset - 1))
        start = 0 if offset == 0 else data.find(b"\n") + 1
        line = data[start:].split(b"\n")[0]
        return float(line.split()[1]) if line else None

    return lambda fd, size: first_offset(size, lambda offset: time_at(fd, offset), number, 1)


def numbered(start: int, stop: int) -> bytes:
    return b"".join(b"line %d of the log, long enough to be one\n" % i for i in range(start, stop))


def expected(stop: int, start: int = 0) -> Counter[bytes]:
    return Counter(numbered(start, stop).splitlines())


@pytest.fixture(params=[True, False], ids=["hints", "polling"])
def watch(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Watch]:
    watch = Watch(tmp_path, hints=request.param)
    yield watch
    watch.follower.close()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "access.log"


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_lines_arrive_whole(watch: Watch, log: Path) -> None:
    append(log, numbered(0, 10)[:-5])
    assert watch.look() == expected(9)
    append(log, numbered(0, 10)[-5:])
    assert watch.look() == expected(10)


def test_files_that_appear_later_are_read_from_their_beginning(watch: Watch, log: Path) -> None:
    assert watch.look() == Counter()
    append(log, numbered(0, 10))
    assert watch.look() == expected(10)


def test_rename_rotation(watch: Watch, log: Path) -> None:
    writer = log.open("ab", buffering=0)
    writer.write(numbered(0, 10))
    watch.look()
    log.rename(log.with_name("access.log.1"))
    writer.write(numbered(10, 20))
    watch.look()
    append(log, numbered(20, 30))
    writer.write(numbered(30, 40))
    writer.close()
    assert watch.settle() == expected(40)
    assert watch.gaps == []
    assert [Path(move.path).name for move in watch.moves] == ["access.log.1"]


def test_two_rotations_between_two_looks(watch: Watch, log: Path) -> None:
    append(log, numbered(0, 10))
    watch.look()
    append(log, numbered(10, 20))
    log.rename(log.with_name("access.log.2"))
    append(log.with_name("access.log.1"), numbered(20, 30))
    append(log, numbered(30, 40))
    assert watch.settle() == expected(40)
    assert watch.gaps == []


def test_copytruncate_is_recovered_from_the_copy(watch: Watch, log: Path) -> None:
    append(log, numbered(0, 100))
    watch.look()
    append(log, numbered(100, 200))
    shutil.copyfile(log, log.with_name("access.log.1"))
    os.truncate(log, 0)
    append(log, numbered(200, 210))
    assert watch.settle() == expected(210)
    assert [(gap.start == gap.stop, gap.open_ended) for gap in watch.gaps] == [(True, True)]


def test_a_log_truncated_and_grown_past_the_old_offset(watch: Watch, log: Path) -> None:
    append(log, numbered(0, 100))
    watch.look()
    append(log, numbered(100, 200))
    shutil.copyfile(log, log.with_name("access.log.1"))
    os.truncate(log, 0)
    append(log, numbered(200, 900))
    assert watch.settle() == expected(900)


def test_truncation_without_a_copy_is_a_gap(watch: Watch, log: Path) -> None:
    half = b"half a line that was seen"
    append(log, numbered(0, 100) + half)
    watch.look()
    os.truncate(log, 0)
    append(log, numbered(100, 110))
    assert watch.settle() == expected(110)
    size = len(numbered(0, 100))
    assert [(gap.start, gap.stop, gap.reason, gap.open_ended) for gap in watch.gaps] == [
        (size, size + len(half), "truncated", True)
    ]


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressing_a_read_log_does_not_read_it_twice(suffix: str, watch: Watch, log: Path) -> None:
    append(log, numbered(0, 200))
    watch.look()
    rotated = log.rename(log.with_name("access.log.1"))
    append(log, numbered(200, 210))
    watch.look()
    packed = rotated.with_name(f"access.log.1.{suffix}")
    data = PACKERS[suffix](rotated.read_bytes())
    packed.write_bytes(data[: len(data) // 2])
    watch.look()
    packed.write_bytes(data)
    watch.look()
    rotated.unlink()
    assert watch.settle() == expected(210)
    packed.rename(packed.with_name(f"access.log.2.{suffix}"))
    assert watch.settle() == expected(210)
    assert watch.gaps == []


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_log_that_was_compressed_unread_is_read_from_there(suffix: str, watch: Watch, log: Path) -> None:
    append(log, numbered(0, 100))
    watch.look()
    watch.follower.close()  # the follower was away while all this happened
    append(log, numbered(100, 5000))
    log.with_name(f"access.log.1.{suffix}").write_bytes(PACKERS[suffix](log.read_bytes()))
    log.unlink()
    append(log, numbered(5000, 5010))
    again = Watch(log.parent, position=watch.follower.position())
    assert again.settle() == expected(5010, start=100)
    assert again.gaps == []
    again.follower.close()


def test_garbage_behind_an_archive_is_told_once(watch: Watch, log: Path) -> None:
    packed = log.with_name("access.log.1.gz")
    packed.write_bytes(gzip.compress(numbered(0, 100)) + b"no gzip data")
    log.with_name("access.log.2.gz").write_bytes(gzip.compress(numbered(100, 200)) + bytes(512))
    assert watch.settle() == expected(200)
    assert [(trouble.path, "ignored" in trouble.message) for trouble in watch.troubles] == [(str(packed), True)]
    assert watch.follower.garbage_count == 1
    assert watch.gaps == []


def test_a_restart_goes_on_where_it_stopped(watch: Watch, log: Path) -> None:
    append(log, numbered(0, 100))
    watch.look()
    watch.follower.close()
    append(log, numbered(100, 120))
    log.rename(log.with_name("access.log.1"))
    append(log, numbered(120, 130))
    again = Watch(log.parent, position=watch.follower.position())
    assert again.settle() == expected(130, start=100)
    assert again.gaps == []
    again.follower.close()


def test_a_log_that_is_gone_after_a_restart_is_a_gap(watch: Watch, log: Path) -> None:
    append(log, numbered(0, 100))
    watch.look()
    watch.follower.close()
    log.unlink()
    again = Watch(log.parent, position=watch.follower.position())
    assert again.settle() == Counter()
    assert [(gap.reason, gap.open_ended) for gap in again.gaps] == [("restart", True)]
    again.follower.close()


def test_a_deleted_log_is_read_to_its_end_and_let_go(watch: Watch, log: Path) -> None:
    with log.open("ab", buffering=0) as writer:
        writer.write(numbered(0, 10))
        watch.look()
        writer.write(numbered(10, 20) + b"the last line has no end")
        log.unlink()
        lines = watch.settle()
    assert lines == expected(20) + Counter([b"the last line has no end"])
    assert watch.gaps == []
    assert watch.follower._handles == {}


def test_deleted_logs_are_not_held_for_ever(tmp_path: Path) -> None:
    options = replace(OPTIONS, open_deleted_s=2.0, read_bytes=64, turn_bytes_max=64, line_bytes_max=64, proof_bytes=64)
    watch = Watch(tmp_path, options=options)
    log = tmp_path / "access.log"
    append(log, numbered(0, 100))
    watch.clock.now_s += 1
    watch.follower.poll()
    watch.follower.poll()
    log.unlink()
    watch.clock.now_s += 0.3
    watch.follower.poll()
    watch.clock.now_s += 5
    for found in watch.follower.poll():
        watch._keep(found)
    watch.settle()
    assert watch.follower._handles == {}
    assert watch.gaps[0].reason == "deleted"
    assert watch.gaps[0].stop == len(numbered(0, 100))
    watch.follower.close()


def test_descriptors_are_bounded_with_five_thousand_files(tmp_path: Path) -> None:
    for number in range(5000):
        (tmp_path / f"access.log.{number}").write_bytes(b"%064d\n" % number)
    watch = Watch(tmp_path, options=replace(OPTIONS, open_max=256))
    most = 0
    for _ in range(20_000):
        watch.clock.now_s += 0.02
        for found in watch.follower.poll():
            watch._keep(found)
        most = max(most, len(watch.follower._handles))
        if len(watch.lines) >= 5000:
            break
    assert most <= 256
    assert Counter(watch.lines) == Counter(b"%064d" % number for number in range(5000))
    watch.follower.close()


def test_an_inode_used_again_is_another_log(watch: Watch, log: Path) -> None:
    for round_ in range(6):
        append(log, numbered(round_ * 10, round_ * 10 + 10))
        watch.settle()
        log.unlink()
        watch.settle()
    assert Counter(watch.lines) == expected(60)
    assert watch.gaps == []


def test_logs_that_begin_alike(watch: Watch, log: Path) -> None:
    head = b"#Fields: " + b"a-long-field-name " * 100 + b"\n"
    append(log, head + numbered(0, 10))
    append(log.with_name("access.log.other"), head + numbered(10, 25))
    watch.settle()
    log.rename(log.with_name("access.log.1"))
    append(log, head + numbered(25, 30))
    lines = watch.settle()
    del lines[head[:-1]]
    assert lines == expected(30)


def test_equal_short_files_are_both_read(watch: Watch, log: Path) -> None:
    append(log, b"same\n")
    watch.look()
    log.rename(log.with_name("access.log.1"))
    append(log, b"same\n")
    assert watch.settle() == Counter({b"same": 2})


def test_symbolic_links_and_hard_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    first, second = tmp_path / "real" / "a", tmp_path / "real" / "b"
    append(first, numbered(0, 10))
    (tmp_path / "logs").mkdir()
    link = tmp_path / "logs" / "access.log"
    link.symlink_to(first)
    os.link(first, tmp_path / "logs" / "access.log.same")
    watch = Watch(tmp_path / "logs")
    watch.look()
    append(first, numbered(10, 20))
    assert watch.look() == expected(20)
    link.unlink()
    append(second, numbered(20, 30))
    link.symlink_to(second)
    assert watch.settle() == expected(30)
    watch.follower.close()


def test_what_is_no_regular_file_is_left_alone(watch: Watch, log: Path) -> None:
    os.mkfifo(log.with_name("access.log.pipe"))
    log.with_name("access.log.d").mkdir()
    append(log, numbered(0, 3))
    assert watch.settle() == expected(3)


def test_a_start_at_the_end_reads_the_line_being_written(tmp_path: Path, log: Path) -> None:
    append(log, numbered(0, 10)[:-5])
    packed = log.with_name("access.log.2.gz")
    packed.write_bytes(gzip.compress(numbered(100, 110)))
    append(log.with_name("access.log.1"), numbered(200, 300))
    watch = Watch(tmp_path, options=TailOptions())
    assert watch.settle() == Counter()
    append(log, numbered(0, 10)[-5:] + numbered(10, 20))
    log.with_name("access.log.1.gz").write_bytes(gzip.compress(numbered(200, 300)))
    log.with_name("access.log.1").unlink()
    assert watch.settle() == expected(20, start=9)
    assert watch.gaps == []
    watch.follower.close()


def test_since_starts_in_the_middle_of_old_logs(tmp_path: Path, log: Path) -> None:
    append(log.with_name("access.log.1"), numbered(0, 600))
    append(log, numbered(600, 620))
    watch = Watch(tmp_path, options=replace(OPTIONS, read_from="since"))
    assert watch.settle() == expected(620, start=500)
    watch.follower.close()


def test_a_line_beyond_the_limit_comes_cut_once(tmp_path: Path, log: Path) -> None:
    options = replace(OPTIONS, read_bytes=64, turn_bytes_max=128, line_bytes_max=128, proof_bytes=64)
    watch = Watch(tmp_path, options=options)
    append(log, b"x" * 100_000 + b"\nshort\n")
    assert watch.settle() == Counter([b"x" * 128, b"short"])
    watch.follower.close()


def test_permission_lost_and_given_back(watch: Watch, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(log, numbered(0, 10))
    if os.geteuid() == 0:  # root may read everything, so it is refused by hand
        with monkeypatch.context() as patch:
            patch.setattr("agent.follower.os.open", _refuse)
            assert watch.settle() == Counter()
    else:
        log.chmod(0)
        assert watch.settle() == Counter()
        log.chmod(0o600)
    assert [trouble.path for trouble in watch.troubles] == [str(log)]
    assert watch.settle() == expected(10)


def _refuse(path: str, flags: int) -> int:
    raise PermissionError(13, "Permission denied", path)


WRITER = """
import os, sys
path, count = sys.argv[1], int(sys.argv[2])
for number in range(count):
    line = b"line %d of the log, long enough to be one\\n" % number
    with open(path, "ab", buffering=0) as log:     # a server that opens its log for each line
        if number % 7:
            log.write(line)
        else:
            log.write(line[:9]); log.write(line[9:])
    if number % 100 == 99:
        if (number // 100) % 3 == 2:
            os.rename(path, "%s.%d" % (path, number))
        elif (number // 100) % 3 == 1 and os.path.exists("%s.%d" % (path, number - 200)):
            os.system("gzip -q %s.%d" % (path, number - 200))
"""


def test_a_writer_in_another_process(tmp_path: Path, log: Path) -> None:
    count = 3000
    with Follower([tmp_path / "access.log*"], BESIDE_OTHERS) as follower:
        lines: Counter[bytes] = Counter()
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(log), str(count)])
        for _ in range(100_000):
            for found in follower.poll():
                assert not isinstance(found, Gap)
                if isinstance(found, Deliver):
                    lines.update(found.data[found.start : found.stop].splitlines())
            if writer.poll() is not None and lines.total() >= count:
                break
            follower.wait(0.5)
    assert writer.returncode == 0
    assert lines == expected(count)


LOGROTATE = """{log} {{
    rotate 4
    {how}
    missingok
}}
"""


@pytest.mark.skipif(shutil.which("logrotate") is None, reason="logrotate is not installed")
@pytest.mark.parametrize(
    "how",
    [
        "create",
        "nocreate",
        "copytruncate",
        "create\n compress",
        "create\n compress\n delaycompress",
        "copytruncate\n compress",
        "copytruncate\n compress\n delaycompress",
        "create\n dateext\n dateformat -%Y%m%d-%s",
        "copytruncate\n dateext\n dateformat -%Y%m%d-%s\n compress",
    ],
)
def test_logrotate(how: str, tmp_path: Path, log: Path) -> None:
    config = tmp_path / "logrotate.conf"
    config.write_text(LOGROTATE.format(log=log, how=how))
    config.chmod(0o644)
    tmp_path.chmod(0o755)
    watch = Watch(tmp_path)
    for round_ in range(6):
        append(log, numbered(round_ * 50, round_ * 50 + 30))
        watch.look()
        append(log, numbered(round_ * 50 + 30, round_ * 50 + 50))
        _rotate(tmp_path, check="dateext" not in how)  # it refuses two rotations within one second then
    assert len(list(tmp_path.glob("access.log?*"))) >= 1
    assert watch.settle() == expected(300)
    assert all(gap.start == gap.stop for gap in watch.gaps)
    watch.follower.close()


@pytest.mark.skipif(shutil.which("logrotate") is None, reason="logrotate is not installed")
def test_copytruncate_outside_the_patterns_counts_what_was_seen_and_not_read(tmp_path: Path, log: Path) -> None:
    config = tmp_path / "logrotate.conf"
    config.write_text(LOGROTATE.format(log=log, how="copytruncate"))
    config.chmod(0o644)
    tmp_path.chmod(0o755)
    watch = Watch(tmp_path, pattern="access.log")
    append(log, numbered(0, 20) + b"half")
    watch.look()
    _rotate(tmp_path)
    append(log, numbered(20, 40))
    assert watch.settle() == expected(40)
    size = len(numbered(0, 20))
    assert [(gap.start, gap.stop, gap.open_ended) for gap in watch.gaps] == [(size, size + 4, True)]
    watch.follower.close()


def _rotate(folder: Path, check: bool = True) -> None:
    command = [str(shutil.which("logrotate")), "-f", "-s", str(folder / "state"), str(folder / "logrotate.conf")]
    subprocess.run(command, check=check, timeout=PATIENCE_S)


LINES = """
import sys
path, count = sys.argv[1], int(sys.argv[2])
for number in range(count):
    with open(path, "ab", buffering=0) as log:
        log.write(b"line %d of the log, long enough to be one\\n" % number)
    if number % 200 == 199:
        print(number, flush=True)
        sys.stdin.readline()
"""


@pytest.mark.skipif(shutil.which("logrotate") is None, reason="logrotate is not installed")
@pytest.mark.parametrize("how", ["create", "nocreate", "create\n compress\n delaycompress"])
def test_logrotate_under_a_writer(how: str, tmp_path: Path, log: Path) -> None:
    config = tmp_path / "logrotate.conf"
    config.write_text(LOGROTATE.format(log=log, how=how).replace("rotate 4", "rotate 20"))
    config.chmod(0o644)
    tmp_path.chmod(0o755)
    count, lines = 2000, Counter[bytes]()
    command = [sys.executable, "-c", LINES, str(log), str(count)]
    with (
        Follower([tmp_path / "access.log*"], BESIDE_OTHERS) as follower,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer,
    ):
        assert writer.stdout is not None
        assert writer.stdin is not None
        while writer.stdout.readline():  # the writer goes on while logrotate works and the follower reads
            writer.stdin.write(b"\n")
            writer.stdin.flush()
            _rotate(tmp_path)
            lines.update(_lines_of(follower))
        for _ in range(1000):
            if lines.total() >= count:
                break
            lines.update(_lines_of(follower))
            follower.wait(0.5)
        lines.update(_lines_of(follower))
    assert lines == expected(count)


def _lines_of(follower: Follower) -> list[bytes]:
    lines: list[bytes] = []
    for found in follower.poll():
        assert not isinstance(found, Gap)
        if isinstance(found, Deliver):
            lines += found.data[found.start : found.stop].splitlines()
    return lines

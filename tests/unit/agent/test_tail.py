"""The automaton by itself: shares, bounds, and what it says of odd answers. Rotations are in the property test."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from agent.tail import Tail, check
from agent.tail_events import (
    Deliver,
    Effect,
    Listed,
    Open,
    Opened,
    Read,
    ReadDone,
    Relist,
    Seen,
    Trouble,
    Turn,
)
from agent.tail_life import LogState
from agent.tail_logs import Position
from agent.tail_options import TailOptions
from tests.tail_model import World


def world(**changes: Any) -> World:
    return World(replace(TailOptions.tiny(), **changes))


def _numbered(name: str, count: int) -> bytes:
    return b"".join(b"%s %04d\n" % (name.encode(), i) for i in range(count))


def test_a_turn_reads_no_more_than_its_bytes_and_every_file_has_its_share() -> None:
    here = world(open_max=20)
    for name in "abcdef":
        here.create(name, _numbered(name, 50))
    here.list()
    here.run()
    asked: list[int] = []
    for _ in range(3):
        here.turn()
        reads = [effect for effect in here.pending if isinstance(effect, Read)]
        assert sum(read.size_bytes - here.options.proof_bytes for read in reads) <= here.options.turn_bytes_max
        asked += [read.handle for read in reads]
        here.run()
    assert len(asked) == len(set(asked)) == 6


def test_a_huge_file_does_not_starve_a_thousand_small_ones() -> None:
    options = replace(TailOptions.tiny(), open_max=1100, read_bytes=64, turn_bytes_max=640)
    contents = {1: _numbered("huge", 20_000)} | {number: b"small %04d\n" % number for number in range(2, 1002)}
    files = tuple(Seen(f"log{number}", 1, number, len(data), 1) for number, data in contents.items())
    tail, inodes, ends = Tail(options), dict[int, int](), Counter[int]()
    todo: deque[Effect] = deque(tail.handle(Listed(files, ()), 1.0))
    for _ in range(250):  # each small file needs one read, of which ten fit in a turn
        todo.extend(tail.handle(Turn(), 1.0))
        while todo:
            effect = todo.popleft()
            if isinstance(effect, Open):
                inodes[effect.handle] = inode = int(effect.path[3:])
                todo.extend(tail.handle(Opened(effect.handle, 1, inode, len(contents[inode]), 1, False), 1.0))
            elif isinstance(effect, Read):
                data = contents[inodes[effect.handle]][effect.offset : effect.offset + effect.size_bytes]
                event = ReadDone(effect.handle, effect.offset, data, len(data) < effect.size_bytes)
                todo.extend(tail.handle(event, 1.0))
            elif isinstance(effect, Deliver):
                ends[effect.key.inode] = effect.end
    assert all(ends[number] == len(contents[number]) for number in range(2, 1002))
    assert 0 < ends[1] < len(contents[1]) // 4


def test_open_files_are_bounded_and_all_are_read() -> None:
    here = world(open_max=3, open_deleted_max=2)
    for number in range(9):
        here.create(f"log{number}", _numbered(f"log{number}", 3))
    for _ in range(30):
        here.poll()
        assert len(here.tail.open_files) <= 3
    assert here.delivered.total() == 27


def test_empty_files_do_not_keep_others_from_being_opened() -> None:
    here = world(open_max=3, open_deleted_max=2)
    for number in range(9):
        here.create(f"a{number}")
    here.create("b", b"one\n")
    for _ in range(5):
        here.poll()
        assert len(here.tail.open_files) <= 3
    assert here.delivered == {b"one\n": 1}
    here.reopen("a0")
    here.append("a0", b"two\n")
    here.poll()
    assert here.delivered == {b"one\n": 1, b"two\n": 1}
    here.truncate(here.names["b"])
    for _ in range(5):
        here.now_s += 1.0
        here.poll()
    assert [gap.reason for gap in here.gaps] == ["truncated"]  # files that are empty and closed hold nothing up


def test_files_beyond_the_limit_of_deleted_ones_are_let_go_with_a_gap() -> None:
    here = world(open_max=8, open_deleted_max=2)
    for number in range(5):
        here.create(f"log{number}", _numbered(f"log{number}", 50))
    here.list()
    here.run()
    for number in range(5):
        here.unlink(f"log{number}")
    here.list()
    assert len(here.tail.open_files) == 2
    here.settle()
    assert here.delivered.total() == 100
    assert [gap.reason for gap in here.gaps] == ["deleted"] * 3


def test_a_deleted_file_is_closed_when_its_time_is_over_although_it_is_written_to() -> None:
    here = world(open_deleted_s=3.0)
    here.reopen("log")
    here.write("log", 1)
    here.poll()
    here.unlink("log")
    for _ in range(8):
        here.now_s += 0.5
        here.write("log", 1)
        here.poll()
    assert here.handles == {}
    assert here.delivered.total() == 7


def test_idle_files_are_closed_and_opened_again_when_they_grow() -> None:
    here = world()
    here.reopen("log")
    here.write("log", 2)
    here.poll()
    here.now_s += here.options.idle_close_s
    here.poll()
    assert here.handles == {}
    here.write("log", 1)
    here.poll()
    assert here.delivered.total() == 3


def test_half_a_line_keeps_a_file_open() -> None:
    here = world()
    here.reopen("log")
    here.write_half("log")
    here.poll()
    here.now_s += here.options.idle_close_s
    here.poll()
    assert len(here.handles) == 1
    here.write("log", 0)
    here.poll()
    assert here.delivered.total() == 1


def test_an_unreadable_file_is_told_once_and_tried_again() -> None:
    here = world()
    inode = here.create("log", b"line\n")
    inode.readable = False
    told = []
    for _ in range(5):
        here.list()
        while here.pending:
            effect = here.pending.popleft()
            assert isinstance(effect, Open)
            answer = here._open(effect)
            told += [left for left in here.tail.handle(answer, here.now_s) if isinstance(left, Trouble)]
        here.now_s += 1.0
    assert [trouble.message for trouble in told] == ["permission denied"]
    inode.readable = True
    here.poll()
    assert here.delivered == {b"line\n": 1}


def test_the_path_changed_hands_between_listing_and_opening() -> None:
    here = world()
    here.create("log", b"first\n")
    here.list()
    here.rename("log", "log.1")
    here.create("log", b"second\n")
    here.run(1)
    assert here.list_wanted
    here.poll()
    assert here.delivered == {b"first\n": 1, b"second\n": 1}


def _listed_only(here: World) -> None:
    """Files are found, and wait."""
    here.tail.room = 0
    here.list()
    here.tail.room = 1 << 62


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_file_that_a_listing_missed_as_it_was_renamed_is_not_missing(is_packed: bool) -> None:
    here = world()
    here.create("log.1", b"a line of a log that nobody has opened yet\n", is_packed)
    _listed_only(here)
    here.rename("log.1", "log.2")
    here.list(misses_moved=True)
    here.poll()
    here.settle()
    assert here.gaps == []
    assert here.delivered.total() == 1


def test_a_file_that_is_gone_before_it_was_opened_is_counted() -> None:
    here = world()
    here.create("another", b"a line that stays\n")
    here.poll()
    here.create("log", b"a line\n")
    _listed_only(here)
    here.unlink("log")
    here.poll()
    assert here.gaps == []
    here.settle()
    assert [(gap.start, gap.stop, gap.reason) for gap in here.gaps] == [(0, 7, "unreadable")]


def test_another_file_in_the_inode_of_one_that_was_never_opened() -> None:
    here = world()
    here.create("log", b"a line\n")
    _listed_only(here)
    here.unlink("log")
    here.list()
    here.create("log", b"n\n")
    here.settle()
    assert [(gap.start, gap.stop) for gap in here.gaps] == [(0, 7)]
    assert here.delivered == {b"n\n": 1}


def test_answers_to_closed_handles_are_ignored() -> None:
    here = world()
    here.create("log", b"line\n")
    here.list()
    opening = here.pending[0]
    assert isinstance(opening, Open)
    here.restart()
    assert here.tail.handle(here._read(Read(*_opened(here, opening), 0, 10)), 0.0) == []
    check(here.tail)


def _opened(here: World, opening: Open) -> tuple[int]:
    here._open(opening)
    return (opening.handle,)


def test_a_position_survives_its_encoding() -> None:
    here = world()
    here.reopen("log")
    here.write("log", 9)
    here.poll()
    position = here.tail.position()
    coded = msgspec.json.encode(position)
    assert msgspec.json.decode(coded, type=Position) == position
    here.write("log", 1)
    here.restart()
    here.settle()
    assert here.delivered.total() == 10
    assert here.gaps == []


def test_old_finished_logs_are_forgotten() -> None:
    here = world(logs_max=3)
    for number in range(9):
        here.create("log", _numbered(f"log{number}", 2))
        here.settle()
        here.unlink("log")
        here.settle()
    assert len(here.tail.logs) <= 4
    assert here.delivered.total() == 18


def test_a_log_that_comes_back_after_it_was_given_up_takes_its_gap_back() -> None:
    here = world()
    here.reopen("access.log")
    here.write("access.log", 5)
    here.poll()
    here.write("access.log", 5)
    late = here.names["access.log"].data
    here.truncate(here.names["access.log"])
    for _ in range(10):
        here.poll()
        here.now_s += 0.5
    assert [gap.open_ended for gap in here.gaps] == [True]
    here.create("access.log.1", late)
    here.settle()
    assert here.delivered.total() == 10
    assert [(gap.start, gap.open_ended) for gap in here.gaps] == [(len(late), True)]


def test_truncation_asks_for_a_listing_at_once() -> None:
    here = world()
    here.reopen("log")
    here.write("log", 3)
    here.poll()
    here.truncate(here.names["log"])
    here.hint("log")
    here.turn()
    read = here.pending.popleft()
    assert isinstance(read, Read)
    assert Relist() in here.tail.handle(here._read(read), here.now_s)


@pytest.mark.parametrize("end", ["end", "beginning"])
def test_files_there_at_the_start_and_files_that_come(end: str) -> None:
    here = world(read_from=end)
    here.create("old", b"old 1\nold 2\nhal")
    here.poll()
    here.create("new", b"new 1\n")
    here.names["old"].data += b"f\n"
    here.touch(here.names["old"])
    here.settle()
    wanted = {b"half\n", b"new 1\n"} | ({b"old 1\n", b"old 2\n"} if end == "beginning" else set())
    assert set(here.delivered) == wanted


def test_that_a_log_was_cut_is_seen_without_reading_on() -> None:
    """An agent that reads old ranges only has to know where these are."""
    here = world()
    inode = here.create("log", b"a line of a log, number 1\n")
    here.settle()

    def looks() -> list[Read]:
        here.list()
        here.tell(Turn(reads=False))
        reads = [effect for effect in here.pending if isinstance(effect, Read)]
        here.run()
        return reads

    assert looks() == []  # nothing has changed
    inode.data += b"a line of a log, number 2\n"
    here.touch(inode)
    (read,) = looks()
    assert (read.offset, read.size_bytes) == (26 - here.options.proof_bytes, here.options.proof_bytes)
    assert here.tail.judged
    assert sum(here.delivered.values()) == 1
    here.truncate(inode)
    assert len(looks()) == 1  # of nothing, and then it begins anew
    assert [log.state for log in here.tail.logs] == [LogState.LOST]


def test_what_it_returns_are_plain_values() -> None:
    tail = Tail(TailOptions.tiny())
    assert tail.handle(Turn(), 0.0) == []
    assert not tail.busy
    assert not tail.unsettled
    assert tail.position() == Position(())

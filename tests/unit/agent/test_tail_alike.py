"""Logs that begin alike and have little else: each of their lines counts once, whatever of them is packed when."""

from __future__ import annotations

from random import Random

import pytest

from agent.tail_options import TailOptions
from tests.tail_model import LIVE, World

HEAD = b"#Version\n"
"""Shorter than a proof: it says nothing of whose content a file is."""


def _logs_with_one_head(read_from: str = "beginning") -> World:
    return World(TailOptions.tiny("end" if read_from == "end" else "beginning"))


def _rotated_twice(here: World, newer: str = "new") -> bytes:
    """A log that is known and holds its head, and two rotations: the newer log is at .1, and is being packed."""
    here.create(LIVE, HEAD)
    here.poll()
    here.rename(LIVE, f"{LIVE}.2")
    here.reopen(LIVE)
    here.append(LIVE, HEAD)
    if newer != "new":
        here.poll()
    here.write(LIVE, 1)
    here.rename(LIVE, f"{LIVE}.1")
    here.create(f"{LIVE}.1.gz", here.names[f"{LIVE}.1"].data, compressed=True)
    here.reopen(LIVE)
    here.append(LIVE, HEAD)
    if newer == "of an earlier life":
        here.restart()
    return here.written[-1]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("newer", ["new", "known", "of an earlier life"])
def test_a_log_that_is_being_packed_beside_one_that_begins_alike_is_read_once(seed: int, newer: str) -> None:
    here, order = _logs_with_one_head(), Random(seed)
    line = _rotated_twice(here, newer)
    here.list()
    for _ in range(40):  # answers come in any order
        order.shuffle(here.pending)
        here.run(1)
        if not here.pending or order.random() < 0.2:
            here.turn()
    here.settle()
    assert here.delivered == {HEAD: 3, line: 1}
    assert here.gaps == []


@pytest.mark.parametrize("number", [1, 2])
def test_the_archive_is_whole_and_what_it_is_made_of_goes(number: int) -> None:
    here = _logs_with_one_head()
    line = _rotated_twice(here)
    for _ in range(number):
        here.poll()
    here.unlink(f"{LIVE}.1")
    here.settle()
    assert here.delivered == {HEAD: 3, line: 1}
    assert here.gaps == []


def test_the_archive_is_found_before_what_it_is_made_of() -> None:
    here = _logs_with_one_head()
    line = _rotated_twice(here)
    hidden = here.names.pop(f"{LIVE}.1")
    here.settle()
    assert here.delivered[line] == 1
    here.names[f"{LIVE}.1"] = hidden
    here.settle()
    assert here.delivered[line] == 1
    assert here.gaps == []


def test_an_archive_whose_log_nobody_saw_goes_on_one_that_begins_alike() -> None:
    """Nothing on disk tells whose rest it is. Its lines come once, and what the other log goes on with, too."""
    here = _logs_with_one_head()
    line = _rotated_twice(here)
    here.unlink(f"{LIVE}.1")
    here.settle()
    assert here.delivered[line] == 1
    older = here.names[f"{LIVE}.2"]
    older.data += here.line()
    here.touch(older)
    here.settle()
    assert here.delivered == {HEAD: here.delivered[HEAD], line: 1, here.written[-1]: 1}
    assert here.gaps == []


def test_two_archives_of_which_one_holds_only_what_both_begin_with() -> None:
    here = _logs_with_one_head()
    here.create("a.gz", HEAD, compressed=True)
    here.poll()
    line = here.line()
    here.create("b.gz", HEAD + line, compressed=True)
    here.settle()
    assert here.delivered == {HEAD: 2, line: 1}


@pytest.mark.parametrize("compressed", [False, True])
def test_an_archive_that_is_not_read_says_nothing_of_a_log_that_is_longer(compressed: bool) -> None:
    here = _logs_with_one_head("end")
    here.create("a.gz", HEAD, compressed=True)
    here.poll()
    line = here.line()
    here.create("b", HEAD + line, compressed=compressed)
    here.settle()
    assert here.delivered == {HEAD: 1, line: 1}
    here.create("c", HEAD, compressed=compressed)  # nothing tells it from a copy
    here.settle()
    assert here.delivered == {HEAD: 1, line: 1}


def test_half_a_line_tells_logs_apart() -> None:
    here = _logs_with_one_head()
    here.reopen(LIVE)
    head = HEAD.strip() * 4 + b"\n"
    here.append(LIVE, head)
    here.write_half(LIVE)
    here.poll()
    line = here.line()
    here.create(f"{LIVE}.gz", head + line, compressed=True)
    here.settle()  # the half line becomes whole, too
    assert here.delivered == {head: 2, line: 1, here.written[0]: 1}

"""How long one waits for a peer that sends little, with a clock of the test's own."""

from __future__ import annotations

import socket

import pytest

from master.spark.paced_socket import BYTES_A_SECOND, SILENT_S, Pace, PacedSocket


def test_what_came_buys_time_and_what_is_there_begins_anew() -> None:
    pace = Pace("the answer")
    assert pace.left_s() == SILENT_S
    pace.came(BYTES_A_SECOND * 10, SILENT_S)
    assert pace.left_s() == 10
    pace.came(BYTES_A_SECOND * 100, 0)
    assert pace.left_s() == SILENT_S
    pace.came(3, 110.1)
    with pytest.raises(TimeoutError, match=r"the answer comes too slowly: 7208963 bytes in 140\.1 s"):
        pace.left_s()
    pace.restart()
    assert pace.left_s() == SILENT_S


def test_a_byte_every_second_is_too_little() -> None:
    here, there = socket.socketpair()
    now_s = 0.0

    def clock() -> float:
        nonlocal now_s
        there.sendall(b"x")
        now_s += 1
        return now_s

    with here, there, PacedSocket(here, Pace("the answer"), clock).makefile("rb") as file:
        with pytest.raises(TimeoutError, match=r"the answer comes too slowly: [0-9]+ bytes in 31\.0 s"):
            file.read(1 << 20)
        assert now_s == 62


def test_the_connection_is_open_as_long_as_what_reads_it() -> None:
    here, there = socket.socketpair()
    with there:
        paced = PacedSocket(here, Pace("the answer"))
        file = paced.makefile("rb")
        paced.close()
        there.sendall(b"whole")
        there.shutdown(socket.SHUT_WR)
        assert file.read() == b"whole"
        assert here.fileno() >= 0
        file.close()
        assert here.fileno() < 0

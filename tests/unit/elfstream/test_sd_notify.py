"""The words that a service manager gets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from elfstream.sd_notify import Notifier
from tests.patience import PATIENCE_S


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.bind(str(tmp_path / "notify"))
        one.settimeout(PATIENCE_S)
        yield one


def test_what_is_told(manager: socket.socket) -> None:
    notifier = Notifier.from_environment({"NOTIFY_SOCKET": manager.getsockname()})
    said = []
    for told in (
        notifier.ready("listens on\n127.0.0.1:7117"), notifier.alive(), notifier.status("3 jobs"), notifier.stopping(),
        notifier.extend(1.5),
    ):  # fmt: skip
        assert told
        said.append(manager.recv(4096).decode())
    assert said == [
        "READY=1\nSTATUS=listens on 127.0.0.1:7117", "WATCHDOG=1", "STATUS=3 jobs", "STOPPING=1",
        "EXTEND_TIMEOUT_USEC=1500000",
    ]  # fmt: skip
    assert notifier.reloading()
    first, second = manager.recv(4096).decode().split("\n")
    assert first == "RELOADING=1"
    assert int(second.removeprefix("MONOTONIC_USEC=")) > 0


def test_an_abstract_address() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.bind("\0elfstream-test-notify")
        one.settimeout(PATIENCE_S)
        assert Notifier("@elfstream-test-notify").ready()
        assert one.recv(100) == b"READY=1"


@pytest.mark.parametrize("address", ["", "vsock:2:1234", "relative"])
def test_without_a_manager_nobody_is_told(address: str) -> None:
    notifier = Notifier.from_environment({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000"})
    assert notifier.ready() is False
    assert notifier.watchdog_s is None


def test_a_manager_that_is_gone_is_no_error(tmp_path: Path) -> None:
    assert Notifier(str(tmp_path / "gone")).alive() is False


@pytest.mark.parametrize(
    ("environ", "interval"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_is_fed_twice_as_often_as_asked(environ: dict[str, str], interval: float | None) -> None:
    assert Notifier.from_environment({"NOTIFY_SOCKET": "/x", **environ}, pid=7).watchdog_s == interval

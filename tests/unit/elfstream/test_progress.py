"""The bar: only for people, only for long work, and it cleans up behind itself."""

from __future__ import annotations

import io

import pytest

from elfstream.embedded import Progress
from elfstream.progress import SHOWN_AFTER_S, ProgressBar, rate_text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return Terminal()


def at(seconds: float, total: int | None) -> Progress:
    return Progress(50_000_000, total, 2_000_000, seconds, "access.log")


def test_short_work_shows_nothing(terminal: Terminal) -> None:
    with ProgressBar(stream=terminal) as bar:
        assert bar.listener is not None
        bar.listener(at(SHOWN_AFTER_S / 2, 100_000_000))
    assert terminal.getvalue() == ""


def test_long_work_shows_share_rate_and_vanishes(terminal: Terminal) -> None:
    with ProgressBar(stream=terminal) as bar:
        bar(at(SHOWN_AFTER_S, 100_000_000))
        bar(at(1.0, 100_000_000))
    shown = terminal.getvalue()
    assert "50.0/100.0 MB" in shown
    assert "2.00 M lines, 2.00 M lines/s" in shown
    assert shown.endswith("\x1b[2K")  # the line is erased


def test_a_pipe_has_no_share(terminal: Terminal) -> None:
    with ProgressBar(stream=terminal) as bar:
        bar(at(1.0, None))
        bar(at(2.0, None))
    assert "50.0 MB, 2.00 M lines, 1.00 M lines/s" in terminal.getvalue()
    assert "left" not in terminal.getvalue()


def test_nobody_looks() -> None:
    assert ProgressBar(stream=io.StringIO()).listener is None


def test_quiet(terminal: Terminal) -> None:
    assert ProgressBar(wanted=False, stream=terminal).listener is None


def test_rate() -> None:
    assert rate_text(3_000_000, 2.0) == "1.50 M lines/s"
    assert rate_text(5, 0.0) == "0 lines/s"

"""Lines of the daemon: their form, what must not be in them, and how often."""

from __future__ import annotations

import io
import json
import logging
import os
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp.http_exceptions import BadHttpMessage

from elfstream import event_log
from elfstream.event_log import EventLog, JsonLines, LineHandler, TextLines, hide, set_up


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _logging_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    monkeypatch.setattr(event_log, "secrets", set())
    yield
    root.setLevel(level)
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
    logging.captureWarnings(False)


@pytest.fixture
def shown() -> io.StringIO:
    return io.StringIO()


def text(shown: io.StringIO) -> list[str]:
    """The lines without their times."""
    return [line.partition("Z ")[2] for line in shown.getvalue().splitlines()]


def test_a_line_of_text(shown: io.StringIO) -> None:
    set_up("info", "text", shown, {})
    events = EventLog("links")
    events.info("peer joined", peer="web2", hops=3, seconds=0.25, fresh=True, parent=None)
    events.warning("odd", path="/a b", quote='say "x"', equals="a=b", empty="", unicode="é")
    events.debug("unseen")
    assert shown.getvalue()[:3] == "202"
    assert text(shown) == [
        "info links: peer joined peer=web2 hops=3 seconds=0.25 fresh=true parent=null",
        'warning links: odd path="/a b" quote="say \\"x\\"" equals="a=b" empty="" unicode="é"',
    ]


def test_a_line_of_json(shown: io.StringIO) -> None:
    set_up("debug", "json", shown, {})
    EventLog("core").debug("took\n long", seconds=float("inf"), time=3, job="é", path=Path("/x"))
    (line,) = shown.getvalue().splitlines()
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "debug", "logger": "core", "event": "took\n long", "seconds": "inf", "time_": 3, "job": "é", "path": "/x",
    }  # fmt: skip


def test_strangers_cannot_begin_a_line_or_steer_a_terminal(shown: io.StringIO) -> None:
    set_up("info", "text", shown, {})
    EventLog("api").info("refused\n2026 error", agent="x\n2026 error api: all is lost\x1b[2J\u2028\u202e", bad="\udcff")
    (line,) = shown.getvalue().splitlines()
    assert "\x1b" not in line
    assert "\u202e" not in line
    assert "refused\\n2026 error" in line


def test_lines_of_libraries_and_warnings_take_the_same_way(shown: io.StringIO) -> None:
    set_up("info", "text", shown, {})
    logging.getLogger("aiohttp.server").error("Error handling %s", "request")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    first, second = text(shown)
    assert first == "error aiohttp.server: Error handling request"
    assert "DeprecationWarning: old" in second


def test_who_sends_no_http_has_a_line(shown: io.StringIO) -> None:
    set_up("info", "text", shown, {})
    server = logging.getLogger("aiohttp.server")
    for error in (BadHttpMessage("Invalid header value char:\n\n  b'X: \\x00'"), ValueError("ours")):
        try:
            raise error
        except Exception:
            server.exception("Error handling request from %s", "203.0.113.9")
    first, second = text(shown)
    assert first == 'info aiohttp.server: a request that is no HTTP peer=203.0.113.9 why="Invalid header value char"'
    assert second.startswith("error aiohttp.server: Error handling request from 203.0.113.9 error=")


def test_a_message_that_cannot_be_put_together() -> None:
    record = logging.LogRecord("library", logging.ERROR, "", 0, "%d", ("no number",), None)
    assert "error library: '%d' cannot be written: " in TextLines().format(record)


def test_threads_and_failures(shown: io.StringIO) -> None:
    set_up("info", "json", shown, {})

    def fail() -> None:
        try:
            raise ValueError("no\nway")
        except ValueError as error:
            EventLog("core").failure("event was dropped", error, kind="Wake")

    thread = threading.Thread(target=fail, name="core")
    thread.start()
    thread.join()
    found = json.loads(shown.getvalue())
    assert (found["thread"], found["error"], found["kind"]) == ("core", "ValueError: no\nway", "Wake")
    assert found["traceback"].startswith("Traceback (most recent call last):\n")


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_are_never_written(shown: io.StringIO, form: str) -> None:
    set_up("info", form, shown, {})  # type: ignore[arg-type]
    secret = 'to"ken\\0123456789'
    hide(secret)
    hide("short")
    try:
        raise ValueError(f"bad {secret}")
    except ValueError as error:
        EventLog("api").failure(f"refused {secret}", error, value=f"x{secret}", token="abc", Password="p4ss", short="short")
    header = "Authorization: Bearer abcdefgh"
    EventLog("api").info("asked", url="http://me:hunter22@web1/x", header=header, token_file="/etc/t")
    said = shown.getvalue()
    for one in ("0123456789", "abc", "p4ss", "hunter22"):
        assert one not in said
    assert "***" in said
    assert "short" in said
    assert "/etc/t" in said


def test_the_journal_gets_priorities_and_no_time(tmp_path: Path) -> None:
    with open(tmp_path / "journal", "w+", encoding="utf-8") as stream:
        found = os.fstat(stream.fileno())
        environ = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}
        set_up("debug", "text", stream, environ)
        events = EventLog("node")
        for say in (events.debug, events.info, events.warning, events.error):
            say("x")
        logging.getLogger("elfstream.node").critical("x")
        set_up("info", "json", stream, environ)
        events.warning("y")
        stream.seek(0)
        lines = stream.read().splitlines()
    assert lines[:5] == [f"<{number}>node: x" for number in (7, 6, 4, 3, 2)]
    assert lines[5].startswith('<4>{"time": ')
    assert not event_log.is_journal(io.StringIO(), environ)


def handler(shown: io.StringIO, clock: Clock) -> logging.Logger:
    logger = logging.Logger("elfstream.x")
    logger.addHandler(LineHandler(shown, TextLines(), clock))
    return logger


def test_repeated_messages_are_counted_and_summed_up(shown: io.StringIO) -> None:
    clock = Clock()
    logger = handler(shown, clock)
    for number in range(25):
        logger.warning("%s", "peer lost", extra={"fields": {"n": number}})
    logger.warning("%s", "something else")
    assert len(text(shown)) == event_log.BURST_MAX + 1
    clock.now += event_log.BURST_S
    logger.warning("%s", "peer lost", extra={"fields": {"n": 99}})
    assert text(shown)[-2:] == ["warning x: peer lost n=24 repeated=15", "warning x: peer lost n=99"]


def test_what_was_held_back_is_told_in_the_end(shown: io.StringIO) -> None:
    logger = handler(shown, Clock())
    for _ in range(12):
        logger.error("disk full")
    logger.handlers[0].close()
    assert text(shown)[-1] == "error x: disk full repeated=2"
    assert len(text(shown)) == 11


def test_critical_lines_are_all_written_and_memory_is_bounded(shown: io.StringIO) -> None:
    logger = handler(shown, Clock())
    for _ in range(30):
        logger.critical("stop")
    for number in range(event_log.MESSAGES_MAX + 50):
        logger.info(f"message {number}")
    assert len(text(shown)) == 30 + event_log.MESSAGES_MAX + 50
    assert len(logger.handlers[0]._repeats) <= event_log.MESSAGES_MAX  # type: ignore[attr-defined]


def test_a_stream_that_is_gone_is_counted(shown: io.StringIO) -> None:
    logger = handler(shown, Clock())
    shown.close()
    logger.info("x")
    assert logger.handlers[0].lost == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("lines", [TextLines(), JsonLines()])
def test_long_lines_are_cut(lines: logging.Formatter) -> None:
    record = logging.LogRecord("elfstream.x", logging.INFO, "", 0, "\x00" * 50_000, (), None)
    record.fields = {"a": "b" * 50_000}
    line = lines.format(record)
    assert len(line) <= event_log.LINE_MAX
    if isinstance(lines, JsonLines):
        assert json.loads(line)["a"].endswith("…")

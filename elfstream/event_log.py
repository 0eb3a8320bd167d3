"""What a node has to say: one line per event on standard error, as text or JSON.

    events = EventLog("links")
    events.warning("peer lost", peer="web2", after_s=1.0)

    2026-11-21T16:45:12.123Z warning links: peer lost peer=web2 after_s=1.0 thread=core

It stands on `logging`, so lines of libraries take the same way. A message is a constant and what varies is in fields: then
repeated messages can be told, and are limited. Secrets are replaced. What comes from outside cannot begin a line of its own.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TextIO

from aiohttp.http_exceptions import HttpProcessingError

from elfstream.terminal import visible

LINE_MAX = 16 << 10
"""Characters of a line; a longer one is cut."""
BURST_MAX, BURST_S = 10, 10.0
"""Of each message so many lines within so many seconds; the rest is counted and told at the end of that time."""
MESSAGES_MAX = 1000
HIDDEN = "***"

_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
_SECRET_NAMES = re.compile(r"token|passw|secret|authorization|credential|private", re.IGNORECASE)
_SECRETS = re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]*(?=@)|(?<=\bbearer )\S+|(?<=\bbasic )\S{8,}", re.IGNORECASE)
_PLAIN = re.compile(r"[!#-<>-~]+")
_OWN = ("time", "level", "logger", "event", "thread", "error", "traceback")

secrets: set[str] = set()


def hide(secret: str) -> None:
    """Whatever is logged from now on has `***` in the place of `secret` (at least 8 characters)."""
    if len(secret) >= 8:
        secrets.add(secret)


class EventLog:
    """A part of the node that logs. Cheap to make; fields are JSON values, anything else is written as its text."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"elfstream.{name}")

    def debug(self, event: str, **fields: Any) -> None:
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._log(logging.ERROR, event, fields)

    def failure(self, event: str, error: BaseException, **fields: Any) -> None:
        """An error with its traceback: a bug, or nearly one."""
        self._log(logging.ERROR, event, fields, error)

    def _log(self, level: int, event: str, fields: dict[str, Any], error: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            extra = {"fields": fields}
            self._logger.log(level, "%s", event, extra=extra, exc_info=error)


def set_up(
    level: str,
    format: Literal["text", "json"],
    stream: TextIO | None = None,
    environ: Mapping[str, str] | None = None,
) -> LineHandler:
    """Everything that is logged in this process goes to `stream` (standard error) from now on, in this way; may be called
    again, as on a reload."""
    stream = sys.stderr if stream is None else stream
    journal = is_journal(stream, os.environ if environ is None else environ)
    handler = LineHandler(stream, JsonLines(journal) if format == "json" else TextLines(journal))
    root = logging.getLogger()
    for old in root.handlers[:]:
        if isinstance(old, LineHandler):
            root.removeHandler(old)
            old.close()
    root.addHandler(handler)
    logging.getLogger("aiohttp.server").addFilter(_told_of_strangers)
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    return handler


def _told_of_strangers(record: logging.LogRecord) -> bool:
    """Who sends what is no HTTP has a line, not the traceback of an error of this node."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError):
        record.levelno, record.levelname, record.exc_info = logging.INFO, "INFO", None
        peer = record.args[0] if isinstance(record.args, tuple) and record.args else None
        record.msg, record.args = "a request that is no HTTP", ()
        record.fields = {"peer": peer, "why": error.message.partition("\n")[0].rstrip(": ")}
        return logging.getLogger(record.name).isEnabledFor(logging.INFO)
    return True


def is_journal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether `stream` is a connection to systemd's journal, which knows the time and takes <4> as a priority."""
    device, _, inode = environ.get("JOURNAL_STREAM", "").partition(":")
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return (str(found.st_dev), str(found.st_ino)) == (device, inode)


class TextLines(logging.Formatter):
    """`time level logger: event key=value ...`; in the journal without time, with the priority in front."""

    def __init__(self, journal: bool = False) -> None:
        super().__init__()
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        parts = _parts(record)
        head = f"{parts.pop('logger')}: {visible(parts.pop('event'))}"
        moment, level = parts.pop("time"), parts.pop("level")
        start = f"<{priority(record.levelno)}>" if self._journal else f"{moment} {level} "
        line = " ".join([start + head, *(f"{name}={_value(value)}" for name, value in parts.items())])
        return line if len(line) <= LINE_MAX else line[: LINE_MAX - 1] + "…"


class JsonLines(logging.Formatter):
    """An object per line: time, level, logger, event, then the fields."""

    def __init__(self, journal: bool = False) -> None:
        super().__init__()
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        parts = _parts(record)
        line = json.dumps(parts, ensure_ascii=True, allow_nan=False, separators=(", ", ": "))
        if len(line) > LINE_MAX:  # all that is long is text: cut each of them
            longest = LINE_MAX // (8 * len(parts))
            parts = {name: _cut(value, longest) for name, value in parts.items()}
            line = json.dumps(parts, ensure_ascii=True, allow_nan=False, separators=(", ", ": "))
        return f"<{priority(record.levelno)}>{line}" if self._journal else line


def priority(level: int) -> int:
    """The syslog priority of a level of `logging`."""
    return next((number for least, number in _PRIORITIES if level >= least), 7)


def _parts(record: logging.LogRecord) -> dict[str, Any]:
    """What a line says, in order; all values are None, bool, int, float or str."""
    seconds, milliseconds = divmod(int(record.created * 1000), 1000)
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    try:
        event = record.getMessage()
    except Exception as error:
        event = f"{record.msg!r} cannot be written: {error}"
    parts: dict[str, Any] = {
        "time": f"{moment}.{milliseconds:03d}Z",
        "level": record.levelname.lower(),
        "logger": record.name.removeprefix("elfstream."),
        "event": cleaned(event),
    }
    for name, value in getattr(record, "fields", {}).items():
        parts[f"{name}_" if name in _OWN else name] = _field(name, value)
    if record.threadName not in (None, "MainThread"):
        parts["thread"] = record.threadName
    if record.exc_info and record.exc_info[1] is not None:
        raised = record.exc_info[1]
        parts["error"] = cleaned(f"{type(raised).__name__}: {raised}")
        parts["traceback"] = cleaned("".join(traceback.format_exception(raised)))
    return parts


def _field(name: str, value: Any) -> Any:
    if _SECRET_NAMES.search(name) and not name.endswith("_file"):
        return HIDDEN
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    return cleaned(value if isinstance(value, str) else str(value))


def cleaned(text: str) -> str:
    """`text` without what is secret: what was given to `hide`, passwords in URLs, credentials of HTTP."""
    for secret in tuple(secrets):  # another thread may add one
        text = text.replace(secret, HIDDEN)
    return _SECRETS.sub(HIDDEN, text)


def _value(value: Any) -> str:
    """A value of a field in text: bare where it can be, else as a JSON string."""
    if not isinstance(value, str):
        return json.dumps(value)
    return value if _PLAIN.fullmatch(value) else json.dumps(visible(value).replace("\\n", "\n"), ensure_ascii=False)


def _cut(value: Any, most: int) -> Any:
    return value[:most] + "…" if isinstance(value, str) and len(value) > most else value


class _Repeats(NamedTuple):
    since: float
    times: int
    last: logging.LogRecord | None
    """The last one that was not written."""


class LineHandler(logging.Handler):
    """Writes lines, few of the same. A stream that cannot be written to is no reason to stop: `lost` counts."""

    def __init__(
        self, stream: TextIO, lines: logging.Formatter, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._stream, self._clock = stream, clock
        self._repeats: OrderedDict[tuple[str, int, str], _Repeats] = OrderedDict()
        self.lost = 0
        self.setFormatter(lines)

    def emit(self, record: logging.LogRecord) -> None:
        now = self._clock()
        self._tell_repeats(now - BURST_S)
        args = record.args[0] if isinstance(record.args, tuple) and record.msg == "%s" else record.msg
        key = (record.name, record.levelno, str(args)[:200])
        seen = self._repeats.get(key, _Repeats(now, 0, None))
        held = seen.times >= BURST_MAX and record.levelno < logging.CRITICAL
        self._repeats[key] = _Repeats(seen.since, seen.times + 1, record if held else None)
        while len(self._repeats) > MESSAGES_MAX:
            self._summarise(self._repeats.popitem(last=False)[1])
        if not held:
            self._write(record)

    def _tell_repeats(self, before: float) -> None:
        """Sums up what began at `before` or earlier: the oldest stand first."""
        while self._repeats:
            key, seen = next(iter(self._repeats.items()))
            if seen.since > before:
                return
            del self._repeats[key]
            self._summarise(seen)

    def _summarise(self, seen: _Repeats) -> None:
        if seen.last is not None:
            fields = {**getattr(seen.last, "fields", {}), "repeated": seen.times - BURST_MAX}
            seen.last.fields = fields
            self._write(seen.last)

    def _write(self, record: logging.LogRecord) -> None:
        try:
            self._stream.write(self.format(record).encode("utf-8", "backslashreplace").decode() + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            self.lost += 1

    def flush(self) -> None:
        """Tells what was held back, at the end of the process or before a new handler."""
        with self.lock:  # type: ignore[union-attr]  # None only before __init__
            self._tell_repeats(float("inf"))

    def close(self) -> None:
        self.flush()
        super().close()

"""From what stands in a file to what the node uses: one function per kind of value, each says what is allowed.

A function takes the value and the folder that relative paths start from. It raises Wrong.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable
from typing import Any

from elfstream.config.model import Address
from job.durations import HOW, SECOND_US, duration_s, duration_text
from master.asking import PORT

Reader = Callable[[Any, str], Any]

TEXT_MAX = 64 << 10
LIST_MAX = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_HOST_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_KINDS = {dict: "a table", list: "a list", bool: "true or false", int: "a number", float: "a number"}


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "a date or time")


class Wrong(Exception):  # noqa: N818 - becomes a Problem
    """A value that cannot be used. `index` is the element of a list that is meant."""

    def __init__(self, message: str, advice: str = "", index: int | str | None = None) -> None:
        self.message, self.advice, self.index = message, advice, index
        super().__init__(message)


def text(value: Any, _: str = "") -> str:
    """Any text that is not empty."""
    if not isinstance(value, str):
        raise Wrong(f"this is {_kind(value)}, not a text", "Put it in quotes.")
    if not value.strip():
        raise Wrong("the text is empty", "Leave the line out for the default.")
    if len(value) > TEXT_MAX:
        raise Wrong(f"the text is longer than {TEXT_MAX} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Wrong("the text is not UTF-8") from None
    return value


def _shown(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:57] + "...")


def name(value: Any, _: str = "") -> str:
    """The name of a node or fleet."""
    found = text(value)
    if not _NAME.fullmatch(found):
        raise Wrong(
            f"{_shown(found)} is no name",
            "A name has 1 to 64 letters (A-Z, a-z), digits, points, underscores and hyphens, a letter or digit first.",
        )
    return found


def table_name(value: Any, _: str = "") -> str:
    """The name of a source, which stands behind FROM."""
    found = text(value)
    if not _TABLE.fullmatch(found):
        raise Wrong(
            f"{_shown(found)} is no name for a source",
            "It stands behind FROM in queries: up to 64 letters, digits and underscores, not beginning with a digit.",
        )
    return found


def one_of(*choices: str) -> Reader:
    """One of some words, in any case."""

    def read(value: Any, _: str = "") -> str:
        found = text(value).strip().lower()
        if found not in choices:
            from difflib import get_close_matches

            near = get_close_matches(found, choices, n=1)
            meant = f"Did you mean {near[0]}? " if near else ""
            raise Wrong(f"{_shown(text(value))} is not known here", f"{meant}Write {_alternatives(choices)}.")
        return found

    return read


def _alternatives(choices: tuple[str, ...]) -> str:
    *first, last = choices
    return f"{', '.join(first)} or {last}" if first else last


def path(value: Any, folder: str) -> str:
    """A path, absolute from here on; a relative one starts at the folder of the file it stands in."""
    found = text(value)
    if "\0" in found:
        raise Wrong("the path has a zero byte in it")
    if found.startswith("~"):
        raise Wrong(f"{_shown(found)}: ~ is not expanded", "Write the whole path, or ${HOME}/...")
    return os.path.normpath(os.path.join(folder, found))


def _listed(value: Any, of: Reader, folder: str, split: bool) -> tuple[Any, ...]:
    """A list, or a single text that stands for a list of one (with `split`, of what commas part)."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()] if split else [value]
    if not isinstance(value, list):
        raise Wrong(f"this is {_kind(value)}, not a list", 'Write ["...", "..."].')
    if len(value) > LIST_MAX:
        raise Wrong(f"the list has {len(value)} elements, more than {LIST_MAX}")
    found = []
    for index, one in enumerate(value):
        try:
            found.append(of(one, folder))
        except Wrong as wrong:
            raise Wrong(wrong.message, wrong.advice, index) from None
    return tuple(dict.fromkeys(found))


def paths(value: Any, folder: str) -> tuple[str, ...]:
    """One or more paths or globs."""
    found = _listed(value, path, folder, split=False)
    if not found:
        raise Wrong("the list is empty", "Name the logs, such as /var/log/nginx/access.log*.")
    return found


def addresses(value: Any, folder: str) -> tuple[Address, ...]:
    """Addresses of other nodes; none is fine. A text may hold several with commas between."""
    return _listed(value, reached, folder, split=True)


def hosts(value: Any, folder: str = "") -> tuple[str, ...]:
    """Names or addresses of machines, as they stand in URLs; an empty list means none."""
    return _listed(value, _host, folder, split=True)


def _host(value: Any, _: str) -> str:
    found = text(value).strip().lower().strip("[]")
    if not found or any(sign in found for sign in "/@ ") or ("." in found and ":" in found):
        raise Wrong(f"{_shown(found)} is no host", "Write the name alone, without https:// and port: hooks.example.net.")
    return found


def listen(value: Any, _: str = "") -> Address:
    """Where a node binds: any address of this machine, port 0 to 65535."""
    return _address(value, port_least=0)


def reached(value: Any, _: str = "") -> Address:
    """Where others reach a node: no wildcard, port 1 to 65535."""
    found = _address(value, port_least=1)
    if found.is_wildcard:
        raise Wrong(f"{found} is a wildcard, which nobody can connect to", "Write the address that other nodes reach.")
    return found


def _address(value: Any, port_least: int) -> Address:
    found = text(value).strip()
    if "://" in found:
        raise Wrong(f"{_shown(found)} is a URL", f"Leave {found.partition('://')[0]}:// out: host:port.")
    if found.count(":") > 1 and not found.startswith("["):
        raise Wrong(f"{_shown(found)} is no address", f"An IPv6 address stands in brackets: [::1]:{PORT}.")
    if found.startswith("["):
        host, bracket, rest = found[1:].partition("]")
        port = rest[1:] if rest.startswith(":") else None if not rest else "?"
        if not bracket or not _is_ip(host, 6):
            raise Wrong(f"{_shown(found)} is no address", f"Write host:port, or [::1]:{PORT} for IPv6.")
    else:
        host, colon, rest = found.partition(":")
        port = rest if colon else None
        if not host:
            raise Wrong(f"{_shown(found)} lacks the host", f"Write 127.0.0.1:{PORT}, or 0.0.0.0:{PORT} for all addresses.")
        if not _is_ip(host, 4) and not _is_host_name(host):
            raise Wrong(f"{_shown(host)} is no host name or IP address", f"Write host:port, such as 127.0.0.1:{PORT}.")
    return Address(host, PORT if port is None else _port(port, port_least))


def _port(digits: str, least: int) -> int:
    number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 6 else -1
    if not least <= number <= 65535:
        raise Wrong(f"{_shown(digits)} is no port", f"A port is a number from {least} to 65535, such as {PORT}.")
    return number


def _is_ip(host: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(host).version == version and "%" not in host
    except ValueError:
        return False


def _is_host_name(host: str) -> bool:
    """False where the last label is a number, too: the C library reads `0` and `127.1` as IP addresses."""
    labels = host.removesuffix(".").split(".")
    if len(host) > 253 or not all(_HOST_LABEL.fullmatch(each) for each in labels):
        return False
    last = labels[-1].lower()
    return not (last.isdigit() or (last.startswith("0x") and all(c in "0123456789abcdef" for c in last[2:])))


def size(least: int, most: int) -> Reader:
    """Bytes: 64MiB, 1GiB or a number."""

    def read(value: Any, _: str = "") -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise Wrong(f"this is {_kind(value)}, not a size", "Write 64MiB or 1GiB, in quotes.")
        from job.sizes import size_bytes  # the help of commands does not wait for `job`

        try:
            found = size_bytes(value)
        except ValueError:
            raise Wrong(f"{_shown(str(value))} is no size", "Write 64MiB, 1GiB or a number of bytes.") from None
        if not least <= found <= most:
            raise Wrong(
                f"{size_text(found)} is too {'small' if found < least else 'large'}",
                f"It takes {size_text(least)} to {size_text(most)}.",
            )
        return found

    return read


def size_text(number: int) -> str:
    """1073741824 as 1GiB: the largest unit that leaves no rest."""
    for shift, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if number and number % (1 << shift) == 0:
            return f"{number >> shift}{unit}"
    return f"{number} bytes" if abs(number) < 1 << 64 else "this number of bytes"


def duration(least_s: float, most_s: float) -> Reader:
    """Seconds: 500ms, 10s, 5m."""

    def read(value: Any, _: str = "") -> float:
        if not isinstance(value, str):
            raise Wrong("this is no duration", 'Write a text with its unit: "500ms", "10s", "5m", "1h" or "1d".')
        try:
            found = duration_s(value.strip())
        except ValueError:
            raise Wrong(f"{_shown(value)} is no duration", f"{HOW.capitalize()}.") from None
        if not least_s <= found <= most_s:
            raise Wrong(
                f"{_shown(value)} is too {'short' if found < least_s else 'long'}",
                f"It takes {duration_text(round(least_s * SECOND_US))} to {duration_text(round(most_s * SECOND_US))}.",
            )
        return found

    return read


def number(least: float, most: float) -> Reader:
    """A number, also in quotes, as variables give it."""

    def read(value: Any, _: str = "") -> float:
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                raise Wrong(f"{_shown(value)} is no number") from None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Wrong(f"this is {_kind(value)}, not a number")
        if not least <= value <= most:
            raise Wrong(f"{value:.6g} is out of range" if abs(value) < 1e15 else "the number is out of range",
                        f"It takes {least:g} to {most:g}.")  # fmt: skip
        return float(value)

    return read


def log_format(value: Any, _: str = "") -> str:
    """A log format by name or as a format string; whether there is one is asked with the other keys of the source."""
    found = text(value)
    if found.strip().lower() == "auto":
        raise Wrong(
            "auto is for queries over files; a node must know its format before the first line comes",
            'Name it, such as "combined"; elfstream explain-format "$(tail -n 1 LOG)" finds it.',
        )
    return found


def declared_fields(value: Any, _: str = "") -> dict[str, str]:
    """Keys of JSON logs and their SQL types."""
    from job.errors import FormatError
    from job.formats.declared import declared_type

    if not isinstance(value, dict):
        raise Wrong("this is no table", 'Write fields = { latency = "DOUBLE", "ctx.user" = "STRING" }.')
    found = {}
    for key, named in value.items():
        try:
            declared_type(text(named))
        except FormatError as error:
            raise Wrong(str(error), "", key) from None
        except Wrong as wrong:
            raise Wrong(wrong.message, wrong.advice, key) from None
        found[key] = named.strip().upper()
    return found

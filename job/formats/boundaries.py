"""Variables that stand side by side: where the first one ends, if anything tells.

A boundary is only used where the servers' own rules fix it; everything else is an error that names both variables, as a
guess would shift fields without a word. docs/FORMATS.md has the table of rules.
"""

from __future__ import annotations

from collections.abc import Sequence

from job.errors import FormatError
from job.formats.fields import Meaning
from job.formats.program import Content

Piece = bytes | Meaning

_DIGITS = frozenset(b"0123456789")
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_CONTINUES = {
    Content.INTEGER: _DIGITS,
    Content.TIMER: _DIGITS,
    Content.DECIMAL: _DIGITS | frozenset(b".eE"),
}
"""Bytes that could go on with a number."""
_TIME_CONTINUES = dict.fromkeys("fLUe", _DIGITS) | dict.fromkeys("sN", _DIGITS | frozenset(b"."))
"""The same for a time, by the last directive of its layout; a time that ends otherwise has a fixed width."""
_STARTS = {
    "scheme": _LETTERS | frozenset(b"-"),
    "method": _LETTERS | frozenset(b"_-"),
    "protocol": frozenset(b"H-"),
}
"""Bytes that a text can start with, its `-` for nothing included."""
_TARGET_STARTS = frozenset(b"/?*-")
_SLASHLESS = ("vhost", "server_name", "remote_addr", "server_addr", "scheme", "method")
"""Texts in which no server logs a slash. A Host header may hold one, but then the client only moves the boundary between
two texts that are both its own."""
_PATHS = ("nginx_uri", "path")
_HOSTS = ("remote_addr", "server_addr", "vhost")


def joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Makes one field of what has to be read from one text: an address, a colon and a port (an IPv6 address has colons of
    its own), and a host with the target right behind it."""
    found: list[Piece] = []
    for piece in pieces:
        last = found[-1] if found else None
        before = found[-2] if len(found) >= 2 else None
        if isinstance(piece, Meaning):
            if last == b":" and isinstance(before, Meaning) and _is_host(before) and piece.name.endswith("port"):
                found[-2:] = [_address(before, piece)]
                continue
            if isinstance(last, Meaning) and _is_slashless(last) and _is_target(piece):
                found[-1] = _location(last, piece)
                continue
        found.append(piece)
    return found


def ends_by_itself(first: Meaning, second: Meaning) -> bool:
    """Whether the text of `first`, a number or time, ends for sure where `second` starts."""
    if first.content is Content.STATUS:
        return True
    starts = _STARTS.get(second.outputs[0] or "") if second.content is Content.TEXT else None
    if _is_target(second):
        starts = _TARGET_STARTS
    if first.content is Content.TIME:
        last = first.layout[-2:].decode()
        goes_on = _TIME_CONTINUES.get(last[1:]) if last.startswith("%") else None
        if last == "%+":
            return False
        return goes_on is None or (starts is not None and not starts & goes_on)
    continues = _CONTINUES.get(first.content)
    return continues is not None and starts is not None and not starts & continues


def side_by_side(first: Meaning, second: Meaning) -> FormatError:
    """The error for two variables between which nothing tells the boundary."""
    where = f"column {second.column} of the format: " if second.column else ""
    one, other = first.label or first.name, second.label or second.name
    return FormatError(
        f"{where}{one} and {other} stand side by side: nothing tells where the first one ends. "
        f"Put a blank or another separator between them in the server's format: {one} {other}"
    )


def _is_host(meaning: Meaning) -> bool:
    return meaning.content is Content.TEXT and meaning.outputs[0] in _HOSTS


def _is_slashless(meaning: Meaning) -> bool:
    is_joined = meaning.content is Content.ADDRESS_PORT and meaning.joined
    return (meaning.content is Content.TEXT or is_joined) and meaning.outputs[0] in _SLASHLESS


def _is_target(meaning: Meaning) -> bool:
    if meaning.content is Content.URI:
        return meaning.outputs[0] is not None
    return meaning.content is Content.TEXT and meaning.outputs[0] in _PATHS


def _address(address: Meaning, port: Meaning) -> Meaning:
    return Meaning(
        address.name,
        Content.ADDRESS_PORT,
        (address.outputs[0], port.outputs[0]),
        word=address.word,
        joined=True,
        label=f"{address.label}:{port.label}",
        column=address.column,
    )


def _location(host: Meaning, target: Meaning) -> Meaning:
    has_port = host.content is Content.ADDRESS_PORT
    return Meaning(
        host.name,
        Content.LOCATION,
        (host.outputs[0], host.outputs[1] if has_port else None, *target.outputs),
        argument=int(has_port),
        target=target.name,
        label=f"{host.label}{target.label}",
        column=host.column,
    )

"""parse_url and url_decode as Spark has them: java.net.URI decides what is a URL, java.net.URLDecoder how
it decodes.

java.net.URI reads RFC 2396 with the additions its documentation lists: IPv6 hosts, empty paths, visible
characters beyond ASCII, and authorities that are no host ("registry based").
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from typing import NamedTuple

from cython_ext.failure import Failure

# A character beyond ASCII may stand wherever an escape may; blanks and controls among them are refused
# beforehand.
_ESCAPED = r"%[0-9A-Fa-f]{2}|[^\x00-\x80]"
_UNRESERVED = r"A-Za-z0-9\-_.!~*'()"
_URIC = re.compile(rf"(?:[{_UNRESERVED};/?:@&=+$,\[\]]|{_ESCAPED})*", re.DOTALL)
_PATH = re.compile(rf"(?:[{_UNRESERVED}:@&=+$,;/]|{_ESCAPED})*", re.DOTALL)
_USERINFO = re.compile(rf"(?:[{_UNRESERVED};:&=+$,]|{_ESCAPED})*", re.DOTALL)
_REGISTRY = re.compile(rf"(?:[{_UNRESERVED}$,;:@&=+]|{_ESCAPED})+", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")
_IPV4 = re.compile(r"(?:(?:0*(?:25[0-5]|2[0-4]\d|1?\d?\d))(?:\.(?!$)|$)){4}", re.ASCII)
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9\-]*[A-Za-z0-9])?"
_HOSTNAME = re.compile(rf"(?:{_LABEL}\.)*{_LABEL}\.?")
_PORT = re.compile(r":([0-9]*)")
_SCOPE = re.compile(r"[A-Za-z0-9_.]+")
_HEX_GROUP = re.compile(r"[0-9A-Fa-f]{1,4}")
_PORT_MAX = 2**31 - 1


class Url(NamedTuple):
    """The parts of a URL, None where it has none."""

    scheme: str | None = None
    authority: str | None = None
    userinfo: str | None = None
    host: str | None = None
    path: str | None = None
    query: str | None = None
    fragment: str | None = None


def read(text: str) -> Url:
    """The parts of `text`. Raises Failure for what java.net.URI refuses."""
    if any(ord(c) > 127 and (unicodedata.category(c) in ("Zs", "Zl", "Zp", "Cc")) for c in text):
        raise Failure("a blank or control character in a URL")
    rest, mark, fragment = text.partition("#")
    if mark:
        _require(_URIC, fragment)
    head = re.match(r"[^:/?#]*:", rest)
    scheme = None
    if head is not None:
        scheme, rest = rest[: head.end() - 1], rest[head.end() :]
        _require(_SCHEME, scheme)
        if not rest.startswith("/"):
            if not rest:
                raise Failure("nothing behind the scheme")
            _require(_URIC, rest)
            return Url(scheme=scheme, fragment=fragment if mark else None)
    userinfo = host = authority = None
    if rest.startswith("//"):
        end = re.search(r"[/?]|$", rest[2:])
        size = end.start() if end is not None else len(rest) - 2
        authority, rest = rest[2 : 2 + size], rest[2 + size :]
        if authority:
            userinfo, host = _read_authority(authority)
        elif rest or mark:
            authority = None
        else:
            raise Failure("an authority was expected")
    path, asked, query = rest.partition("?")
    _require(_PATH, path)
    if asked:
        _require(_URIC, query)
    return Url(scheme, authority, userinfo, host, path, query if asked else None, fragment if mark else None)


def _require(pattern: re.Pattern[str], text: str) -> None:
    if pattern.fullmatch(text) is None:
        raise Failure("a character that a URL must not have there")


def _read_authority(text: str) -> tuple[str | None, str | None]:
    """(userinfo, host), both None for an authority that is no server but still allowed."""
    server = _read_server(text)
    if server is not None:
        return server
    _require(_REGISTRY, text)
    return None, None


def _read_server(text: str) -> tuple[str | None, str] | None:
    userinfo: str | None
    userinfo, at, rest = text.partition("@")
    if not at:
        userinfo, rest = None, text
    elif _USERINFO.fullmatch(userinfo) is None:
        return None
    if rest.startswith("["):
        inside, bracket, port = rest[1:].partition("]")
        if not bracket or not _is_ipv6(inside):
            return None
        host = f"[{inside}]"
    else:
        host, colon, port = rest.partition(":")
        port = colon + port
        if not _is_host(host):
            return None
    number = _PORT.fullmatch(port or ":")
    if number is None or len(number[1].lstrip("0")) > 10 or int(number[1] or 0) > _PORT_MAX:
        return None
    return userinfo, host


def _is_host(text: str) -> bool:
    """An IPv4 address, or labels of which the last, if there are several, starts with a letter."""
    if _IPV4.fullmatch(text):
        return True
    if _HOSTNAME.fullmatch(text) is None:
        return False
    labels = text.rstrip(".").split(".")
    return len(labels) == 1 or labels[-1][0].isalpha()


def _is_ipv6(text: str) -> bool:
    address, scoped, scope = text.partition("%")
    if scoped and _SCOPE.fullmatch(scope) is None:
        return False
    head, compressed, tail = address.partition("::")
    if "::" in tail or (compressed and tail.startswith(":")):
        return False
    size = _group_bytes(head, last=not compressed) + _group_bytes(tail, last=True)
    if size < 0:
        return False
    return size < 16 if compressed else size == 16


def _group_bytes(text: str, last: bool) -> int:
    """Bytes that groups separated by colons stand for; far below zero where they are malformed."""
    if not text:
        return 0
    groups = text.split(":")
    size = 0
    if last and "." in groups[-1]:
        if _IPV4.fullmatch(groups.pop()) is None:
            return -100
        size = 4
    if any(_HEX_GROUP.fullmatch(group) is None for group in groups):
        return -100
    return size + 2 * len(groups)


def parse_url(text: str, part: str, key: str | None = None) -> str | None:
    """A part of a URL: HOST, PATH, QUERY, REF, PROTOCOL, FILE, AUTHORITY or USERINFO, else None; with `key`
    the value of that parameter of the query. Raises Failure for what is no URL."""
    if key is not None and part != "QUERY":
        return None
    url = read(text)
    if key is not None:
        found = re.search(rf"(?:^|&){re.escape(key)}=([^&]*)", url.query or "")
        return found.group(1) if found and url.query is not None else None
    if part == "FILE":
        return url.path if url.query is None else f"{url.path}?{url.query}"
    parts = {
        "HOST": url.host,
        "PATH": url.path,
        "QUERY": url.query,
        "REF": url.fragment,
        "PROTOCOL": url.scheme,
        "AUTHORITY": url.authority,
        "USERINFO": url.userinfo,
    }
    return parts.get(part)


def url_decode(text: str) -> str:
    """`+` is a blank and %hh a byte of UTF-8; bytes that are no UTF-8 become U+FFFD. Raises Failure for bad
    escapes."""
    if "%" not in text:
        return text.replace("+", " ")
    out: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "%":
            end = text.find("%", at)
            end = len(text) if end < 0 else end
            out.append(text[at:end].replace("+", " "))
            at = end
            continue
        escaped = bytearray()
        while at < len(text) and text[at] == "%":
            escaped.append(_escaped_byte(text[at + 1 : at + 3]))
            at += 3
        out.append(escaped.decode("utf-8", _JAVA_MALFORMED))
    return "".join(out)


def _escaped_byte(pair: str) -> int:
    """Two characters as java.lang.Integer.parseInt reads them: it takes a sign, and digits of any script."""
    sign, digits = (pair[0], pair[1:]) if pair[:1] in ("+", "-") else ("", pair)
    if len(pair) != 2 or not all(_is_hex_digit(digit) for digit in digits):
        raise Failure("a bad escape")
    value = int(unicodedata.normalize("NFKC", digits), 16)
    if sign == "-" and value:
        raise Failure("a bad escape")
    return value


def _is_hex_digit(character: str) -> bool:
    if character.isascii():
        return character in "0123456789abcdefABCDEF"
    return unicodedata.category(character) == "Nd" or character in "ＡＢＣＤＥＦａｂｃｄｅｆ"


_JAVA_MALFORMED = "elfstream.java_malformed"


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """One U+FFFD per malformed sequence, where an encoded surrogate is one sequence of three bytes."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    at = error.object[error.start : error.start + 3]
    if len(at) == 3 and at[0] == 0xED and 0xA0 <= at[1] <= 0xBF and 0x80 <= at[2] <= 0xBF:
        return "\ufffd", error.start + 3
    return "\ufffd", error.end


codecs.register_error(_JAVA_MALFORMED, _replace_as_java)

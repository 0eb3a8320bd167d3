"""Random format strings, and lines written the way nginx, Apache and Envoy write them: every value comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cython_ext import reference_scan
from cython_ext.scan import Scanner
from job.errors import FormatError
from job.formats import Format, SourceScanner, detect, explain, find, names
from job.formats.program import LineProgram
from job.formats.w3c import CANONICAL_FIELDS
from tests import scan_cases
from tests.format_records import records

MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()  # noqa: SIM905


class Variable(NamedTuple):
    """A variable of a server: how a format names it, the field it becomes, what it may be and how it is logged."""

    directive: str
    field: str
    values: st.SearchStrategy[Any]
    written: Callable[[Any], str] = str
    quoted: bool = False
    """Clients choose the value, so a sane format puts it between quotes."""


def clf(moment: datetime) -> str:
    return f"{moment.day:02}/{MONTHS[moment.month - 1]}/{moment.year:04}:{moment:%H:%M:%S} +0000"


words = st.text("abcdefgXYZ0123456789.:/_+=%?&", min_size=1, max_size=12)
nasty = st.sampled_from('"" \\ -|;[]{}\n\t,x')
texts = st.text(nasty | st.characters(codec="utf-8", exclude_characters="\0"), max_size=20).filter(lambda text: text != "-")
numbers = st.integers(0, 2**63 - 1)
seconds = st.decimals(0, 10**6, places=3).map(lambda value: value.copy_abs())
statuses = st.integers(100, 999)
moments = st.datetimes(datetime(1970, 1, 2), datetime(9999, 1, 1)).map(lambda one: one.replace(microsecond=0, tzinfo=UTC))
addresses = st.ip_addresses().map(str)

NGINX = (
    Variable("$remote_addr", "remote_addr", addresses),
    Variable("[$time_local]", "time", moments, lambda moment: f"[{clf(moment)}]"),
    Variable("$status", "status", statuses),
    Variable("${body_bytes_sent}", "bytes", numbers),
    Variable("$request_length", "bytes_received", numbers),
    Variable("rt=$request_time", "request_time", seconds, lambda value: f"rt={value}"),
    Variable("$http_user_agent", "user_agent", texts, quoted=True),
    Variable("$http_referer", "referer", texts, quoted=True),
    Variable("$cookie_sid", "cookie_sid", texts, quoted=True),
    Variable("$scheme", "scheme", st.sampled_from(["http", "https"])),
    Variable("$upstream_status", "upstream_status", st.lists(statuses.map(str), min_size=1).map(", ".join)),
    Variable("$ssl_cipher", "ssl_cipher", words),
)
APACHE = (
    Variable("%h", "remote_addr", addresses),
    Variable("%t", "time", moments, lambda moment: f"[{clf(moment)}]"),
    Variable("%>s", "status", statuses),
    Variable("%B", "bytes", numbers),
    Variable("%O", "bytes_sent", numbers),
    Variable("%D", "duration_us", numbers),
    Variable("%{User-Agent}i", "user_agent", texts, quoted=True),
    Variable("%{Referer}i", "referer", texts, quoted=True),
    Variable("%{X-Cache}o", "sent_http_x_cache", texts, quoted=True),
    Variable("%v", "vhost", words.filter(lambda word: ":" not in word)),
    Variable("%{sid}C", "cookie_sid", texts, quoted=True),
    Variable("%X", "connection_status", st.sampled_from("X+")),
)
FORMAT_LIKE = st.text(st.sampled_from('$%{}()"\\ [](abtshurU>!,:;-~^FB?_REQSTART_TIME') | st.characters(), max_size=60)
SEPARATORS = (" ", "\t", " | ", " - ", ";", " [x] ")


def nginx_default(text: str) -> str:
    """escape=default: a quote, a backslash and everything outside of printable ASCII is a hex escape."""
    raw = text.encode()
    return "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02X}" for byte in raw)


def nginx_json(text: str) -> str:
    """escape=json: quotes, backslashes and control characters; other bytes stay."""
    short = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
    return "".join(short.get(one) or (f"\\u{ord(one):04X}" if ord(one) < 32 else one) for one in text)


def apache(text: str) -> str:
    """ap_escape_logitem: C escapes, hex escapes for what is not printable."""
    short = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\v": "\\v"}
    parts = []
    for byte in text.encode():
        one = chr(byte)
        parts.append(short.get(one) or (one if 32 <= byte < 127 else f"\\x{byte:02x}"))
    return "".join(parts)


@st.composite
def formats(draw: st.DrawFn, variables: tuple[Variable, ...]) -> tuple[list[Variable], list[str]]:
    """Variables in some order and the separators between them."""
    chosen = draw(st.lists(st.sampled_from(variables), min_size=1, max_size=6, unique_by=lambda one: one.field))
    separators = draw(
        st.lists(st.sampled_from(SEPARATORS), min_size=len(chosen) - 1, max_size=len(chosen) - 1)
    )
    return chosen, separators


def spread(parts: list[str], separators: list[str]) -> str:
    return "".join(part + separator for part, separator in zip(parts, [*separators, ""], strict=True))


def template(variables: list[Variable], separators: list[str]) -> str:
    return spread([f'"{one.directive}"' if one.quoted else one.directive for one in variables], separators)


def line(
    variables: list[Variable], separators: list[str], values: list[Any], escape: Callable[[str], str], missing: str = "-"
) -> str:
    """What a server logs; None is a missing value."""
    parts = []
    for one, value in zip(variables, values, strict=True):
        logged = missing if value is None else escape(value) if one.quoted else one.written(value)
        parts.append(f'"{logged}"' if one.quoted else logged)
    return spread(parts, separators)


def drawn(data: st.DataObject, variables: list[Variable]) -> list[Any]:
    return [data.draw(one.values | st.none() if one.quoted else one.values, one.field) for one in variables]


def check(text: str, logged: str, variables: list[Variable], expected: list[Any]) -> None:
    names = [one.field for one in variables]
    found = records(find(text), logged.encode() + b"\n", names)
    assert found == [dict(zip(names, expected, strict=True))], explain(find(text), logged.encode())


@settings(max_examples=300, deadline=None)
@given(formats(NGINX), st.data())
def test_nginx(format: tuple[list[Variable], list[str]], data: st.DataObject) -> None:
    variables, separators = format
    values = drawn(data, variables)
    logged = line(variables, separators, values, nginx_default)
    expected = [
        nginx_default(value) if one.quoted and value is not None else value
        for one, value in zip(variables, values, strict=True)
    ]
    check(template(variables, separators), logged, variables, expected)


@settings(max_examples=300, deadline=None)
@given(formats(NGINX), st.data())
def test_nginx_json_escapes_in_a_line(format: tuple[list[Variable], list[str]], data: st.DataObject) -> None:
    variables, separators = format
    values = drawn(data, variables)
    logged = line(variables, separators, values, nginx_json, missing="")
    expected = ["" if value is None else value for value in values]
    check("escape=json " + template(variables, separators), logged, variables, expected)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(NGINX), min_size=1, max_size=6, unique_by=lambda one: one.field), st.data())
def test_nginx_json_documents(variables: list[Variable], data: st.DataObject) -> None:
    values = drawn(data, variables)
    keys = data.draw(st.lists(words, min_size=len(variables), max_size=len(variables), unique=True), "keys")
    quotes = ['"' if one.quoted or data.draw(st.booleans(), "quotes") else "" for one in variables]
    bare = [one.quoted or one.field in ("status", "bytes", "bytes_received") for one in variables]
    quotes = [quote if is_bare else '"' for quote, is_bare in zip(quotes, bare, strict=True)]
    directives = [one.directive.strip("[]").removeprefix("rt=") for one in variables]
    written = [
        "" if value is None else nginx_json(one.written(value)).strip("[]").removeprefix("rt=") if not one.quoted
        else nginx_json(value)
        for one, value in zip(variables, values, strict=True)
    ]  # fmt: skip
    place = list(zip(keys, quotes, directives, written, strict=True))
    text = "escape=json {" + ",".join(f'"{key}":{quote}{name}{quote}' for key, quote, name, _ in place) + "}"
    logged = "{" + ",".join(f'"{key}":{quote}{value}{quote}' for key, quote, _, value in place) + "}"
    json.loads(logged, strict=False)
    check(text, logged, variables, ["" if value is None else value for value in values])


@settings(max_examples=300, deadline=None)
@given(formats(APACHE), st.data())
def test_apache(format: tuple[list[Variable], list[str]], data: st.DataObject) -> None:
    variables, separators = format
    values = drawn(data, variables)
    logged = line(variables, separators, values, apache)
    expected = [
        apache(value) if one.quoted and value is not None else value
        for one, value in zip(variables, values, strict=True)
    ]
    check(template(variables, separators), logged, variables, expected)
    as_directive = template(variables, separators).replace('"', '\\"')
    assert find(f'LogFormat "{as_directive}" mine').program == find(template(variables, separators)).program


@settings(max_examples=300, deadline=None)
@given(FORMAT_LIKE | st.text(max_size=30))
def test_any_text_is_a_format_or_an_error_that_says_why(text: str) -> None:
    try:
        format = find(text)
    except FormatError:
        return
    SourceScanner(format, list(format.fields)).feed(b"a b c\n")


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("abcst-()_ ") | st.characters(codec="utf-8"), max_size=60), st.binary(max_size=40))
def test_any_fields_line_can_follow(columns: str, row: bytes) -> None:
    scanner = SourceScanner(find("w3c"), list(CANONICAL_FIELDS))
    block = b"#Fields: date sc-status " + columns.replace("\n", " ").encode() + b"\n" + row.replace(b"\n", b" ") + b"\n"
    batches = scanner.feed(block)
    assert sum(batch.lines for batch in batches) == 2
    for batch in batches:
        assert len(batch.columns) == len(CANONICAL_FIELDS)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_any_bytes_can_be_looked_at(head: bytes) -> None:
    with suppress(FormatError):
        detect(head)
    for name in ("combined", "json", "w3c", "haproxy_http"):
        explanation = explain(find(name), head)
        assert explanation.ok == (explanation.message == "")


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(names()), st.integers(0, 10**9), st.data())
def test_damaged_lines_of_every_format(format: Format, seed: int, data: st.DataObject) -> None:
    """The kernel says of them what the plain reference says, and every line is accounted for."""
    *head, sample = format.sample.encode().split(b"\n")
    random = Random(seed)
    block = b"\n".join([sample, *(scan_cases.mutate(random, sample) for _ in range(5))])
    scanner = SourceScanner(format, list(format.fields))
    for directive in head:
        scanner.feed(directive + b"\n")
    if isinstance(scanner.program, LineProgram) and not scanner.program.steps:
        return
    batches = scanner.feed(block)
    rejected = sum(sum(batch.rejected.values()) for batch in batches)
    lines = sum(batch.lines for batch in batches)
    assert lines == block.count(b"\n") + (not block.endswith(b"\n"))
    assert lines == sum(batch.rows + batch.directives for batch in batches) + rejected
    wanted = list(scanner.program.fields)
    ours = Scanner(scanner.program, wanted).scan(block)
    theirs = reference_scan.scan(scanner.program, wanted, block)
    assert (ours.rows, ours.rejected, ours.samples) == (theirs.rows, theirs.rejected, theirs.samples)
    assert [column.to_list() for column in ours.columns] == theirs.columns


@pytest.mark.parametrize("shift", [0, 1])
def test_the_model_is_not_blind(shift: int) -> None:
    variables = [NGINX[0], NGINX[2]]
    expected = ["192.0.2.1", 200 + shift]
    if shift:
        with pytest.raises(AssertionError):
            check("$remote_addr $status", "192.0.2.1 200", variables, expected)
    else:
        check("$remote_addr $status", "192.0.2.1 200", variables, expected)

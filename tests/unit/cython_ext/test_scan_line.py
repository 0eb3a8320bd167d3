"""Line programs, rule by rule, with expectations written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from cython_ext.scan import Scanner
from job.formats.program import Content, Extent, LineProgram, Step
from job.types import STRING
from tests.scan_cases import COMBINED, GROWN, HAPROXY, REQUEST_FIELDS, W3C, line_program, word


def values(program: LineProgram, line: bytes) -> dict[str, Any]:
    batch = Scanner(program, list(program.fields)).scan(line)
    assert batch.rows == 1, batch.samples
    return {name: column.to_list()[0] for name, column in zip(program.fields, batch.columns, strict=True)}


def refusal(program: LineProgram, line: bytes) -> tuple[str, int]:
    """Reason and position; the same whatever is wanted."""
    refusals = {
        (batch.rows, *batch.samples[0][2:])
        for batch in (Scanner(program, wanted).scan(line) for wanted in ([], list(program.fields)))
    }
    assert len(refusals) == 1
    rows, reason, position = refusals.pop()
    assert rows == 0
    return reason, position


def single(content: Content, extent: Extent = Extent.TEXT, **more: Any) -> LineProgram:
    outputs = REQUEST_FIELDS if content is Content.REQUEST else ("value", "second", "third")
    several = {Content.REQUEST: 6, Content.URI: 3, Content.ADDRESS_PORT: 2, Content.URI_STEM: 2, Content.LOCATION: 3}
    roles = several.get(content, 1)
    return line_program(Step(extent, content, outputs[:roles], **more))


def test_a_combined_line() -> None:
    line = (
        b'2001:db8::1 - joke.v [15/Jun/2023:07:13:20 +0200] "PUT /notes/17?a=b?c HTTP/1.1" 204 - "" '
        b'"field \\"notes\\" /1.0"'
    )
    assert values(COMBINED, line) == {
        "remote_addr": "2001:db8::1", "ident": None, "user": "joke.v", "time": 1686806000000000,
        "request": "PUT /notes/17?a=b?c HTTP/1.1", "method": "PUT", "uri": "/notes/17?a=b?c", "path": "/notes/17",
        "query": "a=b?c", "protocol": "HTTP/1.1", "status": 204, "bytes": None, "referer": "",
        "user_agent": 'field \\"notes\\" /1.0',
    }  # fmt: skip


@pytest.mark.parametrize(
    ("request_line", "method", "uri", "protocol"),
    [
        (b"GET / HTTP/1.1", "GET", "/", "HTTP/1.1"),
        (b"GET / HTTP/2", "GET", "/", "HTTP/2"),
        (b"GET / HTTP 1.1", "GET", "/", "HTTP 1.1"),
        (b"GET /a b  c HTTP/1.0", "GET", "/a b  c", "HTTP/1.0"),
        (b"GET  /x HTTP/1.0", "GET", " /x", "HTTP/1.0"),
        (b"M-SEARCH * HTTP/1.1", "M-SEARCH", "*", "HTTP/1.1"),
        (b"GET /news.txt", "GET", "/news.txt", None),
        (b"GET HTTP/1.1", "GET", "HTTP/1.1", None),
        (b"GET  HTTP/1.1", None, None, None),
        (b"GET HTTP 1.1", None, None, None),
        (b"GET / HTTP/11", None, None, None),
        (b"GET / HTTP/1.", None, None, None),
        (b"GET / HTTP 2", None, None, None),
        (b"GET / http/1.1", None, None, None),
        (b"GET /a b", None, None, None),
        (b"G(T / HTTP/1.1", None, None, None),
        (b" / HTTP/1.1", None, None, None),
        (b"GET\t/\tHTTP/1.1", None, None, None),
        (b"HELP", None, None, None),
        (b"GET ", None, None, None),
        (b"", None, None, None),
        (b"\x16\x03\x01", None, None, None),
    ],
)
def test_requests(request_line: bytes, method: str | None, uri: str | None, protocol: str | None) -> None:
    got = values(single(Content.REQUEST, Extent.QUOTED, until=b'"'), request_line + b'"')
    assert (got["method"], got["uri"], got["protocol"]) == (method, uri, protocol)
    assert got["request"] == request_line.decode()
    if uri is None:
        assert got["path"] is got["query"] is None


@pytest.mark.parametrize(
    ("line", "reason", "position"),
    [
        (b"1.2.3.4 - - [04/Mar/2016:11:25:40 +0000 \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"", "mismatch", 39),
        (b"1.2.3.4 - - [31/Feb/2016:11:25:40 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"", "bad_time", 13),
        (b"1.2.3.4 - - [04/Mar/2016:11:25:40] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\"", "bad_time", 13),
        (b"1.2.3.4 - - [04/Mar/2016:11:25:40 +0000] \"GET / HTTP/1.1\" 4O4 1 \"-\" \"-\"", "bad_status", 58),
        (b"1.2.3.4 - - [04/Mar/2016:11:25:40 +0000] \"GET / HTTP/1.1\" 2000 1 \"-\" \"-\"", "bad_status", 58),
        (b"1.2.3.4 - - [04/Mar/2016:11:25:40 +0000] \"GET / HTTP/1.1\" 200 -1 \"-\" \"-\"", "bad_number", 62),
        (b"1.2.3.4 - - [04/Mar/2016:11:25:40 +0000] \"GET / HTTP/1.1\" 200 9223372036854775808 \"-\" \"-\"", "overflow", 62),
        (b"1.2.3.4 - - [04/Mar/2016:11:25:40 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-\" x", "trailing", 71),
        (b"1.2.3.4 - - [04/Mar/2016:11:25:40 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"-", "truncated", 69),
        (b"1.2.3.4 - - [04/Mar/2016:11:25:40 +0000] \"GET / HTTP/1.1\" 20", "truncated", 58),
        (b"1.2.3.4 - - [04/Mar/2016:11:2", "truncated", 13),
        (b"1.2.3.4", "truncated", 0),
        (b" - - -", "mismatch", 0),
        (b"\r\n", "blank", 0),
        (b"\n", "blank", 0),
    ],
)  # fmt: skip
def test_bad_lines_say_why_and_where(line: bytes, reason: str, position: int) -> None:
    assert refusal(COMBINED, line) == (reason, position)


@pytest.mark.parametrize(
    ("content", "more", "text", "value"),
    [
        (Content.INTEGER, {}, b"0009223372036854775807", 2**63 - 1),
        (Content.INTEGER, {}, b"-", None),
        (Content.INTEGER, {"dash_null": False}, b"-", "bad_number"),
        (Content.INTEGER, {}, b"+1", "bad_number"),
        (Content.INTEGER, {}, b"1.0", "bad_number"),
        (Content.INTEGER, {}, b"18446744073709551617", "overflow"),
        (Content.TIMER, {}, b"+18044", 18044),
        (Content.TIMER, {}, b"-1", None),
        (Content.TIMER, {}, b"--1", "bad_number"),
        (Content.DECIMAL, {"argument": 6}, b"0.245", 245000),
        (Content.DECIMAL, {"argument": 6}, b"4.7e-05", 47),
        (Content.DECIMAL, {"argument": 6}, b"0.0000019", 1),
        (Content.DECIMAL, {"argument": 3}, b"38", 38000),
        (Content.DECIMAL, {"argument": 0}, b"38.9", 38),
        (Content.DECIMAL, {"argument": -3}, b"1999", 1),
        (Content.DECIMAL, {"argument": 6}, b"-0.5", None),
        (Content.DECIMAL, {"argument": 6}, b"999999999999.999999", 10**18 - 1),
        (Content.DECIMAL, {"argument": 6}, b"1000000000000", "overflow"),
        (Content.DECIMAL, {"argument": 6}, b"9223372036854775808", "overflow"),
        (Content.DECIMAL, {"argument": 6}, b"1.", "bad_number"),
        (Content.DECIMAL, {"argument": 6}, b".5", "bad_number"),
        (Content.STATUS, {}, b"999", 999),
        (Content.STATUS, {}, b"20", "bad_status"),
        (Content.FLOAT, {}, b"0.1", 0.1),
        (Content.FLOAT, {}, b"-1.5e3", -1500.0),
        (Content.FLOAT, {}, b"123456789012345678901234567890", 123456789012345678901234567890.0),
        (Content.FLOAT, {}, b"1e400", "overflow"),
        (Content.FLOAT, {}, b"nan", "bad_number"),
        (Content.FLAG, {}, b"true", True),
        (Content.FLAG, {}, b"yes", "mismatch"),
    ],
)
def test_numbers(content: Content, more: dict[str, Any], text: bytes, value: Any) -> None:
    for extent in (Extent.TEXT, Extent.SELF):
        program = single(content, extent, **more)
        if not isinstance(value, str):
            assert values(program, text)["value"] == value
        elif extent is Extent.TEXT:
            assert refusal(program, text) == (value, 0)


@pytest.mark.parametrize(
    ("text", "address", "port"),
    [
        (b"10.0.0.1:80", "10.0.0.1", 80),
        (b"2001:db8::7:50423", "2001:db8::7", 50423),
        (b"10.0.0.1:65536", "10.0.0.1:65536", None),
        (b"host", "host", None),
        (b"unix:", "unix:", None),
        (b"80", "80", None),
        (b":80", "", 80),
        (b"-", None, None),
    ],
)
def test_addresses(text: bytes, address: str | None, port: int | None) -> None:
    got = values(single(Content.ADDRESS_PORT), text)
    assert (got["value"], got["second"]) == (address, port)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"caf\xe9", "caf\\xe9"),
        (b"\xc3\xa9\xff", "é\\xff"),
        (b"\xed\xa0\x80", "\\xed\\xa0\\x80"),
        (b"\xf0\x9f\x98", "\\xf0\\x9f\\x98"),
        (b"\xc0\xaf\xf5", "\\xc0\\xaf\\xf5"),
        (b"\0", "\0"),
        (b"a" * 15 + b"\xff" + b"\xf0\x9f\x98\x80" * 30, "a" * 15 + "\\xff" + "😀" * 30),
    ],
)
def test_bytes_that_are_no_utf8(text: bytes, shown: str) -> None:
    assert values(single(Content.TEXT), text)["value"] == shown == text.decode("utf-8", "backslashreplace")


def test_words_end_at_blanks_and_at_their_literal() -> None:
    program = line_program(word("a", b"/"), word("b", b" ["), word("c", b""))
    assert values(program, b"x/y/z [w") == {"a": "x", "b": "y/z", "c": "w"}
    assert refusal(program, b"x y/z [w") == ("mismatch", 1)
    assert refusal(program, b"/y [w") == ("mismatch", 0)
    assert refusal(program, b"x/y ") == ("truncated", 4)
    assert refusal(program, b"x/y [w ") == ("trailing", 6)


def test_literals_longer_than_a_machine_word() -> None:
    program = line_program(Step(Extent.TEXT, Content.TEXT, ("a",), b"::::::::::"), word("b", b""))
    assert values(program, b"x:::::::::y::::::::::z") == {"a": "x:::::::::y", "b": "z"}


def test_runs_of_blanks() -> None:
    line = b"2022-01-05  09:15:30\t::1 \t /x - 304 0.5"
    got = values(W3C, line)
    assert (got["time"], got["query"], got["status"], got["request_time"]) == (1641374130000000, None, 304, 500)
    assert refusal(W3C, b"2022-13-05 09:15:30 ::1 /x - 304 4") == ("bad_time", 0)
    assert refusal(W3C, b"2022-01-05 09:15:41 ::1 /x - 200") == ("truncated", 29)


def test_a_missing_date_or_clock_makes_no_time() -> None:
    assert values(W3C, b"2022-01-05 - ::1 /x - 304 4")["time"] is None


def test_directives_stop_the_scan() -> None:
    block = b"#Version: 1.0\r\n2022-01-05 09:15:30 a /x - 304 1\n#Fields: b\r\nrest\n"
    batch = Scanner(W3C, ["remote_addr"]).scan(block)
    assert (batch.lines, batch.directives, batch.rows) == (3, 2, 1)
    assert batch.directive == b"#Fields: b"
    assert block[batch.consumed :] == b"rest\n"
    assert Scanner(COMBINED, []).scan(block).directives == 0


def test_optional_header_and_braces() -> None:
    head = b"Nov 30 07:44:01 lb1 haproxy[640]: "
    line = b'1.2.3.4:50 [30/Nov/2023:07:44:00.870] www/<NOSRV> 3/-1 503 %s"GET / HTTP/1.1"'
    for text, captured in ((b"{a|b} ", "a|b"), (b"{} ", ""), (b"", None)):
        for start in (b"", head):
            got = values(HAPROXY, start + line % text)
            assert (got["captured"], got["server"], got["total_ms"]) == (captured, None, None)
            assert (got["remote_port"], got["time"]) == (50, 1701326640870000)
    assert refusal(HAPROXY, line % b"{a ")[0] == "truncated"
    bad_request = values(HAPROXY, (line % b"").replace(b"GET / HTTP/1.1", b"<BADREQ>"))
    assert bad_request["request"] is bad_request["method"] is None


def test_columns_that_a_service_has_added_over_the_years() -> None:
    line = b'h2 2024-02-20T11:09:55.1Z 0.003 "GET http://a/ HTTP/1.1" "agent" AES TLSv1 more'
    for stop, agent, cipher in ((56, None, None), (64, "agent", None), (68, "agent", "AES"), (80, "agent", "AES")):
        got = values(GROWN, line[:stop])
        assert (got["user_agent"], got["cipher"]) == (agent, cipher), line[:stop]
    assert refusal(GROWN, line[:31])[0] == "truncated"
    assert refusal(GROWN, line[:66] + b"\x00 ")[0] == "truncated"


def test_escapes_in_a_line_that_is_no_document() -> None:
    program = single(Content.TEXT, Extent.QUOTED, until=b'"', json_escaped=True)
    line = b'\\"\\u00e9\\ud83d\\ude00 \\ud800 \\q \\/"'
    assert values(program, line)["value"] == '"é😀 \\ud800 \\q /'


def test_blocks_ranges_and_ends_of_lines() -> None:
    program = single(Content.TEXT)
    block = b"skip\none\r\ntwo\n\nthree\r"
    batch = Scanner(program, ["value", "value"]).scan(block, 5)
    assert [column.to_list() for column in batch.columns] == [["one", "two", "three"]] * 2
    assert (batch.lines, batch.rejected, batch.consumed) == (4, {"blank": 1}, len(block))
    assert Scanner(program, ["value"]).scan(block, 5, 10).columns[0].to_list() == ["one"]
    assert Scanner(program, ["value"]).scan(b"").lines == 0
    with pytest.raises(ValueError, match="no range"):
        Scanner(program, []).scan(block, 6, 5)


def test_long_lines() -> None:
    program = single(Content.TEXT)
    scanner = Scanner(program, ["value"])
    assert len(scanner.scan(b"x" * (1 << 20) + b"\n").columns[0].to_list()[0]) == 1 << 20
    batch = scanner.scan(b"a\n" + b"x" * ((4 << 20) + 1) + b"\r\nb\n")
    assert (batch.rejected, batch.columns[0].to_list()) == ({"too_long": 1}, ["a", "b"])


def test_many_short_rows_outgrow_the_guess() -> None:
    batch = Scanner(single(Content.TEXT), ["value"]).scan(b"x\n" * 5000)
    assert batch.columns[0].to_list() == ["x"] * 5000
    assert not batch.columns[0].has_nulls


def test_all_rejects_can_be_had() -> None:
    block = b"\n".join([b"x"] * 100)
    assert len(Scanner(COMBINED, []).scan(block).samples) == 8
    samples = Scanner(COMBINED, [], samples_max=1000).scan(block).samples
    assert [sample.offset for sample in samples] == list(range(0, 200, 2))
    assert Scanner(COMBINED, [], samples_max=0).scan(block).samples == []


def test_a_field_that_no_step_writes_is_null() -> None:
    program = LineProgram({"a": STRING, "b": STRING}, (Step(Extent.TEXT, Content.TEXT, ("a",)),))
    columns = Scanner(program, ["b", "a"]).scan(b"x\ny\n").columns
    assert [column.to_list() for column in columns] == [[None, None], ["x", "y"]]


def test_columns_outlive_block_and_scanner() -> None:
    columns = Scanner(single(Content.TEXT), ["value"]).scan(b"".join([b"ab", b"cd\xff\n"])).columns
    bytearray(100_000)
    assert columns[0].to_list() == ["abcd\\xff"]


def test_traces_say_what_matched() -> None:
    line = b'1.2.3.4 - - [04/Mar/2016:11:25:40 +0000] "GET / HTTP/1.1" 4O4'
    trace = Scanner(COMBINED, ["uri", "status"]).trace(line)
    assert (trace.ok, trace.reason, trace.position, trace.values) == (False, "bad_status", 58, {})
    assert [line[step.start : step.end] for step in trace.steps][-1] == b"GET / HTTP/1.1"


@pytest.mark.parametrize(
    ("program", "wanted", "message"),
    [
        (COMBINED, ["nope"], "no field 'nope'"),
        (line_program(), [], "steps"),
        (single(Content.TEXT, Extent.QUOTED), [], "closing quote"),
        (single(Content.TEXT, Extent.SELF), [], "own length"),
        (single(Content.TIME, layout=b"%Q"), [], "unknown directive"),
        (single(Content.TIME), [], "needs a layout"),
        (single(Content.TEXT, until=b"\n"), [], "line end"),
        (single(Content.DECIMAL, argument=99), [], "power of 99"),
        (LineProgram({"a": STRING}, (Step(Extent.TEXT, Content.INTEGER, ("a",)),)), [], "gives kind"),
        (LineProgram({}, (Step(Extent.TEXT, Content.TEXT, ("a",)),)), [], "no field of the format"),
    ],
)
def test_programs_that_cannot_be_run(program: LineProgram, wanted: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Scanner(program, wanted)

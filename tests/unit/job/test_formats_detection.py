"""Which format a log has, and what a format makes of a line."""

from __future__ import annotations

from decimal import Decimal

import pytest

from job.errors import FormatError
from job.formats import Format, detect, explain, find, names
from job.formats.detection import HEAD_BYTES_MAX

COMBINED = find("combined").sample.encode()


@pytest.mark.parametrize("format", names(), ids=lambda format: format.name)
def test_every_sample_is_detected(format: Format) -> None:
    detection = detect((format.sample + "\n").encode())
    assert detection.format.name == format.name
    assert detection.reason.startswith(f"detected {format.name}: 1 of 1 line matches (next best: ")


def test_the_reason_counts_lines() -> None:
    detection = detect((COMBINED + b"\n") * 300)
    assert detection.reason == "detected combined: 200 of 200 lines match (next best: common, 0)"
    detection = detect((COMBINED + b"\n") * 3 + b"\n# what\n")
    assert detection.reason == "detected combined: 3 of 4 lines match (next best: common, 0)"


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_the_end_of_the_last_line(end: bytes) -> None:
    assert detect(COMBINED + end).format.name == "combined"


def test_half_a_line_at_the_end_of_the_head_does_not_count() -> None:
    line = COMBINED.replace(b"Mozilla", b"M" * 1000) + b"\n"
    head = (line * 70)[: HEAD_BYTES_MAX + 10]
    lines = HEAD_BYTES_MAX // len(line)
    assert detect(head).reason.startswith(f"detected combined: {lines} of {lines} lines match")


def test_services_messages_among_access_records() -> None:
    caddy = find("caddy").sample.encode()
    message = b'{"level":"info","ts":1710408413.5,"msg":"serving"}'
    assert detect(b"\n".join([message, caddy, caddy, message])).format.name == "caddy"
    assert detect(b"\n".join([message, message, caddy, message])).format.name == "json"


def test_a_log_that_names_its_columns() -> None:
    detection = detect(b"#Version: 1.0\n#Fields: date time x-odd sc-status\n2024-01-02 03:04:05 a 200\n")
    assert detection.format.name == "w3c"
    assert {"time", "x_odd", "status", "uri", "bytes"} <= set(detection.format.fields)


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (COMBINED + b' "-"\n', "best guess is combined, 0 of 1 match; the first other line stops matching at column 181: "
         "the format ends here, but the line goes on with ' \"-\"'"),
        (COMBINED.replace(b" +0000", b""), "best guess is combined, 0 of 1 match; the first other line stops matching at "
         "column 17: time should be a time like %d/%b/%Y:%H:%M:%S %z, but here is '14/Mar/2024:09:26:53]"),
        (COMBINED + b"\nx\ny\nz", "best guess is combined, 1 of 4 match; the first other line stops matching at column 1"),
        (b"hello world", "no known format matches these lines"),
        (b'{"a":1}{"b":2}', "best guess is json, 0 of 1 match; the first other line stops matching at column 8: this is "
         "not JSON"),
        (b"\n \n", "no line to tell the format from"),
        (b"", "no line to tell the format from"),
        (b"\x00\xff" * 40_000, "no known format"),
    ],
)  # fmt: skip
def test_refusals_name_the_best_guess_and_the_column(head: bytes, says: str) -> None:
    with pytest.raises(FormatError) as caught:
        detect(head)
    assert says in str(caught.value)


def test_a_good_line_explained() -> None:
    line = b'192.0.2.1 [[10/Oct/2023:13:55:36 +0200]] "GET /a?b HTTP/1.1" 200 2\r\n'
    explanation = explain(find('%h [%t] "%r" %>s %T'), line)
    assert (explanation.ok, explanation.reason, explanation.message) == (True, "", "")
    assert [(step.name, step.text) for step in explanation.steps] == [
        ("remote_addr", b"192.0.2.1"),
        ("time", b"10/Oct/2023:13:55:36 +0200"),
        ("request", b"GET /a?b HTTP/1.1"),
        ("status", b"200"),
        ("request_time", b"2"),
    ]
    assert explanation.steps[2].values["path"] == "/a"
    assert explanation.steps[1].values == {"time": 1_696_938_936_000_000}
    assert explanation.steps[4].values == {"request_time": Decimal("2.000000")}
    for step in explanation.steps:
        assert explanation.line[step.start : step.end] == step.text


@pytest.mark.parametrize(
    ("name", "line", "reason", "message"),
    [
        ("common", b"a - - [10/Oct/2023:13:55:36 +0200", "truncated",
         "column 34: the line ends before time and '] \"' behind it is complete: the end of the line"),
        ("common", b'a - - [10/Oct/2023:13:55:36 +0200] "GET / HTTP/1.1" 4O4 1', "bad_status",
         "column 53: status should be a status of three digits, but here is '4O4 1'"),
        ("common", b'a - - [10/Oct/2023:13:55:36 +0200] "GET / HTTP/1.1" 404 x', "bad_number",
         "column 57: bytes should be a whole number that is not negative, but here is 'x'"),
        ("common", b'a - - [10/Oct/2023:13:55:36 +0200] "GET / HTTP/1.1" 404 18446744073709551617', "overflow",
         "column 57: '18446744073709551617' is too large a number for bytes"),
        ("envoy", b"x", "mismatch", "column 1: the line should start with '[', but here is 'x'"),
        ("json", b"[1]", "not_object", "column 1: the line is JSON, but no object"),
        ("json", b'{"a":', "truncated", "column 6: the document is cut off"),
        ("caddy", b'{"a":1}', "mismatch", "column 1: the document lacks a key that every access record of this format has"),
        ("w3c", b"1 2 3", "no_fields", "column 1: no #Fields line has named the columns yet"),
        ("w3c", b"#Fields: time c-ip sc-status\n1 2 OK", "bad_status",
         "column 5: status should be a status of three digits, but here is 'OK'"),
        ("common", b"", "blank", "column 1: the line is blank"),
    ],
)  # fmt: skip
def test_a_bad_line_explained(name: str, line: bytes, reason: str, message: str) -> None:
    explanation = explain(find(name), line)
    assert not explanation.ok
    assert (explanation.reason, explanation.message) == (reason, message)


def test_what_a_document_is_made_of() -> None:
    explanation = explain(find("json"), b'{"status":200,"uri":"/a?b"}')
    assert [(step.name, step.text, step.values) for step in explanation.steps] == [
        ("uri", b"/a?b", {"uri": "/a?b", "path": "/a", "query": "b"}),
        ("status", b"200", {"status": 200}),
    ]


COMMON = '192.0.2.1 - - [14/Mar/2024:09:26:5%d +0000] "GET /%d HTTP/1.1" 200 314'


@pytest.mark.parametrize("torn_at", [50, 60, 70, len(COMMON % (1, 1)) - 1, len(COMMON % (1, 1))])
@pytest.mark.parametrize("rest", ["", ' "-" "curl/8.5.0"'])
def test_a_torn_line_alone_is_no_other_format(torn_at: int, rest: str) -> None:
    """Glued to the next one it once was a user of vhost_common, with a quote in the name."""
    line = (COMMON % (1, 1))[:torn_at] + COMMON % (2, 2) + rest
    with pytest.raises(FormatError, match=r"The best guess is \w+, 0 of 1 match"):
        detect(line.encode() + b"\n")


@pytest.mark.parametrize("format", [format for format in names() if format.name != "s3"], ids=lambda format: format.name)
def test_two_lines_glued_together_are_a_reject(format: Format) -> None:
    """But not for s3, whose columns grow: there the second line is what columns of the future look like."""
    *directives, line = format.sample.split("\n")
    glued = "\n".join([*directives, line + line])
    assert not explain(format, glued.encode()).ok


def test_a_line_torn_in_what_haproxy_captured() -> None:
    line = find("haproxy_http").sample
    at = line.index("{www") + 4
    assert explain(find("haproxy_http"), (line[:at] + line).encode()).reason == "mismatch"


def test_a_quote_in_a_name_that_a_server_would_have_escaped() -> None:
    line = 'h - %s [14/Mar/2024:09:26:53 +0000] "GET / HTTP/1.1" 200 5'
    assert explain(find("common"), (line % 'a\\"b').encode()).ok
    assert explain(find("common"), (line % 'a"b').encode()).reason == "mismatch"
    assert explain(find("common"), (line % '"').encode()).reason == "mismatch"
    assert explain(find("common"), (line % 'a\\\\"b').encode()).reason == "mismatch"

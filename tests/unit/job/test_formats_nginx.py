"""Verbatim nginx log_formats."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from job.errors import FormatError
from job.formats import find
from job.formats.program import Extent, JsonProgram, LineProgram
from tests.format_records import record, rejects

MAIN = """log_format  main  '$remote_addr - $remote_user [$time_local] "$request" '
                      '$status $body_bytes_sent "$http_referer" '
                      '"$http_user_agent" "$http_x_forwarded_for"';"""
LINE = (
    '192.0.2.1 - jo doe [10/Oct/2023:13:55:36 +0200] "GET /a?b=1 HTTP/1.1" 200 5 "-" "x \\x22y\\x22" '
    '"203.0.113.9, 192.0.2.4"'
)


def test_the_whole_directive() -> None:
    found = record(MAIN, LINE)
    assert found == {
        "remote_addr": "192.0.2.1",
        "user": "jo doe",
        "time": datetime(2023, 10, 10, 11, 55, 36, tzinfo=UTC),
        "request": "GET /a?b=1 HTTP/1.1",
        "method": "GET",
        "uri": "/a?b=1",
        "path": "/a",
        "query": "b=1",
        "protocol": "HTTP/1.1",
        "status": 200,
        "bytes": 5,
        "referer": None,
        "user_agent": "x \\x22y\\x22",
        "xff": "203.0.113.9, 192.0.2.4",
    }


def test_all_ways_to_copy_it_mean_the_same() -> None:
    quoted = MAIN[MAIN.index("'") :]
    bare = "".join(part for part in quoted.split("'")[1::2])
    programs = [find(text).program for text in (MAIN, quoted, quoted.rstrip(";"), bare)]
    assert programs.count(programs[0]) == 4
    assert find('log_format t "$remote_addr\\t\\"$request\\"";').program == find('$remote_addr\\t"$request"').program


def test_braces_around_a_name() -> None:
    found = record("${remote_addr}x${status}", "192.0.2.1x404")
    assert found == {"remote_addr": "192.0.2.1", "status": 404}


def test_the_first_of_a_kind_has_the_canonical_name() -> None:
    text = '$time_local|$msec|"$request"|$request_method|$request_uri|$args|$host|$http_host|$uri|$status $status'
    assert list(find(text).fields) == [
        *("time", "msec", "request", "method", "uri", "path", "query", "protocol"),
        *("request_method", "request_uri", "args", "vhost", "http_host", "nginx_uri", "status", "status_2"),
    ]


def test_headers_cookies_and_unknown_variables_are_texts() -> None:
    found = record(
        '"$http_accept_language" "$cookie_sid" "$sent_http_x_cache" "$geoip_country" "$content_length" $gzip_ratio',
        '"de, en" "-" "" "DE" "zwölf" 3.25',
    )
    assert found == {
        "http_accept_language": "de, en",
        "cookie_sid": None,
        "sent_http_x_cache": "",
        "geoip_country": "DE",
        "content_length": "zwölf",
        "gzip_ratio": Decimal("3.25"),
    }


@pytest.mark.parametrize(
    ("address", "status", "time"),
    [
        ("192.0.2.1:80", "200", "0.012"),
        ("192.0.2.1:80, 192.0.2.2:80", "502, 200", "-, 0.240"),
        ("192.0.2.1:80 : 192.0.2.2:80, 192.0.2.3:80", "302 : 502, 200", "0.1 : 0.2, 0.3"),
        ("unix:/run/app.sock", "200", "0.001"),
    ],
)
def test_lists_of_upstreams_without_quotes_do_not_shift(address: str, status: str, time: str) -> None:
    text = "$upstream_addr $upstream_status $upstream_response_time $status $request_id"
    found = record(text, f"{address} {status} {time} 200 4b2f0c6b")
    assert list(found.values()) == [address, status, time, 200, "4b2f0c6b"]


def test_an_address_and_its_port() -> None:
    assert record("$remote_addr:$remote_port $status", "2001:db8::7:4711 200") == {
        "remote_addr": "2001:db8::7",
        "remote_port": 4711,
        "status": 200,
    }


def test_path_and_arguments_side_by_side() -> None:
    found = record('"$request_method $uri$is_args$args $server_protocol"', '"GET /a/b?c=d HTTP/2.0"')
    assert (found["method"], found["uri"], found["path"], found["query"]) == ("GET", "/a/b?c=d", "/a/b", "c=d")


def test_a_json_template_is_read_as_json() -> None:
    format = find(
        'escape=json {"t":"$time_iso8601","who":{"ip":"$remote_addr"},"rt":$request_time,"h":"$host:$server_port"}'
    )
    assert isinstance(format.program, JsonProgram)
    line = '{"who":{"ip":"192.0.2.1"},"t":"2024-05-09T14:30:12+02:00","rt":0.018,"h":"a:80"}'
    assert record(format.text, line, ["time", "remote_addr", "request_time", "h", "who.ip"]) == {
        "time": datetime(2024, 5, 9, 12, 30, 12, tzinfo=UTC),
        "remote_addr": "192.0.2.1",
        "request_time": Decimal("0.018000"),
        "h": "a:80",
        "who.ip": "192.0.2.1",
    }


def test_a_template_that_may_not_write_json_is_read_as_a_line() -> None:
    text = 'escape=json {"a":"$http_user_agent","u":$upstream_response_time,"s":$status}'
    assert isinstance(find(text).program, LineProgram)
    assert record(text, '{"a":"x\\"\\u00e9","u":,"s":200}') == {
        "user_agent": 'x"é',
        "upstream_response_time": "",
        "status": 200,
    }


def test_escape_json_in_a_line() -> None:
    text = "log_format j escape=json '$remote_addr \"$http_user_agent\" $remote_user [$gzip_ratio]';"
    found = record(text, '192.0.2.1 "a\\\\b \\"c\\" \\u0007" jo []')
    assert found == {"remote_addr": "192.0.2.1", "user_agent": 'a\\b "c" \x07', "user": "jo", "gzip_ratio": None}


def test_escape_none_ends_a_value_at_the_whole_literal() -> None:
    text = 'escape=none $host "$http_user_agent" "$http_referer" $status'
    found = record(text, ' "back\\" "r"r" 200')
    assert found == {"vhost": "", "user_agent": "back\\", "referer": 'r"r', "status": 200}
    assert find(text).program.steps[1].extent is Extent.TEXT  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("$status $host$remote_user", "column 14 of the format: $host and $remote_user stand side by side"),
        ("$status $host$remote_user", "another separator between them in the server's format: $host $remote_user"),
        ("$body_bytes_sent$request_time", "column 17 of the format: $body_bytes_sent and $request_time stand side"),
        ("$request_time$upstream_addr", "$request_time and $upstream_addr stand side"),
        ("$msec$status", "$msec and $status stand side"),
        ("$scheme$host", "$scheme and $host stand side"),
        ("$host$args", "$host and $args stand side"),
        ("escape=none $bytes_sent$scheme x", "$bytes_sent and $scheme stand side"),
        ("$status $", "a dollar sign without the name"),
        ("$status ${host", "closing brace"),
        ("$status ${ho st}", "closing brace"),
        ("$status\\n$host", "more than one line"),
        ('escape=json {"a":"$host",\n"b":"$scheme"}', "more than one line"),
        ("$status " + "x" * 1999, "cannot be run: a literal of 2000 bytes"),
        ("$status \udcff", "not UTF-8 at character 9"),
        ("escape=xml $status", "default, json or none"),
        ("log_format main;", "log_format NAME"),
        ("log_format main '$status;", "is not closed"),
    ],
)
def test_errors_say_what_to_do(text: str, says: str) -> None:
    with pytest.raises(FormatError) as caught:
        find(text)
    assert says in str(caught.value)


def test_numbers_and_times_may_stand_side_by_side() -> None:
    assert record("$status$http_x", "200abc") == {"status": 200, "http_x": "abc"}


def test_other_lines_are_rejected() -> None:
    assert rejects(MAIN, LINE.replace("200 5", "2OO 5")) == {"bad_status": 1}
    assert rejects(MAIN, LINE + " more") == {"trailing": 1}
    assert rejects(MAIN, LINE[:-1]) == {"truncated": 1}


SIDE_BY_SIDE = '$remote_addr [$time_local] "$scheme://$host$request_uri" $status$body_bytes_sent $http_x'


def test_a_host_ends_where_the_target_starts() -> None:
    found = record(SIDE_BY_SIDE, '192.0.2.1 [10/Oct/2023:13:55:36 +0200] "https://a.example/b/c?d=/e?" 200512 x y')
    del found["time"]
    assert found == {
        "remote_addr": "192.0.2.1", "scheme": "https", "vhost": "a.example", "uri": "/b/c?d=/e?",
        "path": "/b/c", "query": "d=/e?", "status": 200, "bytes": 512, "http_x": "x y",
    }


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("$host$request_uri", "a.example-", {"vhost": "a.example", "uri": None}),  # a request that nobody understood
        ("$host$request_uri", "a-b.example?x", {"vhost": "a-b.example", "uri": "?x", "query": "x"}),
        ("$host$request_uri", "--", {"vhost": None, "uri": None}),
        ("$host$request_uri", "-/x", {"vhost": None, "uri": "/x"}),
        ("$host$request_uri", "a.example*", {"vhost": "a.example", "uri": "*"}),
        ("$host:$server_port$request_uri", "[::1]:8080/x", {"vhost": "[::1]", "server_port": 8080, "uri": "/x"}),
        ("$server_name$uri$is_args$args", "a.example/x?y", {"server_name": "a.example", "uri": "/x?y", "query": "y"}),
        ("$http_host$uri", "a.example:81/x", {"vhost": "a.example:81", "nginx_uri": "/x"}),
        ('"$request" $host$request_uri', '"GET /a HTTP/1.1" b/c', {"uri": "/a", "vhost": "b", "request_uri": "/c"}),
        ("$status$body_bytes_sent$request_uri", "2000/x", {"status": 200, "bytes": 0, "uri": "/x"}),
        ("$body_bytes_sent$scheme", "17https", {"bytes": 17, "scheme": "https"}),
        ("$time_iso8601$status$request_id", "2023-10-10T13:55:36+02:00404f00d", {"status": 404, "request_id": "f00d"}),
        ("$msec$request_method", "1700000000.123GET", {"method": "GET"}),
        ("escape=json $host$request_uri", "a.example", {"vhost": "a.example", "uri": None}),
    ],
)
def test_where_variables_side_by_side_end(text: str, line: str, found: dict[str, object]) -> None:
    values = record(text, line)
    assert {name: values[name] for name in found} == found


def test_a_status_in_front_of_a_number_still_has_three_digits() -> None:
    assert rejects("$status$body_bytes_sent", "20") == {"truncated": 1}
    assert rejects("$status$body_bytes_sent", "2x05") == {"bad_status": 1}
    assert rejects("$status $body_bytes_sent", "2000 5") == {"bad_status": 1}


UNQUOTED = "[$time_local] $remote_addr to: $upstream_addr: $request $status upstream_response_time $upstream_response_time"


@pytest.mark.parametrize(
    ("request_line", "found"),
    [
        ("GET /a b HTTP/1.1", {"method": "GET", "uri": "/a b", "protocol": "HTTP/1.1"}),
        ("GET / HTTP/2", {"method": "GET", "uri": "/", "protocol": "HTTP/2"}),
        ("-", {"request": None, "uri": None}),
        ("\\x16\\x03", {"request": "\\x16\\x03", "uri": None}),
    ],
)
def test_a_request_without_quotes_ends_behind_its_protocol(request_line: str, found: dict[str, object]) -> None:
    line = f"[10/Oct/2023:13:55:36 +0000] 192.0.2.1 to: 10.0.0.1:80, 10.0.0.2:80: {request_line} 200"
    values = record(UNQUOTED, line + " upstream_response_time 0.001, 0.002 : 0.003")
    assert {name: values[name] for name in found} == found
    assert (values["status"], values["upstream_response_time"]) == (200, "0.001, 0.002 : 0.003")

"""Verbatim Apache LogFormats."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from job.errors import FormatError
from job.formats import find
from tests.format_records import record, rejects

TIME = "10/Oct/2023:13:55:36 +0200"
MOMENT = datetime(2023, 10, 10, 11, 55, 36, tzinfo=UTC)


@pytest.mark.parametrize(
    ("directive", "logged", "expected"),
    [
        ("%a", "192.0.2.1", {"remote_addr": "192.0.2.1"}),
        ("%{c}a", "192.0.2.1", {"peer_addr": "192.0.2.1"}),
        ("%A", "192.0.2.1", {"server_addr": "192.0.2.1"}),
        ("%B", "0", {"bytes": 0}),
        ("%b", "-", {"bytes": None}),
        ("%I", "611", {"bytes_received": 611}),
        ("%O", "9663676417", {"bytes_sent": 9663676417}),
        ("%S", "12", {"bytes_transferred": 12}),
        ("%D", "1500", {"duration_us": 1500}),
        ("%{us}T", "-1", {"duration_us": None}),
        ("%{ms}T", "38", {"duration_ms": 38}),
        ("%T", "2", {"request_time": Decimal(2)}),
        ("%{s}T", "2", {"request_time": Decimal(2)}),
        ("%>s", "404", {"status": 404}),
        ("%s", "-", {"status": None}),
        ("%!200,304,302{Referer}i", "http://a b", {"referer": "http://a b"}),
        ("%400,501{User-agent}i", "-", {"user_agent": None}),
        ("%{X-Forwarded-For}i", "1.2.3.4", {"xff": "1.2.3.4"}),
        ("%{Accept-Language}i", "de", {"http_accept_language": "de"}),
        ("%{Content-Type}o", "text/html", {"sent_http_content_type": "text/html"}),
        ("%{sid}C", "77", {"cookie_sid": "77"}),
        ("%{UNIQUE_ID}e", "x", {"env_unique_id": "x"}),
        ("%{outstream}n", "x", {"note_outstream": "x"}),
        ("%{SSL_PROTOCOL}x", "TLSv1.3", {"ssl_protocol": "TLSv1.3"}),
        ("%v", "a.example", {"vhost": "a.example"}),
        ("%V", "a.example", {"vhost": "a.example"}),
        ("%v:%p", "[2001:db8::1]:443", {"vhost": "[2001:db8::1]", "server_port": 443}),
        ("%{remote}p", "50211", {"remote_port": 50211}),
        ("%m", "GET", {"method": "GET"}),
        ("%U", "/a", {"path": "/a"}),
        ("%U%q", "/a?b", {"uri": "/a?b", "path": "/a", "query": "b"}),
        ("%q", "?b", {"query": "b"}),
        ("%H", "HTTP/1.1", {"protocol": "HTTP/1.1"}),
        ("%k", "3", {"keepalive_count": 3}),
        ("%L", "-", {"log_id": None}),
        ("%X", "+", {"connection_status": "+"}),
        ("%P", "911", {"pid": 911}),
        ("%{tid}P", "77", {"tid": 77}),
        ("%f", "/var/www/a b", {"filename": "/var/www/a b"}),
        ("%R", "proxy-server", {"handler": "proxy-server"}),
        ("%^FB", "120", {"first_byte_us": 120}),
        ("%{X}^ti", "x", {"trailer_x": "x"}),
        ("%h%%", "a.example%", {"remote_addr": "a.example"}),
        ("%t", f"[{TIME}]", {"time": MOMENT}),
        ("%{end:%F %T %z}t", "2023-10-10 13:55:36 +0200", {"time": MOMENT}),
        ("%{%Y-%m-%dT%T}t.%{usec_frac}t%{%z}t", "2023-10-10T13:55:36.000000+0200", {"time": MOMENT}),
        ("%{%d/%b/%Y %T}t.%{msec_frac}t %{%z}t", "10/Oct/2023 13:55:36.000 +0200", {"time": MOMENT}),
        ("%{sec}t", "1696938936", {"time": MOMENT}),
        ("%{begin:msec}t", "1696938936000", {"time": MOMENT}),
        ("%{usec}t", "1696938936000000", {"time": MOMENT}),
        ("%{sec}t.%{usec_frac}t", "1696938936.000000", {"time": MOMENT}),
        ("%{%H:%M}t", "13:55", {"time_text": "13:55"}),
    ],
)  # fmt: skip
def test_directives(directive: str, logged: str, expected: dict[str, object]) -> None:
    assert record(f'<{directive}>"%{{X}}i"', f'<{logged}>"x"', list(expected)) == expected


def test_seconds_have_two_names() -> None:
    assert record("%T %h", "2 a", ["request_time", "duration_s"]) == {
        "request_time": Decimal(2),
        "duration_s": Decimal(2),
    }


def test_the_directive_of_the_configuration() -> None:
    text = 'LogFormat "%h %l %u %t \\"%r\\" %>s %b \\"%{Referer}i\\" \\"%{User-Agent}i\\"" combined'
    assert find(text).program == find("combined").program
    assert find('CustomLog logs/access_log "%h %>s"').program == find("%h %>s").program
    assert find('"%h \\"%r\\""').program == find('%h "%r"').program


def test_escapes_of_the_string() -> None:
    assert record("%h\\t%>s", "a\t200") == {"remote_addr": "a", "status": 200}


def test_escaped_quotes_do_not_end_a_value() -> None:
    found = record('"%r" "%{Referer}i"', '"GET /\\"x\\" HTTP/1.1" "a\\\\"')
    assert (found["uri"], found["referer"]) == ('/\\"x\\"', "a\\\\")


def test_both_statuses_and_both_hosts() -> None:
    assert list(find("%s %>s %v %V %a %h").fields) == [
        *("status", "status_final", "vhost", "server_name_used", "remote_addr", "remote_host"),
    ]


def test_a_column_more_does_not_shift() -> None:
    line = f'192.0.2.1 - jo doe [{TIME}] "GET / HTTP/1.1" 200 5'
    assert record("common", line)["user"] == "jo doe"
    assert rejects("common", f"www.example.com {line}") == {"mismatch": 1}
    assert record("vhost_common", f"www.example.com {line}")["server_port"] is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("%h %y", "no directive '%y'"),
        ("%h %{X}b", "no directive '%{X}b'"),
        ("%{X", "brace is not closed"),
        ("%h%u", "%h and %u stand side by side"),
        ("%{%Q}t", "%Q, which cannot be read back"),
        ("LogFormat combined", "LogFormat \"FORMAT\" NAME"),
        ("100%%", "names no variable"),
    ],
)
def test_errors_say_what_to_do(text: str, says: str) -> None:
    with pytest.raises(FormatError) as caught:
        find(text)
    assert says in str(caught.value)


def test_a_host_in_front_of_a_path() -> None:
    found = record('%v%U%q "%{Host}i%U" %>s', 'a.example/b?c=d "b.example:80/e" 200')
    assert found == {
        "vhost": "a.example", "uri": "/b?c=d", "path": "/b", "query": "c=d", "http_host": "b.example:80",
        "url_path": "/e", "status": 200,
    }

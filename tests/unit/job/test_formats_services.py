"""The formats that have a name: every sample parses, services' odd lines, W3C directives, Envoy's operators."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import msgspec
import pytest

from job.errors import FormatError
from job.formats import Format, SourceScanner, find, names
from job.formats.catalogue import NAMES
from tests.format_records import record, records, rejects

REQUIRED = (
    "common combined vhost_common vhost_combined json w3c alb elb cloudfront s3 haproxy_http haproxy_tcp envoy caddy "
    "traefik squid ingress_nginx"
)
HAPROXY = "192.0.2.1:50422 [30/Nov/2023:07:44:00.870] www pool/a 0/0/1/-1/19 {status} 7 - - ---- 1/1/1/1/{retries} 0/0 "
PATHS = {
    "json": '{"status":"200","request_uri":"/a?b=c","x":{"y":[1]},"time":1710408413}',
    "caddy": '{"ts":1710408413.5,"request":{"method":"GET","uri":"/a?b=c","headers":{"User-Agent":["x","y"]}}}',
}


@pytest.mark.parametrize("name", REQUIRED.split())
def test_the_names_people_know(name: str) -> None:
    assert find(name) is find(name.upper()) is find(name.replace("_", "-"))


@pytest.mark.parametrize("format", names(), ids=lambda format: format.name)
def test_every_sample_is_a_good_line(format: Format) -> None:
    found = records(format, format.sample.encode())
    assert len(found) == 1
    assert found[0]["time"] == datetime(2024, 3, 14, 9, 26, 53, found[0]["time"].microsecond, tzinfo=UTC)
    assert found[0]["xff" if format.name == "envoy" else "remote_addr"] == "192.0.2.10"
    assert format.title


def test_formats_travel() -> None:
    for format in names():
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(format), type=Format) == format


def test_other_names_of_formats() -> None:
    others = "nginx apache vhost vcombined vcommon awsalb AWSELB awss3 traefikclf iis cloudstorage"
    for alias in others.split():
        assert find(alias).name == NAMES[alias.lower()]


def test_an_unknown_name() -> None:
    with pytest.raises(FormatError, match=r"no format called 'combind'\. Did you mean .*combined.* Known are combined"):
        find("combind")
    with pytest.raises(FormatError, match="empty"):
        find(" ")


@pytest.mark.parametrize("columns", [19, 24, 27, 29, 40])
def test_columns_that_a_service_appended(columns: int) -> None:
    line = find("alb").sample
    pieces = line.split('"')
    shortened = {19: '"'.join(pieces[:6]) + '"', 24: '"'.join(pieces[:14]) + '"'}.get(columns, line)
    longer = shortened + ' "host" "/uri" "ok" 17 "new"' * (columns > 29)
    assert record("alb", longer)["user_agent"].startswith("Mozilla")
    assert rejects("alb", '"'.join(pieces[:3])) == {"truncated": 1}


def test_s3_writes_a_dash_without_quotes() -> None:
    line = (
        "79a5 pies [06/Feb/2019:00:00:38 +0000] 192.0.2.3 79a5 3E57 S3.EXPIRE.OBJECT a/b - - - - 7 - - - - - - - - - "
        "- - - - -"
    )
    found = record("s3", line[: line.index(" - - - - 7") + 10] + ' - - "-" "-" -')
    assert (found["request"], found["status"], found["object_size"], found["user_agent"]) == (None, None, 7, None)
    odd = line[: line.index(" - - - - 7")] + ' "GET /a/b HTTP/1.1" 200 - 1 7 2 1 - "s3 {}" -'
    found = record("s3", odd.format("tool"))
    assert (found["method"], found["referer"], found["user_agent"]) == ("GET", None, "s3 tool")
    assert rejects("s3", odd.format('"tool" x')) == {"mismatch": 1}


@pytest.mark.parametrize(
    ("captures", "request_headers", "response_headers"),
    [
        ("", None, None),
        ("{a|b c} ", "a|b c", None),
        ("{} {text/html} ", "", "text/html"),
    ],
)
def test_haproxy_captures(captures: str, request_headers: str | None, response_headers: str | None) -> None:
    found = record("haproxy_http", HAPROXY.format(status=200, retries="+1") + captures + '"GET /x HTTP/1.1"')
    assert found["captured_request_headers"] == request_headers
    assert found["captured_response_headers"] == response_headers
    assert (found["retries"], found["tr_ms"], found["uri"]) == (1, None, "/x")
    assert found["accept_time_local"] == found["time"] == datetime(2023, 11, 30, 7, 44, 0, 870_000, tzinfo=UTC)


def test_haproxy_without_a_request() -> None:
    found = record("haproxy_http", HAPROXY.format(status=-1, retries=0) + '"<BADREQ>"')
    assert (found["status"], found["request"], found["method"]) == (None, None, None)
    assert rejects("haproxy_http", HAPROXY.format(status=200, retries=0) + 'x "GET /x HTTP/1.1"') == {"bad_number": 1}


def test_json_keys_that_mean_a_field() -> None:
    found = record("json", PATHS["json"], ["status", "uri", "path", "query", "time", "x", "x.y", "request_uri", "none"])
    assert found == {
        "status": 200,
        "uri": "/a?b=c",
        "path": "/a",
        "query": "b=c",
        "time": datetime(2024, 3, 14, 9, 26, 53, tzinfo=UTC),
        "x": '{"y":[1]}',
        "x.y": "[1]",
        "request_uri": "/a?b=c",
        "none": None,
    }


def test_json_keys_of_the_document_go_first_and_reject_nothing() -> None:
    line = '{"uri":"/a?b","path":"/own?x","query":"q","status":"fine","time":"noon","url.path":"/flat"}'
    found = record("json", line, ["path", "query", "status", "time"])
    assert found == {"path": "/own?x", "query": "q", "status": None, "time": None}
    assert record("json", '{"url.path":"/flat"}', ["path"]) == {"path": "/flat"}


def test_caddy_takes_access_records_only() -> None:
    found = record("caddy", PATHS["caddy"], ["time", "user_agent", "path", "duration_s", "level"])
    assert (found["user_agent"], found["path"], found["duration_s"]) == ("x", "/a", None)
    assert rejects("caddy", '{"level":"info","ts":1710408413.5,"msg":"serving"}') == {"mismatch": 1}


def test_squid_pads_its_columns() -> None:
    found = record("squid", "1710408413.589    121 192.0.2.1 TCP_DENIED/000   0 NONE error:x -  HIER_NONE/-  -")
    assert (found["duration_ms"], found["status"], found["user"], found["peer"]) == (121, 0, None, None)


def test_w3c_follows_its_directives() -> None:
    log = (
        b"1 2 3\n#Software: x\n#Fields: date time c-ip sc-status\n2024-01-02 03:04:05 192.0.2.1 200\n"
        b'#Fields: sc-status cs(X-Odd) c-ip time date\n404 "a b" 192.0.2.2 06:07:08.25 2024-01-02\n'
        b"#Fields:\n1\n\n"
    )
    scanner = SourceScanner(find("w3c"), ["time", "remote_addr", "status", "uri", "bytes"])
    batches = scanner.feed(log)
    assert [batch.rows for batch in batches] == [0, 1, 1, 0]
    assert [batch.rejected for batch in batches] == [{"no_fields": 1}, {}, {}, {"no_fields": 1, "blank": 1}]
    assert sum(batch.lines for batch in batches) == log.count(b"\n")
    assert sum(batch.directives for batch in batches) == 4
    assert [batch.columns[2].to_list() for batch in batches] == [[], [200], [404], []]
    assert [batch.columns[3].to_list() for batch in batches] == [[], [None], [None], []]
    moment = datetime(2024, 1, 2, 6, 7, 8, 250_000, tzinfo=UTC).timestamp() * 1_000_000
    assert batches[2].columns[0].to_list() == [moment]


def test_w3c_quotes_and_odd_columns() -> None:
    format = find("#Fields: date time cs(User-Agent) sc-bytes x-y status time-local")
    assert list(format.fields) == ["time", "user_agent", "bytes", "x_y", "status_text", "time_local"]
    line = b'"2024-01-02" "03:04:05" "Mozilla/5.0 (X11)" "" - OK 04:04:05\n'
    assert records(format, line, ["user_agent", "bytes", "x_y", "status_text"]) == [
        {"user_agent": "Mozilla/5.0 (X11)", "bytes": None, "x_y": None, "status_text": "OK"}
    ]


def test_a_field_keeps_its_type_whatever_a_directive_says() -> None:
    format = find("#Fields: cs-method x-y")
    scanner = SourceScanner(format, ["x_y", "method"])
    first, second = scanner.feed(b"GET 1\n#Fields: x-y sc-status\nabc 200\n")
    assert (first.columns[0].to_list(), second.columns[0].to_list()) == (["1"], ["abc"])
    assert second.columns[1].to_list() == [None]


def test_cloudfront_counts_seconds() -> None:
    format = find("#Fields: date time x-edge-location time-taken cs-protocol cs(Host)")
    found = records(format, b"2024-01-02\t03:04:05\tOSL50\t0.019\thttps\ta.example\n")[0]
    assert (found["request_time"], found["scheme"], found["edge_location"]) == (Decimal("0.019"), "https", "OSL50")


@pytest.mark.parametrize(
    ("operator", "logged", "expected"),
    [
        ("[%START_TIME%]", "[2024-03-14T09:26:53.589Z]", {"time": datetime(2024, 3, 14, 9, 26, 53, 589_000, tzinfo=UTC)}),
        ("%START_TIME(%Y/%m/%dT%H:%M:%S.%3f%Ez)%", "2024/03/14T10:26:53.589+01:00",
         {"time": datetime(2024, 3, 14, 9, 26, 53, 589_000, tzinfo=UTC)}),
        ("%START_TIME(%s.%6f)%", "1710408413.589000", {"time": datetime(2024, 3, 14, 9, 26, 53, 589_000, tzinfo=UTC)}),
        ("%RESPONSE_CODE%", "0", {"status": 0}),
        ("%DOWNSTREAM_REMOTE_ADDRESS%", "[2001:db8::1]:443", {"remote_addr": "[2001:db8::1]", "remote_port": 443}),
        ("%REQ(X-ENVOY-ORIGINAL-PATH?:PATH):50%", "/a?b", {"uri": "/a?b", "path": "/a", "query": "b"}),
        ('"%REQ(USER-AGENT)%"', '"a "b" c"', {"user_agent": 'a "b" c'}),
        ("%REQ(X-TEAM)%", "red", {"http_x_team": "red"}),
        ("%RESP(SERVER)%", "envoy", {"sent_http_server": "envoy"}),
        ("%DYNAMIC_METADATA(my.filter:key)%", "-", {"dynamic_metadata_my_filter_key": None}),
        ("%UPSTREAM_CLUSTER%", "shop", {"upstream_cluster": "shop"}),
        ("%GRPC_STATUS%", "OK", {"grpc_status": "OK"}),
        ("%DURATION%%%", "5%", {"duration_ms": 5}),
    ],
)  # fmt: skip
def test_envoy_operators(operator: str, logged: str, expected: dict[str, object]) -> None:
    assert record(f'{operator} "%PROTOCOL%"\\n', f'{logged} "HTTP/2"', list(expected)) == expected


def test_an_envoy_operator_that_does_not_end() -> None:
    with pytest.raises(FormatError, match="not closed by a percent sign"):
        find("%RESPONSE_CODE% %REQ(:PATH)")


def test_wanted_fields_are_checked() -> None:
    with pytest.raises(FormatError, match="format combined has no field 'nope'; it has remote_addr"):
        SourceScanner(find("combined"), ["nope"])


def test_aliases_never_hide_a_field() -> None:
    for format in names():
        aliases = format.aliases
        assert set(aliases.values()) <= set(format.fields)
        assert not set(aliases) & set(format.fields)
    assert find("combined").aliases["body_bytes_sent"] == "bytes"
    assert find("json").aliases == {}


@pytest.mark.parametrize(
    ("ts", "time"),
    [
        ('"2024-03-14T09:26:53.5Z"', "2024-03-14T09:26:53.500000+00:00"),
        ('"2024/03/14 09:26:53.500"', "2024-03-14T09:26:53.500000+00:00"),
        ("1710408413500.25", "2024-03-14T09:26:53.500000+00:00"),
    ],
)
def test_caddy_with_other_ways_to_write_times(ts: str, time: str) -> None:
    line = f'{{"ts":{ts},"request":{{"method":"GET","uri":"/"}},"duration":"21.5ms","status":200}}'
    found = record("caddy", line)
    assert (found["time"].isoformat(), found["request_time"], found["status"]) == (time, None, 200)


HAPROXY_LINE = "192.0.2.1:5 [14/Mar/2024:09:26:53.589] fe~ be/s 0/0/0/1/%s 200 %s - - ---- 1/1/0/0/%s 0/0 "


def test_haproxy_that_logs_before_the_end() -> None:
    found = record("haproxy_http", HAPROXY_LINE % ("+21", "+2750", "+1") + '"GET / HTTP/1.1"')
    assert (found["tt_ms"], found["bytes"], found["retries"]) == (21, 2750, 1)


def test_haproxys_httpslog() -> None:
    line = HAPROXY_LINE % ("21", "2750", "0") + '"GET / HTTP/1.1"'
    found = record("haproxy_http", line + " 0/0/0/0/1 shop.example/TLSv1.3/TLS_AES_128_GCM_SHA256")
    names = ("ssl_fc_is_resumed", "requested_server_name", "ssl_protocol", "ssl_cipher")
    assert [found[name] for name in names] == ["1", "shop.example", "TLSv1.3", "TLS_AES_128_GCM_SHA256"]
    assert record("haproxy_http", line)["ssl_protocol"] is None
    assert rejects("haproxy_http", line + " 0/0/0/0/1 shop.example/TLSv1.3/TLS_AES more") == {"trailing": 1}
    assert rejects("haproxy_http", line + line) == {"mismatch": 1}
